package patch

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Bounds limit how much of a patch is shown. Zero fields take the defaults.
type Bounds struct {
	Files        int // 300
	LinesPerFile int // 2000
	Lines        int // 20000 in all
	LineBytes    int // 2000, of the text of one line
	Bytes        int // 4 MiB, of the text of all lines: hostile text grows when it is written out
	// Whole shows a file to its end or not at all.
	Whole bool
}

// Diff is a patch made ready for showing. Text is safe as text (valid UTF-8,
// hidden characters written out) and still has to be escaped for HTML.
type Diff struct {
	Files []DiffFile
	// Omitted names every file that is not shown whole, so that a page can
	// count them and ask to look elsewhere.
	Omitted []Omission
	// Hidden names the files with hidden characters in any of their lines.
	Hidden []string
	Facts  Facts
}

// Omission is a file that is not shown, or not to its end, and why.
type Omission struct {
	Path  string
	Why   string
	Lines int // lines that are not shown
	Group Unshown
	Index int // of the file in the patch
}

// DiffFile is one file of a Diff.
type DiffFile struct {
	File  File
	Index int // of the file in the patch, for anchors
	Lines int // in all, shown or not
	Hunks []Hunk
	// Why says in words why there are no hunks, or not all; empty otherwise.
	Why string
	// Hidden is true where a shown line holds hidden characters.
	Hidden bool
	Ends   LineEnds
}

// Hunk is one run of lines.
type Hunk struct {
	OldStart, OldLines, NewStart, NewLines int
	Section                                string // the text after @@, often a function's name
	SectionOdd                             bool   // Section is cut, or hidden characters are written out in it
	Lines                                  []DiffLine
}

// LineKind is what happened to a line.
type LineKind string

// Kinds of lines.
const (
	LineContext LineKind = "context"
	LineAdded   LineKind = "added"
	LineRemoved LineKind = "removed"
)

// DiffLine is one line of a hunk.
type DiffLine struct {
	Kind     LineKind
	Old, New int // line numbers; 0 where there is none
	Text     string
	NoEOL    bool // the file ends here without a newline
	Cut      bool // Text is shorter than the line
	Hidden   bool // hidden characters are written out in Text
	CRLF     bool // the line ends with a carriage return
	Space    bool // white space differs, and was asked to be ignored

	// Set by MarkWords: the number of the line on the other side that this one took the place of, 0 for none; what of Text
	// is not in that one; and whether the two end their lines differently.
	Pair       int
	Words      []Piece
	EndChanged bool
}

func (b Bounds) withDefaults() Bounds {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&b.Files, 300)
	def(&b.LinesPerFile, 2000)
	def(&b.Lines, 20_000)
	def(&b.LineBytes, 2000)
	def(&b.Bytes, 4<<20)
	return b
}

// Render makes the model for showing a diff, within bounds.
func (p *Patch) Render(b Bounds) Diff {
	b = b.withDefaults()
	d := Diff{Files: []DiffFile{}, Omitted: []Omission{}, Facts: p.facts}
	for i, gf := range p.files {
		f := p.facts.Files[i]
		if hides(gf) {
			d.Hidden = append(d.Hidden, f.Path())
		}
		if len(d.Files) >= b.Files {
			d.Omitted = append(d.Omitted, Omission{Path: f.Path(), Why: "too many files", Lines: countLines(gf), Group: UnshownLarge, Index: i})
			continue
		}
		df, om := p.renderFile(i, &b)
		if om != nil {
			d.Omitted = append(d.Omitted, *om)
		}
		d.Files = append(d.Files, df)
	}
	return d
}

// RenderFile shows one file, counted from 0, within bounds; false where there
// is no such file.
func (p *Patch) RenderFile(i int, b Bounds) (DiffFile, bool) {
	if i < 0 || i >= len(p.files) {
		return DiffFile{}, false
	}
	b = b.withDefaults()
	df, _ := p.renderFile(i, &b)
	return df, true
}

// renderFile shows one file and takes what it shows off the lines and bytes
// that are left. The omission is nil where the file is shown whole.
func (p *Patch) renderFile(i int, left *Bounds) (DiffFile, *Omission) {
	gf, f := p.files[i], p.facts.Files[i]
	df := DiffFile{File: f, Index: i, Hunks: []Hunk{}, Lines: countLines(gf), Ends: lineEnds(gf)}
	shown := 0
	switch {
	case f.Binary:
		df.Why = fmt.Sprintf("binary file, %d bytes", f.BinarySize)
		return df, &Omission{Path: f.Path(), Why: df.Why, Group: UnshownBinary, Index: i}
	case df.Lines == 0:
		df.Why = "no change of content"
		return df, nil
	case left.Whole && !left.fits(gf, df.Lines):
	default:
		shown = df.fill(gf, left)
	}
	om := Omission{Path: f.Path(), Why: "too long", Lines: df.Lines - shown, Group: UnshownLarge, Index: i}
	switch {
	case shown < df.Lines:
		df.Why = fmt.Sprintf("%d of %d lines are shown", shown, df.Lines)
		return df, &om
	case df.cut():
		om.Why = "lines are cut"
		return df, &om
	}
	return df, nil
}

// fits reports whether all lines of a file may be shown.
func (b *Bounds) fits(gf *gitdiff.File, lines int) bool {
	if lines > min(b.Lines, b.LinesPerFile) {
		return false
	}
	bytes := 0
	for _, t := range gf.TextFragments {
		for _, l := range t.Lines {
			bytes += min(len(l.Line), b.LineBytes)
		}
	}
	return bytes <= b.Bytes
}

// cut reports whether a line is not shown to its end.
func (df *DiffFile) cut() bool {
	for _, h := range df.Hunks {
		for _, l := range h.Lines {
			if l.Cut {
				return true
			}
		}
	}
	return false
}

func countLines(gf *gitdiff.File) int {
	n := 0
	for _, t := range gf.TextFragments {
		n += len(t.Lines)
	}
	return n
}

// fill adds hunks within the bounds, takes off them what it added, and
// returns the number of lines.
func (df *DiffFile) fill(gf *gitdiff.File, left *Bounds) int {
	shown, most := 0, min(left.Lines, left.LinesPerFile)
	defer func() { left.Lines -= shown }()
	for _, t := range gf.TextFragments {
		if shown >= most || left.Bytes <= 0 {
			return shown
		}
		short := cut(t.Comment, 200)
		section, hidden := Reveal(short)
		h := Hunk{
			OldStart: int(t.OldPosition), OldLines: int(t.OldLines),
			NewStart: int(t.NewPosition), NewLines: int(t.NewLines), Section: section, SectionOdd: hidden || len(short) < len(t.Comment),
		}
		o, n := h.OldStart, h.NewStart
		for _, l := range t.Lines {
			if shown >= most || left.Bytes <= 0 {
				break
			}
			line := showLine(l, left.LineBytes, n == 1)
			if l.Op != gitdiff.OpAdd {
				line.Old = o
				o++
			}
			if l.Op != gitdiff.OpDelete {
				line.New = n
				n++
			}
			df.Hidden = df.Hidden || line.Hidden
			h.Lines = append(h.Lines, line)
			left.Bytes -= min(len(l.Line), left.LineBytes)
			shown++
		}
		df.Hunks = append(df.Hunks, h)
	}
	return shown
}

func showLine(l gitdiff.Line, limit int, first bool) DiffLine {
	out := DiffLine{Kind: LineContext, NoEOL: l.NoEOL()}
	switch l.Op {
	case gitdiff.OpAdd:
		out.Kind = LineAdded
	case gitdiff.OpDelete:
		out.Kind = LineRemoved
	}
	text := strings.TrimSuffix(l.Line, "\n")
	text, out.CRLF = strings.CutSuffix(text, "\r")
	if first {
		text = strings.TrimPrefix(text, "\ufeff")
	}
	short := cut(text, limit)
	out.Cut = len(short) < len(text)
	out.Text, out.Hidden = Reveal(short)
	return out
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
