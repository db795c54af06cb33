package web

import (
	"fmt"

	"github.com/a-h/templ"

	"signalbox/internal/patch"
)

func fileWord(status string) string {
	switch status {
	case "mode":
		return "mode changed"
	case "":
		return "modified"
	default:
		return status
	}
}

func fileLetter(status string) string {
	switch status {
	case "added":
		return "A"
	case "deleted":
		return "D"
	case "renamed":
		return "R"
	case "copied":
		return "C"
	default:
		return "M"
	}
}

func lineClass(op byte) string {
	switch op {
	case '+':
		return "dadd"
	case '-':
		return "ddel"
	default:
		return "dctx"
	}
}

// lineAnchor is the permalink of a line: the new side where it exists, else the old one.
func lineAnchor(f DiffFile, l DiffLine) string {
	if l.New > 0 {
		return fmt.Sprintf("%s-R%d", fileAnchor(f), l.New)
	}
	return fmt.Sprintf("%s-L%d", fileAnchor(f), l.Old)
}

// lineLink leads to a line, and where lines take comments to the field for one.
func lineLink(f DiffFile, l DiffLine) templ.Attributes {
	if f.Notes == nil {
		return templ.Attributes{"href": "#" + lineAnchor(f, l)}
	}
	ref := refOf(f.N, l)
	return templ.Attributes{"href": f.Notes.opens(ref), "data-line": ref.String()}
}

// fileAnchor is the permalink of a file on a page.
func fileAnchor(f DiffFile) string { return fmt.Sprintf("%sfile-%d", f.In, f.N) }

// splitNumber is the number of a line on the side that it is linked on.
func splitNumber(l DiffLine) int {
	if l.New > 0 {
		return l.New
	}
	return l.Old
}

func opSign(op byte) string {
	switch op {
	case '+':
		return "+"
	case '-':
		return "−"
	default:
		return ""
	}
}

func opWord(op byte) string {
	switch op {
	case '+':
		return " added"
	case '-':
		return " removed"
	default:
		return ""
	}
}

const (
	endToLF   = "line end CRLF → LF"
	endToCRLF = "line end LF → CRLF"
)

// endWords say how a line ends otherwise than the one whose place it took.
func endWords(l patch.DiffLine) string {
	switch {
	case !l.EndChanged || l.Kind == patch.LineRemoved:
		return ""
	case l.CRLF:
		return endToCRLF
	default:
		return endToLF
	}
}

// endCounts say how many lines of a file differ in nothing but their ends.
func endCounts(n patch.LineEnds) (words []string) {
	if n.ToLF > 0 {
		words = append(words, lineCount(n.ToLF)+": only "+endToLF)
	}
	if n.ToCRLF > 0 {
		words = append(words, lineCount(n.ToCRLF)+": only "+endToCRLF)
	}
	return words
}
