package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/config"
	"signalbox/internal/dbtest"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/wire"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// shell is a terminal of a person at a running server.
type shell struct {
	t     *testing.T
	url   string
	store *db.Store
	env   map[string]string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	d := dbtest.New(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	s := &shell{t: t, url: "http://" + listener.Addr().String(), env: map[string]string{}}
	s.store, err = db.Open(t.Context(), db.Options{URL: d.EngineURL, AppURL: d.AppURL, MaxConns: 2})
	must(t, err)
	t.Cleanup(s.store.Close)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- serveProduct(ctx, product{Listener: listener, Log: slog.New(slog.DiscardHandler), Config: config.Server{
			PublicURL: s.url, DatabaseURL: config.NewSecret(d.EngineURL), DatabaseAppURL: config.NewSecret(d.AppURL), ArtifactURL: "file://" + filepath.Join(t.TempDir(), "blobs"),
			SessionKey: config.NewSecret(strings.Repeat("k", 32)), Currency: "CHF", ReaperTick: 100 * time.Millisecond, ShutdownGrace: 5 * time.Second,
		}})
	}()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	s.env["SIGNALBOX_SERVER_URL"], s.env["XDG_CONFIG_HOME"] = s.url, t.TempDir()
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// as signs somebody in by a token in the environment.
func (s *shell) as(name string, roles ...policy.Role) *shell {
	s.t.Helper()
	provider, err := s.store.SaveProvider(s.t.Context(), db.Provider{Name: "p", Issuer: "https://idp.example", ClientID: "c", GroupsClaim: "groups", Groups: map[string][]policy.Role{name: roles}})
	must(s.t, err)
	who, err := s.store.SignIn(s.t.Context(), db.SignIn{Provider: provider, Subject: name, Name: name, Groups: []string{name}, AuthTime: time.Now()})
	must(s.t, err)
	secret := db.Mint(db.PrefixLogin)
	_, err = s.store.CreateToken(s.t.Context(), db.Token{Tenant: who.Tenant, User: who.User, Login: true, Name: "t", AuthTime: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}, secret)
	must(s.t, err)
	other := *s
	other.env = map[string]string{"SIGNALBOX_SERVER_URL": s.url, "XDG_CONFIG_HOME": s.env["XDG_CONFIG_HOME"], "SIGNALBOX_TOKEN": secret}
	return &other
}

func (s *shell) run(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = execute(s.t.Context(), args, terminal{In: strings.NewReader("from standard input\n"), Out: &o, Err: &e, Env: func(name string) (string, bool) { v, ok := s.env[name]; return v, ok }})
	return code, o.String(), e.String()
}

// ok runs a command that must work.
func (s *shell) ok(args ...string) string {
	s.t.Helper()
	code, out, errs := s.run(args...)
	if code != 0 {
		s.t.Fatalf("%v: exit %d\n%s%s", args, code, out, errs)
	}
	return out
}

// no runs a command that must not, and wants its words.
func (s *shell) no(words string, args ...string) {
	s.t.Helper()
	code, out, errs := s.run(args...)
	if code == 0 || !strings.Contains(errs, words) {
		s.t.Errorf("%v: exit %d, want words %q\n%s%s", args, code, words, out, errs)
	}
}

// Every command that speaks the API, against a real server.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.no("you are not signed in", "task", "list")
	rita, ana, adam := s.as("rita", policy.RoleRequester), s.as("ana", policy.RoleApprover), s.as("adam", policy.RoleAdmin)
	if out := rita.ok("whoami"); !strings.Contains(out, "rita") || !strings.Contains(out, "person") {
		t.Errorf("whoami: %s", out)
	}
	_, err := s.store.CreateRepository(t.Context(), db.DefaultTenant, [16]byte{}, db.RepositoryInfo{Name: "acme/api", Forge: db.LocalForge, CloneURL: "acme/api.git", DefaultBranch: "main", Verification: []run.Check{{Name: "t", Argv: []string{"true"}}}})
	must(t, err)
	if out := adam.ok("repository", "list"); !strings.Contains(out, "acme/api") {
		t.Errorf("repository list: %s", out)
	}
	// R-Q-9: advice, queues and workers on the command line.
	if out := rita.ok("workers", "advise"); !strings.Contains(out, "sandbox slots") || !strings.Contains(out, "nothing waits") {
		t.Errorf("workers advise: %s", out)
	}
	if out := rita.ok("workers", "list"); !strings.HasPrefix(out, "WORKER") {
		t.Errorf("workers list: %s", out)
	}
	rita.no("needs the role admin", "queue", "pause", "default", "--reason", "No.")
	adam.ok("queue", "pause", "default", "--reason", "The registry is down.")
	if out := rita.ok("queue", "list"); !strings.Contains(out, "paused by adam") || !strings.Contains(out, "The registry is down.") {
		t.Errorf("queue list: %s", out)
	}
	adam.no("is paused already", "queue", "pause", "default", "--reason", "Again.")
	adam.ok("queue", "resume", "default")
	if out := rita.ok("providers", "list"); !strings.HasPrefix(out, "PROVIDER") {
		t.Errorf("providers list: %s", out)
	}
	rita.no("needs the role admin", "providers", "resume", "stoic")
	adam.no("is not paused", "providers", "resume", "stoic")
	adam.no("no name of a provider", "providers", "resume", "a b")
	adam.no("no such worker", "workers", "drain", "wrk_01m8m1aqhhfh1vgchmwcf2qjxb")
	rita.no("no repository named", "task", "submit", "--repository", "nothing", "--title", "t", "--goal", "g")
	ana.no("needs the role requester", "task", "submit", "--repository", "acme/api", "--title", "t", "--goal", "g")
	var task wire.Task
	must(t, json.Unmarshal([]byte(rita.ok("task", "submit", "--json", "--repository", "acme/api", "--title", "A \x1b[31mred\x1b[0m title", "--goal", "-", "--key", "the-key-of-this")), &task))
	if task.Goal != "from standard input" {
		t.Errorf("goal %q", task.Goal)
	}
	var again wire.Task
	must(t, json.Unmarshal([]byte(rita.ok("task", "submit", "--json", "--repository", "acme/api", "--title", "A \x1b[31mred\x1b[0m title", "--goal", "-", "--key", "the-key-of-this")), &again))
	if again.Id != task.Id {
		t.Error("a repeated key made another task")
	}
	if out := rita.ok("task", "list", "--mine"); !strings.Contains(out, task.Id) || strings.Contains(out, "\x1b") {
		t.Errorf("task list lacks the task, or sends control characters to the terminal: %q", out)
	}
	if out := rita.ok("task", "preview", "--repository", "acme/api", "--title", "t", "--goal", "-"); !strings.Contains(out, "Policy would") || !strings.Contains(out, "Patch: 1 approval by the role approver") || !strings.Contains(out, "at most") || !strings.Contains(out, "10.00\u00a0CHF of cost") {
		t.Errorf("task preview: %s", out)
	}
	ana.no("needs the role requester", "task", "preview", "--repository", "acme/api", "--title", "t", "--goal", "g")
	out := rita.ok("run", "list", "--task", task.Id)
	id := regexp.MustCompile(`run_\w+`).FindString(out)
	if id == "" {
		t.Fatalf("run list: %s", out)
	}
	if out := rita.ok("run", "events", id); !strings.Contains(out, "QUEUED") {
		t.Errorf("run events: %s", out)
	}
	// R-COST-1: amounts are in the currency that the server counts in.
	if out := rita.ok("run", "cost", id); strings.Count(out, " 0.00\u00a0CHF") != 2 || !strings.Contains(out, " 10.00\u00a0CHF") {
		t.Errorf("run cost: %s", out)
	}
	rita.no("has not stored a patch", "run", "patch", id)
	if out := rita.ok("run", "cancel", id, "--reason", "a test"); !strings.Contains(out, "CANCELLED") {
		t.Errorf("run cancel: %s", out)
	}
	if out := rita.ok("task", "show", task.Id); !strings.Contains(out, "READY") {
		t.Errorf("task show: %s", out)
	}
	if out := rita.ok("task", "run", task.Id); !strings.Contains(out, "run_") {
		t.Errorf("task run: %s", out)
	}
	rita.ok("task", "cancel", task.Id)
	if out := ana.ok("gate", "list"); !strings.HasPrefix(out, "GATE") {
		t.Errorf("gate list: %s", out)
	}
	ana.no("There is no such gate", "gate", "approve", "gate_01m8m1aqhhfh1vgchmwcf2qjxb", "--digest", "00000000")
	for _, args := range [][]string{{"snooze", "--for", "4h"}, {"snooze", "--until", "2099-01-04T09:00:00Z"}, {"wake"}, {"claim"}, {"release"}, {"pass"}, {"pass", "Ben"}} {
		ana.no("There is no such gate", append([]string{"gate", args[0], "gate_01m8m1aqhhfh1vgchmwcf2qjxb"}, args[1:]...)...)
	}
	minted := adam.ok("worker-credential", "create", "w", "--phase", "verify")
	if !strings.Contains(minted, "sbw_") {
		t.Errorf("worker-credential create: %s", minted)
	}
	adam.ok("worker-credential", "revoke", regexp.MustCompile(`wrk_\w+`).FindString(minted))
	rita.no("needs the role admin", "worker-credential", "list")
	token := rita.ok("token", "create", "ci", "--scope", "read", "--days", "3")
	with := *s
	with.env = map[string]string{"SIGNALBOX_SERVER_URL": s.url, "SIGNALBOX_TOKEN": regexp.MustCompile(`sbt_\w+`).FindString(token)}
	with.ok("task", "list")
	with.no("does not have the scope", "task", "cancel", task.Id)
	rita.ok("token", "revoke", regexp.MustCompile(`tok_\w+`).FindString(token))
	with.no("unknown, expired or revoked", "task", "list")
	var draft wire.Task
	must(t, json.Unmarshal([]byte(rita.ok("task", "submit", "--json", "--draft", "--repository", "acme/api", "--title", "t", "--goal", "g")), &draft))
	if out := rita.ok("task", "run", draft.Id); !strings.Contains(out, "run_") || strings.Contains(out, "DRAFT") {
		t.Errorf("task run of a draft: %s", out)
	}
}

func TestWordsThatAreNotUnderstood(t *testing.T) {
	t.Parallel()
	s := &shell{t: t}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"tsk"}, "signalbox: unexpected argument tsk, did you mean \"task\"? Nothing was done; signalbox --help says what there is.\n"},
		{[]string{"task", "lst"}, "signalbox: unexpected argument lst, did you mean \"list\"? Nothing was done; signalbox task --help says what there is.\n"},
		{[]string{"task", "show"}, "signalbox: expected \"<task>\". Nothing was done; signalbox task show --help says what there is.\n"},
	} {
		if code, _, errs := s.run(c.args...); code != 2 || errs != c.want {
			t.Errorf("%v: exit %d, %q, want 2 and %q", c.args, code, errs, c.want)
		}
	}
	if code, out, errs := s.run(); code != 0 || !strings.Contains(out, "task submit") || errs != "" {
		t.Errorf("no words at all: exit %d, %q, %q, want the help", code, out, errs)
	}
	var said bytes.Buffer
	warnUnknown(&said, []string{"SIGNALBOX_ADRR=x", "SIGNALBOX_ADDR=y", "HOME=/"})
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "SIGNALBOX_ADRR") {
		t.Errorf("a misspelt variable: %q", got)
	}
}

// The kept login is for its owner alone.
func TestKeptLogin(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	path := filepath.Join(s.env["XDG_CONFIG_HOME"], "signalbox", "logins.json")
	must(t, writeLogins(path, logins{s.url: s.as("rita", policy.RoleRequester).env["SIGNALBOX_TOKEN"]}))
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	s.ok("whoami")
	must(t, os.Chmod(path, 0o644))
	s.no("can be read by others", "whoami")
	must(t, os.Chmod(path, 0o600))
	s.ok("logout")
	s.no("you are not signed in", "whoami")
}

// `signalbox login` waits for exactly the answer of its own state, and no stranger's.
func TestLoginWaitsForItsOwnAnswer(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	codes := make(chan string, 1)
	go func() {
		code, err := awaitCode(t.Context(), listener, "the-state")
		if err != nil {
			code = err.Error()
		}
		codes <- code
	}()
	jar, err := cookiejar.New(nil)
	must(t, err)
	client := &http.Client{Jar: jar, Timeout: 10 * time.Second}
	for _, q := range []url.Values{{"state": {"another"}, "code": {"evil"}}, {"code": {"evil"}}, {"state": {"the-state"}}, {"state": {"the-state"}, "code": {"right"}}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/callback?"+q.Encode(), nil)
		must(t, err)
		res, err := client.Do(req)
		must(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		must(t, err)
		must(t, res.Body.Close())
	}
	if code := <-codes; code != "right" {
		t.Errorf("code %q", code)
	}
}
