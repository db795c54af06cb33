package db_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// One run goes the whole way through the store alone, and its log, queue, leases, gate, task and pull request say so.
func TestJourneyToAPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Succeeded)
	info := w.info(t, at.Ref)
	if info.PR == nil || info.Verdict == "" || info.FinishedAt == nil || info.Lease != nil || info.Queued != "" || info.Gate != nil {
		t.Errorf("finished run holds %+v", info.Run)
	}
	var kinds []string
	for _, e := range got(w.Store.Events(t.Context(), w.Tenant, at.Ref.Run, 0, 100))(t) {
		kinds = append(kinds, string(e.Kind))
	}
	want := []string{"run_created", "run_enqueued", "lease_acquired", "worker_started", "sandbox_ready", "context_ready", "plan_created",
		"patch_created", "lease_acquired", "verification_started", "verification_passed", "human_approval_required", "approved",
		"lease_acquired", "pr_created", "completion_condition_met"}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	if task := got(w.Store.Task(t.Context(), w.Tenant, at.Task.Task))(t); task.State != run.TaskCompleted {
		t.Errorf("task is %s, want COMPLETED", task.State)
	}
	for _, table := range []string{"run_queue", "run_delayed", "run_leases", "run_admissions"} {
		if n := w.count(t, `SELECT count(*) FROM `+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM sandboxes WHERE state NOT IN ('DESTROYED', 'FAILED')`); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
	if n := w.count(t, `SELECT count(*) FROM attempts WHERE state = 'SUCCEEDED'`); n != 1 {
		t.Errorf("%d attempts SUCCEEDED, want 1", n)
	}
	pulls := got(w.Store.Pulls(t.Context(), w.Tenant, db.PullFilter{}))(t)
	if len(pulls) != 1 {
		t.Errorf("%d pull requests, want 1", len(pulls))
	}
	ops := got(w.Store.Operations(t.Context(), at.Ref))(t)
	for _, o := range ops {
		if o.State != "observed" {
			t.Errorf("operation %s is %s", o.Identity, o.State)
		}
	}
	w.replays(t)
}

// Every state in which a run can rest is reached through the store.
func TestEveryStateIsReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for _, s := range run.States() {
		if s == run.Created || s == run.PRCreated {
			continue // a run passes them within one transaction
		}
		t.Run(string(s), func(t *testing.T) {
			at := w.at(t, s)
			if at.Lease != nil && !s.Terminal() {
				if p := got(at.Lease.Beat(t.Context()))(t); p.Signal == db.SignalLost {
					t.Errorf("the lease of a run that is %s is lost", s)
				}
				// Leave nothing for the next run's worker to claim.
				_, _ = w.Cancel(t.Context(), at.Ref)
				_, _ = at.Lease.Do(t.Context(), run.ConfirmCancel{})
			}
			_, _ = w.Cancel(t.Context(), at.Ref)
		})
	}
	w.replays(t)
}
