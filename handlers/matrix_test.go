package handlers_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/handlers"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// ids are what stands in for the members of a pattern, by their kind.
type ids map[typeid.Prefix]string

// nowhere are ids that were never given out.
func nowhere() ids {
	all := ids{}
	for _, p := range []typeid.Prefix{typeid.Task, typeid.Run, typeid.Gate, typeid.Repo, typeid.Artifact, typeid.Token, typeid.Worker, typeid.Pull, typeid.Provider, typeid.Step, typeid.Lease, typeid.User, typeid.Enrolment, typeid.Session} {
		all[p] = typeid.Format(p, typeid.New())
	}
	return all
}

// policyVersion stands in ids for the version of a policy, which has no id.
const policyVersion typeid.Prefix = "version"

// into fills in a pattern; what no id stands for is "1".
func (all ids) into(pattern string) string {
	named := map[string]typeid.Prefix{
		"task_id": typeid.Task, "run_id": typeid.Run, "gate_id": typeid.Gate, "repository_id": typeid.Repo, "artifact_id": typeid.Artifact, "token_id": typeid.Token,
		"credential_id": typeid.Worker, "enrolment_id": typeid.Enrolment, "worker_id": typeid.Worker, "pull_id": typeid.Pull, "provider": typeid.Provider, "step": typeid.Step, "lease": typeid.Lease,
		"version": policyVersion,
	}
	behind := map[string]typeid.Prefix{"tasks": typeid.Task, "runs": typeid.Run, "gates": typeid.Gate, "artifacts": typeid.Artifact, "pulls": typeid.Pull, "tokens": typeid.Token, "workers": typeid.Worker, "sessions": typeid.Session, "people": typeid.User, "repositories": typeid.Repo, "enrolments": typeid.Enrolment, "credentials": typeid.Worker}
	return regexp.MustCompile(`(\w+)/\{(\w+)\}`).ReplaceAllStringFunc(pattern, func(m string) string {
		part, name, _ := strings.Cut(strings.TrimSuffix(m, "}"), "/{")
		p, ok := named[name]
		if !ok {
			p = behind[part]
		}
		if id := all[p]; id != "" {
			return part + "/" + id
		}
		return part + "/1"
	})
}

// caller is somebody of the matrix. Pages look at the cookie alone and the API at the token alone: on the other side a caller is
// nobody.
type caller struct {
	name   string
	token  string
	cookie *browser
	// kind is empty for whoever is not known, by whatever they show.
	kind   string
	roles  []string
	scopes []string
	// foreign callers are of another tenant, and ask for what exists in this one.
	foreign bool
}

// wants says what the declaration says, computed here a second time.
func (c caller) wants(r handlers.Route) int {
	api := strings.HasPrefix(r.Pattern, "/api/v1/")
	kind := c.kind
	if api && c.token == "" || !api && c.cookie == nil {
		kind = ""
	}
	switch {
	case r.Anyone && (!api || c.token == "" || kind != ""):
		return http.StatusOK
	case kind == "":
		return http.StatusUnauthorized
	case !slices.Contains(r.Kinds, kind), kind == "token" && !slices.Contains(c.scopes, r.Scope):
		return http.StatusForbidden
	case kind != "worker" && (len(c.roles) == 0 || len(r.Roles) > 0 && !slices.ContainsFunc(r.Roles, func(role string) bool { return slices.Contains(c.roles, role) })):
		return http.StatusForbidden
	}
	return http.StatusOK
}

// call asks as this caller and says how it was answered: 401, 403, or 200 for whoever was let in, whatever came of it.
func (c caller) call(t testing.TB, w *world, r handlers.Route, path string) (int, answer) {
	t.Helper()
	b := c.cookie
	if b == nil {
		b = w.browser()
	}
	api := strings.HasPrefix(r.Pattern, "/api/v1/")
	body, kind := "idempotency_key=0123456789abcdef&reason=because", "application/x-www-form-urlencoded"
	if api {
		body, kind = "{}", "application/json"
	}
	req := got(http.NewRequestWithContext(t.Context(), r.Method, w.url+path, strings.NewReader(body)))(t)
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Idempotency-Key", "0123456789abcdef")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	a := b.do(t, req)
	switch {
	case a.StatusCode == http.StatusSeeOther && strings.HasPrefix(a.Header.Get("Location"), "/login?") && !r.Anyone:
		return http.StatusUnauthorized, a
	case strings.Contains(a.body, "An administrator of the installation ends it."):
		return http.StatusOK, a // let in, and refused by the thing itself
	case a.StatusCode == http.StatusUnauthorized && !strings.Contains(a.body, "bad_code"), a.StatusCode == http.StatusForbidden && !strings.Contains(a.body, "not_your_lease"):
		return a.StatusCode, a
	}
	return http.StatusOK, a
}

// callers are one of every kind.
func (w *world) callers(t testing.TB, conn *pgx.Conn) []caller {
	t.Helper()
	var all []caller
	people := []idPerson{vera, rita, ana, adam}
	for _, p := range people {
		role := strings.TrimSuffix(p.groups[0], "s")
		all = append(all, caller{name: role + " in a browser", cookie: w.signedIn(t, p), kind: "person", roles: []string{role}},
			caller{name: role + " on the command line", token: w.cli(t, p).token, kind: "person", roles: []string{role}})
	}
	for _, scope := range []string{"read", "tasks", "repositories"} {
		all = append(all, caller{name: "an admin's token for " + scope, token: w.token(t, adam, scope).token, kind: "token", roles: []string{"admin"}, scopes: []string{scope}})
	}
	every := []string{"read", "tasks", "repositories"}
	all = append(all, caller{name: "an admin's token for everything", token: w.token(t, adam, every...).token, kind: "token", roles: []string{"admin"}, scopes: every},
		caller{name: "a viewer's token for everything", token: w.token(t, vera, every...).token, kind: "token", roles: []string{"viewer"}, scopes: every},
		caller{name: "an approver's token for everything", token: w.token(t, ana, every...).token, kind: "token", roles: []string{"approver"}, scopes: every},
		caller{name: "a worker", token: w.worker(t, "matrix").token, kind: "worker"},
		caller{name: "a worker of every tenant", token: w.workerOf(t, uuid.Nil, "everywhere").token, kind: "worker"},
		caller{name: "nobody"}, caller{name: "text that is no token", token: "sbt_" + strings.Repeat("a", 49)}, caller{name: "a token that was never made", token: db.Mint(db.PrefixToken)})

	// What has ended, by itself or by somebody's hand.
	ended := []idPerson{{sub: "gone", name: "Gone", groups: []string{"admins"}}, {sub: "over", name: "Over", groups: []string{"admins"}}}
	for i, p := range ended {
		state := []string{"revoked", "expired"}[i]
		c := []caller{{name: "a session that is " + state, cookie: w.signedIn(t, p)}, {name: "a login that is " + state, token: w.cli(t, p).token}, {name: "a token that is " + state, token: w.token(t, p, every...).token}}
		column := []string{"revoked_at", "expires_at"}[i]
		for _, table := range []string{"sessions", "api_tokens"} {
			tag := got(conn.Exec(t.Context(), "UPDATE "+table+" SET "+column+" = now() - interval '1 second' WHERE user_id = $1", w.user(t, p).User))(t)
			if tag.RowsAffected() == 0 {
				t.Fatalf("nothing is %s in %s", state, table)
			}
		}
		all = append(all, c...)
	}
	revoked := w.worker(t, "revoked")
	got(conn.Exec(t.Context(), "UPDATE worker_credentials SET revoked_at = now() WHERE name = 'revoked'"))(t)
	// Somebody who is signed in and is in no group any longer.
	left := idPerson{sub: "left", name: "Left", groups: []string{"admins"}}
	stays, login, script := w.signedIn(t, left), w.cli(t, left).token, w.token(t, left, every...).token
	got(conn.Exec(t.Context(), "DELETE FROM memberships WHERE user_id = $1", w.user(t, idPerson{sub: "left", name: "Left"}).User))(t)
	return append(all, caller{name: "a worker's credential that is revoked", token: revoked.token},
		caller{name: "somebody without any role", cookie: stays, kind: "person"}, caller{name: "somebody without any role on the command line", token: login, kind: "person"},
		caller{name: "a token of somebody without any role", token: script, kind: "token", scopes: every})
}

// strangers are callers of another tenant, in which they may do everything.
func (w *world) strangers(t testing.TB, conn *pgx.Conn) []caller {
	t.Helper()
	every, everything := []string{"viewer", "requester", "approver", "admin"}, []string{"read", "tasks", "repositories"}
	nina := idPerson{sub: "nina", name: "Nina", groups: []string{"neighbours"}}
	tenant := typeid.New()
	got(conn.Exec(t.Context(), "INSERT INTO tenants (id, name) VALUES ($1, 'next door')", tenant))(t)
	for _, role := range every {
		got(conn.Exec(t.Context(), "INSERT INTO group_roles (tenant_id, provider_id, group_name, role) VALUES ($1, $2, 'neighbours', $3)", tenant, w.provider, role))(t)
	}
	session := w.signedIn(t, nina)
	return []caller{
		{name: "a session of another tenant", cookie: session, kind: "person", roles: every, foreign: true},
		{name: "a login of another tenant", token: w.cli(t, nina).token, kind: "person", roles: every, foreign: true},
		{name: "a token of another tenant", token: w.token(t, nina, everything...).token, kind: "token", roles: every, scopes: everything, foreign: true},
		{name: "a worker of another tenant", token: w.workerOf(t, tenant, "next door").token, kind: "worker", foreign: true},
	}
}

// existing is a tenant with one of everything that a route names.
func (w *world) existing(t testing.TB) ids {
	t.Helper()
	l := w.toPublish(t, "The canary: replace one word.")
	l.facts(t)
	pull := l.open(t)
	steps := into[wire.StepList](t, w.cli(t, ana).call(t, "GET", "/runs/"+l.as.RunId+"/steps", nil).want(t, http.StatusOK))
	info := got(w.store.RunInfo(t.Context(), db.DefaultTenant, got(typeid.Parse(typeid.Run, l.as.RunId))(t)))(t)
	gates := into[wire.GateList](t, w.cli(t, ana).call(t, "GET", "/gates?run_id="+l.as.RunId, nil).want(t, http.StatusOK))
	admin := w.user(t, adam)
	mine := got(w.store.CreateToken(t.Context(), db.Token{Tenant: admin.Tenant, User: admin.User, Name: "canary", Scopes: []string{"read"}, ExpiresAt: time.Now().Add(time.Hour)}, db.Mint(db.PrefixToken)))(t)
	credentials := got(w.store.WorkerCredentials(t.Context(), db.DefaultTenant))(t)
	return ids{
		typeid.Task: typeid.Format(typeid.Task, info.Task), typeid.Run: l.as.RunId, typeid.Gate: gates.Items[0].Id, typeid.Repo: typeid.Format(typeid.Repo, w.repo),
		typeid.Artifact: l.as.Patch.ArtifactId, typeid.Token: typeid.Format(typeid.Token, mine.ID), typeid.Worker: typeid.Format(typeid.Worker, credentials[0].ID),
		typeid.Pull: pull.Id, typeid.Provider: typeid.Format(typeid.Provider, w.provider), typeid.Lease: l.as.LeaseId, typeid.Step: steps.Items[0].Id, typeid.User: typeid.Format(typeid.User, admin.User),
	}
}

// S3, S4, S8, S10, R-TEN-1, T1: every route × every kind of caller × their scopes and their tenant. The table of who may call what
// is written down in testdata/routes.txt, so that a change of it is seen in review; and what is written down is what the server
// does. What another tenant asks for is not there, whoever asks, and nothing of it changes.
func TestEveryRouteAsksWhoCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	theirs, none := w.existing(t), nowhere()
	callers, strangers := w.callers(t, conn), w.strangers(t, conn)
	routes, undeclared, requests, let := w.routes(t), 0, 0, 0
	// Whoever is let in to a logout is nobody afterwards, and who ends their other logins is nobody on the command line.
	last := []string{"/api/v1/logout", "/sessions/others/end", "/logout"}
	slices.SortStableFunc(routes, func(a, b handlers.Route) int { return slices.Index(last, a.Pattern) - slices.Index(last, b.Pattern) })
	ask := func(c caller, r handlers.Route) {
		path := none.into(r.Pattern)
		if c.foreign {
			path = theirs.into(r.Pattern)
		}
		if r.Pattern == "/inbox/stream" {
			path += "?rows=none" // of real rows, or of no rows, it would not end
		}
		requests++
		want := c.wants(r)
		code, a := c.call(t, w, r, path)
		if code != want {
			t.Errorf("%s %s as %s: %d, want %d\n%.300s", r.Method, r.Pattern, c.name, a.StatusCode, want, a.body)
		}
		if a.StatusCode >= http.StatusInternalServerError {
			t.Errorf("%s %s as %s: %d", r.Method, r.Pattern, c.name, a.StatusCode)
		}
		if want == http.StatusOK {
			let++
		}
		if c.foreign && strings.Contains(a.body, "canary") {
			t.Errorf("%s %s shows another tenant's data to %s", r.Method, r.Pattern, c.name)
		}
		if c.foreign && strings.Contains(r.Pattern, "_id}") && a.StatusCode < http.StatusBadRequest && !strings.Contains(r.Pattern, "local-forge") {
			t.Errorf("%s %s finds another tenant's object for %s: %d", r.Method, r.Pattern, c.name, a.StatusCode)
		}
	}
	for _, r := range routes {
		if !r.Anyone && len(r.Kinds) == 0 {
			undeclared++
		}
		for _, c := range callers {
			ask(c, r)
		}
	}
	before := w.rows(t, conn, "WHERE tenant_id = '"+db.DefaultTenant.String()+"'")
	for _, r := range routes {
		for _, c := range strangers {
			ask(c, r)
		}
	}
	same(t, before, w.rows(t, conn, "WHERE tenant_id = '"+db.DefaultTenant.String()+"'"))
	t.Logf("%d routes, %d of them undeclared; %d kinds of caller, %d of another tenant; %d requests, %d let in, %d kept out",
		len(routes), undeclared, len(callers)+len(strangers), len(strangers), requests, let, requests-let)
	if undeclared > 0 || requests != len(routes)*(len(callers)+len(strangers)) {
		t.Errorf("%d routes are undeclared, %d requests", undeclared, requests)
	}
}

// A10, S10: a person, and no token or worker, decides gates and makes credentials, rules and people; the declarations say so for
// every such route, also for the next one.
func TestOnlyAPersonDecidesOrMakesCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var table strings.Builder
	strong := 0
	for _, r := range w.routes(t) {
		fmt.Fprintf(&table, "%-6s %-60s %s\n", r.Method, r.Pattern, r.Access)
		if r.Method == http.MethodGet || r.Anyone || !regexp.MustCompile(`/(admin|gates|inbox|tokens|worker-credentials|worker-enrolments|policies|users|people|sessions|providers|pulls/\{\w+\}/(merge|close)|cli-login|bypass)\b`).MatchString(r.Pattern) {
			continue
		}
		strong++
		if !slices.Equal(r.Kinds, []string{"person"}) {
			t.Errorf("%s %s is also for %v", r.Method, r.Pattern, r.Kinds)
		}
	}
	if strong < 20 {
		t.Errorf("only %d such routes", strong)
	}
	golden(t, "routes.txt", table.String())
}

// routes are those of a server that starts.
func (w *world) routes(t testing.TB) []handlers.Route {
	t.Helper()
	return got(handlers.New(handlers.Options{Store: w.store, Hub: w.hub, PublicURL: "http://127.0.0.1:1", SessionKey: []byte(strings.Repeat("k", 32))}))(t).Routes()
}

// rows are the digests of all tables' rows, those of a tenant with a condition.
func (w *world) rows(t testing.TB, conn *pgx.Conn, where string) map[string]string {
	t.Helper()
	query := "SELECT c.relname FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition"
	if where != "" {
		query += " AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id')"
	}
	tables := got(pgx.CollectRows(got(conn.Query(t.Context(), query))(t), pgx.RowTo[string]))(t)
	if len(tables) < 20 {
		t.Fatalf("only %d tables", len(tables))
	}
	all := map[string]string{}
	for _, table := range tables {
		var n int
		var sum string
		must(t, conn.QueryRow(t.Context(), "SELECT count(*), coalesce(md5(string_agg(x::text, '|' ORDER BY x::text)), '') FROM "+pgx.Identifier{table}.Sanitize()+" x "+where).Scan(&n, &sum))
		all[table] = fmt.Sprintf("%d rows, %s", n, sum)
	}
	return all
}

func same(t testing.TB, before, after map[string]string) {
	t.Helper()
	for table, rows := range after {
		if rows != before[table] {
			t.Errorf("%s changed: %s, then %s", table, before[table], rows)
		}
	}
}
