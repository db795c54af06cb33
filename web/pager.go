package web

import (
	"fmt"
	"strconv"

	"signalbox/internal/run"
	"signalbox/web/ui"
)

// Pager holds the keyset links of a list and its counts; an empty link is not offered.
type Pager struct {
	Newer string // full path with query
	Older string
	Shown int
	Tally Tally
}

// Tally counts a list. Counting stops after Most: a greater number means "more than Most".
type Tally struct {
	Matching int // on all pages, with the filters
	All      int // without them
	Most     int
	Filtered bool
}

// none reports whether there is nothing at all, so that no filter is to blame.
func (t Tally) none() bool { return t.All == 0 }

// number writes a count that stops after Most.
func (t Tally) number(n int) string {
	if t.Most > 0 && n > t.Most {
		return fmt.Sprintf("more than %d", t.Most)
	}
	return strconv.Itoa(n)
}

// hidden says how many the filters keep back.
func (t Tally) hidden() string {
	switch {
	case !t.Filtered || t.Matching > t.Most || t.All <= t.Matching:
		return ""
	case t.All > t.Most:
		return "others hidden by filters"
	default:
		return fmt.Sprintf("%d hidden by filters", t.All-t.Matching)
	}
}

// hiddenWords say what an empty list keeps back.
func (t Tally) hiddenWords() string {
	if !t.Filtered {
		return "There is nothing older."
	}
	h := t.hidden()
	if h == "" {
		return "Take a filter away to see more."
	}
	return title(h) + ". Take a filter away to see more."
}

// words are the line below a list: "23 of 412, 389 hidden by filters".
func (p Pager) words() string {
	t, words := p.Tally, ""
	switch {
	case !t.Filtered:
		words = fmt.Sprintf("%d of %s", p.Shown, t.number(t.All))
	case p.Shown == t.Matching:
		words = fmt.Sprintf("%d of %s", p.Shown, t.number(t.All))
	default:
		words = fmt.Sprintf("%d of %s that match", p.Shown, t.number(t.Matching))
	}
	if h := t.hidden(); h != "" {
		words += ", " + h
	}
	if t.All > t.Most {
		words += fmt.Sprintf(". Counted up to %d", t.Most)
	}
	return words + "."
}

// StateLabel is the name of a state in a filter.
func StateLabel[T run.State | run.TaskState](state T) string {
	if s, ok := any(state).(run.State); ok {
		return ui.RunStatus(string(s)).Word
	}
	return ui.TaskStatus(string(state)).Word
}
