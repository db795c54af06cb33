package e2e_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// search looks for secrets in the places that others than their owners can see.
type search struct {
	t      *testing.T
	forms  map[string][]string // by name: the value and how it may be written
	places map[string]int      // bytes looked at
	hits   int
}

func newSearch(t *testing.T, minted map[string]string) *search {
	s := &search{t: t, forms: map[string][]string{}, places: map[string]int{}}
	for name, value := range minted {
		s.forms[name] = []string{value, url.QueryEscape(value), hex.EncodeToString([]byte(value)), base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value))}
	}
	return s
}

func (s *search) in(place, where string, content []byte) {
	s.t.Helper()
	s.places[place] += len(content)
	for name, forms := range s.forms {
		for _, form := range forms {
			if bytes.Contains(content, []byte(form)) {
				s.hits++
				s.t.Errorf("S10: %s (%s) holds the %s", place, where, name)
				break
			}
		}
	}
}

func (s *search) folder(place, dir string, want func(path string) bool) {
	s.t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !want(path) {
			return err
		}
		content, err := os.ReadFile(path)
		s.in(place, filepath.Base(path), content)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// S10, S6, W14: of all secrets that come to be around one run, none is in a log, in the database, among the artifacts, in a
// repository, in a pull request, on a page or among the metrics.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	const provider, registry = "sk-canary-Zq8vB3nX7tLmK2rW9dPf", "npm_canary+Y4/hG6sQ1jVc8eTuR5oA=="
	r := rig.New(t, rig.Options{Timing: steady(), Workers: -1, Agents: map[string]rig.Agent{"keyed": {
		Argv: []string{"sh", "-c", rig.Follow}, Plan: "auto", Wall: "2m", Grace: "1s", Secrets: map[string]string{"MODEL_KEY": provider, "REGISTRY_TOKEN": registry},
	}}})
	r.Mint("provider's key of the agent", provider)
	r.Mint("second secret of the agent", registry)
	monitoring := r.Reserve()
	server := r.ServeProcess("SIGNALBOX_METRICS_ADDR="+monitoring, "SIGNALBOX_LOG_LEVEL=DEBUG")
	worker := r.StartWorker(rig.WorkerOptions{})
	repo := r.Repository("acme/shop", rig.Shop())
	rita, ana, adam := r.Person("rita"), r.Person("ana"), r.Person("adam")

	// Tokens of every kind, as their owners get them: shown once, to them.
	token := regexp.MustCompile(`sb[petw]_[0-9A-Za-z]+`)
	shown := func(what string, page rig.Page) {
		t.Helper()
		text := token.FindString(page.Body)
		if text == "" {
			t.Fatalf("%s: answered %d and shows none: %s", what, page.Status, page.Alert())
		}
		r.Mint(what, text)
	}
	shown("API token", rita.Fill("/tokens", "/tokens", url.Values{"name": {"ci"}, "scopes": {"read"}}))
	shown("API token", adam.Fill("/tokens", "/tokens", url.Values{"name": {"ops"}, "scopes": {"read"}}))
	ctx := t.Context()
	login := r.CommandLine(adam)
	r.Mint("token that nobody has", db.Mint(db.PrefixToken))
	for _, secret := range []string{login, r.Minted()["token that nobody has"]} {
		client := got(wire.NewClientWithResponses(r.URL+"/api/v1", bearer(secret)))(t)
		if _, err := client.ListRunsWithResponse(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	admin := got(wire.NewClientWithResponses(r.URL+"/api/v1", bearer(login)))(t)
	phases := wire.WorkerCredentialCreate{Name: "canary", Phases: []wire.Phase{wire.Execute}}
	made := got(admin.CreateWorkerEnrolmentWithResponse(ctx, &wire.CreateWorkerEnrolmentParams{IdempotencyKey: "canary-enrolment"}, phases))(t)
	if made.JSON201 == nil {
		t.Fatalf("make an enrolment token: %s", made.Body)
	}
	enrolled := got(admin.EnrolWorkerWithResponse(ctx, wire.WorkerEnrol{Token: r.Mint("enrolment token", made.JSON201.Secret)}))(t)
	if enrolled.JSON201 == nil {
		t.Fatalf("enrol: %s", enrolled.Body)
	}
	r.Mint("worker credential", enrolled.JSON201.Secret)
	// A login that begins and does not end stays in the database.
	providers := got(r.Store.Providers(ctx))(t)
	if begun := got(r.NewBrowser().Get(ctx, "/login/"+typeid.Format(typeid.Provider, providers[0].ID)))(t); begun.Status != http.StatusOK {
		t.Fatalf("begin a login: answered %d", begun.Status)
	}

	goal := rig.Recipe("Raise the tax.",
		rig.Act{Do: "replace", File: "lib/price.sh", Old: "rate=19", New: "rate=20"},
		rig.Act{Do: "sh", New: `echo "$MODEL_KEY"; echo "key is $REGISTRY_TOKEN" >&2; env`},
	)
	_, run := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", AgentProfile: "keyed", Goal: goal})
	ana.Approve(r.AwaitGate(run))
	r.Await(run, wire.RunStateSUCCEEDED)

	s := newSearch(t, r.Minted())
	for _, who := range []*rig.Person{adam, rita} {
		c := &crawler{t: t, who: who, base: got(url.Parse(r.URL))(t), todo: []string{"/"}, from: map[string]string{"/": "-"}, pages: map[string]rig.Page{}, anchors: map[string]map[string]string{}}
		c.crawl()
		for path, page := range c.pages {
			s.in("pages", path, []byte(page.Body))
		}
	}
	res, err := http.Get("http://" + monitoring + "/metrics") //nolint:noctx // one look
	if err != nil {
		t.Fatal(err)
	}
	metrics := new(bytes.Buffer)
	if _, err := metrics.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	s.in("metrics", "/metrics", metrics.Bytes())
	dump := exec.CommandContext(ctx, pgDump(t), "--dbname", r.Database.SuperuserURL(t))
	sql, err := dump.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	s.in("database", "pg_dump", sql)
	worker.Terminate()
	server.Kill()
	s.folder("logs", r.Dir, func(path string) bool { return strings.HasSuffix(path, ".log") })
	s.folder("artifacts", filepath.Join(r.Dir, "artifacts"), func(string) bool { return true })
	s.folder("worker's folder", worker.Options.Dir, func(path string) bool { return filepath.Base(path) != "worker.yaml" })
	s.in("repository", "acme/shop", []byte(repo.Git("log", "--all", "--patch", "--format=fuller")))

	for _, place := range []string{"pages", "metrics", "database", "logs", "artifacts", "repository"} {
		if s.places[place] < 200 {
			t.Errorf("only %d bytes of %s were looked at", s.places[place], place)
		}
	}
	if len(s.forms) < 20 {
		t.Errorf("only %d secrets: %q", len(s.forms), slices.Sorted(maps.Keys(s.forms)))
	}
	t.Logf("S10: %d secrets in 5 spellings, %v bytes by place, %d found", len(s.forms), s.places, s.hits)
}

func pgDump(t *testing.T) string {
	t.Helper()
	found := got(filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump"))(t)
	if path, err := exec.LookPath("pg_dump"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		rig.NotExercised(t, "a dump of the database: there is no pg_dump")
	}
	return found[len(found)-1]
}

func bearer(secret string) wire.ClientOption {
	return wire.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+secret)
		return nil
	})
}
