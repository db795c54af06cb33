package e2e_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/run"
	"signalbox/internal/wire"
	"signalbox/internal/worker"
)

// patient lets a worker's trust outlive a restart of what it talks to.
func patient() db.Timing { return db.Timing{LeaseTTL: 40 * time.Second} }

// journeyWithCrashes walks one run to its end and calls crash in execution, in verification, at the gate, and between
// the push and the pull request. crash takes something away and brings it back.
func journeyWithCrashes(r *rig.Rig, crash func(where string)) string {
	t := r.T
	t.Helper()
	p := newPoints(t)
	r.StartWorker(p.worker(rig.WorkerOptions{}))
	repo := r.Repository("acme/shop", rig.Shop())
	p.hold(worker.PointInVerification)
	_, id := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.",
		rig.Act{Do: "say", New: "Looking for the rate."}, rig.Await("go"), good(), rig.Act{Do: "step", New: "changed"})})
	at := func(where string) {
		before := r.Events(id)
		crash(where)
		after := r.Events(id)
		if len(after) < len(before) {
			t.Fatalf("%s: %d events became %d", where, len(before), len(after))
		}
		if diff := cmp.Diff(before, after[:len(before)]); diff != "" {
			t.Errorf("%s: what was acknowledged changed (-before +after):\n%s", where, diff)
		}
	}
	r.Await(id, wire.RunStateEXECUTING)
	at("in execution")
	r.Signal("go")
	p.reached(r, worker.PointInVerification)
	at("in verification")
	p.hold(worker.PointAfterPush)
	p.release(worker.PointInVerification)
	gate := r.AwaitGate(id)
	at("at the gate")
	r.Person("ana").Approve(gate)
	p.reached(r, worker.PointAfterPush)
	at("after the push")
	p.release(worker.PointAfterPush)
	got := r.Await(id, wire.RunStateSUCCEEDED)
	if got.AttemptNo != 1 || r.Count(id, "worker_lost") != 0 {
		t.Errorf("%d attempts; a short absence cost a lease\n%s", got.AttemptNo, r.History(id))
	}
	repo.Published(id)
	if !stepSeen(r, id, "changed") {
		t.Error("a step that was reported after the crash is missing")
	}
	if logs := r.Artifacts(id, "log"); !slices.ContainsFunc(logs, func(s string) bool { return strings.Contains(s, "Looking for the rate.") }) {
		t.Error("the agent's log is not kept")
	}
	wellKept(r, id)
	return id
}

// R-RCV-1, R-RCV-2: the server is killed in the middle, four times; whoever was working goes on when it is back, and
// people stay signed in.
func TestCrashServerKilled(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Workers: -1, Timing: patient()})
	p := r.ServeProcess()
	journeyWithCrashes(r, func(string) {
		p.Kill()
		p.Start()
	})
}

// R-RCV-1, R-RCV-2, R-TRN-10: Postgres is stopped as by a power cut in the middle, four times, on a cluster that keeps
// its promises; what was acknowledged is there, and the run goes on.
func TestCrashPostgres(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Workers: -1, Timing: patient(), Durable: true, Failures: true})
	journeyWithCrashes(r, func(where string) {
		if err := r.Cluster.Crash(); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if err := r.Cluster.Again(t.Context()); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		r.Eventually("the server answers again", rig.Patience, func() (bool, string) {
			answer, err := r.API().GetPrincipalWithResponse(t.Context())
			if err != nil {
				return false, err.Error()
			}
			return answer.JSON200 != nil, answer.Status()
		})
	})
}

// R-LEASE-4, R-WRK-3: a worker that is told to end hands its work back, in each phase, and another one goes on at once.
// That costs no attempt and no redelivery: the run is allowed none.
func TestCrashWorkerDrained(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Workers: -1, Timing: steady(), Policy: "schema: 1\nversion: once-1\nlimits: {max_attempts: 1, redeliveries: 0, max_runs: 1}\n"})
	repo := r.Repository("acme/shop", rig.Shop())
	p := newPoints(t)
	start := func(phases ...run.Phase) *rig.Worker {
		return r.StartWorker(p.worker(rig.WorkerOptions{Phases: phases, Env: []string{"SIGNALBOX_WORKER_DRAIN_GRACE=0s"}}))
	}
	drain := func(w *rig.Worker, held string) {
		t.Helper()
		if err := syscall.Kill(w.PID(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		r.Eventually("the worker drains", rig.Patience, func() (bool, string) { return strings.Contains(w.Log(), "worker draining"), w.Log() })
		if held != "" {
			p.release(held)
		}
		r.Eventually("the worker ends", rig.Patience, func() (bool, string) {
			select {
			case <-w.Exited():
				return true, ""
			default:
				return false, w.Log()
			}
		})
	}
	first := start()
	_, id := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", rig.Act{Do: "say", New: "I wait."}, rig.Act{Do: "step", New: "waiting"}, rig.Await("go"), good())})
	r.Eventually("the agent works", rig.Patience, func() (bool, string) { return stepSeen(r, id, "waiting"), r.History(id) })
	drain(first, "")
	r.Signal("go")

	p.hold(worker.PointInVerification)
	second := start()
	p.reached(r, worker.PointInVerification)
	drain(second, worker.PointInVerification)

	third := start()
	p.hold(worker.PointAfterPush)
	r.Person("ana").Approve(r.AwaitGate(id))
	p.reached(r, worker.PointAfterPush)
	drain(third, worker.PointAfterPush)

	start()
	r.Await(id, wire.RunStateSUCCEEDED)
	if n := r.Count(id, "lease_released"); n != 3 {
		t.Errorf("%d leases were handed back, want 3\n%s", n, r.History(id))
	}
	for _, kind := range []string{"worker_lost", "attempt_failed"} {
		if n := r.Count(id, kind); n != 0 {
			t.Errorf("%d × %s\n%s", n, kind, r.History(id))
		}
	}
	var states []string
	if err := r.Owner.QueryRow(t.Context(), `SELECT array_agg(state ORDER BY started_at) FROM attempts`).Scan(&states); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ABORTED", "SUCCEEDED"}, states); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	repo.Published(id)
	wellKept(r, id)
}
