package patch_test

import (
	"strings"
	"testing"

	"signalbox/internal/patch"
)

// Lines that differ in nothing but their ends are counted in all of the file, also where none of it is shown, and are said to
// differ in that; a file that is new with such ends differs in nothing.
func TestLineEndsAreCounted(t *testing.T) {
	t.Parallel()
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	long := strings.Repeat("x\n", 3000)
	for name, c := range map[string]struct {
		before, after string
		want          patch.LineEnds
		changed       int // shown lines of the new side that say so
	}{
		"to LF":          {crlf("a\nb\nc\n"), "a\nb\nc\n", patch.LineEnds{ToLF: 3}, 3},
		"to CRLF":        {"a\nb\n", crlf("a\nb\n"), patch.LineEnds{ToCRLF: 2}, 2},
		"and the text":   {"if x == 1 {\nb\n", "if x == 2 {\r\nb\n", patch.LineEnds{}, 1},
		"and a new line": {"a\nb\n", "a\r\nnew\nb\r\n", patch.LineEnds{ToCRLF: 2}, 2},
		"not shown":      {long, crlf(long), patch.LineEnds{ToCRLF: 3000}, 0},
		"none":           {"a\r\nb\n", "a\r\nc\n", patch.LineEnds{}, 0},
	} {
		p := parsed(t, gitDiff(t, map[string]string{"a": c.before}, map[string]string{"a": c.after}))
		f := p.Render(patch.Bounds{Whole: true, LinesPerFile: 100}).Files[0]
		f.MarkWords(patch.NewWork(), false)
		n := 0
		for _, h := range f.Hunks {
			for _, l := range h.Lines {
				if l.Kind == patch.LineAdded && l.EndChanged {
					n++
				}
			}
		}
		if f.Ends != c.want || n != c.changed {
			t.Errorf("%s: %+v, want %+v; %d lines say it, want %d", name, f.Ends, c.want, n, c.changed)
		}
	}
}
