// Package drive moves real runs through a real store for tests, benchmarks and
// demonstrations of replay: people, workers, tasks, whole journeys and a seeded
// generator. No binary links it.
//
// It owns short cuts through time (an owner's connection that makes clocks run
// out) and refuses short cuts through state: every transition goes through the
// store's own methods.
package drive

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/money"
	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// Options of a world. Zero values have defaults.
type Options struct {
	// Timing of the store; where fields are zero, leases of ten minutes and backoff × 0.01, else the product's defaults. No test is to
	// lose a lease because the machine is slow: time that is to pass, passes by Lapse.
	Timing db.Timing
	// Policy is a document stored as the policy in force; empty leaves the defaults.
	Policy string
	// Approvers is how many people may approve; 0 means 3.
	Approvers int
	// Tenant makes the world in a tenant of its own; the default tenant otherwise.
	Tenant string
	// MaxConns of the store's pool; 0 means 8.
	MaxConns int32
	// Currency of the store; empty means the product's default.
	Currency money.Currency
	// Store is used instead of a new one.
	Store *db.Store
}

// Person is somebody with roles in the world's tenant.
type Person struct {
	ID    uuid.UUID
	Name  string
	Roles []policy.Role
}

// Decider is the person with a live login.
func (p Person) Decider() db.Decider {
	return db.Decider{User: p.ID, Name: p.Name, Roles: p.Roles, Live: true, AuthTime: time.Now().UTC(), Channel: "page"}
}

// Actor is the person as the author of an event.
func (p Person) Actor() run.Actor { return run.Actor{Kind: run.Human, ID: p.ID.String(), Name: p.Name} }

// Worker is one credential with one boot.
type Worker struct {
	db.WorkerID
	Boot uuid.UUID
}

// World is a tenant with people, one repository and workers.
type World struct {
	Store *db.Store
	// Owner is a pool of the database's owner, for clocks and for looking.
	Owner     *pgxpool.Pool
	Tenant    uuid.UUID
	Requester Person
	Approvers []Person
	Admin     Person
	Repo      uuid.UUID
	// Workers: two of every phase and every tier, so that another one may verify.
	Workers []Worker

	scanner *patch.Scanner
	n       atomic.Int64
}

// scanner is shared by all worlds of a process: its rules cost 0.2 s to compile.
var scanner = sync.OnceValue(patch.NewScanner)

// New makes a world in the database and a store for it; both are closed with t.
func New(t testing.TB, d dbtest.Database, o Options) *World {
	t.Helper()
	ctx := t.Context()
	if o.Timing.BackoffScale == 0 {
		o.Timing.BackoffScale = 0.01
	}
	if o.Timing.LeaseTTL == 0 {
		o.Timing.LeaseTTL = 10 * time.Minute
	}
	w := &World{Store: o.Store, Tenant: db.DefaultTenant, scanner: scanner()}
	var err error
	if w.Owner, err = pgxpool.New(ctx, d.OwnerURL); err != nil {
		t.Fatalf("drive: %v", err)
	}
	t.Cleanup(w.Owner.Close)
	if w.Store == nil {
		if w.Store, err = db.Open(ctx, db.Options{URL: d.EngineURL, AppURL: d.AppURL, Timing: o.Timing, MaxConns: o.MaxConns, Currency: o.Currency}); err != nil {
			t.Fatalf("drive: %v", err)
		}
		t.Cleanup(w.Store.Close)
	}
	if err := w.people(ctx, o); err != nil {
		t.Fatalf("drive: %v", err)
	}
	for i := range 2 {
		worker, err := w.NewWorker(ctx, fmt.Sprintf("worker-%d", i+1), run.Phases(), 1000)
		if err != nil {
			t.Fatalf("drive: %v", err)
		}
		w.Workers = append(w.Workers, worker)
	}
	return w
}

func (w *World) people(ctx context.Context, o Options) error {
	forge := db.LocalForge
	if o.Tenant != "" {
		w.Tenant, forge = typeid.New(), typeid.New()
		if _, err := w.Owner.Exec(ctx, `INSERT INTO tenants (id, name) VALUES ($1, $2)`, w.Tenant, o.Tenant); err != nil {
			return err
		}
		if _, err := w.Owner.Exec(ctx, `INSERT INTO forges (id, tenant_id, name, kind) VALUES ($1, $2, 'local', 'local')`, forge, w.Tenant); err != nil {
			return err
		}
	}
	var err error
	if w.Requester, err = w.NewPerson(ctx, "Rea Requester", policy.RoleRequester); err != nil {
		return err
	}
	if w.Admin, err = w.NewPerson(ctx, "Ada Admin", policy.RoleAdmin, policy.RoleRequester); err != nil {
		return err
	}
	n := o.Approvers
	if n == 0 {
		n = 3
	}
	for i := range n {
		p, err := w.NewPerson(ctx, fmt.Sprintf("Approver %d", i+1), policy.RoleApprover)
		if err != nil {
			return err
		}
		w.Approvers = append(w.Approvers, p)
	}
	if o.Policy != "" {
		if err := w.SetPolicy(ctx, o.Policy); err != nil {
			return err
		}
	}
	r, err := w.Store.CreateRepository(ctx, w.Tenant, w.Admin.ID, db.RepositoryInfo{Forge: forge, Name: "sample", CloneURL: "file:///srv/sample.git",
		DefaultBranch: "main", Verification: []run.Check{{Name: "test", Argv: []string{"true"}}}})
	w.Repo = r.ID
	return err
}

// NewPerson makes somebody with roles in the world's tenant.
func (w *World) NewPerson(ctx context.Context, name string, roles ...policy.Role) (Person, error) {
	p := Person{ID: typeid.New(), Name: name, Roles: roles}
	if _, err := w.Owner.Exec(ctx, `INSERT INTO users (id, name) VALUES ($1, $2)`, p.ID, name); err != nil {
		return p, err
	}
	names := make([]string, 0, len(roles))
	for _, r := range roles {
		names = append(names, string(r))
	}
	_, err := w.Owner.Exec(ctx, `INSERT INTO memberships (tenant_id, user_id, roles) VALUES ($1, $2, $3)`, w.Tenant, p.ID, names)
	return p, err
}

// NewWorker makes a credential of the world's tenant and registers one boot with the tier bwrap.
func (w *World) NewWorker(ctx context.Context, name string, phases []run.Phase, most int) (Worker, error) {
	c, err := w.Store.CreateWorkerCredential(ctx, db.WorkerCredential{Tenant: w.Tenant, Name: name, Phases: phases}, uuid.NewString())
	if err != nil {
		return Worker{}, err
	}
	id := db.WorkerID{ID: c.ID, Name: name, Tenant: &w.Tenant, Phases: phases}
	boot, err := w.Store.RegisterBoot(ctx, id, db.Boot{Name: name, Version: "test", Phases: phases, Isolation: "bwrap", MaxConcurrent: most})
	return Worker{id, boot}, err
}

// SetPolicy puts a policy document in force; its fields win over the defaults.
func (w *World) SetPolicy(ctx context.Context, document string) error {
	rules, err := policy.Parse([]byte(document))
	if err != nil {
		return err
	}
	_, err = w.Owner.Exec(ctx, `INSERT INTO policies (id, tenant_id, version, document) VALUES ($1, $2, $3, $4)`, typeid.New(), w.Tenant,
		rules.Version, document)
	return err
}

// Key returns a fresh idempotency key; a world's keys are the same in every run of a seed.
func (w *World) Key(what string) string { return fmt.Sprintf("%s-%d", what, w.n.Add(1)) }

// Hash is the request hash that goes with content.
func Hash(content string) []byte {
	h := sha256.Sum256([]byte(content))
	return h[:]
}

// Task asks for a change and returns the task with the run that was made.
func (w *World) Task(ctx context.Context, c run.Contract) (db.TaskAck, error) {
	key := w.Key("task")
	return w.Store.CreateTask(ctx, db.Request{Tenant: w.Tenant, By: w.Requester.Actor(), Roles: w.Requester.Roles, Key: key, Hash: Hash(key)},
		db.TaskSpec{Repository: w.Repo, Title: "A change", Goal: "Change one line.", BaseRef: "main", Contract: c})
}

// Run asks for a change and returns its first run.
func (w *World) Run(ctx context.Context, c run.Contract) (db.Ref, error) {
	a, err := w.Task(ctx, c)
	if err != nil {
		return db.Ref{}, err
	}
	if a.Run == nil {
		return db.Ref{}, fmt.Errorf("task is %s and has no run: %v", a.State, a.Reasons)
	}
	return db.Ref{Tenant: w.Tenant, Run: *a.Run}, nil
}

// Ordinary is the contract of an ordinary change: low risk, ends in a pull request, a person approves the patch.
func Ordinary() run.Contract { return run.Contract{Mode: run.ModePRCreated, Risk: "LOW"} }
