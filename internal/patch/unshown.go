package patch

import "github.com/bluekeyes/go-gitdiff/gitdiff"

// Unshown says why a page does not show a part of a patch, or not as it is.
type Unshown string

// The reasons, in the order in which they are named.
const (
	// UnshownLarge is what is over the bounds of a page, also a line that is cut.
	UnshownLarge Unshown = "too_large"
	// UnshownBinary is content that is no text.
	UnshownBinary Unshown = "binary"
	// UnshownHidden is text with characters that nobody sees as they are.
	UnshownHidden Unshown = "hidden_text"
)

// UnshownGroup is the files that a page does not show for one reason. Whoever
// approves declares for each group that they read it elsewhere.
type UnshownGroup struct {
	Why   Unshown
	Files []string
}

// Unshown groups what this diff leaves out. A file can be in two groups.
func (d Diff) Unshown() []UnshownGroup {
	groups := []UnshownGroup{{Why: UnshownLarge}, {Why: UnshownBinary}, {Why: UnshownHidden, Files: d.Hidden}}
	for _, o := range d.Omitted {
		for i := range groups {
			if groups[i].Why == o.Group {
				groups[i].Files = append(groups[i].Files, o.Path)
			}
		}
	}
	var out []UnshownGroup
	for _, g := range groups {
		if len(g.Files) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// hides reports whether any line of the file holds hidden characters, also
// one that is not shown.
func hides(gf *gitdiff.File) bool {
	for _, t := range gf.TextFragments {
		n := int(t.NewPosition)
		for _, l := range t.Lines {
			if hiddenIn(l.Line, n == 1) != "" {
				return true
			}
			if l.Op != gitdiff.OpDelete {
				n++
			}
		}
	}
	return false
}
