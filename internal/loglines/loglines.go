// Package loglines turns the stored chunks of a log into numbered lines. It owns where a line begins and ends, and reads
// neither more chunks than the lines need nor more of a line than is wanted, so that a window of any log costs the same. It
// refuses everything else: no colours, no pages, no database.
package loglines

import (
	"bytes"
	"time"
	"unicode/utf8"
)

// Place is a place in a log: behind chunk ID, which ends in line Line. Before the first chunk that ends in line n or later
// is {n, 0}; the zero value is the beginning.
type Place struct{ Line, ID int64 }

// Part is a chunk. Ends counts line ends from the beginning of the log to its own end, Lines those within it.
type Part struct {
	ID, Ends int64
	Lines    int
	Data     []byte
	At       time.Time
}

// Source reads at most limit chunks behind a place, in order; none at the end.
type Source func(after Place, limit int32) ([]Part, error)

// Line is one line without its end. A cut one holds the beginning, whole characters only. At is when its first chunk was stored.
type Line struct {
	No   int64
	Text string
	At   time.Time
	Cut  bool
}

// Limits bound what is read: bytes of one line, bytes of all chunks.
type Limits struct {
	Line, Bytes int
}

// Sizes of a read, in chunks: the first is enough for a window of ordinary lines.
const firstRead, maxRead = 4, 64

// Scan calls each with the lines from number from on until it says stop or the log ends; false where the limit of bytes
// came first. What follows the wanted beginning of an overlong line is not read but jumped over.
func Scan(src Source, from int64, most Limits, each func(Line) bool) (whole bool, err error) {
	s := scanner{most: most, each: each, no: from}
	after := Place{Line: from - 1}
	limit := int32(firstRead)
	for read := 0; read < most.Bytes; {
		parts, err := src(after, limit)
		if err != nil {
			return false, err
		}
		if len(parts) == 0 {
			if s.begun {
				s.emit()
			}
			return true, nil
		}
		for _, p := range parts {
			after = Place{p.Ends, p.ID}
			read += len(p.Data)
			if !s.part(p) {
				return true, nil
			}
			if s.line.Cut {
				// The rest of this line is wanted by nobody: on with the chunk in which it ends.
				if !s.emit() {
					return true, nil
				}
				after = Place{Line: s.no - 1}
				break
			}
		}
		limit = min(2*limit, maxRead)
	}
	return false, nil
}

type scanner struct {
	most  Limits
	each  func(Line) bool
	no    int64 // of the line that is gathered
	begun bool
	line  Line
	text  []byte
}

// part takes a chunk; false when no more is wanted.
func (s *scanner) part(p Part) bool {
	data := p.Data
	for at := p.Ends - int64(p.Lines) + 1; at < s.no; at++ {
		_, rest, found := bytes.Cut(data, []byte{'\n'})
		if !found {
			return true // the wanted line begins in a later chunk
		}
		data = rest
	}
	for len(data) > 0 {
		piece, rest, ends := bytes.Cut(data, []byte{'\n'})
		s.add(piece, p.At)
		if ends && !s.emit() {
			return false
		}
		data = rest
	}
	return true
}

func (s *scanner) add(piece []byte, at time.Time) {
	if !s.begun {
		s.begun, s.line.At = true, at
	}
	room := s.most.Line - len(s.text)
	if len(piece) > room {
		piece, s.line.Cut = piece[:room], true
	}
	s.text = append(s.text, piece...)
}

// emit hands out the gathered line; false when no more is wanted.
func (s *scanner) emit() bool {
	s.line.No, s.line.Text = s.no, string(s.text)
	if s.line.Cut {
		s.line.Text = wholeRunes(s.line.Text)
	}
	more := s.each(s.line)
	s.no++
	s.begun, s.line, s.text = false, Line{}, s.text[:0]
	return more
}

// wholeRunes drops a character that was cut in the middle.
func wholeRunes(s string) string {
	for i := 1; i <= utf8.UTFMax && i <= len(s); i++ {
		if utf8.RuneStart(s[len(s)-i]) {
			if !utf8.FullRuneInString(s[len(s)-i:]) {
				return s[:len(s)-i]
			}
			return s
		}
	}
	return s
}
