package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
	"signalbox/internal/worker"
)

// crashPoint is a point at which a worker is killed, with what must be durable by then.
type crashPoint struct {
	name string
	// point is where; it is armed before the run begins, or while the run is held at after.
	point, after string
	state        wire.RunState
	branch, pull bool
	// attempts of the run in the end: a worker that is lost while it executes costs one.
	attempts int
}

func crashPoints() []crashPoint {
	return []crashPoint{
		{name: "after the claim", point: worker.PointAfterClaim, state: wire.RunStateLEASED, attempts: 2},
		{name: "in preparation", point: worker.PointInPreparation, state: wire.RunStatePREPARING, attempts: 2},
		{name: "in execution", point: worker.PointInExecution, state: wire.RunStateEXECUTING, attempts: 2},
		{name: "after the patch is stored", point: worker.PointAfterPatchStored, state: wire.RunStateEXECUTING, attempts: 2},
		{name: "after the claim to verify", point: worker.PointAfterClaim, after: worker.PointAfterPatchStored, state: wire.RunStatePATCHREADY, attempts: 1},
		{name: "in verification", point: worker.PointInVerification, state: wire.RunStateVERIFYING, attempts: 1},
		{name: "after the push and before the pull request", point: worker.PointAfterPush, state: wire.RunStatePRCREATING, branch: true, attempts: 1},
		{name: "after the pull request and before the report", point: worker.PointAfterPR, state: wire.RunStatePRCREATING, branch: true, pull: true, attempts: 1},
		{name: "after the report", point: worker.PointAfterReport, state: wire.RunStateSUCCEEDED, branch: true, pull: true, attempts: 1},
	}
}

// R-RCV-1, R-RCV-2, R-RCV-5, R-PR-1, R-DRILL-1, R-TEST-8, R-TEST-13: a worker that is killed at any point leaves exactly one continuation. What it had
// reported is durable, what it had not is done again, and nothing outside exists twice.
func TestCrashWorkerKilled(t *testing.T) {
	t.Parallel()
	for _, c := range crashPoints() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, rig.Options{Workers: -1})
			p := newPoints(t)
			w := r.StartWorker(p.worker(rig.WorkerOptions{}))
			repo := r.Repository("acme/shop", rig.Shop())
			if c.after != "" {
				p.hold(c.after)
			} else {
				p.kill(c.point)
			}
			_, run := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.",
				rig.Act{Do: "say", New: "Looking for the rate."}, rig.Await("go"), rig.Act{Do: "replace", File: "lib/price.sh", Old: "rate=19", New: "rate=20"})})
			if c.point != worker.PointInExecution {
				r.Signal("go")
			}
			if c.after != "" {
				p.reached(r, c.after)
				p.kill(c.point)
				p.release(c.after)
			}
			approved := ""
			if c.branch {
				approved = r.AwaitGate(run)
				r.Person("ana").Approve(approved)
			}
			r.Eventually("the worker dies", rig.Patience, func() (bool, string) {
				select {
				case <-w.Exited():
					return true, ""
				default:
					return false, r.History(run) + w.Log()
				}
			})
			if got := r.Run(run); got.State != c.state {
				t.Errorf("the run is %s when its worker dies, want %s", got.State, c.state)
			}
			if got := len(repo.Branches()) == 1; got != c.branch {
				t.Errorf("branches %q when the worker dies", repo.Branches())
			}
			if got := r.Run(run).PullRequest != nil; got != (c.pull && c.state == wire.RunStateSUCCEEDED) {
				t.Errorf("pull request known when the worker dies: %v", got)
			}
			awaitEmpty(r, w.Options.Dir, rig.Patience)

			r.Signal("go")
			w.Again()
			if approved == "" {
				r.Person("ana").Approve(r.AwaitGate(run))
			}
			got := r.Await(run, wire.RunStateSUCCEEDED)
			if got.AttemptNo != c.attempts {
				t.Errorf("%d attempts, want %d", got.AttemptNo, c.attempts)
			}
			lost := slices.Contains(r.Kinds(run), "worker_lost")
			if want := c.state != wire.RunStateSUCCEEDED; lost != want {
				t.Errorf("worker_lost in the log: %v, want %v\n%s", lost, want, r.History(run))
			}
			branch, _ := repo.Published(run)
			if got := repo.Git("diff", "--stat=80", "main", branch); !slices.Contains([]string{" lib/price.sh | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)"}, got) {
				t.Errorf("the branch changes:\n%s", got)
			}
			wellKept(r, run)
		})
	}
}

// R-RCV-1, R-FAIL-1, R-LEASE-5: a run whose workers die each time ends by itself, with the reason, and its page says so;
// in publication a person is not left with a run that claims to work.
func TestCrashTooOften(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, point, category, code string }{
		{"in execution", worker.PointInExecution, "INFRASTRUCTURE", "WORKER_LOST"},
		{"in verification", worker.PointInVerification, "INFRASTRUCTURE", "WORKER_LOST"},
		{"in publication", worker.PointAfterPush, "PR_CREATION_FAILED", "WORKER_LOST"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, rig.Options{Workers: -1, Policy: "schema: 1\nversion: twice-1\nlimits: {max_attempts: 2, max_crashes: 2, redeliveries: 1, max_runs: 1}\nauto_pr: {allowed: true}\n"})
			p := newPoints(t)
			repo := r.Repository("acme/shop", rig.Shop())
			_, run := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", AutoPr: true, Goal: rig.Recipe("Tax is 20 per cent now.", rig.Act{Do: "say", New: "Looking for the rate."}, good())})
			w := r.LaunchWorker(p.worker(rig.WorkerOptions{}))
			for range 2 {
				p.kill(c.point)
				r.Eventually("the worker dies", rig.Patience, func() (bool, string) {
					select {
					case <-w.Exited():
						return true, ""
					default:
						return false, r.History(run) + w.Log()
					}
				})
				w = w.Again()
			}
			got := r.Await(run, wire.RunStateFAILED)
			if f := got.Failure; f == nil || f.Category != c.category || f.ReasonCode != c.code || f.Summary == "" {
				t.Errorf("failure %+v\n%s", got.Failure, r.History(run))
			}
			if n := r.Count(run, "worker_lost"); n != 2 {
				t.Errorf("%d × worker_lost\n%s", n, r.History(run))
			}
			page := r.Person("rita").Get("/runs/" + run).Main()
			for _, branch := range repo.Branches() {
				if !strings.Contains(page, branch) {
					t.Errorf("the page does not name the branch that was pushed: %s", page)
				}
			}
			if !strings.Contains(page, c.code) {
				t.Errorf("the page does not give the reason: %s", page)
			}
			wellKept(r, run)
		})
	}
}
