package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// MaxProtocolLine is the longest line of the protocol that is read; a longer
// one is dropped with a warning.
const MaxProtocolLine = 16 << 20

// maxShown bounds what one event carries of free text, in bytes.
const maxShown = 64 << 10

// lineSplitter cuts a byte stream into lines without ever holding more than
// the limit. It is a writer, so that it can be fed straight from a pipe.
type lineSplitter struct {
	limit   int
	buf     []byte
	tooLong bool
	line    func(line []byte, tooLong bool)
}

func (s *lineSplitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		switch {
		case s.tooLong:
		case len(s.buf)+len(part) > s.limit:
			s.tooLong, s.buf = true, nil
		default:
			s.buf = append(s.buf, part...)
		}
		if i < 0 {
			break
		}
		s.flush()
		p = p[i+1:]
	}
	return n, nil
}

// flush ends the current line, also one without a line end at the very end.
func (s *lineSplitter) flush() {
	if len(s.buf) > 0 || s.tooLong {
		s.line(s.buf, s.tooLong)
	}
	s.buf, s.tooLong = s.buf[:0], false
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
}

func asTypeError(err error) (*json.UnmarshalTypeError, bool) {
	return errors.AsType[*json.UnmarshalTypeError](err)
}

// clean makes text from an agent safe to store and bounded: valid UTF-8, no
// NUL, at most max bytes.
func clean(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if len(s) <= max {
		return s
	}
	cut := max
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
