package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/dbtest/throwaway"
	"signalbox/internal/run"
)

// What a transition costs, in numbers that a busy machine does not change: the guarded update is planned a few times and
// then never again, touches a bounded number of pages, and updates the run's row in place (heap-only), because no
// mutable column is indexed. Heartbeats stay heap-only, too.
func TestWhatATransitionCosts(t *testing.T) {
	t.Parallel()
	d, _ := dbtest.NewCluster(t, throwaway.Options{Settings: map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_planning": "on", "autovacuum": "off"}})
	w := &world{World: drive.New(t, d, drive.Options{MaxConns: 2}), db: d}
	super := w.superuser(t)
	_, err := super.Exec(t.Context(), `CREATE EXTENSION pg_stat_statements`)
	must(t, err)
	for range 20 {
		w.at(t, run.Succeeded)
	}
	at := w.at(t, run.Executing)
	for range 100 {
		got(at.Lease.Beat(t.Context()))(t)
	}
	var calls, shapes, plans, pages int64
	var plan, exec float64
	must(t, super.QueryRow(t.Context(), `SELECT sum(calls)::bigint, count(*), max(plans), max(shared_blks_hit / calls), max(mean_plan_time), min(min_exec_time)
		FROM pg_stat_statements WHERE query LIKE '%name: WriteRuns%' AND calls > 0`).Scan(&calls, &shapes, &plans, &pages, &plan, &exec))
	t.Logf("%d transitions in %d shapes of the statement: each planned at most %d times (%.2f ms), at most %d pages each, fastest %.2f ms in the server", calls, shapes, plans, plan, pages, exec)
	if calls < 200 {
		t.Errorf("%d transitions, want at least 200", calls)
	}
	if plans > 20 {
		t.Errorf("planned %d times for %d transitions over two connections: the plan is not kept", plans, calls)
	}
	if pages > 150 {
		t.Errorf("%d pages touched by a transition, want at most 150", pages)
	}
	// A backend hands in its counts when it goes.
	w.Store.Close()
	hot := func(table string) (updates, heapOnly int64) {
		must(t, w.Owner.QueryRow(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1`, table).Scan(&updates, &heapOnly))
		return updates, heapOnly
	}
	waitFor(t, w.Owner, `SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'signalbox'`)
	for table, least := range map[string]int64{"runs": 200, "run_leases": 100} {
		updates, heapOnly := hot(table)
		t.Logf("%s: %d of %d updates were heap-only", table, heapOnly, updates)
		if updates < least {
			t.Errorf("%s: %d updates counted, want at least %d", table, updates, least)
		}
		if heapOnly*100 < updates*95 {
			t.Errorf("%s: %d of %d updates were heap-only, want 95 %%", table, heapOnly, updates)
		}
	}
}

// querier is a pool or a connection.
type querier interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// waitFor polls a condition of the database until it holds.
func waitFor(t testing.TB, db querier, condition string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		var holds bool
		must(t, db.QueryRow(ctx, condition).Scan(&holds))
		if holds {
			return
		}
	}
}
