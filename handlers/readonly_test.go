package handlers_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/handlers"
	"signalbox/internal/policy"
)

// S7, S9: no GET changes anything. Every GET route is asked for twice, with ids of what exists, by people of every role, a token
// and a worker, of a server whose database refuses writes: none fails by that, and no row is another afterwards.
func TestGetsWriteNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	there := w.existing(t)
	there[policyVersion] = policy.DefaultVersion
	all := idPerson{sub: "all", name: "All", groups: []string{"viewers", "requesters", "approvers", "admins"}}
	callers := []caller{
		{name: "a person with every role", cookie: w.signedIn(t, all)}, {name: "a viewer", cookie: w.signedIn(t, vera)}, {name: "nobody"},
		{name: "a login", token: w.cli(t, all).token}, {name: "a token", token: w.token(t, all, "read").token}, {name: "a worker", token: w.worker(t, "reader").token},
	}
	// When a credential was used last is noted once a minute by whoever asks who is calling, before any route: not here.
	for _, change := range []string{"sessions SET last_seen_at", "api_tokens SET last_used_at", "worker_credentials SET last_used_at"} {
		got(conn.Exec(t.Context(), "UPDATE "+change+" = now() + interval '1 hour'"))(t)
	}
	frozen := w.frozen(t)

	// A login begins and ends by GET, as its protocol has it: the way to the provider and back. Each is worth something once.
	begins := []string{"/login/{provider}", "/login/confirm", "/auth/oidc/{provider}/callback"}
	before := w.rows(t, conn, "")
	routes, asked, found := 0, 0, map[string]bool{}
	for _, r := range w.routes(t) {
		if r.Method != http.MethodGet || slices.Contains(begins, r.Pattern) {
			continue
		}
		routes++
		for _, c := range callers {
			if api := strings.HasPrefix(r.Pattern, "/api/v1/"); api && c.cookie != nil || !api && c.token != "" {
				continue
			}
			for range 2 {
				asked++
				code, kind := frozen.status(t, c, there.into(r.Pattern)+asks[r.Pattern])
				if code >= http.StatusInternalServerError {
					t.Errorf("GET %s as %s of a database that refuses writes: %d", there.into(r.Pattern), c.name, code)
				}
				found[r.Pattern] = found[r.Pattern] || code == http.StatusOK || kind == "text/event-stream"
			}
		}
	}
	same(t, before, w.rows(t, conn, ""))
	// A route that nobody found anything by proves nothing.
	for pattern, ok := range found {
		if !ok && !unseen[pattern] {
			t.Errorf("GET %s found nothing for anybody", pattern)
		}
	}
	t.Logf("%d GET routes, %d requests, of %d tables none changed", routes, asked, len(before))
}

// asks are queries without which a route shows nothing.
var asks = map[string]string{"/policies/diff": "?from=" + policy.DefaultVersion + "&to=" + policy.DefaultVersion}

// unseen are routes for which a published run has nothing to show.
var unseen = map[string]bool{
	"/":                             true, // leads on to /inbox or /login
	"/become-admin":                 true, // a link's cookie belongs to it
	"/become-admin/{link}":          true, // leads on to /become-admin
	"/cli-login":                    true, // a command line's address belongs into its query
	"/dev/gallery":                  true, // of dev mode alone
	"/f/gates/{id}/files/{n}/lines": true, // of files with lines between its hunks
	"/f/pulls/{id}/files/{n}/lines": true, // the same
}

// frozen is a second server beside the world's own, whose database refuses writes.
type frozen struct{ url string }

func (w *world) frozen(t *testing.T) frozen {
	t.Helper()
	refusing := func(address string) string {
		u := got(url.Parse(address))(t)
		q := u.Query()
		q.Set("default_transaction_read_only", "on")
		u.RawQuery = q.Encode()
		return u.String()
	}
	store := got(db.Open(t.Context(), db.Options{URL: refusing(w.data.EngineURL), AppURL: refusing(w.data.AppURL), MaxConns: 8, Keys: keys(t)}))(t)
	t.Cleanup(store.Close)
	// It does refuse.
	if _, err := store.SaveProvider(t.Context(), db.Provider{Name: "x", Issuer: "https://x.example", Groups: map[string][]policy.Role{}}); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Fatalf("a write: %v", err)
	}
	server := httptest.NewUnstartedServer(nil)
	f := frozen{"http://" + server.Listener.Addr().String()}
	h := got(handlers.New(handlers.Options{Forge: nil, Store: store, Hub: w.hub, Artifacts: w.artifacts, PublicURL: f.url, SessionKey: bytes.Repeat([]byte("k"), 32), Rates: unbounded}))(t)
	server.Config.Handler = h
	server.Start()
	t.Cleanup(func() { h.Drain(); server.Close() })
	return f
}

// status asks and does not wait for the end of a stream.
func (f frozen) status(t testing.TB, c caller, path string) (int, string) {
	t.Helper()
	b := c.cookie
	if b == nil {
		b = &browser{Client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	req := got(http.NewRequestWithContext(ctx, http.MethodGet, f.url+path, nil))(t)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res := got(b.Do(req))(t)
	defer res.Body.Close()
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if kind == "text/event-stream" {
		return res.StatusCode, kind
	}
	got(bytes.NewBuffer(nil).ReadFrom(res.Body))(t)
	return res.StatusCode, kind
}
