package web

import (
	"fmt"

	"signalbox/internal/patch"
	"signalbox/web/ui"
)

// SinceView is what a patch changes otherwise than an earlier revision of it did.
type SinceView struct {
	Since, Revision int
	patch.Comparison
	// Missing: the earlier revision is not stored, or never was about a patch.
	Missing bool
	Hide    string // the page without the comparison
}

// sinceWords sums the comparison up.
func sinceWords(s SinceView) string {
	same := ""
	if s.Same > 0 {
		same = " " + ui.Count(s.Same, "file is", "files are") + " changed exactly as before."
	}
	switch {
	case s.Missing:
		return fmt.Sprintf("There is no patch of revision %d to compare with.", s.Since)
	case len(s.Files) == 0 && s.More == 0:
		return fmt.Sprintf("Nothing: revision %d makes exactly the change of revision %d.", s.Revision, s.Since)
	default:
		return ui.Count(len(s.Files), "file is", "files are") + " changed otherwise." + same
	}
}

// sinceSign is the mark of a line that only one of the revisions has.
func sinceSign(k patch.LineKind) string {
	switch k {
	case patch.LineAdded:
		return "new"
	case patch.LineRemoved:
		return "gone"
	default:
		return ""
	}
}

func sinceSpans(l patch.ComparedLine) []Span {
	spans := diffSpans(plain(l.Text), patch.DiffLine{Text: l.Text, Hidden: l.Hidden})
	if l.Cut {
		spans = append(spans, Span{Class: "hid", Text: "line cut here"})
	}
	return spans
}
