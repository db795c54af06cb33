package handlers

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/web"
)

// noSuchFilter says which filter does not know what stands in the address, and what it takes. The value is untrusted.
func noSuchFilter[T ~string](name string, value T, takes []T) error {
	var known []string
	for _, t := range takes {
		known = append(known, string(t))
	}
	return fault.Newf(fault.Invalid, "Nothing is shown: the filter %s has no %s. It takes %s.", name, shownValue(string(value)), someOf(known)).WithField(name)
}

// shownValue quotes what somebody else wrote, with what cannot be seen spelt out.
func shownValue(s string) string { return strconv.Quote(clipText(s, 60)) }

// someOf names the choices of a filter; many repositories are counted.
func someOf(known []string) string {
	const most = 30
	switch n := len(known); {
	case n == 0:
		return "nothing, because there is nothing to choose from yet"
	case n == 1:
		return known[0]
	case n > most:
		return fmt.Sprintf("%s and %d more, which the filter's list names", strings.Join(known[:most], ", "), n-most)
	default:
		return strings.Join(known[:n-1], ", ") + " or " + known[n-1]
	}
}

// taskState reads the filter of the list of tasks.
func taskState(text string) (run.TaskState, error) {
	for _, known := range run.TaskStates() {
		if string(known) == text {
			return known, nil
		}
	}
	if text == "" {
		return "", nil
	}
	return "", noSuchFilter("state", run.TaskState(text), run.TaskStates())
}

// unfiltered is the page that was asked for without what its address chose; nil where that chose nothing. A form's answer leads
// back to its form instead.
func unfiltered(r *http.Request, kind fault.Kind) *web.Link {
	if kind != fault.Invalid || r.Method != http.MethodGet || r.URL.RawQuery == "" {
		return nil
	}
	return &web.Link{Text: "Show all, without filters", Href: r.URL.EscapedPath()}
}
