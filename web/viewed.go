package web

import (
	"fmt"
	"strconv"
)

// Tick is what a person has said about a file: that they viewed it, or viewed another state of it. It is theirs alone, and no
// decision needs it.
type Tick struct {
	Digest  string // of what the file changes, as it is on the page
	Viewed  bool
	Changed bool // viewed before it came to change something else
}

// TickCount is how many files of a patch a person has viewed; nil where nobody is asked.
type TickCount struct{ Viewed, Of int }

// CountTicks counts the files of a patch that are viewed; nil for no ticks at all.
func CountTicks(ticks []Tick) *TickCount {
	if ticks == nil {
		return nil
	}
	n := &TickCount{Of: len(ticks)}
	for _, t := range ticks {
		if t.Viewed {
			n.Viewed++
		}
	}
	return n
}

func (n TickCount) String() string {
	return fmt.Sprintf("%s of %s viewed", thousands(n.Viewed), thousands(n.Of))
}

// GateFileAnchorURL is the nth file of the patch on the gate's page.
func GateFileAnchorURL(id string, n int, c DiffChoice) string {
	return GateURL(id) + c.query() + "#" + fileAnchor(DiffFile{N: n})
}

// FileViewed is the answer to a tick, for the gate's page.
type FileViewed struct {
	File  DiffFile
	Count TickCount
}

func tickID(f DiffFile) string { return "viewed-" + strconv.Itoa(f.N) }
func foldID(f DiffFile) string { return "fold-" + strconv.Itoa(f.N) }
func rowID(f DiffFile) string  { return "row-" + strconv.Itoa(f.N) }

// flip is what the button of a file's form does.
func (t Tick) flip() string {
	if t.Viewed {
		return "no"
	}
	return "yes"
}

// folded reports whether a file's lines are put away at first. A comment that is being written stays in sight.
func (f DiffFile) folded() bool {
	return f.Tick != nil && f.Tick.Viewed && !f.Notes.open(f.N)
}

// unfolded is what app.js opens the lines by: empty where the lines are put away.
func (f DiffFile) unfolded() string {
	if f.folded() {
		return ""
	}
	return "yes"
}

// open reports whether a file has a field for a comment.
func (n *LineNotes) open(file int) bool {
	if n != nil {
		for ref := range n.Texts {
			if ref.File == file {
				return true
			}
		}
	}
	return false
}

// announce tells whoever ticked a file what came of it.
func (d FileViewed) announce() string {
	if d.File.Tick.Viewed {
		return "Viewed. " + d.Count.String() + "."
	}
	return "Not viewed any more. " + d.Count.String() + "."
}
