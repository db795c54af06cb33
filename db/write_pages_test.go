package db_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/dbtest/throwaway"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// R-Q-5: a transition touches the rows it reads and writes and no others, however many there are beside them: pages counted
// by the server for each statement of a flush and for the look-ups before it, with plans that were kept while the tables grew and with plans made anew.
func TestWritesTouchTheirRowsAlone(t *testing.T) {
	t.Parallel()
	// Plans as they are after some uses of a connection, from the first use on.
	d, _ := dbtest.NewCluster(t, throwaway.Options{Settings: map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "autovacuum": "off", "plan_cache_mode": "force_generic_plan"}})
	w := statistics{&world{World: drive.New(t, d, drive.Options{MaxConns: 2, Timing: db.Timing{BackoffScale: 1}}), db: d}}
	_, err := w.superuser(t).Exec(t.Context(), `CREATE EXTENSION pg_stat_statements`)
	must(t, err)
	w.everyWrite(t)
	for _, size := range []int{30, 500, 3000} {
		w.surround(t, size)
		if size > 30 {
			w.within(t, fmt.Sprintf("%d runs, plans kept from fewer", size))
		}
		w.analyze(t)
		w.within(t, fmt.Sprintf("%d runs, plans made for them", size))
	}
}

// pagesOfWrite is how many pages one statement of a flush may touch in each call: index and table of what it reads, writes
// and refers to, and catalog pages in the first call after a plan was made (measured: 10 to 30, 43 with the catalog). Reading
// all of some hundred runs touches hundreds.
const pagesOfWrite = 60

// rarelyWritten are statements that only a provider which asks to slow down leads to; their table has a row for each of those.
func rarelyWritten() []string { return []string{"WritePauses", "WriteProbes", "WriteProbed"} }

// readOften are the look-ups that every claim, transition or page of a run makes.
func readOften() []string {
	return []string{"LoadRuns", "FactsOfRuns", "TasksByID", "PoliciesOf", "Assigned", "RunContracts", "LockItemsOfRuns", "LeasesOfBoots", "RunsOfPage"}
}

// within drives runs through what there is to write and holds every statement of a flush to its pages.
func (w statistics) within(t *testing.T, when string) {
	t.Helper()
	w.forget(t)
	w.everyWrite(t)
	rows, err := w.superuser(t).Query(t.Context(), `SELECT substring(query FROM 'name: ([A-Za-z]+)') AS name, sum(calls)::bigint, (sum(shared_blks_hit + shared_blks_read) / sum(calls))::float8, min(min_exec_time)
		FROM pg_stat_statements WHERE query LIKE '-- name: %' GROUP BY 1 ORDER BY 1`)
	must(t, err)
	var (
		name           string
		calls          int64
		pages, fastest float64
		report         strings.Builder
		seen           = rarelyWritten()
	)
	held := func() bool { return strings.HasPrefix(name, "Write") || slices.Contains(readOften(), name) }
	_, err = pgx.ForEachRow(rows, []any{&name, &calls, &pages, &fastest}, func() error {
		fmt.Fprintf(&report, "\n%-22s %3d calls %6.1f pages, fastest %.3f ms", name, calls, pages, fastest)
		if seen = append(seen, name); pages > pagesOfWrite && held() {
			t.Errorf("%s: %s touches %.0f pages, want at most %d", when, name, pages, pagesOfWrite)
		}
		return nil
	})
	must(t, err)
	t.Logf("%s:%s", when, report.String())
	want := readOften()
	queries := got(os.ReadFile("../queries/apply.sql"))(t)
	for _, m := range regexp.MustCompile(`-- name: (Write\w+)`).FindAllSubmatch(queries, -1) {
		want = append(want, string(m[1]))
	}
	for _, name := range want {
		if !slices.Contains(seen, name) {
			t.Errorf("%s: nothing that was driven leads to %s", when, name)
		}
	}
}

// everyWrite drives some runs through claims, transitions and completions of every kind.
func (w statistics) everyWrite(t *testing.T) {
	t.Helper()
	w.at(t, run.Succeeded)
	w.at(t, run.Queued)
	w.at(t, run.Cancelling)
	planning := w.at(t, run.Planning)
	got(w.Store.Assignments(t.Context(), []db.Ref{planning.Ref}, planning.Lease.Worker.ID))(t)
	for _, s := range []run.State{run.AwaitingVerification, run.Queued} {
		got(w.Cancel(t.Context(), w.at(t, s).Ref))(t)
	}
	w.at(t, run.WaitingForApproval)
	got(w.Decide(t.Context(), w.at(t, run.WaitingForApproval).Ref, w.Approvers[0], policy.RequestChanges, "Shorter, please."))(t)
	// The first two wait for another try, of which one is taken away; the last ends for good, with its task.
	for n, code := range []run.Code{run.CodeAgentExit, run.CodeAgentExit, run.CodeToolMissing} {
		at := w.at(t, run.Executing)
		must(t, at.Lease.All(t.Context(), run.AttemptHasFailed{Code: code, Summary: "It broke."}))
		if n == 1 {
			got(w.Cancel(t.Context(), at.Ref))(t)
		}
	}
}

// surround multiplies one row of every table that a flush reads until each has about n, past the product.
func (w statistics) surround(t *testing.T, n int) {
	t.Helper()
	super := w.superuser(t)
	must(t, pgx.BeginFunc(t.Context(), super, func(tx pgx.Tx) error {
		for _, table := range written() {
			must(t, w.multiply(t.Context(), tx, table, n))
		}
		return nil
	}))
}

func (w statistics) multiply(ctx context.Context, tx pgx.Tx, table string, n int) error {
	var names, values string
	if err := tx.QueryRow(ctx, `SELECT string_agg(quote_ident(column_name), ', '), string_agg(CASE WHEN data_type = 'uuid' AND (column_name <> 'tenant_id' OR table_name = 'run_leases')
			THEN format('CASE WHEN x.%1$I IS NOT NULL THEN md5(n::text)::uuid END', column_name) ELSE format('x.%I', column_name) END, ', ')
		FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1 AND is_identity = 'NO' AND is_generated = 'NEVER'`, table).Scan(&names, &values); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, fmt.Sprintf(`INSERT INTO %[1]s (%[2]s) SELECT %[3]s FROM (SELECT * FROM %[1]s LIMIT 1) x, generate_series((SELECT count(*) FROM %[1]s), $1) n ON CONFLICT DO NOTHING`, table, names, values), n)
	return err
}

func (w statistics) analyze(t *testing.T) {
	t.Helper()
	for _, table := range written() {
		_, err := w.superuser(t).Exec(t.Context(), `VACUUM ANALYZE `+table)
		must(t, err)
	}
}

// written are the tables that a flush writes or joins.
func written() []string {
	return []string{"runs", "tasks", "run_queue", "run_delayed", "run_leases", "ended_leases", "attempts", "sandboxes", "steps", "gates", "gate_revisions", "attestations", "operations", "outbox"}
}
