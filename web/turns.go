package web

import (
	"time"

	"signalbox/web/ui"
)

// TurnView is what people say about whose turn it is at a gate, and what this person may say.
type TurnView struct {
	MayTake      bool // snooze, claim
	MayPass      bool
	Snoozed      bool
	SnoozedUntil time.Time // zero: until a new revision
	On           []OnIt
	Mine         bool // this person is on it
	GivenBy      string
	PassedTo     string
	People       []Option // whom it can be passed to
	Until        []Option // how long it can be put off
}

// OnIt is a person who said that they look at it.
type OnIt struct {
	Name  string
	Until time.Time
}

// any reports whether there is something to offer.
func (t TurnView) any() bool { return t.MayTake || t.MayPass && len(t.People) > 0 }

func snoozeWords(t TurnView) string {
	if t.SnoozedUntil.IsZero() {
		return "Snoozed until a new revision."
	}
	return "Snoozed until " + ui.Stamp(t.SnoozedUntil) + "."
}

func onWords(o OnIt) string {
	return o.Name + " is on it until " + o.Until.UTC().Format("15:04") + " UTC" + "."
}

// TurnDone says that something was done about a turn.
func TurnDone(do string) string {
	switch do {
	case "snooze":
		return "Snoozed."
	case "claim":
		return "Others see for half an hour that you are on it."
	default:
		return "You are not on it any more."
	}
}
