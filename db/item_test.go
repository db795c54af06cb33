package db_test

import (
	"testing"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// R-Q-1: a stale or duplicated item gives no work and does nothing to the run.
func TestStaleItemDoesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for _, s := range []run.State{run.Executing, run.WaitingForApproval, run.Cancelling, run.Succeeded, run.Cancelled, run.Expired} {
		t.Run(string(s), func(t *testing.T) {
			at := w.at(t, s)
			w.item(t, at.Ref, run.PhaseExecute)
			before := w.info(t, at.Ref).Version
			if l := got(w.Claim(t.Context(), w.Workers[1]))(t); l != nil {
				t.Errorf("a stale item gave a lease on a run that is %s", s)
			}
			if v := w.info(t, at.Ref).Version; v != before {
				t.Errorf("version moved from %d to %d", before, v)
			}
			if n := w.count(t, `SELECT count(*) FROM run_queue WHERE run_id = $1`, at.Ref.Run); n != 0 {
				t.Error("the stale item is still there")
			}
		})
	}
	// An item of another phase than the run's own.
	at := w.at(t, run.Queued)
	_, err := w.Owner.Exec(t.Context(), `UPDATE run_queue SET phase = 'publish' WHERE run_id = $1`, at.Ref.Run)
	must(t, err)
	if l := got(w.Claim(t.Context(), w.Workers[0]))(t); l != nil {
		t.Errorf("an item of a wrong phase gave a lease")
	}
	w.replays(t)
}

// item puts a queue row there that no event made.
func (w *world) item(t testing.TB, ref db.Ref, phase run.Phase) {
	t.Helper()
	_, err := w.Owner.Exec(t.Context(), `INSERT INTO run_queue (run_id, tenant_id, phase, repository_id, user_id, risk)
		SELECT r.id, r.tenant_id, $2, r.repository_id, $3, r.risk FROM runs r WHERE r.id = $1`, ref.Run, string(phase), w.Requester.ID)
	must(t, err)
}

// An item that a claimer held while its approval was withdrawn is left to that claimer, who may roll back. It then
// serves the run's next item: nothing fails, no work is lost, and a worker of the next phase gets it.
func TestItemLeftToAClaimer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for name, next := range map[string]struct {
		verdict policy.GateVerdict
		phase   run.Phase
	}{"the same phase": {policy.Approve, run.PhasePublish}, "another phase": {policy.RequestChanges, run.PhaseExecute}} {
		t.Run(name, func(t *testing.T) {
			at := w.at(t, run.WaitingForApproval)
			gate := w.info(t, at.Ref).Gate.ID
			must(t, w.Approve(t.Context(), at.Ref))
			claimer := got(w.Owner.Begin(t.Context()))(t)
			_, err := claimer.Exec(t.Context(), `SELECT FROM run_queue WHERE run_id = $1 FOR UPDATE`, at.Ref.Run)
			must(t, err)
			got(w.Withdraw(t.Context(), gate, w.Approvers[0]))(t) // does not wait for the claimer
			must(t, claimer.Rollback(t.Context()))
			if n := w.count(t, `SELECT count(*) FROM run_queue WHERE run_id = $1`, at.Ref.Run); n != 1 {
				t.Fatalf("%d items were left, want 1", n)
			}
			got(w.Decide(t.Context(), at.Ref, w.Approvers[1], next.verdict, "Go on."))(t)
			var l *drive.Lease
			for range 2 { // the first look may find the row of the phase before, and sets it right
				if l = got(w.Claim(t.Context(), w.Workers[0]))(t); l != nil {
					break
				}
			}
			if l == nil || l.Ref != at.Ref || l.Lease.Phase != next.phase {
				t.Fatalf("claimed %+v, want phase %s", l, next.phase)
			}
			if n := w.count(t, `SELECT count(*) FROM run_queue`); n != 0 {
				t.Errorf("%d items are left", n)
			}
		})
	}
	w.replays(t)
}
