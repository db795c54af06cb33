package web

import (
	"fmt"
	"strings"

	"signalbox/internal/run"
)

// Levels of a timeline: how much it says.
const (
	LevelSummary  = "summary"  // quiet events in a row are folded into one
	LevelDetailed = "detailed" // every event has its row
	LevelRaw      = "raw"      // and its bytes
)

// Levels lists the levels, the usual one first.
func Levels() []string { return []string{LevelSummary, LevelDetailed, LevelRaw} }

// Shows lists the sorts of events that can be looked at alone; the empty one is all of them.
func Shows() []string { return []string{"", "failed", "human", "policy", "cost"} }

// Shown are the kinds and actors of one of Shows; false for any other word.
func Shown(show string) ([]run.Kind, []run.ActorKind, bool) {
	switch show {
	case "":
		return nil, nil, true
	case "failed":
		return []run.Kind{
			run.KindPolicyDenied, run.KindVerificationFailed, run.KindJudgeRequiresFix, run.KindAttemptExhausted, run.KindRejected, run.KindApprovalExpired,
			run.KindBranchTouched, run.KindReconciliationRequired, run.KindAttestationRefused, run.KindAttestationExpired, run.KindAttemptFailed,
			run.KindWorkerLost, run.KindNonRetryableFailure, run.KindBudgetExceeded, run.KindTimeout, run.KindRunTimeout,
		}, nil, true
	case "human":
		return []run.Kind{
			run.KindPlanApprovalRequired, run.KindHumanApprovalRequired, run.KindApproved, run.KindChangesRequested, run.KindRejected, run.KindApprovalExpired,
			run.KindApprovalReopened, run.KindGateBypassed, run.KindApprovalWithdrawn, run.KindReconciliationRequired, run.KindBudgetExceeded, run.KindCancelRequested,
		}, []run.ActorKind{run.Human, run.Attestor}, true
	case "policy":
		return []run.Kind{
			run.KindDeferred, run.KindEnqueued, run.KindPolicyDenied, run.KindPlanApprovalRequired, run.KindHumanApprovalRequired, run.KindApprovalCarried,
			run.KindAutoPRAllowed, run.KindGateBypassed, run.KindAttestationRequired, run.KindBudgetExceeded,
		}, []run.ActorKind{run.Policy}, true
	case "cost":
		return []run.Kind{run.KindAttemptExhausted, run.KindBudgetExceeded, run.KindRunTimeout}, nil, true
	}
	return nil, nil, false
}

func showWords(show string) string {
	switch show {
	case "failed":
		return "Failures"
	case "human":
		return "People"
	case "policy":
		return "Policy"
	case "cost":
		return "Cost and limits"
	default:
		return "All"
	}
}

func emptyWords(d TimelineData) string {
	switch {
	case d.Show == "" && d.Before == 0:
		return "Nothing has happened yet."
	case d.Show == "cost":
		return "No limit was reached in this part of the log. What the run has cost stands under Facts."
	default:
		return "No such event is in this part of the log."
	}
}

// foldLeast is how many quiet events in a row are folded into one line. The start of an attempt has fewer, so that only a
// repetition is folded.
const foldLeast = 6

// group is a row of the timeline, or quiet rows in a row.
type group struct {
	first, end int // in Events
	wanted     bool
}

func (g group) folded() bool { return g.end-g.first >= foldLeast }

// quiet lists what is noise when it repeats: coming and going without a result.
func quiet(ev TimelineEvent) bool {
	switch run.Kind(ev.Kind) {
	case run.KindDeferred, run.KindLeaseAcquired, run.KindLeaseReleased, run.KindWorkerStarted, run.KindContextReady:
		return true
	case run.KindSandboxReady:
		return payload(ev.Data).str("tier") != "process"
	}
	return Sentence(ev).Minor
}

// timelineGroups folds quiet events at the level summary. No fold reaches over the beginning of an attempt or a gap.
func timelineGroups(d TimelineData) []group {
	var all []group
	add := func(first, end int) {
		g := group{first: first, end: end}
		if !g.folded() {
			for i := first; i < end; i++ {
				all = append(all, group{first: i, end: i + 1})
			}
			return
		}
		for _, ev := range d.Events[first:end] {
			g.wanted = g.wanted || d.wanted(ev)
		}
		all = append(all, g)
	}
	start := 0
	for i, ev := range d.Events {
		if d.Level != LevelSummary || !quiet(ev) {
			add(start, i)
			add(i, i+1)
			start = i + 1
		} else if attemptHeading(d, i) > 0 || d.Gap > 0 && i == d.GapAt {
			add(start, i)
			start = i
		}
	}
	add(start, len(d.Events))
	return all
}

func foldWords(events []TimelineEvent) string {
	return fmt.Sprintf("#%s to #%s", eventLabel(events[0]), eventLabel(events[len(events)-1]))
}

// maxRaw bounds what is shown of one event's bytes.
const maxRaw = 4000

// cutText keeps the first bytes of a text, whole characters only.
func cutText(s string, most int) string { return strings.ToValidUTF8(s[:min(most, len(s))], "") }
