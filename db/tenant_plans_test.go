package db_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// T3: the wall is no detour. Every look-up of pages is planned, among many rows, once as each role: what row-level security adds is a
// comparison for each row that is found anyway, and no index goes unused because of it.
func TestTheWallIsNoDetour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	w.at(t, run.Succeeded)
	w.at(t, run.WaitingForApproval)
	statistics{w}.surround(t, 3000)
	statistics{w}.analyze(t)
	texts := queryTexts(t)
	engine, app := w.planner(t, w.db.EngineURL), w.planner(t, w.db.AppURL)
	names, _, _ := asks(t)
	worst, sum := 0.0, 0.0
	for _, name := range names {
		before, with := engine(texts[name]), app(texts[name])
		ratio := with / before
		sum += ratio
		worst = max(worst, ratio)
		if ratio > 3 && with > before+50 {
			t.Errorf("%s costs %.0f as signalbox_app and %.0f without row-level security", name, with, before)
		}
		t.Logf("%-20s %10.1f %10.1f %6.2f", name, before, with, ratio)
	}
	t.Logf("%d look-ups cost %.2f times as much on average, and %.2f times at most", len(names), sum/float64(len(names)), worst)
}

// T3: a policy compares a column as it lies in its index. A cast of one costs every look-up that index, and shows in a plan only
// where there are enough rows of exactly that table.
func TestPoliciesCompareColumnsAsTheyLie(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	tenant := "(NULLIF(current_setting('app.tenant'::text, true), ''::text))::uuid"
	all := w.strings(t, `SELECT tablename || '.' || policyname || ': ' || coalesce(qual, '') || ' ' || coalesce(with_check, '') FROM pg_policies WHERE schemaname = 'public'`)
	for _, p := range all {
		rest := strings.NewReplacer(tenant, "tenant", "NULLIF(current_setting('app.tenant'::text, true), ''::text)", "setting").Replace(p)
		if strings.Contains(rest, "::") {
			t.Errorf("a policy casts what it compares: %s", p)
		}
	}
	if len(all) < 50 {
		t.Errorf("only %d policies were found", len(all))
	}
}

// planner returns a function that says what a statement costs by its kept plan, in the planner's units.
func (w *world) planner(t testing.TB, url string) func(text string) float64 {
	t.Helper()
	conn := got(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	got(conn.Exec(t.Context(), `SELECT set_config('enable_seqscan', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false), set_config('app.tenant', $1, false)`, w.Tenant.String()))(t)
	return func(text string) float64 {
		t.Helper()
		asked := got(conn.Prepare(t.Context(), "asked", text))(t)
		none := strings.TrimSuffix(strings.Repeat("NULL, ", len(asked.ParamOIDs)), ", ")
		if none != "" {
			none = "(" + none + ")"
		}
		var plan []struct {
			Plan struct {
				Cost float64 `json:"Total Cost"`
			}
		}
		must(t, conn.QueryRow(t.Context(), `EXPLAIN (FORMAT JSON) EXECUTE asked`+none, pgx.QueryExecModeSimpleProtocol).Scan(&plan))
		must(t, conn.Deallocate(t.Context(), "asked"))
		return plan[0].Plan.Cost
	}
}

// queryTexts are the generated queries by their names.
func queryTexts(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, file := range got(filepath.Glob("internal/sqlc/*.sql.go"))(t) {
		ast.Inspect(got(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t), func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
				if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text := got(strconv.Unquote(lit.Value))(t)
					if name, ok := strings.CutPrefix(text, "-- name: "); ok {
						name, _, _ = strings.Cut(name, " ")
						all[name] = text
					}
				}
			}
			return true
		})
	}
	return all
}
