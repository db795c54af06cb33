package handlers_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/db"
	"signalbox/internal/metrics"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// bird is the text that only the first tenant has, in everything that it has.
const bird = "canary"

// S4, T1, T10: every text that a tenant has holds a canary: every column of its rows that takes one, and every stored artifact. A person
// of another tenant who may do everything there crawls all pages from the first on, asks every GET route of pages and API with
// the ids of the first, searches, filters and listens; with a session, a login, a token and a worker. None of it holds the canary, and
// neither does what is measured.
func TestNobodySeesAnotherTenantsCanary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := got(pgx.Connect(t.Context(), w.data.SuperuserURL(t)))(t)
	defer root.Close(t.Context())
	theirs := w.existing(t)
	theirs[policyVersion] = "kept-1"
	w.leaves(t)
	callers := w.strangers(t, root)
	nina := idPerson{sub: "nina", name: "Nina", groups: []string{"neighbours"}}
	own := w.nextDoor(t, root, w.user(t, nina).Tenant)

	// The first tenant's own people do see it.
	seen := 0
	for _, path := range []string{"/tasks", "/runs", theirs.into("/runs/{id}"), theirs.into("/gates/{id}"), theirs.into("/tasks/{id}"), "/tokens", "/audit"} {
		seen += strings.Count(w.signedIn(t, adam).get(t, path).want(t, http.StatusOK).body, bird)
	}
	if seen < 7 {
		t.Errorf("the tenant's own people see %d canaries on seven pages", seen)
	}
	columns := w.plant(t, root)

	listening, stop := callers[0].cookie.listen(t, "/runs/"+own.as.RunId+"/stream?after=0")
	bodies, size, found := 0, 0, 0
	look := func(c caller, path string) answer {
		a := c.reads(t, w, path)
		bodies++
		size += len(a.body)
		text := a.body + fmt.Sprint(a.Header)
		if n := strings.Count(strings.ToLower(text), bird); n > 0 {
			found += n
			t.Errorf("GET %s shows %s the canary of another tenant %d times (%d)", path, c.name, n, a.StatusCode)
		}
		return a
	}
	pages := w.crawl(func(path string) answer { return look(callers[0], path) })
	routes := 0
	for _, r := range w.routes(t) {
		if r.Method != http.MethodGet || strings.HasPrefix(r.Pattern, "/login") || strings.HasPrefix(r.Pattern, "/auth/") {
			continue
		}
		routes++
		for _, c := range callers {
			if api := strings.HasPrefix(r.Pattern, "/api/v1/"); api == (c.cookie != nil) {
				continue
			}
			path := theirs.into(r.Pattern)
			for _, query := range []string{"", "?q=canar", "?run_id=" + theirs[typeid.Run] + "&task_id=" + theirs[typeid.Task] + "&repository_id=" + theirs[typeid.Repo],
				"?state=SUCCEEDED&limit=200", "?repository=" + theirs[typeid.Repo] + "&requester=" + theirs[typeid.User], "?from=" + policy.DefaultVersion + "&to=" + policy.DefaultVersion} {
				look(c, path+query)
			}
		}
	}

	// A stream of the own run, while the first tenant's work goes on.
	w.cli(t, rita).call(t, "POST", "/tasks", wire.TaskCreate{Title: "A canary sings", Goal: "A canary.", RepositoryId: typeid.Format(typeid.Repo, w.repo)})
	own.do(t, wire.RunCommand{Command: wire.CmdStart})
	_, heard := upTo(t, listening, own.do(t, wire.RunCommand{Command: wire.CmdSandboxReady,
		SandboxReady: &wire.SandboxReady{Isolation: wire.Bwrap, BaseCommit: baseCommit}}).Run.Version)
	stop()
	measured := w.measured(t)
	for what, text := range map[string]string{"a stream": heard, "the metrics": measured} {
		if n := strings.Count(strings.ToLower(text), bird); n > 0 || text == "" {
			found += n
			t.Errorf("%s holds %d canaries in %d bytes", what, n, len(text))
		}
	}
	t.Logf("%d columns and %d canaries on seven pages of their own; %d pages crawled, %d GET routes as %d callers, %d answers of %d bytes, a stream of %d, metrics of %d: %d canaries",
		columns, seen, pages, routes, len(callers), bodies, size, len(heard), len(measured), found)
	if pages < 30 || routes < 70 || columns < 100 {
		t.Errorf("%d pages, %d routes, %d columns", pages, routes, columns)
	}
}

// leaves keeps something of the first tenant wherever an ordinary run leaves nothing.
func (w *world) leaves(t testing.TB) {
	t.Helper()
	ctx, tenant, who := t.Context(), db.DefaultTenant, w.user(t, adam).User
	must(t, w.store.SaveDraft(ctx, db.DraftKey{Tenant: tenant, User: who, Key: "task"}, bird))
	must(t, w.store.SaveView(ctx, db.ViewKey{Tenant: tenant, User: who, List: db.ListRuns, Name: bird}, "q="+bird))
	in := db.Request{Tenant: tenant, By: run.Actor{Kind: run.Human, ID: who.String(), Name: bird}, Key: "0123456789abcdef-leaves", Audit: &db.Audit{Tenant: tenant}}
	got(w.store.ChangePolicy(ctx, in, "schema: 1\nversion: kept-1\n", bird))(t)
	w.cli(t, rita).call(t, "POST", "/tasks", wire.TaskCreate{Title: "A canary waits", Goal: "A canary.", RepositoryId: typeid.Format(typeid.Repo, w.repo)}).want(t, http.StatusCreated)
	w.cli(t, rita).call(t, "POST", "/tasks", wire.TaskCreate{Title: "A canary works", Goal: "A canary.", RepositoryId: typeid.Format(typeid.Repo, w.repo)}).want(t, http.StatusCreated)
	w.worker(t, bird).claim(t, wire.Execute)
}

// nextDoor gives the other tenant a repository and a run that a worker holds.
func (w *world) nextDoor(t testing.TB, root *pgx.Conn, tenant uuid.UUID) *lease {
	t.Helper()
	forge := typeid.New()
	got(root.Exec(t.Context(), "INSERT INTO forges (id, tenant_id, name, kind) VALUES ($1, $2, 'local', 'local')", forge, tenant))(t)
	repo := got(w.store.CreateRepository(t.Context(), tenant, uuid.Nil, db.RepositoryInfo{Name: "next/door", Forge: forge, CloneURL: "acme/api.git", DefaultBranch: "main",
		Verification: []run.Check{{Name: "test", Kind: "test", Argv: []string{"true"}}}}))(t)
	nina := w.cli(t, idPerson{sub: "nina", name: "Nina", groups: []string{"neighbours"}})
	nina.call(t, "POST", "/tasks", wire.TaskCreate{Title: "Of next door", Goal: "Anything.", RepositoryId: typeid.Format(typeid.Repo, repo.ID)}).want(t, http.StatusCreated)
	return w.workerOf(t, tenant, "of next door").claim(t, wire.Execute)
}

// plant puts a canary into every text of the first tenant's rows that takes one, past triggers and keys, and into every artifact,
// and returns how many columns took it. Names of queues stay, by which the installation is measured, and versions of policies, by which they are asked for.
func (w *world) plant(t testing.TB, root *pgx.Conn) (columns int) {
	t.Helper()
	got(root.Exec(t.Context(), "SET session_replication_role = replica"))(t)
	type column struct{ Table, Name, Kind string }
	all := got(pgx.CollectRows(got(root.Query(t.Context(), `SELECT c.table_name, c.column_name, c.udt_name FROM information_schema.columns c
		JOIN information_schema.tables b USING (table_schema, table_name)
		WHERE c.table_schema = 'public' AND b.table_type = 'BASE TABLE' AND c.udt_name IN ('text', '_text', 'jsonb') AND c.is_generated = 'NEVER' AND c.column_name NOT IN ('queue', 'version')
		AND (c.table_name = 'users' OR EXISTS (SELECT FROM information_schema.columns x WHERE x.table_schema = 'public' AND x.table_name = c.table_name AND x.column_name = 'tenant_id'))`))(t),
		pgx.RowToStructByPos[column]))(t)
	for _, c := range all {
		name := pgx.Identifier{c.Name}.Sanitize()
		value := map[string]string{"text": "'canary ' || " + name, "_text": "array_prepend('canary', " + name + ")",
			"jsonb": "CASE jsonb_typeof(" + name + ") WHEN 'object' THEN " + name + ` || '{"canary": "canary"}' ELSE ` + name + " END"}[c.Kind]
		where := "tenant_id = '" + db.DefaultTenant.String() + "'"
		if c.Table == "users" {
			where = "id IN (SELECT user_id FROM memberships WHERE " + where + ")"
		}
		err := pgx.BeginFunc(t.Context(), root, func(tx pgx.Tx) error {
			tag, err := tx.Exec(t.Context(), "UPDATE "+pgx.Identifier{c.Table}.Sanitize()+" SET "+name+" = "+value+" WHERE "+where)
			if tag.RowsAffected() > 0 {
				columns++
			}
			return err
		})
		// A word list or a form of its own takes no other text.
		if pe, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || pe.Code != "23514" && pe.Code != "23505") {
			t.Errorf("%s.%s: %v", c.Table, c.Name, err)
		}
	}
	must(t, filepath.WalkDir(w.blobs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.WriteFile(path, append(got(os.ReadFile(path))(t), bird...), 0o600)
	}))
	return columns
}

// crawl follows every link from the first page on, each address once, and returns how many pages there are.
func (w *world) crawl(look func(path string) answer) (pages int) {
	todo, known := []string{"/inbox"}, map[string]bool{"/inbox": true}
	for len(todo) > 0 && pages < 600 {
		path := todo[0]
		todo = todo[1:]
		a := look(path)
		pages++
		if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			continue
		}
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.body))
		must(w.t, err)
		doc.Find("[href], [hx-get], [src], form[method='get']").Each(func(_ int, s *goquery.Selection) {
			for _, name := range []string{"href", "hx-get", "src", "action"} {
				to, _ := s.Attr(name)
				to, _, _ = strings.Cut(to, "#")
				if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "/static/") || strings.HasPrefix(to, "/log") || strings.Contains(to, "/stream") || known[to] {
					continue
				}
				known[to] = true
				todo = append(todo, to)
			}
		})
	}
	return pages
}

// reads asks and does not wait for the end of a stream.
func (c caller) reads(t testing.TB, w *world, path string) answer {
	t.Helper()
	b := c.cookie
	if b == nil {
		b = w.browser()
	}
	req := got(http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil))(t)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res := got(b.Do(req))(t)
	defer res.Body.Close()
	// A stream does not end; what it begins with says whose it is.
	body := make([]byte, 64<<10)
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		n := got(res.Body.Read(body))(t)
		return answer{res, string(body[:n])}
	}
	return answer{res, string(got(io.ReadAll(res.Body))(t))}
}

// measured is what the server's metrics say of the database.
func (w *world) measured(t testing.TB) string {
	t.Helper()
	m := metrics.New("test", nil)
	defer m.Watch(w.store)()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if !slices.Contains(strings.Split(rec.Body.String(), "\n"), "signalbox_database_measured 1") {
		t.Errorf("nothing was measured:\n%s", rec.Body)
	}
	return rec.Body.String()
}
