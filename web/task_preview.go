package web

import (
	"fmt"
	"strings"
	"time"

	"signalbox/internal/money"
	"signalbox/internal/policy"
	"signalbox/web/ui"
)

// EnoughRuns is how many finished runs an expected cost stands on at least.
const EnoughRuns = 5

// TaskPreviewData is what would become of the task in the form, at this moment.
type TaskPreviewData struct {
	Now time.Time
	policy.Foreseen
	// Refused says why it could not be submitted at all.
	Refused string
	// Chosen says that a repository was chosen; without one only the gates are known.
	Chosen bool
	// Approvers are names by the kind of gate, Barred says why the reader is not among them.
	Approvers map[policy.GateKind][]string
	Barred    string
	Limits    policy.Limits
	Currency  money.Currency
	Wait      PreviewWait
	Last      PreviewRuns
}

// PreviewWait is where a new run would stand in its queue.
type PreviewWait struct {
	Queue  string
	Ahead  int
	Oldest time.Time // since when the first of those ahead is ready
	Went   float64   // runs of the queue that ended a minute
	AtOnce bool      // a worker is free
	Why    string    // sentence
}

// PreviewRuns are the repository's last finished runs, in rising order.
type PreviewRuns struct {
	Costs    []int64 // millionths of the currency
	Unpriced int
	Worked   []time.Duration
}

// foreseenGate is one decision of a person that lies ahead.
type foreseenGate struct {
	policy.GateDecision
	when   string // in which case only, or ""
	people []string
}

// gates are the decisions of people that lie ahead, in their order.
func (d TaskPreviewData) gates() []foreseenGate {
	var out []foreseenGate
	add := func(g policy.GateDecision, when string) {
		if g.Gate {
			out = append(out, foreseenGate{g, when, d.Approvers[g.Kind]})
		}
	}
	add(d.Plan, "")
	add(d.Result.Gate, "")
	if g := d.Protected.Gate; g.Gate && !d.Result.Gate.Gate {
		g.Reasons = []string{"Which paths it touches is known only then."}
		add(g, ", if it touches a path that policy protects")
	}
	return out
}

// unasked says of which decisions nobody is asked, and why.
func (d TaskPreviewData) unasked() []string {
	var out []string
	if !d.Plan.Gate {
		out = append(out, d.Plan.Reasons...)
	}
	if !d.Result.Gate.Gate {
		for _, r := range d.Result.Reasons {
			out = append(out, "Of a result without any fault: "+r)
		}
	}
	return out
}

// title says which decision it is and how many people it takes.
func (g foreseenGate) title() string {
	return fmt.Sprintf("%s: %s by the role %s%s", title(kindWord(string(g.Kind))), ui.Count(g.Quorum, "approval", "approvals"), g.Role, g.when)
}

// shownNames is how many approvers are named; the others are counted.
const shownNames = 6

// who says who may approve.
func (g foreseenGate) who() string {
	n := len(g.people)
	switch {
	case n > shownNames:
		return fmt.Sprintf("%d people may approve: %s and %d more.", n, strings.Join(g.people[:shownNames], ", "), n-shownNames)
	case n == 0:
		return ""
	default:
		return fmt.Sprintf("%s may approve: %s.", ui.Count(n, "person", "people"), sentenceList(g.people))
	}
}

// short says that too few people may approve, or is empty.
func (g foreseenGate) short() string {
	switch n := len(g.people); {
	case n >= g.Quorum:
		return ""
	case n == 0:
		return fmt.Sprintf("Nobody else holds the role %s, so it would wait until an administrator gives it to somebody.", g.Role)
	default:
		return fmt.Sprintf("Only %d of %d holds the role %s, so it would wait until an administrator gives it to somebody.", n, g.Quorum, g.Role)
	}
}

// barred says that the reader may not approve this, in the words of the rule that will say so.
func (d TaskPreviewData) barred() string {
	_, why, found := strings.Cut(d.Barred, ": ")
	if !found {
		why = d.Barred
	}
	return title(why)
}

// verdict is the admission in one line; the tone says whether work would begin.
func (d TaskPreviewData) verdict() (ui.Tone, string) {
	switch {
	case d.Refused != "":
		return ui.ToneFailed, "It would not be accepted."
	case !d.Chosen:
		return ui.ToneNeutral, "Choose a repository to see whether it would begin."
	case d.Admission.Verdict == policy.Deny:
		return ui.ToneDenied, "Policy would refuse it now."
	case d.Admission.Verdict == policy.Defer:
		return ui.ToneWaiting, "Policy would put it off now."
	default:
		return ui.ToneDone, "Policy would let it begin now."
	}
}

func (d TaskPreviewData) verdictReasons() []string {
	switch {
	case d.Refused != "":
		return []string{d.Refused}
	case !d.Chosen:
		return nil
	case d.Admission.Verdict == policy.Defer:
		return append(d.Admission.Reasons, "It is submitted all the same, and looked at again in "+ui.Dur(d.Admission.RetryAfter.Std())+".")
	default:
		return d.Admission.Reasons
	}
}

// begins reports whether a run would come of it, now or later: only then a wait and a cost are worth a word.
func (d TaskPreviewData) begins() bool {
	return d.Chosen && d.Refused == "" && d.Admission.Verdict != policy.Deny
}

// expected says how long a run waits for a worker, and on what that stands.
func (w PreviewWait) expected(now time.Time) string {
	ahead := ui.Count(w.Ahead, "run goes", "runs go")
	switch {
	case w.AtOnce && w.Ahead == 0:
		return "None: a worker is free."
	case w.Ahead > 0 && w.Went > 0:
		about := time.Duration(float64(w.Ahead) / w.Went * float64(time.Minute))
		return fmt.Sprintf("About %s: %s first in queue %s, and %.1f a minute end.", ui.Rough(about), ahead, w.Queue, w.Went)
	case w.Ahead > 0:
		return fmt.Sprintf("Not known: %s first in queue %s, the one that waits longest since %s, and none ended in the last ten minutes.", ahead, w.Queue, ui.Rough(now.Sub(w.Oldest)))
	default:
		return fmt.Sprintf("Not known yet: no run waits in queue %s, and no worker is free.", w.Queue)
	}
}

// cost says what the repository's last runs cost, as a range.
func (r PreviewRuns) cost(in money.Currency) string {
	n := len(r.Costs)
	if n < EnoughRuns {
		return fmt.Sprintf("Not enough data: %s of this repository finished with a known cost, and %d are needed.", ui.Count(n, "run", "runs"), EnoughRuns) + r.unpriced()
	}
	if r.Costs[n-1] == 0 {
		return fmt.Sprintf("The last %d finished runs of this repository cost nothing.", n) + r.unpriced()
	}
	return fmt.Sprintf("%s to %s, by the last %d finished runs of this repository; the middle one cost %s.",
		in.Of(r.Costs[0]), in.Of(r.Costs[n-1]), n, in.Of(r.Costs[n/2])) + r.unpriced()
}

func (r PreviewRuns) unpriced() string {
	if r.Unpriced == 0 {
		return ""
	}
	return " " + ui.Count(r.Unpriced, "further run", "further runs") + " called a model without a known price."
}

// worked says how long the last runs were worked on, or is empty.
func (r PreviewRuns) worked() string {
	n := len(r.Worked)
	if n < EnoughRuns {
		return ""
	}
	return fmt.Sprintf("%s to %s from admission to the end, without waiting for people; the middle one took %s.", ui.Dur(r.Worked[0]), ui.Dur(r.Worked[n-1]), ui.Dur(r.Worked[n/2]))
}

// bounds says what a run may use up at most.
func (d TaskPreviewData) bounds() string {
	words := fmt.Sprintf("%s, %s, %s of work", ui.Count(d.Limits.MaxRuns, "run", "runs"), ui.Count(d.Limits.MaxAttempts, "attempt a run", "attempts a run"), ui.Dur(d.Limits.RunTimeout.Std()))
	if d.Limits.CostCents > 0 {
		words += ", " + d.Currency.OfCents(d.Limits.CostCents).String() + " of cost"
	}
	return words + "."
}
