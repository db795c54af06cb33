package web

import (
	"time"

	"signalbox/internal/run"
	"signalbox/web/ui"
)

// Ladder is a cancellation from the request to its end, each step with its time. A zero time is a step that is still to come, or
// that a worker skipped because it stopped faster than it could say so.
type Ladder struct {
	By, Reason            string // who asked first, and why
	Asked, Told, Stopping time.Time
	Ended                 time.Time
	Latest                time.Time // the run has ended by then, whatever its worker does
	Alone                 bool      // no worker held the run, so that it ended at once
	Forced                bool      // ended without the worker's word
	ForcedBy              string    // the person who did so; empty: the clock
	MayForce              bool      // this person may end it now without waiting
	Cause                 string    // kind of the actor that asked: human, policy, control_plane, scheduler
	Self                  bool      // this person asked
	Waste                 string    // what it took after the request, for administrators; may be empty
	Code                  string    // reason code of the end
}

// step is one rung: what it says, when it was reached, and its mark (done, now, todo).
type step struct {
	text, mark string
	at         time.Time
}

// steps are the rungs in order. A run that nobody held has two.
func (l Ladder) steps() []step {
	all := []step{{"Requested by " + l.asker(), "done", l.Asked}}
	if !l.Alone {
		all = append(all, l.between("Worker told", l.Told), l.between("Stopping", l.Stopping))
	}
	last := step{l.lastStep(), "todo", l.Ended}
	if !l.Ended.IsZero() {
		last.mark = "done"
	}
	all = append(all, last)
	for i, s := range all {
		if s.mark == "todo" {
			all[i].mark = "now"
			break
		}
	}
	return all
}

// between is a rung that the worker's heartbeats climb. Who stopped by itself had heard of it by then; who was forced had not.
func (l Ladder) between(text string, at time.Time) step {
	switch {
	case !at.IsZero():
		return step{text, "done", at}
	case l.Ended.IsZero():
		return step{text, "todo", at}
	case l.Forced:
		return step{text + ": not seen", "skip", at}
	}
	return step{text, "done", l.Ended}
}

func (l Ladder) lastStep() string {
	switch {
	case l.Ended.IsZero() || !l.Forced:
		return "Cancelled"
	case l.ForcedBy != "":
		return "Stopped by force by " + l.ForcedBy
	default:
		return "Cancelled: the worker did not confirm in time (worker lost)"
	}
}

func (l Ladder) asker() string {
	if l.Self {
		return "you"
	}
	return orSomebody(l.By)
}

// endWords promise the end of a cancellation that goes on.
func (l Ladder) endWords() string {
	return "It always ends: by " + ui.Clock(l.Latest) + " at the latest, whatever the worker does."
}

// Cause says which of four ends a cancellation or a stop is: by a person, superseded, by policy or budget, or timed out.
func Cause(state, by, code string) string {
	switch {
	case run.Code(code) == run.CodePolicyDenied, run.Code(code) == run.CodeBudgetExceeded:
		return "Stopped by policy or budget"
	case state == "EXPIRED", by == string(run.Scheduler):
		return "Timed out"
	case state != "CANCELLED" && state != "CANCELLING":
		return ""
	case by == string(run.Human):
		return "Cancelled by a person"
	case by == string(run.Policy):
		return "Stopped by policy or budget"
	case by == string(run.ControlPlane):
		return "Superseded or ended with its task"
	}
	return ""
}

// StopPageData asks before a run that is being cancelled is ended without its worker.
type StopPageData struct {
	Shell
	Run            RunRow
	Ladder         Ladder
	MustGiveReason bool
	Reason         string
	Error          string // 422
	Refused        string // why it cannot be stopped by force now; the form is absent
	IdempotencyKey string
}
