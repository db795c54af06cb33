package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest/audit"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// The size of the chaos in every build. SIGNALBOX_CHAOS_MINUTES makes it last instead; SIGNALBOX_CHAOS_SEED repeats one.
const (
	chaosRuns    = 60
	chaosFaults  = 150
	chaosWorkers = 3
)

// chaosPolicy lets a run survive many losses, and bounds what may be under way.
const chaosPolicy = `schema: 1
version: chaos-1
auto_pr: {allowed: true}
limits: {max_attempts: 20, redeliveries: 20, max_runs: 3, max_park: 1h}
concurrency: {tenant: 5, repository: 3, user: 5}
installation: {concurrency: {tenant: 5}}
`

func chaosLimits() []audit.Limit {
	return []audit.Limit{
		{Name: "the installation", Most: 5, Key: func(audit.Held) string { return "all" }},
		{Name: "tenant", Most: 5, Key: func(h audit.Held) string { return h.Tenant.String() }},
		{Name: "repository", Most: 3, Key: func(h audit.Held) string { return h.Repository.String() }},
		{Name: "requester", Most: 5, Key: func(h audit.Held) string { return h.Person.String() }},
	}
}

// chaos is everything that runs while things break.
type chaos struct {
	*rig.Rig
	t        *testing.T
	rng      *rand.Rand
	messages *messenger
	servers  []*rig.Process
	workers  []*rig.Worker
	repos    []*rig.Repository
	repoIDs  []string
	api      *wire.ClientWithResponses

	mu       sync.Mutex
	accepted []uuid.UUID
	cancels  int
	counts   map[string]int
	wg       sync.WaitGroup // what undoes a fault
}

// R-Q-1, R-Q-6, R-LEASE-1, R-LEASE-2, R-RCV-1, R-TEST-13, R-TEST-14, R-TEST-15, R-TEST-16: two servers, their workers and Postgres
// are killed, stopped, cut off and confused while many runs go on. Afterwards the log shows nothing lost, nothing done
// twice, nothing that is not allowed, no limit exceeded at any moment; and no process is left.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SIGNALBOX_CHAOS_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SIGNALBOX_CHAOS_SEED=%d", seed)
	c := newChaos(t, seed)
	began := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var people sync.WaitGroup
	people.Go(func() { c.approve(ctx) })
	faults, runs := chaosFaults, chaosRuns
	until := time.Time{}
	if m, err := strconv.Atoi(os.Getenv("SIGNALBOX_CHAOS_MINUTES")); err == nil && m > 0 {
		until, faults, runs = time.Now().Add(time.Duration(m)*time.Minute), 1<<30, 1<<30
	}
	submitted := make(chan struct{})
	people.Go(func() {
		defer close(submitted)
		for n := 0; n < runs && (until.IsZero() || time.Now().Before(until)); n++ {
			c.submit(ctx, n)
		}
	})
	for n := 0; n < faults && (until.IsZero() || time.Now().Before(until)); n++ {
		c.fault(ctx)
	}
	c.wg.Wait()
	c.messages.mode.Store(faithful)
	<-submitted
	t.Logf("%s for the faults", time.Since(began).Round(time.Second))
	c.settle()
	stop()
	people.Wait()
	c.judge()
	t.Logf("%s in all: %d runs accepted, %d cancelled; faults %v; %d calls, %d repeated, %d delayed, %d answers lost", time.Since(began).Round(time.Second),
		len(c.accepted), c.cancels, c.counts, c.messages.calls.Load(), c.messages.repeated.Load(), c.messages.delayed.Load(), c.messages.lost.Load())
}

func newChaos(t *testing.T, seed uint64) *chaos {
	r := rig.New(t, rig.Options{Durable: true, Failures: true, Workers: -1, Policy: chaosPolicy, Timing: db.Timing{LeaseTTL: 3 * time.Second}})
	c := &chaos{Rig: r, t: t, rng: rand.New(rand.NewPCG(seed, 1)), counts: map[string]int{}}
	for n := range 3 {
		c.repos = append(c.repos, r.Repository(fmt.Sprintf("acme/shop-%d", n), rig.Shop()))
		c.repoIDs = append(c.repoIDs, c.repos[n].ID())
	}
	c.api = r.API()
	r.Person("ana")
	r.StopServer()
	for range 2 {
		c.servers = append(c.servers, r.ServeReplica())
	}
	c.messages = newMessenger(t, r.URL, c.servers[0].Address, c.servers[1].Address)
	for range chaosWorkers {
		c.workers = append(c.workers, r.StartWorker(rig.WorkerOptions{MaxRuns: 2}))
	}
	return c
}

// submit asks for one task until it is accepted, always by the same key.
func (c *chaos) submit(ctx context.Context, n int) {
	gated := n%4 == 0
	k := wire.TaskCreate{RepositoryId: c.repoIDs[n%len(c.repoIDs)], Title: fmt.Sprint("Raise the tax ", n), AutoPr: !gated,
		Goal: rig.Recipe("Tax is 20 per cent now.", rig.Act{Do: "say", New: "Looking for the rate."}, good())}
	key := fmt.Sprintf("chaos-%04d-submitted", n)
	for ctx.Err() == nil {
		answer, err := c.api.CreateTaskWithResponse(ctx, &wire.CreateTaskParams{IdempotencyKey: key}, k)
		if err == nil && answer.JSON201 != nil {
			id, err := typeid.Parse(typeid.Run, answer.JSON201.ActiveRunId)
			if err != nil {
				c.t.Errorf("accepted without a run: %s", answer.Body)
				return
			}
			c.mu.Lock()
			c.accepted = append(c.accepted, id)
			c.mu.Unlock()
			if n%9 == 8 {
				c.cancel(ctx, answer.JSON201.ActiveRunId, n)
			}
			break
		}
		if err == nil && answer.StatusCode() < 500 && answer.StatusCode() != 429 && answer.StatusCode() != 409 {
			c.t.Errorf("submit: answered %s: %s", answer.Status(), answer.Body)
			return
		}
		_ = pause(ctx, 100*time.Millisecond)
	}
	_ = pause(ctx, 500*time.Millisecond)
}

// cancel asks once; what becomes of the question is part of the chaos.
func (c *chaos) cancel(ctx context.Context, run string, n int) {
	_ = pause(ctx, time.Duration(n*37%1500)*time.Millisecond)
	answer, err := c.api.CancelRunWithResponse(ctx, run, &wire.CancelRunParams{IdempotencyKey: fmt.Sprintf("chaos-%04d-cancelled", n)}, wire.Reason{Reason: "Not needed."})
	if err == nil && answer.JSON200 != nil {
		c.mu.Lock()
		c.cancels++
		c.mu.Unlock()
	}
}

// approve approves whatever stands at a gate, as ana by the form, until ctx ends.
func (c *chaos) approve(ctx context.Context) {
	b := c.Person("ana").Browser
	for ctx.Err() == nil {
		for _, id := range c.uuids(ctx, `SELECT g.id FROM gates g WHERE g.state = 'open'`) {
			page, err := b.Get(ctx, "/gates/"+typeid.Format(typeid.Gate, id))
			if err != nil {
				continue
			}
			if form, err := page.FormWith("verdict", "approve"); err == nil {
				_, _ = b.Send(ctx, form) // where it was lost, the gate is still open
			}
		}
		_ = pause(ctx, 200*time.Millisecond)
	}
}

// uuids reads ids; nothing while the database is away.
func (c *chaos) uuids(ctx context.Context, query string) []uuid.UUID {
	rows, err := c.Owner.Query(ctx, query)
	if err != nil {
		return nil
	}
	all, _ := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return all
}

// settle waits until every run has ended; the one who approves is still there.
func (c *chaos) settle() {
	began := time.Now()
	c.Eventually("every run comes to its end", 5*time.Minute, func() (bool, string) {
		c.supervise()
		open := c.uuids(c.t.Context(), `SELECT id FROM runs WHERE finished_at IS NULL`)
		words := make([]string, 0, len(open))
		for _, id := range open {
			words = append(words, typeid.Format(typeid.Run, id))
		}
		return len(open) == 0 && c.there(), strings.Join(words, " ")
	})
	c.t.Logf("%s until all came to their end", time.Since(began).Round(time.Second))
	for _, w := range c.workers {
		awaitEmpty(c.Rig, w.Options.Dir, rig.Patience)
	}
}

func (c *chaos) there() bool {
	var n int
	return c.Owner.QueryRow(c.t.Context(), `SELECT 1`).Scan(&n) == nil
}

// judge asks the audit, then looks at what exists outside.
func (c *chaos) judge() {
	t := c.t
	l, err := audit.Read(t.Context(), c.Owner)
	if err != nil {
		t.Fatal(err)
	}
	found := l.Findings(audit.Want{Runs: c.accepted, Settled: true, Limits: chaosLimits()})
	for _, f := range found {
		t.Error(f)
	}
	ends, lost := map[string]int{}, 0
	for _, r := range l.Rows {
		ends[r.State]++
	}
	for _, e := range l.Events {
		if e.Kind == "worker_lost" {
			lost++
		}
	}
	t.Logf("%d findings in %d runs with %d events and %d leases; %d × worker lost; ends %v", len(found), len(l.Rows), len(l.Events), len(l.Ended), lost, ends)
	if ends["SUCCEEDED"] == 0 || lost == 0 {
		t.Error("nothing succeeded, or no worker was ever lost: this was no chaos")
	}
	branches, pulls := map[string]int{}, 0
	for _, repo := range c.repos {
		for _, b := range repo.Branches() {
			branches[b]++
			if n := repo.Git("rev-list", "--count", "main.."+b); n != "1" {
				t.Errorf("%s has %s commits", b, n)
			}
		}
	}
	if err := c.Owner.QueryRow(t.Context(), `SELECT count(*) FROM pull_requests`).Scan(&pulls); err != nil {
		t.Fatal(err)
	}
	if pulls < ends["SUCCEEDED"] || len(branches) < pulls {
		t.Errorf("%d runs succeeded with %d pull requests of %d branches", ends["SUCCEEDED"], pulls, len(branches))
	}
}
