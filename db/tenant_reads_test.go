package db_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/db/internal/bytea"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// engineReads are the look-ups, outside of the transactions that write, which are asked as signalbox_engine, and why: it sees all
// tenants. Everything else that reads is asked as signalbox_app (decision 11).
var engineReads = map[string][]string{
	"who calls is found by the hash of what they show, before there is a tenant": {
		"GetSession", "LiveSessions", "GetToken", "GetAdminLink", "GetWorkerCredentials", "ListProviders", "GetProvider"},
	"a person's logins belong to the person and not to a tenant, and lie beside their hashes": {"ListSessions", "ListSignedIn", "Retention"},
	"a worker of the installation names no tenant: it follows from the leases in its hands": {
		"TenantOfLease", "TenantOfRun", "TenantOfArtifact", "TenantOfRepository", "TenantOfPull"},
	"commands judge what they move by the same rows that they write, and those that come at once ask once, for all tenants": {
		"LoadRun", "LoadRuns", "TasksByID", "PoliciesOf", "RunSpent", "RunCommands", "ProviderOfRun", "RequestedAttestation",
		"LastEventOfRun", "HolderOfRun", "ItemOfRun"},
	"loops of the control plane look at the work of all tenants": {
		"ExpiredLeases", "RevokableLeases", "DueDelayed", "DueAdmissions", "PoliciesInForce", "DueGates", "DueAttestations", "OldItems", "ActiveRuns",
		"TasksToRun", "GoingCampaigns", "PersonAsRequester", "LeaseTimes", "RunningSteps", "WaitingRuns", "SetAsideRuns", "IdleTasks", "MergeWaits", "FeedEvents", "FeedHorizon"},
	"the scheduler's reasons follow from what all tenants together have: room at shared workers, pauses, and the pace of the newest events": {
		"LiveOffers", "BootsOfTenant", "PausedQueues", "ProviderPauses", "PageQueues"},
	"the installation's own figures and checks name no tenant, or all of them": {
		"Now", "Tenant", "SchemaVersion", "SchedulerGauges", "CountRepairs", "AuditTenants", "AuditHeads", "AuditHashAt", "ReplayRuns", "ReplayEvents"},
	"stored secrets are sealed anew for the installation, not for a tenant": {"ListStaleClientSecrets", "ListStaleIDTokens", "CountSecretsByKey"},
}

// engineWork are what is handed the engine's connections to ask more than one thing: commands, and the look-ups by which they judge
// what they move. What a command would decide, which pages foretell, is asked of the same.
var engineWork = []string{"admissionFacts", "beat", "campaignSpec", "contractFacts", "create", "createToken", "createWorkerCredential", "decide", "factsOf", "flush", "grounds", "heldTo",
	"insertRepository", "judgeFacts", "list", "mayBeLate", "outageOver", "replayed", "resultFacts", "revokeToken", "revokeWorkerCredential", "rulesFor", "scheduleFacts",
	"staleHolder", "startFacts", "storedAnswer", "storedPatch", "together", "tryTx"}

// asks finds which queries the package asks, by the handle that they are given, and what else is given the engine's.
func asks(t testing.TB) (app, pool, work []string) {
	t.Helper()
	fset := token.NewFileSet()
	for _, name := range got(filepath.Glob("*.go"))(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		ast.Inspect(got(parser.ParseFile(fset, name, nil, 0))(t), func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			to, query := called(call.Fun)
			if do, ok := call.Args[len(call.Args)-1].(*ast.FuncLit); ok && query == "readTx" {
				app = append(app, within(do)...)
			}
			switch _, handle := called(call.Args[1]); {
			case handle == "reads" && to == "q":
				app = append(app, query)
			case handle == "pool" && to == "q":
				pool = append(pool, query)
			case handle == "pool":
				work = append(work, query)
			}
			return true
		})
	}
	for _, all := range []*[]string{&app, &pool, &work} {
		slices.Sort(*all)
		*all = slices.Compact(*all)
	}
	return app, pool, work
}

// within are the queries that a function asks of its transaction.
func within(do *ast.FuncLit) (names []string) {
	ast.Inspect(do, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 1 {
			to, query := called(call.Fun)
			if handle, ok := call.Args[1].(*ast.Ident); ok && to == "q" && handle.Name == "tx" {
				names = append(names, query)
			}
		}
		return true
	})
	return names
}

// called is the name at the end of s.q.Name, s.reads(tenant) or s.pool, and the one before it.
func called(e ast.Expr) (to, name string) {
	switch e := e.(type) {
	case *ast.CallExpr:
		return called(e.Fun)
	case *ast.SelectorExpr:
		_, to = called(e.X)
		return to, e.Sel.Name
	case *ast.Ident:
		return "", e.Name
	}
	return "", ""
}

// T3: a look-up is asked as signalbox_app unless it is one of those that are listed with a reason.
func TestReadsAreAskedAsTheApp(t *testing.T) {
	t.Parallel()
	reads := map[string]bool{}
	for _, file := range got(filepath.Glob("../queries/*.sql"))(t) {
		for part := range strings.SplitSeq(string(got(os.ReadFile(file))(t)), "-- name: ") {
			name, text, _ := strings.Cut(part, " ")
			text = regexp.MustCompile(`--[^\n]*`).ReplaceAllString(text, "")
			reads[name] = !regexp.MustCompile(`\b(INSERT|UPDATE|DELETE|LOCK)\b`).MatchString(text)
		}
	}
	app, pool, work := asks(t)
	var listed []string
	for names := range maps.Values(engineReads) {
		listed = append(listed, names...)
	}
	n := 0
	for _, q := range pool {
		if !reads[q] {
			continue
		}
		if n++; !slices.Contains(listed, q) {
			t.Errorf("%s is read as signalbox_engine, which sees all tenants: ask it of s.reads(tenant), or list it with the reason", q)
		}
	}
	for _, q := range listed {
		if !slices.Contains(pool, q) {
			t.Errorf("%s is listed and nothing reads it as signalbox_engine", q)
		}
	}
	for _, q := range app {
		if !reads[q] {
			t.Errorf("%s writes, and is asked of a read-only handle", q)
		}
	}
	if !slices.Equal(work, engineWork) {
		t.Errorf("the engine's connections are given to %q, want %q", work, engineWork)
	}
	t.Logf("%d look-ups as signalbox_app, %d as signalbox_engine", len(app), n)
	if len(app) < 80 {
		t.Errorf("only %d look-ups as signalbox_app were found", len(app))
	}
}

// T1, T3: the second wall. Every look-up of pages and API is asked in one tenant with the ids of another, and with that other as the
// tenant in its own condition, as if the condition had been forgotten: nothing of the other comes. Without a tenant nothing comes
// at all, and in its own tenant each finds what there is.
func TestNoReadLeavesItsTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	w.at(t, run.Succeeded)
	w.at(t, run.Executing)
	w.at(t, run.Queued)
	w.at(t, run.WaitingForApproval)
	w.keeps(t)
	next := drive.New(t, w.db, drive.Options{Tenant: "next door", Store: w.Store})
	got(next.To(t.Context(), run.Executing))(t)
	ids := w.ids(t, w.Tenant)
	a, nobody := asker{params(t), ids, w.Tenant}, asker{params(t), []uuid.UUID{uuid.New()}, uuid.New()}
	names, _, _ := asks(t)
	found, asked := 0, 0
	var blind []string
	for _, name := range names {
		nothing := nobody.ask(t, w.Store, name, w.Tenant)
		if own := a.ask(t, w.Store, name, w.Tenant); slices.Equal(own, nothing) {
			blind = append(blind, name)
		} else {
			found++
		}
		for where, tenant := range map[string]uuid.UUID{"another tenant": next.Tenant, "a tenant that there is not": uuid.New(), "the nil tenant": uuid.Nil} {
			asked += len(ids)
			if answers := a.ask(t, w.Store, name, tenant); !slices.Equal(answers, nothing) {
				t.Errorf("%s, asked in %s with the ids of the first, answers %.300s, want %.300s", name, where, answers, nothing)
			}
		}
	}
	t.Logf("%d look-ups, %d questions in other tenants, none answered; in the own tenant %d find something, and nothing is there for %v", len(names), asked, found, blind)
	if found < 60 {
		t.Errorf("only %d of %d look-ups found anything in their own tenant", found, len(names))
	}
}

// keeps puts something into what an ordinary run leaves empty.
func (w *world) keeps(t testing.TB) {
	t.Helper()
	ctx, who, now := t.Context(), w.Requester.ID, time.Now()
	must(t, w.Store.SaveDraft(ctx, db.DraftKey{Tenant: w.Tenant, User: who, Key: ""}, "a draft"))
	must(t, w.Store.SaveView(ctx, db.ViewKey{Tenant: w.Tenant, User: who, List: db.ListRuns, Name: "mine"}, "q=a"))
	got(w.Store.CreateToken(ctx, db.Token{Tenant: w.Tenant, User: who, Name: "script", Scopes: []string{"read"}, ExpiresAt: now.Add(time.Hour)}, db.Mint(db.PrefixToken)))(t)
	must(t, w.SetPolicy(ctx, "schema: 1\nversion: kept-1\n"))
	w.owner(t, `INSERT INTO audit_log (tenant_id, actor_kind, actor_id, action, object_type, object_id, result) VALUES ('`+w.Tenant.String()+`', 'human', 'x', 'looked', 'run', 'x', 'done')`)
}

// ids are all ids that the tenant's rows have.
func (w *world) ids(t testing.TB, tenant uuid.UUID) (all []uuid.UUID) {
	t.Helper()
	tables := w.strings(t, `SELECT table_name || '.' || column_name FROM information_schema.columns c WHERE table_schema = 'public' AND data_type = 'uuid'
		AND table_name IN ('tasks', 'runs', 'gates', 'repositories', 'operations', 'pull_requests', 'attempts', 'run_leases', 'memberships', 'patches', 'artifacts')
		AND column_name IN ('id', 'user_id', 'lease_id') AND EXISTS (SELECT FROM information_schema.columns x WHERE x.table_name = c.table_name AND x.column_name = 'tenant_id')`)
	for _, name := range tables {
		table, column, _ := strings.Cut(name, ".")
		for _, id := range w.strings(t, `SELECT DISTINCT `+column+`::text FROM `+table+` WHERE tenant_id = '`+tenant.String()+`' AND `+column+` IS NOT NULL LIMIT 6`) {
			all = append(all, uuid.MustParse(id))
		}
	}
	return all
}

func (w *world) strings(t testing.TB, query string) (all []string) {
	t.Helper()
	rows := got(w.Owner.Query(t.Context(), query))(t)
	for rows.Next() {
		var s string
		must(t, rows.Scan(&s))
		all = append(all, s)
	}
	must(t, rows.Err())
	return all
}

// asker asks queries with arguments by the names of their parameters.
type asker struct {
	params map[string][]string
	ids    []uuid.UUID
	tenant uuid.UUID
}

// params are the names of the parameters of every generated query.
func params(t testing.TB) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	fset := token.NewFileSet()
	for _, name := range got(filepath.Glob("internal/sqlc/*.go"))(t) {
		for _, d := range got(parser.ParseFile(fset, name, nil, 0))(t).Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				for _, p := range f.Type.Params.List {
					for _, n := range p.Names {
						all[f.Name.Name] = append(all[f.Name.Name], n.Name)
					}
				}
			}
		}
	}
	return all
}

// ask calls a query in a tenant, once with each id for those that the query does not name, and returns the different answers as JSON.
func (a asker) ask(t testing.TB, s *db.Store, name string, in uuid.UUID) (answers []string) {
	t.Helper()
	for _, id := range a.ids {
		out := db.AskInTenant(t.Context(), s, in, name, func(kinds []reflect.Type) []reflect.Value {
			var args []reflect.Value
			for i, k := range kinds {
				args = append(args, a.argument(t, name, a.params[name][i+2], k, id))
			}
			return args
		})
		if out.Err != nil {
			t.Fatalf("%s: %v", name, out.Err)
		}
		answers = append(answers, string(got(json.Marshal(out.Answer))(t)))
	}
	slices.Sort(answers)
	return slices.Compact(answers)
}

func (a asker) argument(t testing.TB, query, name string, k reflect.Type, id uuid.UUID) reflect.Value {
	t.Helper()
	lower := strings.ToLower(name)
	var v any
	switch {
	case k.Kind() == reflect.Struct && k != reflect.TypeFor[time.Time]():
		all := reflect.New(k).Elem()
		for i := range k.NumField() {
			all.Field(i).Set(a.argument(t, query, k.Field(i).Name, k.Field(i).Type, id))
		}
		return all
	case k == reflect.TypeFor[uuid.UUID]() && strings.HasPrefix(lower, "tenant"):
		v = a.tenant
	case k == reflect.TypeFor[*uuid.UUID]() && strings.HasPrefix(lower, "tenant"):
		v = &a.tenant
	case k == reflect.TypeFor[uuid.UUID]() && lower == "beforeid":
		v = uuid.Max
	case k == reflect.TypeFor[uuid.UUID]() && (lower == "afterid" || lower == "after"):
		v = uuid.Nil
	case k == reflect.TypeFor[uuid.UUID]():
		v = id
	case k == reflect.TypeFor[*uuid.UUID]():
		v = (*uuid.UUID)(nil)
	case k == reflect.TypeFor[[]uuid.UUID]():
		v = a.ids
	case k == reflect.TypeFor[time.Time]() && (strings.HasPrefix(lower, "before") || lower == "until"):
		v = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	case k == reflect.TypeFor[time.Time]():
		v = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	case k == reflect.TypeFor[int32]() && lower != "after":
		v = int32(1000)
	case k == reflect.TypeFor[int64]() && strings.HasPrefix(lower, "before"):
		v = int64(math.MaxInt64)
	case k == reflect.TypeFor[int64]() && (lower == "seq_2" || lower == "count" || lower == "limit"):
		v = int64(1000)
	case k == reflect.TypeFor[[]string]() && lower == "roles":
		v = []string{"viewer", "requester", "approver", "admin"}
	case k == reflect.TypeFor[string]() && lower == "list":
		v = map[bool]string{true: "runs", false: "others"}[query == "SavedViews"]
	case k == reflect.TypeFor[string]() && lower == "zone":
		v = "UTC"
	case k == reflect.TypeFor[string]() && lower == "role":
		v = "approver"
	case k == reflect.TypeFor[[]bytea.Bytes]():
		v = []bytea.Bytes{}
	default:
		return reflect.Zero(k)
	}
	return reflect.ValueOf(v)
}
