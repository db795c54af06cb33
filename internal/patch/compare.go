package patch

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Comparison is what one patch changes otherwise than an earlier one did.
type Comparison struct {
	Files []ComparedFile
	// Same counts the files that both change in exactly the same way.
	Same int
	// More counts the lines that are over the bounds and left out.
	More int
}

// ComparedFile is a file that the two patches change in different ways.
type ComparedFile struct {
	Path string
	// What says in words what is different.
	What  string
	Lines []ComparedLine
}

// ComparedLine is one changed line of either patch: added where only the newer
// one has it, removed where only the older one had it, context where both do.
type ComparedLine struct {
	Kind LineKind
	// Is says what the patch does to the line: added or removed.
	Is     LineKind
	Text   string
	Hidden bool
	Cut    bool
	// Skipped stands in for so many lines that both patches have.
	Skipped int
}

const (
	// maxCompare bounds the work of a comparison, in cells of its tables.
	maxCompare = 8 << 20
	// around is how many lines of both are shown beside those of one.
	around = 3
)

// Compare says what the newer of two patches of one task does otherwise: per
// file, the changed lines that only one of them has. Lines that both have, in
// the same order, count as the same wherever in the file they lie, and where
// their surroundings differ the file says so.
func Compare(older, newer *Patch, b Bounds) Comparison {
	b = b.withDefaults()
	var c Comparison
	cells := maxCompare
	before := map[string]int{}
	for i, f := range older.facts.Files {
		before[f.Path()] = i
	}
	for i, f := range newer.facts.Files {
		j, both := before[f.Path()]
		delete(before, f.Path())
		if !both {
			c.add(ComparedFile{Path: f.Path(), What: "changed only now"}, nil, newer.files[i], &cells, &b)
			continue
		}
		if what := differs(older.facts.Files[j], f, older.files[j], newer.files[i]); what != "" {
			c.add(ComparedFile{Path: f.Path(), What: what}, older.files[j], newer.files[i], &cells, &b)
		} else {
			c.Same++
		}
	}
	for i, f := range older.facts.Files {
		if _, gone := before[f.Path()]; gone {
			c.add(ComparedFile{Path: f.Path(), What: "no longer changed"}, older.files[i], nil, &cells, &b)
		}
	}
	return c
}

// differs says in words what is different about a file's change; empty for nothing.
func differs(a, b File, x, y *gitdiff.File) string {
	switch {
	case a.Status != b.Status || a.OldPath != b.OldPath || a.NewMode != b.NewMode || a.Binary != b.Binary:
		return fmt.Sprintf("was %s, is %s now", kindOf(a), kindOf(b))
	case a.Binary:
		if x.NewOIDPrefix == y.NewOIDPrefix && x.OldOIDPrefix == y.OldOIDPrefix && bytes.Equal(raw(x), raw(y)) {
			return ""
		}
		return "other binary content"
	case !slices.Equal(changed(x, false), changed(y, false)):
		return "changed in another way"
	case !slices.Equal(changed(x, true), changed(y, true)):
		return "the same lines, at another place or between other lines"
	default:
		return ""
	}
}

func kindOf(f File) string {
	s := string(f.Status)
	if f.Binary {
		s += " as a binary file"
	}
	if f.Status == Renamed || f.Status == Copied {
		s += " from " + f.OldPath
	}
	if f.NewMode != "" {
		s += " with mode " + f.NewMode
	}
	return s
}

func raw(f *gitdiff.File) []byte {
	if f.BinaryFragment == nil {
		return nil
	}
	return f.BinaryFragment.RawData
}

// changed are the changed lines of a file with their signs, on request with
// the unchanged ones between them.
func changed(f *gitdiff.File, context bool) []string {
	if f == nil {
		return nil
	}
	var out []string
	for _, t := range f.TextFragments {
		for _, l := range t.Lines {
			if context || l.Op != gitdiff.OpContext {
				out = append(out, l.Op.String()+l.Line)
			}
		}
	}
	return out
}

// add appends a file with the lines that only one side has, within bounds.
func (c *Comparison) add(f ComparedFile, older, newer *gitdiff.File, cells *int, b *Bounds) {
	x, y := changed(older, false), changed(newer, false)
	pairs := append(matchWithin(x, y, cells), [2]int{len(x), len(y)})
	i, j, same := 0, 0, 0
	most := min(b.LinesPerFile, b.Lines)
	put := func(kind LineKind, text string) {
		if len(f.Lines) >= most || b.Bytes <= 0 || len(c.Files) >= b.Files {
			c.More++
			return
		}
		b.Bytes -= min(len(text), b.LineBytes)
		f.Lines = append(f.Lines, compared(kind, text, b.LineBytes))
	}
	flush := func(end bool) {
		// The lines of both that come just before and just after those of one are shown, the others are counted.
		from := i - same
		head, tail := around, around
		if from == 0 || len(f.Lines) == 0 {
			head = 0
		}
		if end {
			tail = 0
		}
		if same <= head+tail+1 {
			head, tail = same, 0
			if len(f.Lines) == 0 && end {
				head = 0
			}
		}
		for k := range head {
			put(LineContext, x[from+k])
		}
		if skipped := same - head - tail; skipped > 0 {
			f.Lines = append(f.Lines, ComparedLine{Kind: LineContext, Skipped: skipped})
		}
		for k := same - tail; k < same && tail > 0; k++ {
			put(LineContext, x[from+k])
		}
		same = 0
	}
	for _, p := range pairs {
		if i < p[0] || j < p[1] {
			flush(false)
		}
		for ; i < p[0]; i++ {
			put(LineRemoved, x[i])
		}
		for ; j < p[1]; j++ {
			put(LineAdded, y[j])
		}
		if i < len(x) && j < len(y) {
			i, j, same = i+1, j+1, same+1
		}
	}
	flush(true)
	b.Lines -= len(f.Lines)
	if len(c.Files) < b.Files {
		c.Files = append(c.Files, f)
	}
}

func compared(kind LineKind, text string, limit int) ComparedLine {
	l := gitdiff.Line{Op: gitdiff.OpAdd, Line: text[1:]}
	if text[0] == '-' {
		l.Op = gitdiff.OpDelete
	}
	shown := showLine(l, limit, false)
	return ComparedLine{Kind: kind, Is: shown.Kind, Text: shown.Text, Hidden: shown.Hidden, Cut: shown.Cut}
}
