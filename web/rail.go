package web

import (
	"strings"
	"time"
)

// Stage is one station of the rail.
type Stage struct {
	Name string
	Mark string // done, now, wait, todo, failed, cancelled, expired
	Took time.Duration
	Gate bool // a signal, not a station
}

// Rail lays a run out as stations and signals, in the order in which they are passed.
func Rail(r RunView) []Stage {
	type station struct {
		name   string
		gate   bool
		states []string
	}
	line := []station{
		{"Queued", false, []string{"CREATED", "QUEUED"}},
		{"Plan", false, []string{"LEASED", "PREPARING", "CONTEXT_BUILDING", "PLANNING"}},
	}
	if r.PlanGate || gateIs(r, "plan") {
		line = append(line, station{"Plan gate", true, []string{"gate:plan"}})
	}
	line = append(line,
		station{"Execute", false, []string{"EXECUTING"}},
		station{"Verify", false, []string{"PATCH_READY", "VERIFYING", "JUDGING"}})
	switch {
	case gateIs(r, "budget"):
		line = append(line, station{"Budget gate", true, []string{"gate:budget"}})
	case r.PatchGate || gateIs(r, "patch") || gateIs(r, "report"):
		line = append(line, station{"Patch gate", true, []string{"gate:patch", "gate:report", "gate:"}})
	}
	if r.Mode == "pr_created" || r.Mode == "pr_merged" || r.Mode == "" {
		line = append(line, station{"Pull request", false, []string{"PR_CREATING", "PR_CREATED"}})
	}
	if gateIs(r, "reconcile") {
		line = append(line, station{"Publishing gate", true, []string{"gate:reconcile"}})
	}
	if r.State == "AWAITING_VERIFICATION" || r.EndedFrom == "AWAITING_VERIFICATION" {
		line = append(line, station{"Attestation", true, []string{"AWAITING_VERIFICATION"}})
	}
	line = append(line, station{"Done", false, []string{"SUCCEEDED"}})

	here := r.State
	if terminal(r.State) && r.State != "SUCCEEDED" || r.State == "CANCELLING" {
		here = r.EndedFrom
	}
	if here == "WAITING_FOR_APPROVAL" {
		here = "gate:"
		if r.Gate != nil {
			here += r.Gate.Kind
		}
	}
	at := 0
	for i, s := range line {
		for _, st := range s.states {
			if st == here {
				at = i
			}
		}
	}
	stages := make([]Stage, len(line))
	for i, s := range line {
		mark := "todo"
		switch {
		case r.State == "SUCCEEDED" || i < at:
			mark = "done"
		case i == at:
			mark = railMark(r, s.gate)
		}
		stages[i] = Stage{Name: s.name, Mark: mark, Gate: s.gate}
		for _, st := range s.states {
			stages[i].Took += r.StateSeconds[st]
		}
	}
	return stages
}

func railMark(r RunView, gate bool) string {
	switch r.State {
	case "FAILED":
		return "failed"
	case "CANCELLED", "CANCELLING":
		return "cancelled"
	case "EXPIRED":
		return "expired"
	case "CREATED", "QUEUED":
		return "wait"
	}
	if gate {
		return "stop"
	}
	if needsWorker(r.State) && !r.Leased {
		return "wait"
	}
	return "now"
}

func gateIs(r RunView, kind string) bool { return r.Gate != nil && r.Gate.Kind == kind }

func markWords(mark string) string {
	switch mark {
	case "done":
		return "passed"
	case "now":
		return "here now"
	case "stop":
		return "waiting for a person"
	case "wait":
		return "waiting for a worker"
	case "failed":
		return "failed here"
	case "cancelled":
		return "cancelled here"
	case "expired":
		return "expired here"
	default:
		return "to come"
	}
}

// StateTimes sums the time a run has spent in each state, from its transitions in order. Time at a gate is counted under
// "gate:" and the gate's kind; a jump of the numbers counts for nothing.
func StateTimes(events []TimelineEvent, now time.Time) map[string]time.Duration {
	times := map[string]time.Duration{}
	state, since, seq := "", time.Time{}, int64(0)
	for _, ev := range events {
		if ev.To == "" {
			continue
		}
		jumped := jumps(seq, ev.Seq)
		seq = max(ev.Seq, seq)
		if state != "" && !jumped {
			times[state] += ev.At.Sub(since)
		}
		state, since = stationOf(ev, state), ev.At
	}
	if state != "" && !terminal(state) {
		times[state] += now.Sub(since)
	}
	return times
}

// EndedFrom is the state in which a run was when it ended or was asked to, in the words of StateTimes.
func EndedFrom(events []TimelineEvent) string {
	state := ""
	for _, ev := range events {
		if ev.To != "" && ev.To != "CANCELLING" && !terminal(ev.To) {
			state = stationOf(ev, state)
		}
	}
	return state
}

func stationOf(ev TimelineEvent, before string) string {
	if ev.To != "WAITING_FOR_APPROVAL" {
		return ev.To
	}
	switch ev.Kind {
	case "plan_approval_required":
		return "gate:plan"
	case "human_approval_required", "base_moved":
		return "gate:patch"
	case "budget_exceeded":
		return "gate:budget"
	case "reconciliation_required":
		return "gate:reconcile"
	}
	if strings.HasPrefix(before, "gate:") {
		return before
	}
	return "gate:patch"
}
