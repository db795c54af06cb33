package run_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/internal/run"
)

// smallTables are the lifecycles beside the run's, written down by hand a second
// time: name: state > states that follow.
const smallTables = `
attempt: STARTED > SUCCEEDED FAILED ABORTED; SUCCEEDED >; FAILED >; ABORTED >
step: PENDING > RUNNING CANCELLED; RUNNING > SUCCEEDED FAILED TIMED_OUT CANCELLED; SUCCEEDED >; FAILED >; TIMED_OUT >; CANCELLED >
sandbox: REQUESTED > READY FAILED; READY > SAVING FAILED; SAVING > DESTROYED FAILED; DESTROYED >; FAILED >
queue item: READY > CLAIMED CANCELLED DEAD; CLAIMED > DONE CANCELLED DEAD READY; DONE >; CANCELLED >; DEAD >
lease: ACTIVE > RELEASED EXPIRED REVOKED; RELEASED >; EXPIRED >; REVOKED >
worker: STARTING > READY DRAINING DEAD; READY > DRAINING STOPPED DEAD; DRAINING > STOPPED DEAD; STOPPED >; DEAD >
gate: preparing > open cancelled; open > satisfied changes_requested rejected superseded expired cancelled bypassed; satisfied > open; changes_requested >; rejected >; superseded >; expired > open rejected cancelled; cancelled >; bypassed >
operation: intended > dispatched observed; dispatched > observed ambiguous; observed >; ambiguous > reconciled; reconciled >
pull request: OPEN > UPDATED REVIEW_REQUESTED CHANGES_REQUESTED APPROVED MERGED CLOSED; UPDATED > UPDATED REVIEW_REQUESTED CHANGES_REQUESTED APPROVED MERGED CLOSED; REVIEW_REQUESTED > UPDATED CHANGES_REQUESTED APPROVED MERGED CLOSED; CHANGES_REQUESTED > UPDATED REVIEW_REQUESTED APPROVED MERGED CLOSED; APPROVED > UPDATED CHANGES_REQUESTED MERGED CLOSED; MERGED >; CLOSED > OPEN
`

// TestSmallLifecycles: R-DOM-1, R-DOM-5, R-DOM-6, R-DOM-7. Attempt, step, sandbox,
// queue item, lease and the rest each have their own states, apart from the run's;
// a sandbox is destroyed only after its artifacts are saved; every pair of states
// is allowed or not, as written here.
func TestSmallLifecycles(t *testing.T) {
	t.Parallel()
	want := map[string]map[string][]string{}
	for l := range strings.Lines(strings.TrimSpace(smallTables)) {
		name, moves, _ := strings.Cut(strings.TrimSpace(l), ": ")
		want[name] = map[string][]string{}
		for _, m := range strings.Split(moves, "; ") {
			from, to, _ := strings.Cut(m, " >")
			want[name][from] = strings.Fields(to)
		}
	}
	if len(run.Lifecycles()) != len(want) {
		t.Errorf("%d lifecycles, want %d", len(run.Lifecycles()), len(want))
	}
	for _, s := range run.Lifecycles() {
		if len(s.States) != len(want[s.Name]) {
			t.Errorf("%s has states %v", s.Name, s.States)
		}
		for _, from := range s.States {
			for _, to := range s.States {
				if got := s.May(from, to); got != slices.Contains(want[s.Name][from], to) {
					t.Errorf("%s: %s to %s is allowed: %t", s.Name, from, to, got)
				}
			}
		}
		for from, to := range s.Moves {
			for _, x := range append(to, from) {
				if !slices.Contains(s.States, x) {
					t.Errorf("%s: %s is not among its states", s.Name, x)
				}
			}
		}
	}
}

// TestStepsAreNoRunStates: R-DOM-6. A step's state never decides a run's: no event
// of the run carries one, and no run state is a step's word.
func TestStepsAreNoRunStates(t *testing.T) {
	t.Parallel()
	for _, s := range []run.StepState{run.StepPending, run.StepRunning, run.StepTimedOut} {
		if run.State(s).Valid() {
			t.Errorf("%s is also a run's state", s)
		}
	}
	for _, k := range run.Kinds() {
		if strings.Contains(string(k), "step") || strings.Contains(string(k), "heartbeat") || strings.Contains(string(k), "log") {
			t.Errorf("%s passes the reducer, and is only a fact", k)
		}
	}
}

// TestWordsAgree: the typed words and the tables' strings are the same.
func TestWordsAgree(t *testing.T) {
	t.Parallel()
	for name, words := range map[string][]string{
		"attempt": {string(run.AttemptStarted), string(run.AttemptSucceeded), string(run.AttemptFailed), string(run.AttemptAborted)},
		"step":    {string(run.StepPending), string(run.StepRunning), string(run.StepSucceeded), string(run.StepFailed), string(run.StepTimedOut), string(run.StepCancelled)},
		"sandbox": {string(run.SandboxRequested), string(run.SandboxReady), string(run.SandboxSaving), string(run.SandboxDestroyed), string(run.SandboxFailed)},
		"gate": {string(run.GatePreparing), string(run.GateOpen), string(run.GateSatisfied), string(run.GateChangesRequested), string(run.GateRejected),
			string(run.GateSuperseded), string(run.GateExpired), string(run.GateCancelled), string(run.GateBypassed)},
		"lease": {"ACTIVE", string(run.LeaseReleased), string(run.LeaseExpired), string(run.LeaseRevoked)},
	} {
		if !slices.Equal(lifecycle(name).States, words) {
			t.Errorf("%s: %v and %v", name, lifecycle(name).States, words)
		}
	}
}

// TestOtherNames: R-DOM-12. Names of other vocabularies lead to states that exist.
func TestOtherNames(t *testing.T) {
	t.Parallel()
	if len(run.OtherNames()) != 12 {
		t.Errorf("%d names", len(run.OtherNames()))
	}
	for _, n := range run.OtherNames() {
		if n.Theirs == "" || n.Vocabulary == "" || len(n.Ours) == 0 && n.Notes == "" {
			t.Errorf("%+v", n)
		}
		for _, s := range n.Ours {
			if !s.Valid() {
				t.Errorf("%s leads to %s", n.Theirs, s)
			}
		}
	}
}
