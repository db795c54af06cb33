package web

import (
	"fmt"
	"strconv"
	"strings"

	"signalbox/internal/patch"
	"signalbox/web/ui"
)

// elsewhereField is the name of the ticks "I reviewed these elsewhere".
const elsewhereField = "reviewed_elsewhere"

func elsewhereID(i int) string { return "f-elsewhere-" + strconv.Itoa(i+1) }

// refusedFor reports whether the refused post is about this field; what names no field is about the text.
func refusedFor(d GatePanelData, field string) bool {
	return d.Outcome != nil && d.Outcome.Kind == OutcomeInvalid && (d.Outcome.Field == elsewhereField) == (field == elsewhereField)
}

// invalidField is the id of the field that a refused post is about.
func invalidField(o Outcome) string {
	if o.Field == elsewhereField {
		return elsewhereID(0)
	}
	return "f-text"
}

// unshownWords is a group in the words of its tick.
func unshownWords(u UnshownView) string {
	n := len(u.Files)
	switch patch.Unshown(u.Why) {
	case patch.UnshownLarge:
		return ui.Count(n, "file", "files") + " too large to show whole"
	case patch.UnshownBinary:
		return ui.Count(n, "binary file", "binary files")
	case patch.UnshownHidden:
		return ui.Count(n, "file", "files") + " with hidden characters"
	default:
		return ui.Count(n, "file", "files")
	}
}

// someFiles names the first files of a group; all of them are listed above the patch.
func someFiles(files []string) string {
	const most = 4
	if len(files) <= most {
		return strings.Join(files, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(files[:most], ", "), len(files)-most)
}

// UnshownSentence says of groups that nobody declared to have read what is the matter with them.
func UnshownSentence(groups []patch.UnshownGroup) string {
	unseen, hidden := map[string]bool{}, 0
	for _, g := range groups {
		if g.Why == patch.UnshownHidden {
			hidden = len(g.Files)
			continue
		}
		for _, f := range g.Files {
			unseen[f] = true
		}
	}
	var parts []string
	if n := len(unseen); n > 0 {
		parts = append(parts, ui.Count(n, "file was", "files were")+" not shown")
	}
	if hidden > 0 {
		parts = append(parts, ui.Count(hidden, "file has", "files have")+" hidden characters")
	}
	return strings.Join(parts, ", and ") + "."
}
