package web

import (
	"fmt"
	"slices"
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

// ShowTool is the sort of events that tools are behind; the handler adds the steps, which are no events.
const ShowTool = "tool"

// Shows lists the sorts of events that can be looked at alone; the empty one is all of them.
func Shows() []string { return []string{"", "failed", "human", ShowTool, "policy", "cost"} }

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
	case ShowTool:
		return []run.Kind{
			run.KindSandboxReady, run.KindContextReady, run.KindPlanCreated, run.KindPatchCreated, run.KindReportCreated, run.KindNoChangeReported,
			run.KindVerificationStarted, run.KindVerificationPassed, run.KindVerificationFailed,
		}, nil, true
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
	case ShowTool:
		return "Tools"
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
	case d.Show == ShowTool:
		return "No tool ran in this part of the log."
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
		if d.Level != LevelSummary || d.Show == ShowTool || !quiet(ev) {
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

// part is a stretch of the timeline: the rows of attempts that are history, or others. No part reaches over a gap.
type part struct {
	groups []group
	past   bool
}

func (p part) end() int { return p.groups[len(p.groups)-1].end }

// wanted reports whether the event that was asked for is in the part.
func (p part) wanted(d TimelineData) bool {
	return slices.ContainsFunc(d.Events[p.groups[0].first:p.end()], d.wanted)
}

// words say which attempts are folded, and that the newest is not among them.
func (p part) words(d TimelineData) string {
	first, last := d.Events[p.groups[0].first].Attempt, d.Events[p.end()-1].Attempt
	if first == last {
		return fmt.Sprintf("attempt %d is folded here as history; the newest is attempt %d", first, d.Attempt)
	}
	return fmt.Sprintf("attempts %d to %d are folded here as history; the newest is attempt %d", first, last, d.Attempt)
}

// timelineParts folds the attempts before the newest one at the level summary, unless one sort of events was asked for.
func timelineParts(d TimelineData) []part {
	var parts []part
	for _, g := range timelineGroups(d) {
		past := d.Level == LevelSummary && d.Show == "" && d.superseded(d.Events[g.first])
		if n := len(parts); n > 0 && parts[n-1].past == past && (d.Gap == 0 || g.first != d.GapAt) {
			parts[n-1].groups = append(parts[n-1].groups, g)
			continue
		}
		parts = append(parts, part{groups: []group{g}, past: past})
	}
	return parts
}

func foldWords(events []TimelineEvent) string {
	return fmt.Sprintf("#%s to #%s", eventLabel(events[0]), eventLabel(events[len(events)-1]))
}

// maxRaw bounds what is shown of one event's bytes.
const maxRaw = 4000

// cutText keeps the first bytes of a text, whole characters only.
func cutText(s string, most int) string { return strings.ToValidUTF8(s[:min(most, len(s))], "") }
