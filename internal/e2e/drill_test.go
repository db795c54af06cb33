package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/internal/worker"
)

// drill is what the drills have in common: the server as a process of its own, one repository, and points at which
// workers stop.
func drill(t *testing.T, o rig.Options) (*rig.Rig, *points, *rig.Repository) {
	t.Helper()
	o.Workers = -1
	r := rig.New(t, o)
	repo := r.Repository("acme/shop", rig.Shop())
	r.ServeProcess()
	return r, newPoints(t), repo
}

func submitShop(r *rig.Rig, repo *rig.Repository, acts ...rig.Act) string {
	_, run := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", acts...)})
	return run
}

// R-DRILL-1, R-TEST-8, R-TEST-13, R-LEASE-5: the worker is killed while the agent runs. Its lease runs out, the attempt failed with
// WORKER_LOST, a second worker does it again from a clean checkout, and nothing of the first is left: no process, no
// branch, no say.
func TestDrill1(t *testing.T) {
	t.Parallel()
	r, p, repo := drill(t, rig.Options{})
	first := r.StartWorker(p.worker(rig.WorkerOptions{Name: "zombie"}))
	p.hold(worker.PointAfterPatchStored)
	run := submitShop(r, repo, rig.Act{Do: "say", New: "Looking for the rate."}, rig.Act{Do: "child"}, rig.Act{Do: "step", New: "working"}, rig.Await("go"), good())
	r.Eventually("the agent works", rig.Patience, func() (bool, string) { return stepSeen(r, run, "working"), r.History(run) })
	lease := r.Run(run).Lease
	stale := tokens(r, run)[0]
	first.Kill()
	killed := time.Now()
	awaitEmpty(r, first.Options.Dir, rig.Patience)
	r.StartWorker(rig.WorkerOptions{Name: "successor"})
	r.Eventually("another worker has it", rig.Patience, func() (bool, string) { return len(tokens(r, run)) == 2, r.History(run) })
	again := time.Since(killed)
	t.Logf("leased again %s after the kill (the lease lasts 2 s)", again.Round(10*time.Millisecond))
	if again > 30*time.Second {
		t.Errorf("leased again after %s, want ten times the lease and a second at most", again)
	}
	saysStop(r, first.Options.Credential, run, lease.Id, stale)
	r.Signal("go")
	r.Person("ana").Approve(r.AwaitGate(run))
	r.Await(run, wire.RunStateSUCCEEDED)
	var codes []string
	if err := r.Owner.QueryRow(t.Context(), `SELECT array_agg(state || ' ' || code ORDER BY attempt_no) FROM attempts`).Scan(&codes); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"FAILED WORKER_LOST", "SUCCEEDED "}, codes); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	repo.Published(run)
	wellKept(r, run)
}

// R-DRILL-2, R-TEST-15, R-Q-1: the queue delivers the same work again: while a worker has it, and when all is over. No second
// lease is given, the item is put away, and the run has one result.
func TestDrill2(t *testing.T) {
	t.Parallel()
	r, p, repo := drill(t, rig.Options{Timing: steady()})
	p.hold(worker.PointAfterPatchStored)
	r.StartWorker(p.worker(rig.WorkerOptions{Name: "holder"}))
	run := submitShop(r, repo, good())
	p.reached(r, worker.PointAfterPatchStored)
	r.StartWorker(rig.WorkerOptions{Name: "other"})
	id, err := typeid.Parse(typeid.Run, run)
	if err != nil {
		t.Fatal(err)
	}
	deliver(r, id, "execute")
	if n := len(tokens(r, run)); n != 1 {
		t.Errorf("%d leases while one worker has the run\n%s", n, r.History(run))
	}
	p.release(worker.PointAfterPatchStored)
	r.Person("ana").Approve(r.AwaitGate(run))
	r.Await(run, wire.RunStateSUCCEEDED)
	before := everything(r, repo)
	for _, phase := range []string{"execute", "verify", "publish"} {
		deliver(r, id, phase)
	}
	if diff := cmp.Diff(before, everything(r, repo)); diff != "" {
		t.Errorf("a late item changed something (-before +after):\n%s", diff)
	}
	if kinds := r.Kinds(run); len(tokens(r, run)) != 3 || kinds[len(kinds)-1] != "completion_condition_met" {
		t.Errorf("%d leases, want one for each phase\n%s", len(tokens(r, run)), r.History(run))
	}
	repo.Published(run)
	wellKept(r, run)
}

// deliver puts an item into the queue that is not the run's, and waits until somebody has put it away.
func deliver(r *rig.Rig, id uuid.UUID, phase string) {
	t := r.T
	t.Helper()
	if _, err := r.Owner.Exec(t.Context(), `INSERT INTO run_queue (run_id, tenant_id, phase, repository_id, user_id, risk)
		SELECT r.id, r.tenant_id, $2, r.repository_id, k.requested_by, r.risk FROM runs r JOIN tasks k ON k.id = r.task_id WHERE r.id = $1`, id, phase); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the item is put away", rig.Patience, func() (bool, string) {
		var n int
		if err := r.Owner.QueryRow(t.Context(), `SELECT count(*) FROM run_queue WHERE run_id = $1`, id).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0, phase
	})
}

// R-DRILL-3, R-CAN-2, R-LEASE-4: somebody cancels while the agent is in its loop and obeys no signal. It ends with all its
// children within the grace, what it did is kept, and nothing is made outside.
func TestDrill3(t *testing.T) {
	t.Parallel()
	r, p, repo := drill(t, rig.Options{Timing: unhurried()})
	w := r.StartWorker(p.worker(rig.WorkerOptions{}))
	run := submitShop(r, repo, rig.Act{Do: "say", New: "Looking for the rate."}, good(), rig.Act{Do: "ignore_term"}, rig.Act{Do: "child"}, rig.Act{Do: "step", New: "looping"},
		rig.Act{Do: "sh", New: "while :; do echo again; sleep 0.1; done"})
	r.Eventually("the agent loops", rig.Patience, func() (bool, string) { return stepSeen(r, run, "looping"), r.History(run) })
	if len(inside(t, w.Options.Dir)) < 2 {
		t.Error("the agent has no children to look for")
	}
	r.Person("rita").Cancel(run, "Wrong repository.")
	asked := time.Now()
	r.Await(run, wire.RunStateCANCELLED)
	t.Logf("cancelled after %s", time.Since(asked).Round(10*time.Millisecond))
	awaitEmpty(r, w.Options.Dir, rig.Patience)
	if forced(r, run) {
		t.Errorf("the worker did not stop by itself\n%s", r.History(run))
	}
	if logs := r.Artifacts(run, "log"); len(logs) == 0 {
		t.Error("the agent's log is not kept")
	}
	nothingAfterCancel(r, repo, run, false)
	wellKept(r, run)
}

// R-DRILL-4, R-TEST-14, R-TEST-16, R-RCV-2: the pull request is made, and the database answers nobody for longer than the lease lasts:
// heartbeats are late, the report times out. When it is back the run goes on from what is durable and outside: one
// branch, one commit, one pull request, one end.
func TestDrill4(t *testing.T) {
	t.Parallel()
	r, p, repo := drill(t, rig.Options{Durable: true, Failures: true})
	r.StartWorker(p.worker(rig.WorkerOptions{}))
	run := submitShop(r, repo, good())
	gate := r.AwaitGate(run)
	p.hold(worker.PointAfterPR)
	r.Person("ana").Approve(gate)
	p.reached(r, worker.PointAfterPR)
	if err := r.Cluster.Freeze(); err != nil {
		t.Fatal(err)
	}
	thaw := func() {
		if err := r.Cluster.Thaw(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(thaw) // where the test ends before; otherwise it changes nothing
	p.release(worker.PointAfterPR)
	if err := pause(t.Context(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	thaw()
	r.Eventually("the run succeeds", rig.Patience, func() (bool, string) {
		answer, err := r.API().GetRunWithResponse(t.Context(), run)
		if err != nil || answer.JSON200 == nil {
			return false, "the server does not answer yet"
		}
		return answer.JSON200.State == wire.RunStateSUCCEEDED, string(answer.JSON200.State) + "\n" + r.History(run)
	})
	var effects []string
	if err := r.Owner.QueryRow(t.Context(), `SELECT array_agg(kind || ' ' || outcome ORDER BY kind) FROM operations`).Scan(&effects); err != nil {
		t.Fatal(err)
	}
	if n := len(effects); n == 0 || slices.ContainsFunc(effects, func(e string) bool { return e != "open_pull_request succeeded" && e != "push_branch succeeded" }) {
		t.Errorf("effects %q, want a push and a pull request, each known for certain", effects)
	}
	if got := r.Run(run); got.AttemptNo != 1 {
		t.Errorf("%d attempts: a database that is away costs none", got.AttemptNo)
	}
	repo.Published(run)
	wellKept(r, run)
}
