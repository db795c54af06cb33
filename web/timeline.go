package web

import (
	"time"

	"github.com/a-h/templ"

	"signalbox/web/ui"
)

// TimelineData is a window of a run's events: the whole log, its beginning and its end with a gap between, or a part of it.
type TimelineData struct {
	RunID     string
	Created   time.Time // elapsed times are counted from here
	Now       time.Time
	Events    []TimelineEvent // oldest first
	Before    int             // events of the run before the window
	BeforeURL string
	After     int // events after the window; 0 when it reaches the end
	AfterURL  string
	// GapAt is the index in Events behind which Gap events are left out; 0: none are.
	GapAt   int
	Gap     int
	GapURL  string
	Attempt int    // the run's newest attempt: what failed in an earlier one is history; 0: not known
	Level   string // how much is shown, one of Levels; empty: every row, as the stream sends them
	Show    string // which events are shown, one of Shows; empty: all
	From    int64  // the event with which the window was asked to begin; 0: none
	At      int64  // the event that was asked for; 0: none
	Note    string // what has to be said about the window, in words
	// PrevAttempt is the attempt of the event before the window's first, so that no heading is repeated; -1: none.
	PrevAttempt int
}

// TimelineEvent is one event of a run's log, or a fact beside it.
type TimelineEvent struct {
	Seq       int64  // version of the run; 0 for a fact that is no transition
	FactID    string // for facts: a stable id for the permalink
	Kind      string
	At        time.Time
	ActorKind string // human, worker, agent_runtime, verifier, judge, policy, scheduler, control_plane, git_integration, attestor
	ActorName string
	From, To  string // states; equal or empty when unchanged
	Attempt   int
	Data      map[string]any // the event's payload, decoded
	Canonical string         // the event as it was hashed, for the level raw
}

// Grows reports whether new events belong at the end of this window.
func (d TimelineData) Grows() bool { return d.After == 0 && d.Show == "" }

// wanted reports whether the event is the one that was asked for.
func (d TimelineData) wanted(ev TimelineEvent) bool { return d.At > 0 && ev.Seq == d.At }

// superseded reports whether a later attempt made the event history.
func (d TimelineData) superseded(ev TimelineEvent) bool {
	return ev.Attempt > 0 && ev.Attempt < d.Attempt
}

// toneOf greys the failure of an attempt that was followed by another: only the last attempt sets the colour.
func toneOf(d TimelineData, ev TimelineEvent, line Line) ui.Tone {
	if line.Tone == ui.ToneFailed && d.superseded(ev) {
		return ui.ToneCancelled
	}
	return line.Tone
}

// marked tells assistive technology too which event was asked for.
func marked(d TimelineData, ev TimelineEvent) templ.Attributes {
	if d.wanted(ev) {
		return templ.Attributes{"aria-current": "true"}
	}
	return templ.Attributes{}
}
