package rig

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox/db"
	"signalbox/internal/artifact"
	"signalbox/internal/config"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/throwaway"
	"signalbox/internal/forge"
	"signalbox/internal/git"
	"signalbox/internal/oidc"
	"signalbox/internal/policy"
	"signalbox/internal/secret"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// Options of a rig. The zero value is the ordinary one.
type Options struct {
	// Durable gives the test a cluster of its own with fsync on, for tests that kill.
	Durable bool
	// Policy is a document put in force; its fields win over the defaults.
	Policy string
	// Tier of the workers; "" is bwrap, and where the machine cannot do that the test is not exercised.
	Tier string
	// Agents are profiles of worker.yaml besides "default", which follows the recipe in the goal (see Recipe).
	Agents map[string]Agent
	// Approvers is how many further people may approve: a1, a2, …
	Approvers int
	// Workers is how many workers with all phases are started; 0 is one, -1 none.
	Workers int
	// Failures says that the server may log errors, as it does when a test takes something away from it.
	Failures bool
	// Timing overrides the times below where its fields are set.
	Timing db.Timing
	// Patience is how long a step of a run may take; 0 is the constant of that name.
	Patience time.Duration
	// Caches, Env and Mounts go into worker.yaml as they are.
	Caches []Cache
	Env    map[string]string
	Mounts []Mount
}

// Times of every rig (D-14).
const (
	leaseTTL    = 2 * time.Second
	heartbeat   = 300 * time.Millisecond
	cancelGrace = time.Second
	backoff     = 0.01
)

// Rig is one running product.
type Rig struct {
	T   testing.TB
	Dir string
	// URL is the address that people use. It stays over restarts of the server.
	URL   string
	Store *db.Store
	// Owner is a pool of the database's owner, for looking.
	Owner    *pgxpool.Pool
	Database dbtest.Database
	// Cluster is set with Options.Durable.
	Cluster *throwaway.Cluster

	secretKeys string
	minted     *minted
	vitals     *sync.Map // what browsers measured, by route and vital
	options    Options
	artifacts  *artifact.Store
	forge      *forge.Local
	server     *server
	log        *log
	people     map[string]*Person
	api        *wire.ClientWithResponses
	workers    int
}

// New starts a product for t and stops it when t ends, after every run was replayed.
func New(t testing.TB, o Options) *Rig {
	t.Helper()
	o.Patience = cmp.Or(o.Patience, Patience)
	r := &Rig{vitals: &sync.Map{}, minted: &minted{}, T: t, options: o, people: map[string]*Person{}}
	r.folder()
	r.database()
	r.log = newLog(t, filepath.Join(r.Dir, "server.log"), o.Failures)
	r.storage()
	address := r.Reserve()
	r.URL = "http://" + address
	r.provider()
	r.StartServer()
	t.Cleanup(r.StopServer)
	t.Cleanup(r.audit)
	if o.Policy != "" {
		r.SetPolicy(o.Policy)
	}
	workers := o.Workers
	if workers == 0 {
		workers = 1
	}
	for range max(workers, 0) {
		r.StartWorker(WorkerOptions{})
	}
	return r
}

// For is the same running product for a subtest, whose failures are its own: people sign in anew there. Starting and
// stopping the server stays with the first.
func (r *Rig) For(t testing.TB) *Rig {
	t.Helper()
	sub := *r
	sub.T, sub.people, sub.server = t, map[string]*Person{}, nil
	return &sub
}

// For is the same repository for a subtest.
func (p *Repository) For(r *Rig) *Repository {
	return &Repository{Name: p.Name, r: r, bare: p.bare}
}

func (r *Rig) must(err error, what string) {
	r.T.Helper()
	if err != nil {
		r.T.Fatalf("rig: %s: %v", what, err)
	}
}

// folder is below the system's folder and not t.TempDir, which other users cannot pass through.
func (r *Rig) folder() {
	dir, err := os.MkdirTemp("", "sb-e2e-")
	r.must(err, "make a folder")
	r.T.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			r.T.Errorf("rig: %v", err)
		}
	})
	r.Dir = dir
	r.must(os.Chmod(dir, 0o755), "open the folder")
	for name, mode := range map[string]os.FileMode{"forge": 0o700, "artifacts": 0o700, "keys": 0o700, "signals": 0o755, "workers": 0o755} {
		r.must(os.Mkdir(filepath.Join(dir, name), mode), "make a folder")
		r.must(os.Chmod(filepath.Join(dir, name), mode), "open a folder")
	}
}

func (r *Rig) path(names ...string) string {
	return filepath.Join(append([]string{r.Dir}, names...)...)
}

func (r *Rig) database() {
	t := r.T
	if r.options.Durable {
		r.Database, r.Cluster = dbtest.NewCluster(t, throwaway.Options{Fsync: true})
	} else {
		r.Database = dbtest.New(t)
	}
	timing := r.options.Timing
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&timing.LeaseTTL, leaseTTL}, {&timing.Heartbeat, heartbeat}, {&timing.CancelGrace, cancelGrace}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if timing.BackoffScale == 0 {
		timing.BackoffScale = backoff
	}
	r.options.Timing = timing
	var err error
	r.Owner, err = pgxpool.New(t.Context(), r.Database.OwnerURL)
	r.must(err, "connect as the owner")
	t.Cleanup(r.Owner.Close)
}

// storage opens what outlives the server: blobs and the forge's repositories.
func (r *Rig) storage() {
	t := r.T
	var err error
	r.secretKeys = secret.NewKey("rig")
	keys, err := secret.ParseRing(r.secretKeys)
	r.must(err, "make a key for secrets")
	r.Store, err = db.Open(t.Context(), db.Options{URL: r.Database.EngineURL, AppURL: r.Database.AppURL, Timing: r.options.Timing, MaxConns: 24, Keys: keys, Log: r.log.slog})
	r.must(err, "open the store")
	t.Cleanup(r.Store.Close)
	r.artifacts, err = artifact.Open(t.Context(), "file://"+r.path("artifacts"))
	r.must(err, "open the artifacts")
	t.Cleanup(func() {
		if err := r.artifacts.Close(); err != nil {
			t.Errorf("rig: %v", err)
		}
	})
	g, err := git.New(t.Context(), git.Config{Home: r.path("git-home"), LocalRoot: r.path("forge")})
	r.must(err, "find git")
	r.forge, err = forge.NewLocal(g, r.path("forge"))
	r.must(err, "open the forge")
}

// Reserve picks a port below those that the system hands out by itself, so that it is there again after a restart.
func (r *Rig) Reserve() string {
	var err error
	for range 200 {
		var b [2]byte
		_, _ = rand.Read(b[:])
		address := fmt.Sprintf("127.0.0.1:%d", 12000+(int(b[0])<<8|int(b[1]))%20000)
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			r.must(l.Close(), "give the port back")
			return address
		}
	}
	r.must(err, "find a port")
	return ""
}

// provider serves the sample people, and as many more approvers as were asked for.
func (r *Rig) provider() {
	t := r.T
	l, err := net.Listen("tcp", "127.0.0.1:0")
	r.must(err, "listen for the provider")
	issuer, clientSecret := "http://"+l.Addr().String(), rand.Text()
	id, err := r.Store.SaveProvider(t.Context(), db.Provider{
		Name: "the sample people", Issuer: issuer, ClientID: "signalbox-e2e", ClientSecret: config.NewSecret(clientSecret), GroupsClaim: "groups", Dev: true,
		Groups: map[string][]policy.Role{
			"requester": {policy.RoleViewer, policy.RoleRequester},
			"approver":  {policy.RoleViewer, policy.RoleApprover},
			"admin":     {policy.RoleViewer, policy.RoleAdmin},
			"breaker":   {policy.RoleViewer, policy.RoleBreakglass},
		},
	})
	r.must(err, "save the provider")
	people := append(oidc.SamplePeople(), oidc.Person{Subject: "ruth", Name: "Ruth Both", Email: "ruth@example.test", Groups: []string{"requester", "approver"}},
		oidc.Person{Subject: "bea", Name: "Bea Breaker", Email: "bea@example.test", Groups: []string{"breaker"}})
	for i := range r.options.Approvers {
		n := fmt.Sprint(i + 1)
		people = append(people, oidc.Person{Subject: "a" + n, Name: "Approver " + n, Email: "a" + n + "@example.test", Groups: []string{"approver"}})
	}
	handler, err := oidc.New(oidc.Options{
		Issuer: issuer, ClientID: "signalbox-e2e", ClientSecret: clientSecret, KeyDir: r.path("keys"), People: people,
		RedirectURIs: []string{r.URL + "/auth/oidc/" + typeid.Format(typeid.Provider, id) + "/callback"},
	})
	r.must(err, "make the provider")
	r.minted.add("client secret", clientSecret)
	s := &http.Server{Handler: r.minted.watch(handler), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("rig: stop the provider: %v", err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("rig: the provider ended: %v", err)
		}
	})
}

// SetPolicy puts a policy document in force; fields that it does not name keep their defaults.
func (r *Rig) SetPolicy(document string) {
	r.T.Helper()
	rules, err := policy.Parse([]byte(document))
	r.must(err, "read the policy")
	_, err = r.Owner.Exec(r.T.Context(), `INSERT INTO policies (id, tenant_id, version, document) VALUES ($1, $2, $3, $4)`,
		typeid.New(), db.DefaultTenant, rules.Version, document)
	r.must(err, "store the policy")
}

// Signal lets agents that wait for a name (the action "await") go on.
func (r *Rig) Signal(name string) {
	r.T.Helper()
	r.must(os.WriteFile(r.path("signals", name), nil, 0o644), "signal")
}

// audit is the end of every test: the log of every run is gapless, chained, and replays to what is stored (R-TRN-3).
func (r *Rig) audit() {
	t := r.T
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var differences []string
	c, err := r.Store.Replay(ctx, func(d db.Difference) {
		differences = append(differences, fmt.Sprintf("%s #%d: %s", typeid.Format(typeid.Run, d.Run), d.Seq, d.Why))
	})
	if err != nil {
		t.Errorf("rig: replay: %v", err)
	}
	if len(differences) > 0 {
		t.Errorf("replay differs in %d places:\n%s", len(differences), strings.Join(differences, "\n"))
	}
	for what, query := range map[string]string{
		"runs whose event numbers have gaps": `SELECT count(*) FROM (SELECT run_id FROM run_events GROUP BY run_id HAVING max(seq) <> count(*)) s`,
		"terminal runs with a queue item or lease": `SELECT count(*) FROM runs r WHERE r.state IN ('SUCCEEDED','FAILED','CANCELLED','EXPIRED') AND
			(EXISTS (SELECT FROM run_queue q WHERE q.run_id = r.id) OR EXISTS (SELECT FROM run_leases l WHERE l.run_id = r.id) OR EXISTS (SELECT FROM run_delayed d WHERE d.run_id = r.id))`,
		"branches with more than one pull request": `SELECT count(*) FROM (SELECT 1 FROM pull_requests GROUP BY repository_id, head_branch HAVING count(*) > 1) s`,
	} {
		var n int
		if err := r.Owner.QueryRow(ctx, query).Scan(&n); err != nil {
			t.Errorf("rig: %s: %v", what, err)
		} else if n > 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	t.Logf("replayed %d runs with %d events: %d differences", c.Runs, c.Events, len(differences))
}

// Expire makes the time of an open gate run out, and waits until the product has seen it.
func (r *Rig) Expire(gate string) {
	t := r.T
	t.Helper()
	id, err := typeid.Parse(typeid.Gate, gate)
	r.must(err, "read the gate's id")
	_, err = r.Owner.Exec(t.Context(), `UPDATE gates SET expires_at = clock_timestamp() - interval '1 second' WHERE id = $1`, id)
	r.must(err, "let the gate's time run out")
	r.Eventually("the gate expires", Patience, func() (bool, string) {
		var state string
		r.must(r.Owner.QueryRow(t.Context(), `SELECT state FROM gates WHERE id = $1`, id).Scan(&state), "read the gate")
		return state == "expired", state
	})
}
