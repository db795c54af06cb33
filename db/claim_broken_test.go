package db_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-Q-8, R-RCV-3: a run whose lease cannot be written holds nobody up: it is set aside as soon as another could be given.
func TestARunThatCannotBeGivenIsSetAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	bad := got(w.Run(t.Context(), drive.Ordinary()))(t)
	_, err := w.superuser(t).Exec(t.Context(), `INSERT INTO attempts (id, tenant_id, run_id, attempt_no, state, worker_id, ended_at)
		SELECT gen_random_uuid(), tenant_id, id, 1, 'FAILED', $2, now() FROM runs WHERE id = $1`, bad.Run, w.Workers[0].ID)
	must(t, err)
	if l, err := w.Claim(t.Context(), w.Workers[0]); err == nil {
		t.Fatalf("a claim of what cannot be written gave %v", l)
	}
	if n := w.count(t, `SELECT count(*) FROM quarantine`); n != 0 {
		t.Fatalf("%d runs were set aside, with nothing to compare them with", n)
	}
	good := got(w.Run(t.Context(), drive.Ordinary()))(t)
	if l := got(w.Claim(t.Context(), w.Workers[0]))(t); l == nil || l.Ref != good {
		t.Fatalf("given %v, want the run that can be given", l)
	}
	if n := w.count(t, `SELECT count(*) FROM quarantine WHERE run_id = $1 AND by_loop = 'claim'`, bad.Run); n != 1 {
		t.Errorf("%d rows say that the broken run was set aside", n)
	}
	if l := got(w.Claim(t.Context(), w.Workers[1]))(t); l != nil {
		t.Errorf("the run that was set aside was given: %v", l)
	}
}

// R-Q-8: a run that somebody holds for a moment is passed over: nobody's claim waits for it, and no heartbeat behind the claim.
func TestClaimsPassOverWhatSomebodyHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	held := got(w.Run(t.Context(), drive.Ordinary()))(t)
	free := got(w.Run(t.Context(), drive.Ordinary()))(t)
	must(t, pgx.BeginFunc(t.Context(), w.superuser(t), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT 1 FROM runs WHERE id = $1 FOR NO KEY UPDATE`, held.Run); err != nil {
			return err
		}
		if l := got(w.Claim(context.WithoutCancel(t.Context()), w.Workers[0]))(t); l == nil || l.Ref != free {
			t.Errorf("given %v, want the run that nobody holds", l)
		}
		return nil
	}))
	if l := got(w.Claim(t.Context(), w.Workers[1]))(t); l == nil || l.Ref != held || l.State != run.Leased {
		t.Errorf("given %v, want the run that was held before", l)
	}
}

// R-Q-8: a record that cannot be read costs its neighbours in the same claim nothing.
func TestOneUnreadableAssignmentIsOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	refs := []db.Ref{got(w.Run(t.Context(), drive.Ordinary()))(t)}
	w.Repo = w.crowd(t).repos[1]
	refs = append(refs, got(w.Run(t.Context(), drive.Ordinary()))(t))
	_, err := w.superuser(t).Exec(t.Context(), `UPDATE repositories SET verification = '[{"name": 7}]' WHERE id = $1`, w.Repo)
	must(t, err)
	all := got(w.Store.Assignments(t.Context(), refs, w.Workers[0].ID))(t)
	if len(all) != 2 || all[0].Unreadable != nil || all[0].Task.Goal == "" || all[1].Unreadable == nil {
		t.Errorf("assignments: %+v", all)
	}
}
