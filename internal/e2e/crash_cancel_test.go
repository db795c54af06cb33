package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
	"signalbox/internal/worker"
)

// cancelCase is a moment at which a person cancels.
type cancelCase struct {
	name string
	// hold is the point at which the worker stands when the cancel comes; "" waits for the state alone.
	hold string
	// publishing says that the hold is armed only when the gate was approved.
	publishing bool
	acts       []rig.Act
	checks     []wire.VerificationCommand
	state      wire.RunState
	// started is how the last step begins that must be running when the cancel comes.
	started string
	// kept are kinds of artifacts that must be there afterwards.
	kept   []string
	branch bool
}

func cancelCases() []cancelCase {
	change := []rig.Act{{Do: "say", New: "Looking for the rate."}, good(), {Do: "step", New: "changed"}}
	hang := slices.Concat(change, []rig.Act{{Do: "hang"}})
	stubborn := slices.Concat(change[:2], []rig.Act{{Do: "ignore_term"}, {Do: "child"}, {Do: "step", New: "changed"}, {Do: "hang"}})
	return []cancelCase{
		{name: "QUEUED", state: wire.RunStateQUEUED, acts: change},
		{name: "LEASED", hold: worker.PointAfterClaim, state: wire.RunStateLEASED, acts: change},
		{name: "PREPARING", hold: worker.PointInPreparation, state: wire.RunStatePREPARING, acts: change},
		{name: "EXECUTING, an agent that obeys", state: wire.RunStateEXECUTING, acts: hang, started: "changed", kept: []string{"log", "evidence", "plan"}},
		{name: "EXECUTING, an agent that ignores TERM and has children", state: wire.RunStateEXECUTING, acts: stubborn, started: "changed", kept: []string{"log", "evidence", "plan"}},
		{name: "EXECUTING, the patch is stored", hold: worker.PointAfterPatchStored, state: wire.RunStateEXECUTING, acts: change, kept: []string{"patch"}},
		{name: "VERIFYING", state: wire.RunStateVERIFYING, acts: change, started: "endless", kept: []string{"patch", "log", "evidence"}, checks: []wire.VerificationCommand{
			{Name: "quick", Argv: []string{"true"}}, {Name: "endless", Argv: []string{"sh", "-c", "trap '' TERM; (setsid sleep 1000) & sleep 1000; sleep 1000"}},
		}},
		{name: "WAITING_FOR_APPROVAL", state: wire.RunStateWAITINGFORAPPROVAL, acts: change, kept: []string{"patch", "verification_report", "judge_report"}},
		{name: "PR_CREATING, before the push", hold: worker.PointAfterClaim, publishing: true, state: wire.RunStatePRCREATING, acts: change, kept: []string{"patch"}},
		{name: "PR_CREATING, after the push", hold: worker.PointAfterPush, publishing: true, state: wire.RunStatePRCREATING, acts: change, kept: []string{"patch"}, branch: true},
	}
}

// R-CAN-1, R-CAN-2, R-CAN-3, R-CAN-4, R-DRILL-3, R-TEST-11: a cancel in each state stops the work, keeps what there is, leaves no process and
// makes nothing new outside. That it was asked for and that it was done are two facts.
func TestCancelInEachState(t *testing.T) {
	t.Parallel()
	for _, c := range cancelCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, rig.Options{Timing: unhurried(), Workers: -1})
			p := newPoints(t)
			repo := r.Repository("acme/shop", rig.Shop())
			dir := r.Dir
			if c.state != wire.RunStateQUEUED {
				dir = r.StartWorker(p.worker(rig.WorkerOptions{})).Options.Dir
			}
			if c.hold != "" && !c.publishing {
				p.hold(c.hold)
			}
			task, run := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", c.acts...), Verification: c.checks})
			if c.publishing {
				gate := r.AwaitGate(run)
				p.hold(c.hold)
				r.Person("ana").Approve(gate)
			}
			if c.hold != "" {
				p.reached(r, c.hold)
			}
			r.Await(run, c.state)
			if c.started != "" {
				r.Eventually(c.started+" runs", rig.Patience, func() (bool, string) { return stepSeen(r, run, c.started), r.History(run) })
			}
			before := r.Run(run).State

			// A person cancels by the form; asking twice changes nothing more.
			r.Person("rita").Cancel(run, "Wrong repository.")
			again, err := r.API().CancelRunWithResponse(t.Context(), run, &wire.CancelRunParams{IdempotencyKey: "cancel-again"}, wire.Reason{Reason: "Once more."})
			if err != nil || again.JSON200 == nil || !again.JSON200.Already {
				t.Errorf("a second cancel: %v %s", err, again.Body)
			}
			if c.hold != "" {
				if got := r.Run(run).State; got != wire.RunStateCANCELLING {
					t.Errorf("asked for while the worker holds it, the run is %s", got)
				}
				p.release(c.hold)
			}
			got := r.Await(run, wire.RunStateCANCELLED)
			if before != c.state || got.CancelReason != "Wrong repository." || got.CancelRequestedBy == nil {
				t.Errorf("cancelled in %s by %+v because %q", before, got.CancelRequestedBy, got.CancelReason)
			}
			asked, done := r.Count(run, "cancel_requested"), r.Count(run, "cancel_confirmed")
			leased := c.state != wire.RunStateQUEUED && c.state != wire.RunStateWAITINGFORAPPROVAL
			if asked < 1 || leased && done != 1 || !leased && done != 0 {
				t.Errorf("%d × asked for, %d × done\n%s", asked, done, r.History(run))
			}
			if leased && forced(r, run) {
				t.Errorf("the worker did not stop by itself\n%s", r.History(run))
			}
			for _, kind := range c.kept {
				if len(r.Artifacts(run, kind)) == 0 {
					t.Errorf("nothing of kind %s was kept", kind)
				}
			}
			awaitEmpty(r, dir, rig.Patience)
			nothingAfterCancel(r, repo, run, c.branch)
			page := r.Person("rita").Get("/runs/" + run)
			if !strings.Contains(page.Main(), "Wrong repository.") {
				t.Errorf("the page does not say why: %s", page.Main())
			}
			if c.branch && !strings.Contains(page.Main(), repo.Branches()[0]) {
				t.Errorf("the page does not name the branch that was pushed: %s", page.Main())
			}
			if answer, err := r.API().GetTaskWithResponse(t.Context(), task); err != nil || answer.JSON200 == nil || answer.JSON200.State == wire.TaskStateCOMPLETED {
				t.Errorf("the task: %v %s", err, answer.Body)
			}
			wellKept(r, run)
		})
	}
}

// unhurried are times that no worker exceeds because the machine is busy: what ends a lease is what the test does.
func unhurried() db.Timing { return db.Timing{LeaseTTL: 2 * time.Minute, CancelGrace: 2 * time.Minute} }

// stepSeen says whether a step with a name is in the trace.
func stepSeen(r *rig.Rig, run, name string) bool {
	r.T.Helper()
	answer, err := r.API().ListRunStepsWithResponse(r.T.Context(), run, nil)
	if err != nil || answer.JSON200 == nil {
		r.T.Fatalf("read the steps: %v", err)
	}
	return slices.ContainsFunc(answer.JSON200.Items, func(s wire.Step) bool { return strings.HasPrefix(s.Name, name) })
}

// forced says whether the control plane ended a cancel by itself.
func forced(r *rig.Rig, run string) bool {
	r.T.Helper()
	for _, e := range r.Events(run) {
		if e.Kind == "cancel_confirmed" && e.Payload["forced"] == true {
			return true
		}
	}
	return false
}

// nothingAfterCancel asserts that a cancelled run stayed so: no event but the confirmation follows the request, nothing
// waits for a worker, no gate is open, and no pull request was made.
func nothingAfterCancel(r *rig.Rig, repo *rig.Repository, run string, branch bool) {
	t := r.T
	t.Helper()
	kinds := r.Kinds(run)
	for _, k := range kinds[slices.Index(kinds, "cancel_requested"):] {
		if k != "cancel_requested" && k != "cancel_confirmed" {
			t.Errorf("%s came after the cancel\n%s", k, r.History(run))
		}
	}
	if got := repo.Branches(); len(got) > 0 != branch {
		t.Errorf("branches %q", got)
	}
	for what, query := range map[string]string{
		"leases": `SELECT count(*) FROM run_leases`, "ready items": `SELECT (SELECT count(*) FROM run_queue) + (SELECT count(*) FROM run_delayed)`,
		"open gates": `SELECT count(*) FROM gates WHERE state IN ('open', 'preparing')`, "pull requests": `SELECT count(*) FROM pull_requests`,
		"running steps": `SELECT count(*) FROM steps WHERE state IN ('PENDING', 'RUNNING')`, "running attempts": `SELECT count(*) FROM attempts WHERE state = 'STARTED'`,
	} {
		var n int
		if err := r.Owner.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

// R-CAN-4, U10: a worker that does not answer is not waited for longer than the grace; when it comes back it changes nothing.
func TestCancelForced(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Workers: -1, Timing: db.Timing{LeaseTTL: 30 * time.Second, CancelGrace: 500 * time.Millisecond}})
	p := newPoints(t)
	w := r.StartWorker(p.worker(rig.WorkerOptions{}))
	repo := r.Repository("acme/shop", rig.Shop())
	p.stop(worker.PointInExecution)
	_, run := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", rig.Act{Do: "say", New: "I hang."}, rig.Act{Do: "ignore_term"}, rig.Act{Do: "hang"})})
	p.reached(r, worker.PointInExecution)
	r.Person("rita").Cancel(run, "Wrong repository.")
	r.Await(run, wire.RunStateCANCELLED)
	if !forced(r, run) {
		t.Errorf("not forced\n%s", r.History(run))
	}
	before := everything(r, repo)
	w.Continue()
	r.Eventually("the worker gives up", rig.Patience, func() (bool, string) { return strings.Contains(w.Log(), "lease ended"), w.Log() })
	awaitEmpty(r, w.Options.Dir, rig.Patience)
	nothingAfterCancel(r, repo, run, false)
	if after := everything(r, repo); !slices.Equal(before, after) {
		t.Errorf("the worker changed something:\n%q\n%q", before, after)
	}
	wellKept(r, run)
}

// R-CAN-1: a cancel that races every event of a run, several at once: the run ends cancelled or, where it came too late,
// as it would have; nothing revives it, and what exists outside exists once.
func TestCancelRacesEveryEvent(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: unhurried(), Workers: -1, Policy: "schema: 1\nversion: automatic-1\nauto_pr: {allowed: true}\n"})
	w := r.StartWorker(rig.WorkerOptions{MaxRuns: 4})
	const runs, askers = 15, 3
	var mu sync.Mutex
	ends := map[wire.RunState]int{}
	t.Run("runs", func(t *testing.T) {
		for i := range runs {
			name := fmt.Sprintf("after %d events", i+1)
			repo := r.Repository(fmt.Sprintf("acme/shop-%d", i), rig.Shop())
			id := repo.ID()
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := r.For(t)
				repo := repo.For(r)
				_, run := r.Submit(wire.TaskCreate{RepositoryId: id, Title: name, AutoPr: true, Goal: rig.Recipe("Tax is 20 per cent now.", good())})
				r.Eventually(name, rig.Patience, func() (bool, string) { return len(r.Events(run)) > i, r.History(run) })
				var wg sync.WaitGroup
				for n := range askers {
					wg.Go(func() {
						answer, err := r.API().CancelRunWithResponse(t.Context(), run, &wire.CancelRunParams{IdempotencyKey: fmt.Sprintf("cancel-%02d-%02d", i, n)}, wire.Reason{Reason: "Too late?"})
						if err != nil || answer.StatusCode() != http.StatusOK && answer.StatusCode() != http.StatusConflict {
							t.Errorf("cancel: %v %s %s", err, answer.Status(), answer.Body)
						}
					})
				}
				wg.Wait()
				got := r.Await(run, wire.RunStateCANCELLED, wire.RunStateSUCCEEDED)
				mu.Lock()
				ends[got.State]++
				mu.Unlock()
				switch got.State {
				case wire.RunStateSUCCEEDED:
					repo.Published(run)
					if r.Count(run, "cancel_requested") > 0 {
						t.Errorf("a run that was cancelled succeeded\n%s", r.History(run))
					}
				case wire.RunStateCANCELLED:
					if forced(r, run) {
						t.Errorf("a worker that works did not stop by itself\n%s", r.History(run))
					}
					kinds := r.Kinds(run)
					for _, k := range kinds[slices.Index(kinds, "cancel_requested"):] {
						if k != "cancel_requested" && k != "cancel_confirmed" {
							t.Errorf("%s came after the cancel\n%s", k, r.History(run))
						}
					}
				}
				if n := len(repo.Branches()); n > 1 {
					t.Errorf("%d branches", n)
				}
				wellKept(r, run)
			})
		}
	})
	awaitEmpty(r, w.Options.Dir, rig.Patience)
	t.Logf("%d runs: %v", runs, ends)
}
