package handlers_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/handlers"
	"signalbox/internal/artifact"
	"signalbox/internal/dbtest"
	"signalbox/internal/egress"
	"signalbox/internal/feed"
	"signalbox/internal/forge"
	"signalbox/internal/git"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/secret"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is one server over a real database, with an identity provider beside it.
type world struct {
	t         *testing.T
	data      dbtest.Database
	store     *db.Store
	hub       *feed.Hub
	url       string
	idp       *idp
	provider  uuid.UUID
	repo      uuid.UUID
	log       *syncBuffer
	forge     string
	artifacts *artifact.Store
	blobs     string // the folder of the artifacts
	app       http.Handler
	vitals    *syncBuffer // what browsers told, a line for each
	// auditFault is what is found wrong with everybody's audit log.
	auditFault atomic.Pointer[string]
}

// syncBuffer collects the log, so that tests can look for what must never be in it.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, data: dbtest.New(t), log: &syncBuffer{}, vitals: &syncBuffer{}}
	ctx := t.Context()
	var err error
	// No test here waits for the end of a lease, and none is to lose one because the machine is slow.
	w.store, err = db.Open(ctx, db.Options{URL: w.data.EngineURL, AppURL: w.data.AppURL, MaxConns: 12, Keys: keys(t), Timing: db.Timing{LeaseTTL: 10 * time.Minute, BackoffScale: 0.01}})
	must(t, err)
	t.Cleanup(w.store.Close)
	log := slog.New(slog.NewJSONHandler(w.log, nil))
	w.hub = feed.New(w.store, log)
	hubCtx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.hub.Run(hubCtx) }()
	t.Cleanup(func() { stop(); <-done })
	w.blobs = filepath.Join(t.TempDir(), "blobs")
	artifacts, err := artifact.Open(ctx, "file://"+w.blobs)
	must(t, err)
	t.Cleanup(func() { must(t, artifacts.Close()) })
	w.artifacts = artifacts

	server := httptest.NewUnstartedServer(nil)
	w.url = "http://" + server.Listener.Addr().String()
	local := w.newForge()
	w.idp = newIDP(t)
	h, err := handlers.New(handlers.Options{
		Forge: local, Store: w.store, Hub: w.hub, Artifacts: artifacts, PublicURL: w.url, SessionKey: bytes.Repeat([]byte("k"), 32), OldSessionKey: bytes.Repeat([]byte("o"), 32), Log: log, Rates: unbounded,
		ProviderAllow: got(egress.ParseAllow("test", []string{"127.0.0.1:*"}))(t),
		Vitals:        func(route, vital string, value float64) { fmt.Fprintf(w.vitals, "%s %s %g\n", route, vital, value) },
		AuditFault: func(uuid.UUID) string {
			if words := w.auditFault.Load(); words != nil {
				return *words
			}
			return ""
		},
		Admin: handlers.Subject{Issuer: w.idp.url, Subject: "root"},
	})
	must(t, err)
	server.Config.Handler, w.app = h, h
	server.Start()
	t.Cleanup(func() { h.Drain(); server.Close() })

	w.provider, err = w.store.SaveProvider(ctx, db.Provider{
		Name: "test", Issuer: w.idp.url, ClientID: clientID, ClientSecret: secret.New("secret"), GroupsClaim: "groups",
		Groups: map[string][]policy.Role{"requesters": {policy.RoleRequester}, "approvers": {policy.RoleApprover}, "admins": {policy.RoleAdmin}, "viewers": {policy.RoleViewer}},
	})
	must(t, err)
	repo, err := w.store.CreateRepository(ctx, db.DefaultTenant, uuid.Nil, db.RepositoryInfo{
		Name: "acme/api", Forge: db.LocalForge, CloneURL: "acme/api.git", DefaultBranch: "main", Verification: []run.Check{{Name: "test", Kind: "test", Argv: []string{"true"}}},
	})
	must(t, err)
	w.repo = repo.ID
	return w
}

// newForge makes a folder with one bare repository.
func (w *world) newForge() *forge.Local {
	w.t.Helper()
	w.forge = w.t.TempDir()
	w.git("init", "--quiet", "--bare", "--initial-branch=main", "acme/api.git")
	blob := w.gitIn("one\n", "--git-dir=acme/api.git", "hash-object", "-w", "--stdin")
	tree := w.gitIn("100644 blob "+blob+"\ta.txt\n", "--git-dir=acme/api.git", "mktree")
	if sha := w.commit(tree, "main", "first"); sha != baseCommit {
		w.t.Fatalf("the first commit is %s", sha)
	}
	g, err := git.New(w.t.Context(), git.Config{Home: filepath.Join(w.t.TempDir(), "git"), LocalRoot: w.forge})
	must(w.t, err)
	return got(forge.NewLocal(g, w.forge))(w.t)
}

// commit puts a commit on a branch of the repository and returns it.
func (w *world) commit(tree, branch, message string, parents ...string) string {
	w.t.Helper()
	args := []string{"--git-dir=acme/api.git", "-c", "user.name=t", "-c", "user.email=t@example.test", "commit-tree", tree, "-m", message}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	sha := w.git(args...)
	w.git("--git-dir=acme/api.git", "update-ref", "refs/heads/"+branch, sha)
	return sha
}

// applied is the tree that a patch on the first commit gives.
func (w *world) applied(patch string) string {
	w.t.Helper()
	return w.appliedTo(baseCommit, patch)
}

// appliedTo is the tree that a patch on a commit gives.
func (w *world) appliedTo(commit, patch string) string {
	w.t.Helper()
	w.git("--git-dir=acme/api.git", "read-tree", commit)
	w.gitIn(patch, "--git-dir=acme/api.git", "apply", "--cached", "-")
	return w.git("--git-dir=acme/api.git", "write-tree")
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	return w.gitIn("", args...)
}

func (w *world) gitIn(stdin string, args ...string) string {
	w.t.Helper()
	const then = "2026-11-01T12:00:00Z"
	c := exec.CommandContext(w.t.Context(), "git", args...)
	c.Dir, c.Stdin = w.forge, strings.NewReader(stdin)
	c.Env = []string{"PATH=/usr/bin:/bin:/usr/local/bin", "HOME=" + w.forge, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE=" + then, "GIT_COMMITTER_DATE=" + then}
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func got[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// browser is a person with a cookie jar. It follows no redirect by itself.
type browser struct {
	*http.Client
	w *world
}

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	must(w.t, err)
	return &browser{w: w, Client: &http.Client{Jar: jar, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	body string
}

func (b *browser) do(t testing.TB, r *http.Request) answer {
	t.Helper()
	res, err := b.Do(r)
	must(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	return answer{res, string(body)}
}

func (b *browser) get(t testing.TB, path string, headers ...string) answer {
	t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = b.w.url + path
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	must(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return b.do(t, r)
}

func (b *browser) post(t testing.TB, path string, form url.Values, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.w.url+path, strings.NewReader(form.Encode()))
	must(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return b.do(t, r)
}

func (a answer) page(t testing.TB) *goquery.Document {
	t.Helper()
	doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.body))
	must(t, err)
	return doc
}

func (a answer) want(t testing.TB, code int) answer {
	t.Helper()
	if a.StatusCode != code {
		t.Fatalf("%s %s: %d, want %d\n%s", a.Request.Method, a.Request.URL.Path, a.StatusCode, code, a.body)
	}
	return a
}

// login walks the code flow as a browser does and returns the address it ends at.
func (b *browser) login(t testing.TB, p idPerson, returnTo string) answer {
	t.Helper()
	b.w.idp.signInAs(p)
	a := b.get(t, "/login/"+typeid.Format(typeid.Provider, b.w.provider)+"?return_to="+url.QueryEscape(returnTo)).want(t, http.StatusFound)
	a = b.get(t, a.Header.Get("Location")).want(t, http.StatusFound)
	return b.get(t, a.Header.Get("Location"))
}

func (w *world) signedIn(t testing.TB, p idPerson) *browser {
	t.Helper()
	b := w.browser()
	b.login(t, p, "/inbox").want(t, http.StatusSeeOther)
	return b
}

// The people of most tests.
var (
	rita = idPerson{sub: "rita", name: "Rita Requester", groups: []string{"requesters"}}
	ana  = idPerson{sub: "ana", name: "Ana Approver", groups: []string{"approvers"}}
	ben  = idPerson{sub: "ben", name: "Ben Approver", groups: []string{"approvers"}}
	adam = idPerson{sub: "adam", name: "Adam Admin", groups: []string{"admins"}}
	vera = idPerson{sub: "vera", name: "Vera Viewer", groups: []string{"viewers"}}
)

// client is a client of the JSON API.
type client struct {
	w     *world
	token string
}

func (c client) call(t testing.TB, method, path string, body any, headers ...string) answer {
	t.Helper()
	var content io.Reader = http.NoBody
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		must(t, err)
		content = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, c.w.url+"/api/v1"+path, content)
	must(t, err)
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPost {
		r.Header.Set("Idempotency-Key", rand.Text())
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return c.w.browser().do(t, r)
}

// into decodes an answer.
func into[T any](t testing.TB, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	return v
}

// person makes an sbp_ login for somebody who signed in before.
func (w *world) cli(t testing.TB, p idPerson) client {
	t.Helper()
	s := w.user(t, p)
	secret := db.Mint(db.PrefixLogin)
	_, err := w.store.CreateToken(t.Context(), db.Token{Tenant: s.Tenant, User: s.User, Login: true, Name: "test", AuthTime: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}, secret)
	must(t, err)
	return client{w, secret}
}

func (w *world) token(t testing.TB, p idPerson, scopes ...string) client {
	t.Helper()
	s := w.user(t, p)
	secret := db.Mint(db.PrefixToken)
	_, err := w.store.CreateToken(t.Context(), db.Token{Tenant: s.Tenant, User: s.User, Name: "test", Scopes: scopes, ExpiresAt: time.Now().Add(time.Hour)}, secret)
	must(t, err)
	return client{w, secret}
}

func (w *world) user(t testing.TB, p idPerson) db.Session {
	t.Helper()
	s, err := w.store.SignIn(t.Context(), db.SignIn{Provider: w.provider, Subject: p.sub, Name: p.name, Groups: p.groups, AuthTime: time.Now()})
	must(t, err)
	return s
}

func (w *world) worker(t testing.TB, name string) *worker {
	t.Helper()
	return w.workerOf(t, db.DefaultTenant, name)
}

// workerOf is a worker of a tenant; of uuid.Nil, one that serves them all.
func (w *world) workerOf(t testing.TB, tenant uuid.UUID, name string) *worker {
	t.Helper()
	secret := db.Mint(db.PrefixWorker)
	_, err := w.store.CreateWorkerCredential(t.Context(), db.WorkerCredential{Tenant: tenant, Name: name, Phases: run.Phases()}, secret)
	must(t, err)
	k := &worker{client: client{w, secret}}
	boot := into[wire.WorkerBoot](t, k.call(t, "POST", "/workers/register", wire.WorkerRegister{Capabilities: []string{"agent:default"},
		Name: name, Version: "test", Phases: []wire.Phase{"execute", "verify", "publish"}, Isolation: wire.Bwrap, MaxConcurrentRuns: 4,
	}).want(t, http.StatusCreated))
	k.boot = boot.BootId
	return k
}

// unbounded lets a few people of a test ask as much as a whole company.
var unbounded = handlers.Rates{Requests: -1, Logins: -1}

// keys is the ring of this package's tests: always the same, so that a replica opens what another server sealed.
func keys(t testing.TB) secret.Ring {
	t.Helper()
	sum := sha256.Sum256([]byte("the tests' key"))
	return got(secret.ParseRing("test:" + base64.StdEncoding.EncodeToString(sum[:])))(t)
}
