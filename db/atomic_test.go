package db_test

import (
	"testing"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-TRN-4: state, event, queue, lease, gate, outbox and key are one transaction. Where the last part cannot be written
// nothing is, and the same request succeeds once the fault is gone.
func TestATransitionIsWrittenWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	// Each part is made to fail in turn; the verdict at the end of JUDGING writes all of them.
	for _, table := range []string{"run_events", "gates", "gate_revisions", "policy_decisions", "outbox", "idempotency_keys", "tasks", "task_events"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, drive.Options{})
			at := w.at(t, run.Judging)
			w.owner(t, "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken part'; END $$")
			w.owner(t, "CREATE TRIGGER broken BEFORE INSERT OR UPDATE ON "+table+" FOR EACH ROW EXECUTE FUNCTION broken()")
			before := w.parts(t)
			if _, err := at.Lease.Judge(t.Context(), run.VerdictPass, 0.9); err == nil {
				t.Fatalf("a transition succeeded without its part in %s", table)
			}
			if after := w.parts(t); after != before {
				t.Errorf("something was written although %s could not be:\nbefore %s\nafter  %s", table, before, after)
			}
			w.owner(t, "DROP TRIGGER broken ON "+table)
			got(at.Lease.Judge(t.Context(), run.VerdictPass, 0.9))(t)
			must(t, w.Is(t.Context(), at.Ref, run.WaitingForApproval))
			w.replays(t)
		})
	}
}

// parts is a fingerprint of everything that a transition writes.
func (w *world) parts(t testing.TB) string {
	t.Helper()
	var all string
	must(t, w.Owner.QueryRow(t.Context(), `SELECT concat_ws(' ', (SELECT md5(string_agg(r::text, '|')) FROM runs r), (SELECT count(*) FROM run_events),
		(SELECT md5(string_agg(q::text, '|')) FROM run_queue q), (SELECT md5(string_agg(l.lease_id::text, '|')) FROM run_leases l),
		(SELECT count(*) FROM gates), (SELECT count(*) FROM gate_revisions), (SELECT count(*) FROM outbox), (SELECT count(*) FROM policy_decisions),
		(SELECT count(*) FROM idempotency_keys), (SELECT md5(string_agg(k::text, '|')) FROM tasks k), (SELECT count(*) FROM task_events),
		(SELECT md5(string_agg(a::text, '|')) FROM attempts a), (SELECT md5(string_agg(s.state, '|')) FROM sandboxes s))`).Scan(&all))
	return all
}

func (w *world) owner(t testing.TB, statement string) {
	t.Helper()
	_, err := w.Owner.Exec(t.Context(), statement)
	must(t, err)
}
