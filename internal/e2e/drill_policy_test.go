package e2e_test

import (
	"testing"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// R-DRILL-6, R-ADM-3: the policy changes while runs are queued. At the claim today's policy decides: the run that it forbids
// ends before a worker has it, names the version, and leaves nothing outside; the one it allows goes on to its gate.
func TestDrill6(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Workers: -1})
	closed, open := r.Repository("acme/closed", rig.Shop()), r.Repository("acme/open", rig.Shop())
	submit := func(repo *rig.Repository) string {
		_, run := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", good())})
		r.Await(run, wire.RunStateQUEUED)
		return run
	}
	denied, allowed := submit(closed), submit(open)
	r.SetPolicy("schema: 1\nversion: lockdown-7\nadmission: {repositories: ['acme/open']}\n")
	r.StartWorker(rig.WorkerOptions{})

	r.Await(denied, wire.RunStateFAILED)
	r.AwaitGate(allowed)
	seen := false
	for _, e := range r.Events(denied) {
		switch e.Kind {
		case "policy_denied":
			seen = true
			if e.Actor.Id != "lockdown-7" {
				t.Errorf("denied by %s, want the version of the day", e.Actor.Id)
			}
		case "lease_acquired":
			t.Error("a worker was given the denied run")
		}
	}
	if !seen {
		t.Error("the log does not say that policy denied the run")
	}
	if b := closed.Branches(); len(b) != 0 {
		t.Errorf("the denied run left branches: %v", b)
	}
}
