package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/internal/control"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-TRN-6: answers to keys are kept for a week and then go, in batches; boots that ended go after a month, but neither a
// worker's last one nor one that holds a lease.
func TestOldKeysAndBootsGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	sweep := (&control.Sweeper{Store: w.Store}).RunOnce
	at := w.at(t, run.Executing)
	w.exec(t, `DELETE FROM idempotency_keys`)
	for key, age := range map[string]time.Duration{"old": 7*day + time.Minute, "young": 7*day - time.Minute} {
		w.exec(t, `INSERT INTO idempotency_keys (tenant_id, scope, key, request_hash, status, answer, created_at) SELECT $1, 'sweep', $2 || n, '', 200, '{}', clock_timestamp() - make_interval(secs => $3)
			FROM generate_series(1, 1001) n`, w.Tenant, key, age.Seconds())
	}
	once(t, sweep, 1000)
	once(t, sweep, 1)
	once(t, sweep, 0)
	if n := w.count(t, `SELECT count(*) FROM idempotency_keys WHERE key LIKE 'young%'`); n != 1001 {
		t.Errorf("%d young keys are left", n)
	}
	boot := func(state string, ended time.Duration) {
		w.exec(t, `INSERT INTO worker_boots SELECT (jsonb_populate_record(b, jsonb_build_object('id', gen_random_uuid(), 'state', $2::text, 'started_at', clock_timestamp() - interval '90 days',
			'stopped_at', clock_timestamp() - make_interval(secs => $3)))).* FROM worker_boots b WHERE b.worker_id = $1 ORDER BY b.started_at DESC LIMIT 1`, at.Lease.Worker.WorkerID.ID, state, ended.Seconds())
	}
	boot("DEAD", 31*day)
	boot("STOPPED", 31*day)
	boot("DEAD", 29*day)
	w.exec(t, `UPDATE worker_boots SET state = 'DEAD', stopped_at = clock_timestamp() - interval '40 days' WHERE id IN (SELECT boot_id FROM run_leases)`)
	before := w.count(t, `SELECT count(*) FROM worker_boots`)
	once(t, sweep, 2)
	once(t, sweep, 0)
	if n := w.count(t, `SELECT count(*) FROM worker_boots`); n != before-2 {
		t.Errorf("%d boots of %d are left", n, before)
	}
}

// The look for silent workers reads those that live only.
func TestSilentWorkersAreFoundByTheIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	tx := got(superuser(t, w.db).Begin(t.Context()))(t)
	got(tx.Exec(t.Context(), `SET LOCAL enable_seqscan = off`))(t)
	rows := got(tx.Query(t.Context(), `EXPLAIN UPDATE worker_boots SET state = 'DEAD' WHERE state NOT IN ('STOPPED', 'DEAD') AND heartbeat_at < clock_timestamp()`))(t)
	var plan strings.Builder
	for rows.Next() {
		fmt.Fprintln(&plan, got(rows.Values())(t)...)
	}
	must(t, rows.Err())
	if !strings.Contains(plan.String(), "worker_boots_live_idx") {
		t.Error(plan.String())
	}
	must(t, tx.Rollback(t.Context()))
}
