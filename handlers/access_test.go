package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/api"
	"signalbox/db"
	"signalbox/handlers"
	"signalbox/internal/typeid"
)

// somewhere puts ids that exist nowhere into a pattern.
func somewhere(pattern string) string {
	prefixes := map[string]typeid.Prefix{
		"task_id": typeid.Task, "run_id": typeid.Run, "gate_id": typeid.Gate, "repository_id": typeid.Repo, "artifact_id": typeid.Artifact, "token_id": typeid.Token,
		"credential_id": typeid.Worker, "pull_id": typeid.Pull, "provider": typeid.Provider, "step": typeid.Step,
	}
	return regexp.MustCompile(`\{(\w+)\}`).ReplaceAllStringFunc(pattern, func(m string) string {
		name := strings.Trim(m, "{}")
		if p, ok := prefixes[name]; ok {
			return typeid.Format(p, typeid.New())
		}
		for part, prefix := range map[string]typeid.Prefix{"/tasks/": typeid.Task, "/runs/": typeid.Run, "/gates/": typeid.Gate, "/artifacts/": typeid.Artifact, "/pulls/": typeid.Pull, "/tokens/": typeid.Token} {
			if strings.HasPrefix(pattern, part) {
				return typeid.Format(prefix, typeid.New())
			}
		}
		return "x"
	})
}

func second[T any](_ T, err error) error { return err }

// golden compares text with a file; UPDATE_GOLDEN=1 writes it.
func golden(t testing.TB, name, text string) {
	t.Helper()
	path := "testdata/" + name
	if os.Getenv("UPDATE_GOLDEN") != "" {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want := string(got(os.ReadFile(path))(t))
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("%s differs (UPDATE_GOLDEN=1 writes it):\n%s", path, diff)
	}
}

// The security headers of every kind of answer, as a golden file.
func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	var all strings.Builder
	for _, path := range []string{"/login", "/inbox", "/nothing", "/api/openapi.yaml", "/api/v1/me", "/healthz", "/docs/api"} {
		a := b.get(t, path)
		fmt.Fprintf(&all, "%s\n", path)
		names := []string{}
		for name := range a.Header {
			if !slices.Contains([]string{"Date", "Content-Length", "X-Request-Id", "Set-Cookie"}, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&all, "  %s: %s\n", name, strings.Join(a.Header.Values(name), " | "))
		}
	}
	golden(t, "headers.txt", all.String())
}

// B1: the matrix of http.CrossOriginProtection, on every route that changes something.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	cases := []struct {
		headers []string
		refused bool
	}{
		{nil, false}, {[]string{"Sec-Fetch-Site", "same-origin"}, false}, {[]string{"Sec-Fetch-Site", "none"}, false},
		{[]string{"Sec-Fetch-Site", "same-site"}, true}, {[]string{"Sec-Fetch-Site", "cross-site"}, true},
		{[]string{"Origin", "https://evil.example"}, true}, {[]string{"Origin", "null"}, true}, {[]string{"Origin", w.url}, false},
	}
	h := got(handlers.New(handlers.Options{Store: w.store, Hub: w.hub, PublicURL: "http://127.0.0.1:1", SessionKey: []byte(strings.Repeat("k", 32))}))(t)
	for _, r := range h.Routes() {
		if r.Method == http.MethodGet || strings.HasPrefix(r.Pattern, "/api/") || r.Pattern == "/logout" {
			continue
		}
		for _, c := range cases {
			a := b.post(t, somewhere(r.Pattern), url.Values{}, c.headers...)
			if refused := a.StatusCode == http.StatusForbidden && strings.Contains(a.body, "another site"); refused != c.refused {
				t.Errorf("POST %s with %v: %d, refused %t", r.Pattern, c.headers, a.StatusCode, refused)
			}
		}
	}
}

// B3: requests for another host are not answered.
func TestHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for host, want := range map[string]int{
		"": 200, "evil.example": 421, "evil.example:80": 421, strings.TrimPrefix(w.url, "http://") + ".evil.example": 421, "localhost": 421, "127.0.0.1": 421,
	} {
		req := got(http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/login", nil))(t)
		req.Host = host
		if a := w.browser().do(t, req); a.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, a.StatusCode, want)
		}
	}
}

// O13: whatever somebody asks to come back to, it is a path of ours.
func TestReturnPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	bad := []string{
		"//evil.example", "///evil.example", `/\evil.example`, `\/evil.example`, `\\evil.example`, "https://evil.example", "https:evil.example", "http:/evil.example", "evil.example",
		"javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "/%09/evil.example", "/\t/evil.example", "/%0d%0aSet-Cookie:%20a=b", "/\r\nX: y", "/%5cevil.example", "/%2f/evil.example",
		"/%2f%2fevil.example", " /inbox", "/inbox\x00", "?x=//evil.example", "#/evil", "", "/" + strings.Repeat("a", 3000), "/日本", "/login", "/login?return_to=/login", "/logout", "/auth/oidc/x/callback",
		"http://127.0.0.1/", "//127.0.0.1", "/ /evil.example", "/\u2028/evil", "mailto:a@b", "file:///etc/passwd", "/@evil.example:80//", "/..//evil.example",
	}
	for _, to := range bad {
		loc := b.get(t, "/login?return_to="+url.QueryEscape(to)).want(t, http.StatusSeeOther).Header.Get("Location")
		u := got(url.Parse(loc))(t)
		if loc != "/" && (u.Host != "" || u.Scheme != "" || !strings.HasPrefix(loc, "/") || strings.HasPrefix(loc, "//") || strings.ContainsAny(loc, "\\\r\n\t ") || strings.Contains(u.Path, "//")) {
			t.Errorf("%q leads to %q", to, loc)
		}
	}
	for _, to := range []string{"/inbox", "/runs?state=FAILED&q=a%20b", "/gates/gate_1"} {
		if loc := b.get(t, "/login?return_to="+url.QueryEscape(to)).Header.Get("Location"); loc != to {
			t.Errorf("%q leads to %q", to, loc)
		}
	}
}

// T1, T2: another tenant's objects are not there, for every read of the contract.
func TestTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.worker(t, "one")
	w.signedIn(t, rita).submit(t, "The canary: replace one word.")
	gate, run := w.waiting(t, k)
	user := w.user(t, adam)
	other := w.tenant(t, "other", user.User)
	secret := db.Mint(db.PrefixLogin)
	must(t, second(w.store.CreateToken(t.Context(), db.Token{Tenant: other, User: user.User, Login: true, Name: "o", AuthTime: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}, secret)))
	stranger := client{w, secret}
	info := got(w.store.RunInfo(t.Context(), db.DefaultTenant, got(typeid.Parse(typeid.Run, run))(t)))(t)
	artifacts := got(w.store.Artifacts(t.Context(), db.DefaultTenant, info.ID))(t)
	ids := strings.NewReplacer("{run_id}", run, "{gate_id}", gate, "{task_id}", typeid.Format(typeid.Task, info.Task), "{repository_id}", typeid.Format(typeid.Repo, w.repo),
		"{artifact_id}", typeid.Format(typeid.Artifact, artifacts[0].ID))
	doc := got(api.Parse())(t)
	for _, op := range doc.Operations() {
		if op.Method != http.MethodGet || strings.Contains(op.Path, "{token_id}") || strings.Contains(op.Path, "{pull_id}") {
			continue
		}
		a := stranger.call(t, op.Method, ids.Replace(op.Path), nil)
		if strings.Contains(op.Path, "{") && !strings.Contains(op.Path, "local-forge") && a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", op.OperationID, a.StatusCode)
		}
		if strings.Contains(a.body, "canary") || strings.Contains(a.body, run) || strings.Contains(a.body, "acme/api") {
			t.Errorf("%s shows another tenant's data: %s", op.OperationID, a.body)
		}
	}
}

// tenant adds a tenant in which one person is everything.
func (w *world) tenant(t testing.TB, name string, user uuid.UUID) uuid.UUID {
	t.Helper()
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	id := typeid.New()
	got(conn.Exec(t.Context(), "INSERT INTO tenants (id, name) VALUES ($1, $2)", id, name))(t)
	got(conn.Exec(t.Context(), "INSERT INTO memberships (tenant_id, user_id, roles) VALUES ($1, $2, '{viewer,requester,approver,admin}')", id, user))(t)
	return id
}
