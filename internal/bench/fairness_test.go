package bench_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// Sizes of fairness.
const (
	whaleRuns    = 100_000
	smallTenants = 50
	fairRounds   = 6
	fairWorkers  = 16
	whaleShare   = 8 // workers that the bounded whale may keep busy
	// hold is how long a run of the whale keeps its worker, holdSmall one of a small tenant; interval is the mean time between
	// two submissions of small tenants, who together need one worker.
	hold      = time.Second
	holdSmall = 100 * time.Millisecond
	interval  = 100 * time.Millisecond
)

// waited is what the small tenants saw in the rounds of one kind.
type waited struct {
	name            string
	answered, whole []time.Duration // from the submission's answer, and from its sending, to the lease
	before          []float64       // leases that the whale got between the answer and the lease
	whales          int             // leases of the whale altogether
	took            time.Duration
	seen            float64 // items that claims read to decide
}

// BenchmarkFairness prints how long small tenants wait beside one that has 100,000 runs waiting, and without it, in
// rounds that take turns; b.N means nothing to it.
func BenchmarkFairness(b *testing.B) {
	queued, tenants, rounds := whaleRuns, smallTenants, fairRounds
	if testing.Short() {
		queued, tenants, rounds = 10_000, 20, 2
	}
	empty, beside := newMarket(b, tenants, 0), newMarket(b, tenants, queued)
	progress("two installations with %d small tenants, one of them with a tenant that has %d runs waiting", tenants, queued)
	f := newFigure(b)
	defer f.print()
	kinds := []*waited{{name: "nobody else"}, {name: "the whale, bounded to half of the workers"}, {name: "the whale, without bound"}}
	markets := []*market{empty, beside, beside}
	policies := []string{"", fmt.Sprintf("installation: {tenants: {default: {max: %d}}}", whaleShare), ""}
	for round := range rounds {
		for _, n := range rand.Perm(len(kinds)) {
			markets[n].round(kinds[n], fmt.Sprintf("schema: 1\nversion: bench-%d-%d\n%s\n", round, n, policies[n]))
		}
		progress("round %d of %d: p99 so far %v, %v, %v", round+1, rounds, p99(kinds[0].answered), p99(kinds[1].answered), p99(kinds[2].answered))
	}
	f.line("%d workers, a run of the whale holds one for %s, one of a small tenant for %s; %d small tenants submit a run every %s together, %d of each kind in %d rounds; the whale has %d runs waiting.",
		fairWorkers, hold, holdSmall, tenants, interval, len(kinds[0].whole), rounds, queued)
	for _, k := range kinds {
		f.line("Beside %s: answer of the submission → lease p50 %v, p99 %v, %.2f of that without; sending → lease p50 %v, p99 %v, %.2f. The whale got %.1f leases/s; between a small tenant's answer and its lease p50 %.0f, p99 %.0f. Items that claims read to decide: %.0f for each lease.",
			k.name, short(quantile(k.answered, 0.5)), p99(k.answered), over(k.answered, kinds[0].answered), short(quantile(k.whole, 0.5)), p99(k.whole), over(k.whole, kinds[0].whole),
			float64(k.whales)/k.took.Seconds(), quantile(k.before, 0.5), quantile(k.before, 0.99), k.seen/float64(len(k.whole)+k.whales))
	}
	f.line("With no bound a worker comes free every %s on average, which nobody who waits can hasten.", short(hold/fairWorkers))
}

func p99(d []time.Duration) time.Duration { return short(quantile(d, 0.99)) }

func short(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

func over(d, base []time.Duration) float64 {
	return float64(quantile(d, 0.99)) / float64(max(quantile(base, 0.99), 1))
}

// seen is how many items claims have read so far.
func (m *market) seen() (n float64) {
	m.b.Helper()
	m.must(m.root.QueryRow(m.b.Context(), `SELECT coalesce(sum(rows), 0)::float8 FROM pg_stat_statements WHERE query LIKE '%name: HeadsOfLanes %'`).Scan(&n), "read the statements")
	return n
}

// market is an installation with small tenants and workers for all tenants; a whale is its default tenant.
type market struct {
	*product
	small []seller
	whale string // its repository
	// tenants are the small ones by their repositories, fleet is the credential of the workers.
	tenants map[string]uuid.UUID
	fleet   uuid.UUID
}

type seller struct{ token, repository string }

func newMarket(b *testing.B, tenants, queued int) *market {
	m := &market{product: start(b), tenants: map[string]uuid.UUID{}}
	m.whale = typeid.Format(typeid.Repo, m.world.Repo)
	m.workers()
	for n := range tenants {
		w := drive.New(b, m.data, drive.Options{Store: m.world.Store, Tenant: fmt.Sprintf("small-%d", n), Approvers: 1})
		token, now := db.Mint(db.PrefixToken), time.Now()
		_, err := w.Store.CreateToken(b.Context(), db.Token{Tenant: w.Tenant, User: w.Requester.ID, Name: "bench", Scopes: []string{"read", "tasks"}, AuthTime: now, ExpiresAt: now.Add(24 * time.Hour)}, token)
		m.must(err, "make a token")
		repository := typeid.Format(typeid.Repo, w.Repo)
		m.small, m.tenants[repository] = append(m.small, seller{token, repository}), w.Tenant
	}
	if queued > 0 {
		m.backlog(m.world, queued)
	}
	m.exec(`VACUUM ANALYZE`)
	return m
}

// workers replace the product's: each has room for one run, of any tenant.
func (m *market) workers() {
	ctx := m.b.Context()
	m.secret, m.boots = db.Mint(db.PrefixWorker), nil
	c, err := m.world.Store.CreateWorkerCredential(ctx, db.WorkerCredential{Name: "everywhere", Phases: run.Phases()}, m.secret)
	m.must(err, "make a worker's credential")
	m.fleet = c.ID
	for range fairWorkers {
		boot, err := m.world.Store.RegisterBoot(ctx, db.WorkerID{ID: c.ID, Name: c.Name, Phases: c.Phases}, db.Boot{Name: c.Name, Version: "bench", Phases: c.Phases, Isolation: "bwrap", Capabilities: []string{"agent:default"}, MaxConcurrent: 1})
		m.must(err, "register a worker")
		m.boots = append(m.boots, boot)
	}
}

// leases are when runs got theirs, by run; the whale's only by time.
type leases struct {
	mu    sync.Mutex
	small map[string]time.Time
	whale []time.Time
	one   chan struct{} // rings with each lease
}

func (l *leases) add(whale bool, id string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if whale {
		l.whale = append(l.whale, at)
	} else {
		l.small[id] = at
	}
	l.ring()
}

// ring never waits.
func (l *leases) ring() {
	select {
	case l.one <- struct{}{}:
	default:
	}
}

func (l *leases) got() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.small)
}

// round puts the policy in force, lets the workers work, has every small tenant submit one run and adds what they saw.
func (m *market) round(w *waited, policy string) {
	m.b.Helper()
	m.must(m.world.SetPolicy(m.b.Context(), policy), "set the policy")
	l := &leases{small: map[string]time.Time{}, one: make(chan struct{}, 1)}
	var over atomic.Bool
	var wg sync.WaitGroup
	errs := make(chan error, fairWorkers)
	for _, boot := range m.boots {
		wg.Go(func() {
			if err := m.work(boot, l, &over); err != nil {
				errs <- err
				l.ring()
			}
		})
	}
	pass(hold) // until the whale has what it can get
	began, seen := time.Now(), m.seen()
	submitted := m.submit()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for l.got() < len(submitted) && len(errs) == 0 {
		select {
		case <-l.one:
		case <-limit.C:
			m.b.Fatalf("bench: %d of %d runs got a lease within two minutes", l.got(), len(submitted))
		}
	}
	w.took += time.Since(began)
	w.seen += m.seen() - seen
	over.Store(true)
	wg.Wait()
	select {
	case err := <-errs:
		m.must(err, "work")
	default:
	}
	w.add(submitted, l, began)
}

// pass lets time go by that is part of what is measured: nothing is waited for.
func pass(d time.Duration) { <-time.After(d) }

// submission is one run of a small tenant.
type submission struct {
	run            string
	sent, answered time.Time
}

func (w *waited) add(submitted []submission, l *leases, began time.Time) {
	for _, at := range l.whale {
		if at.After(began) {
			w.whales++
		}
	}
	for _, s := range submitted {
		at := l.small[s.run]
		w.whole = append(w.whole, at.Sub(s.sent))
		// The lease may be there before the answer has been read.
		w.answered = append(w.answered, max(at.Sub(s.answered), 0))
		n := 0.0
		for _, other := range l.whale {
			if other.After(s.answered) && other.Before(at) {
				n++
			}
		}
		w.before = append(w.before, n)
	}
}

// submit has every small tenant submit one run, in any order and at uneven times, whatever became of the others.
func (m *market) submit() []submission {
	m.b.Helper()
	out := make([]submission, len(m.small))
	errs := make(chan error, len(m.small))
	var wg sync.WaitGroup
	for _, n := range rand.Perm(len(m.small)) {
		pass(interval/2 + rand.N(interval))
		wg.Go(func() {
			var err error
			if out[n], err = m.ask(m.small[n]); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		m.must(err, "submit a task")
	default:
	}
	return out
}

func (m *market) ask(s seller) (out submission, err error) {
	c, err := m.dial()
	if err != nil {
		return out, err
	}
	defer c.conn.Close()
	task := m.request("/tasks", s.token, m.key(), wire.TaskCreate{RepositoryId: s.repository, Title: "Wait", Goal: "Change one line.", Mode: wire.PrCreated, Risk: wire.LOW})
	out.sent = time.Now()
	body, err := c.do(task, http.StatusCreated)
	out.answered = time.Now()
	if err != nil {
		return out, err
	}
	var t wire.Task
	err = json.Unmarshal(body, &t)
	out.run = t.ActiveRunId
	return out, err
}

// work asks for a run, holds it and gives it away, until the round is over. The whale's go back into the queue, so that
// it never gets smaller.
func (m *market) work(boot uuid.UUID, l *leases, over *atomic.Bool) error {
	c, err := m.dial()
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for !over.Load() {
		body, err := c.do(m.request("/workers/claims", m.secret, m.key(), wire.Claim{BootId: typeid.Format(typeid.Boot, boot), ClaimId: m.key(), Max: 1, Phases: []wire.Phase{wire.Execute}, WaitSeconds: 2}), http.StatusOK)
		if err != nil {
			return err
		}
		at := time.Now()
		var ack wire.ClaimAck
		if err := json.Unmarshal(body, &ack); err != nil {
			return err
		}
		for _, a := range ack.Assignments {
			whale := a.Repository.Id == m.whale
			l.add(whale, a.RunId, at)
			switch {
			case over.Load():
			case whale:
				pass(hold)
			default:
				pass(holdSmall)
			}
			if err := m.end(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// end gives a run away by the store, not over HTTP: that is not measured, and there a worker reports to its own tenant.
func (m *market) end(a wire.Assignment) error {
	id, err := typeid.Parse(typeid.Run, a.RunId)
	if err != nil {
		return err
	}
	lease, err := typeid.Parse(typeid.Lease, a.LeaseId)
	if err != nil {
		return err
	}
	var command run.Command = run.Release{Reason: "drain"}
	tenant, ok := m.tenants[a.Repository.Id]
	if ok {
		command = run.AttemptHasFailed{Code: run.CodeTaskContractInvalid, Summary: "Empty work."}
	} else {
		tenant = m.world.Tenant
	}
	key := m.key()
	_, err = m.world.Store.Apply(m.b.Context(), db.Ref{Tenant: tenant, Run: id}, db.Intent{Key: key, Hash: drive.Hash(key), By: run.Actor{Kind: run.Worker, ID: m.fleet.String()},
		Lease: &run.LeaseRef{ID: lease, Token: a.FencingToken}, Worker: m.fleet, Command: command})
	return err
}
