package web

import (
	"fmt"
	"time"

	"signalbox/internal/money"
	"signalbox/web/ui"
)

// ModelUse is what one model cost a run: a line for each source of its numbers, since what was reported is never added to what
// was estimated or is not known.
type ModelUse struct {
	Model string // as the worker named it; untrusted, may be empty
	Lines []ModelLine
}

// ModelLine is a model's use as far as its numbers come from one source.
type ModelLine struct {
	Source              string // reported, estimated or unknown
	TokensIn, TokensOut int64
	Cost                money.Amount
	Calls, Unpriced     int64 // Unpriced calls have a cost that nobody knows; it is not 0
}

func (m ModelUse) name() string {
	if m.Model == "" {
		return "model not named"
	}
	return cutText(m.Model, maxName)
}

func (l ModelLine) cost() string {
	switch l.Source {
	case "reported", "estimated":
		return l.Cost.String() + " " + l.Source
	}
	return "cost unknown for " + ui.Count(int(l.Unpriced), "call", "calls")
}

func (l ModelLine) tokens() string {
	return fmt.Sprintf("%d tokens in, %d out, %s", l.TokensIn, l.TokensOut, ui.Count(int(l.Calls), "call", "calls"))
}

// maxName bounds what is shown of a name that somebody else chose.
const maxName = 300

// EffectView is one effect outside of Signalbox: what was meant to happen, when it went out, and what was seen.
type EffectView struct {
	Kind       string // push_branch, open_pull_request, update_pull_request, comment
	Identity   string // what makes it the same effect when it is tried again; untrusted
	State      string // intended, dispatched, observed, ambiguous, reconciled
	Outcome    string // succeeded, failed, ambiguous; empty: not known yet
	Parameters map[string]string
	Error      string // what the target said; untrusted
	Intended   time.Time
	Dispatched time.Time // zero: nothing went out
	Observed   time.Time // zero: nobody looked
}

// words say what was meant to happen.
func (e EffectView) words() string {
	p := e.Parameters
	switch e.Kind {
	case "push_branch":
		return "Push branch " + cutText(p["branch"], maxName)
	case "open_pull_request":
		if p["head"] == "" || p["base"] == "" {
			return "Open the pull request"
		}
		return fmt.Sprintf("Open a pull request from %s into %s", cutText(p["head"], maxName), cutText(p["base"], maxName))
	case "update_pull_request":
		return "Update the pull request"
	case "comment":
		return "Comment on the pull request"
	default:
		return "Effect of kind " + cutText(e.Kind, maxName)
	}
}

func (e EffectView) badge() ui.Status {
	switch {
	case e.Outcome == "succeeded":
		return ui.Of("Happened", ui.ToneDone)
	case e.Outcome == "failed":
		return ui.Of("Did not happen", ui.ToneFailed)
	case e.Outcome == "ambiguous" || e.State == "ambiguous":
		return ui.Of("Not certain", ui.ToneWaiting)
	case !e.Dispatched.IsZero():
		return ui.Of("Sent, not seen yet", ui.ToneRunning)
	default:
		return ui.Of("Intended", ui.ToneQueued)
	}
}

// times are when it was intended, sent and seen, each with what it says where it did not happen.
func (e EffectView) times() []Use {
	at := func(t time.Time, none string) string {
		if t.IsZero() {
			return none
		}
		return ui.Second(t)
	}
	return []Use{{"Intended", at(e.Intended, "not recorded")}, {"Dispatched", at(e.Dispatched, "nothing went out")}, {"Observed", at(e.Observed, "nobody looked yet")}}
}

func (e EffectView) identity() string { return cutText(e.Identity, maxName) }

// stepBadge greys a failure that a later attempt made history.
func stepBadge(s StepView) ui.Status {
	b := ui.StepStatus(s.State)
	if s.Superseded && b.Tone == ui.ToneFailed {
		return ui.Of("Failed, then tried again", ui.ToneCancelled)
	}
	return b
}
