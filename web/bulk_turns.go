package web

import (
	"fmt"
	"strconv"

	"signalbox/web/ui"
)

// BulkTurnsPageData says what became of each gate of a request about several turns.
type BulkTurnsPageData struct {
	Shell
	Done   []BulkTurn
	Failed []BulkTurn // each with the reason
	More   bool       // more wait for the person than one request takes
	Most   int
}

// BulkTurn is one gate of such a request.
type BulkTurn struct {
	GateID string
	Title  string // empty where there is no such gate
	Why    string // what was done, or why it was not
}

func (d BulkTurnsPageData) title() string {
	switch {
	case len(d.Done) == 0 && len(d.Failed) == 0:
		return "Nothing was selected"
	case len(d.Done) == 0:
		return "Nothing was changed"
	case len(d.Failed) == 0:
		return "Done for " + ui.Count(len(d.Done), "item", "items")
	default:
		return fmt.Sprintf("Done for %d of %s", len(d.Done), ui.Count(len(d.Done)+len(d.Failed), "item", "items"))
	}
}

// takeable are the items that wait for the person and of which the server says that the turn may be taken.
func (d InboxPageData) takeable() (n int) {
	for _, it := range d.Mine {
		if it.Turn.MayTake {
			n++
		}
	}
	return n
}

// bulkChoices are what may be done with several items at once, each with how many it fits.
func (d InboxPageData) bulkChoices() (all []Option) {
	var free, mine int
	var until []Option
	for _, it := range d.Mine {
		switch {
		case !it.Turn.MayTake:
			continue
		case it.Turn.Mine:
			mine++
		default:
			free++
		}
		until = it.Turn.Until
	}
	fits := func(value, label string, n int) {
		if n > 0 {
			all = append(all, Option{Value: value, Label: label + " (" + strconv.Itoa(n) + " of " + strconv.Itoa(len(d.Mine)) + ")"})
		}
	}
	fits("claim", "I am on it", free)
	fits("release", "I am not on it any more", mine)
	for _, o := range until {
		fits("snooze-"+o.Value, "Snooze; back "+o.Label, free+mine)
	}
	return all
}
