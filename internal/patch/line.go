package patch

import (
	"fmt"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// LineAt finds a line of the patch by its file, counted from 0, and its number: the new one, or with old the old one. A
// line that both sides have is found by either. The path is that of the file; false where the patch holds no such line.
// Text is as in a Diff: cut to Bounds.LineBytes, with hidden characters written out.
func (p *Patch) LineAt(file int, old bool, number int) (line DiffLine, path string, ok bool) {
	if file < 0 || file >= len(p.files) || number < 1 {
		return line, "", false
	}
	for _, t := range p.files[file].TextFragments {
		o, n := int(t.OldPosition), int(t.NewPosition)
		for _, l := range t.Lines {
			if old && l.Op != gitdiff.OpAdd && o == number || !old && l.Op != gitdiff.OpDelete && n == number {
				line = showLine(l, Bounds{}.withDefaults().LineBytes, n == 1)
				return line, p.facts.Files[file].Path(), true
			}
			if l.Op != gitdiff.OpAdd {
				o++
			}
			if l.Op != gitdiff.OpDelete {
				n++
			}
		}
	}
	return line, p.facts.Files[file].Path(), false
}

// Quote is the line as a person quotes it: its sign and its text.
func (l DiffLine) Quote() string {
	return fmt.Sprintf("%s %s", map[LineKind]string{LineAdded: "+", LineRemoved: "-", LineContext: " "}[l.Kind], l.Text)
}
