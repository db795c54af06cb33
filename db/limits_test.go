package db_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/audit"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/dbtest/throwaway"
	"signalbox/internal/run"
)

// Bounds of every dimension, tight enough that each is met.
const (
	limitsOverall = `installation: {concurrency: {tenant: 8, risks: {MEDIUM: 3}, providers: {alpha: 5}, pools: {big: 3}}, tenants: {second: {max: 4}}}`
	limitsOwn     = `routing: {agents: {fast: {provider: alpha}, slow: {provider: beta}}, queues: [{queue: default, repositories: [more-0], pool: big}]}
concurrency: {tenant: 5, repository: 3, user: 3, risks: {LOW: 4}, providers: {alpha: 3}, pools: {big: 2}}`
)

// observed are the same bounds for an observer who sees leases alone.
func observed(second uuid.UUID) []audit.Limit {
	if1 := func(ok bool, key string) string {
		if ok {
			return key
		}
		return ""
	}
	return []audit.Limit{
		{Name: "installation", Most: 8, Key: func(audit.Held) string { return "all" }},
		{Name: "share of the second tenant", Most: 4, Key: func(h audit.Held) string { return if1(h.Tenant == second, "second") }},
		{Name: "tenant", Most: 5, Key: func(h audit.Held) string { return h.Tenant.String() }},
		{Name: "repository", Most: 3, Key: func(h audit.Held) string { return h.Repository.String() }},
		{Name: "requester", Most: 3, Key: func(h audit.Held) string { return h.Tenant.String() + h.Person.String() }},
		{Name: "risk of a tenant", Most: 4, Key: func(h audit.Held) string { return if1(h.Risk == "LOW", h.Tenant.String()) }},
		{Name: "risk of the installation", Most: 3, Key: func(h audit.Held) string { return if1(h.Risk == "MEDIUM", "MEDIUM") }},
		{Name: "provider of a tenant", Most: 3, Key: func(h audit.Held) string { return if1(h.Provider == "alpha", h.Tenant.String()) }},
		{Name: "provider of the installation", Most: 5, Key: func(h audit.Held) string { return if1(h.Provider == "alpha", "alpha") }},
		{Name: "pool of a tenant", Most: 2, Key: func(h audit.Held) string { return if1(h.Pool == "big", h.Tenant.String()) }},
		{Name: "pool of the installation", Most: 3, Key: func(h audit.Held) string { return if1(h.Pool == "big", "big") }},
	}
}

// R-Q-6: sixteen workers at four replicas take hundreds of items under limits of every dimension. An observer of the
// leases sees no moment over a limit, and each limit was met, so that it was what held.
func TestLimitsHoldAtEveryMoment(t *testing.T) {
	t.Parallel()
	const replicas, claimers, items = 4, 16, 160
	d := dbtest.New(t)
	first := &world{World: drive.New(t, d, drive.Options{Policy: "schema: 1\nversion: limits\n" + limitsOverall + "\n" + limitsOwn + "\n"}), db: d}
	second := &world{World: drive.New(t, d, drive.Options{Store: first.Store, Tenant: "second", Policy: "schema: 1\nversion: limits\n" + limitsOwn + "\n"}), db: d}
	var stores []*db.Store
	for range replicas {
		s := got(db.Open(t.Context(), db.Options{URL: d.EngineURL, AppURL: d.AppURL, Timing: db.Timing{BackoffScale: 0.01}, MaxConns: 4}))(t)
		t.Cleanup(s.Close)
		stores = append(stores, s)
	}
	limits, crowds := observed(second.Tenant), []crowd{first.crowd(t), second.crowd(t)}
	// Which limits are met is a matter of who comes when, so there are more items until each was.
	for round := 1; ; round++ {
		for _, c := range crowds {
			c.ask(t, items/2)
		}
		first.serveAll(t, stores, claimers, items, round)
		log := got(audit.Read(t.Context(), first.Owner))(t)
		for _, f := range log.Findings(audit.Want{Settled: true, Limits: limits}) {
			t.Error(f)
		}
		var unmet []string
		for _, l := range limits {
			l.Most--
			if len(log.Findings(audit.Want{Limits: []audit.Limit{l}})) == 0 {
				unmet = append(unmet, l.Name)
			}
		}
		if len(unmet) == 0 {
			t.Logf("%d leases at %d replicas, %d limits held at every moment and met", len(log.Ended), replicas, len(limits))
			return
		}
		if round == 5 {
			t.Fatalf("these limits were never met: %q", unmet)
		}
	}
}

// serveAll has workers of no tenant claim and end all items, each claim at one replica and its end at another.
func (w *world) serveAll(t *testing.T, stores []*db.Store, claimers, items, round int) {
	t.Helper()
	var left atomic.Int64
	left.Store(int64(items))
	for _, err := range all(claimers, func(n int) error {
		s := stores[n%len(stores)]
		name := fmt.Sprintf("everywhere-%d-%d", round, n)
		c := got(w.Store.CreateWorkerCredential(t.Context(), db.WorkerCredential{Tenant: w.Tenant, Name: name, Phases: run.Phases()}, uuid.NewString()))(t)
		id := db.WorkerID{ID: c.ID, Name: c.Name, Phases: run.Phases()} // of no tenant: it serves all
		boot, err := s.RegisterBoot(t.Context(), id, db.Boot{Name: id.Name, Version: "test", Phases: run.Phases(), Isolation: "bwrap", MaxConcurrent: 6, Pools: []string{"big"}, Capabilities: []string{"agent:fast", "agent:slow"}})
		if err != nil {
			return err
		}
		var mine []db.Claimed
		for i := 0; left.Load() > 0; i++ {
			given, _, err := s.Claim(t.Context(), db.ClaimRequest{ClaimID: fmt.Sprintf("limits-%s-%d", name, i), Worker: id, Boot: boot, Phases: run.Phases(), Max: 1 + i%3})
			if err != nil {
				return err
			}
			// What it has is kept for a while and ended at another replica.
			if mine = append(mine, given...); len(mine) == 0 || (len(given) > 0 && i%4 != 0) {
				continue
			}
			for _, l := range mine {
				if err := fail(t, stores[(n+1)%len(stores)], l); err != nil {
					return err
				}
				left.Add(-1)
			}
			mine = nil
		}
		return nil
	}) {
		must(t, err)
	}
}

// crowd is several repositories of a tenant and the people who ask for changes in them.
type crowd struct {
	w      *world
	repos  []uuid.UUID
	people []drive.Person
}

func (w *world) crowd(t *testing.T) crowd {
	t.Helper()
	c := crowd{w, []uuid.UUID{w.Repo}, []drive.Person{w.Requester}}
	var of uuid.UUID
	must(t, w.Owner.QueryRow(t.Context(), `SELECT forge_id FROM repositories WHERE id = $1`, w.Repo).Scan(&of))
	for i := range 2 {
		r := got(w.Store.CreateRepository(t.Context(), w.Tenant, w.Admin.ID, db.RepositoryInfo{Forge: of, Name: fmt.Sprint("more-", i), CloneURL: "file:///srv/more.git", DefaultBranch: "main",
			Verification: []run.Check{{Name: "test", Argv: []string{"true"}}}}))(t)
		c.repos = append(c.repos, r.ID)
		c.people = append(c.people, got(w.NewPerson(t.Context(), fmt.Sprint("Requester ", i), w.Requester.Roles...))(t))
	}
	return c
}

// ask asks for n runs over repositories, requesters, risks and agents.
func (c crowd) ask(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		by := c.people[i%len(c.people)]
		contract := drive.Ordinary()
		contract.Risk = []string{"LOW", "LOW", "MEDIUM"}[i/9%3]
		got(c.w.Store.CreateTask(t.Context(), c.w.Request(by, "task"), db.TaskSpec{Repository: c.repos[i/3%len(c.repos)], Title: "A change", Goal: "Change one line.", BaseRef: "main",
			AgentProfile: []string{"fast", "slow"}[i/2%2], Contract: contract}))(t)
	}
}

// fail ends a lease and its run for good.
func fail(t *testing.T, s *db.Store, l db.Claimed) error {
	proof := run.LeaseRef{ID: l.Lease.ID, Token: l.Lease.Token}
	key := "failed-" + l.Lease.ID.String()
	_, err := s.Apply(t.Context(), l.Ref, db.Intent{Key: key, Hash: drive.Hash(key), By: run.Actor{ID: l.Lease.Worker}, Lease: &proof, Worker: uuid.MustParse(l.Lease.Worker),
		Command: run.AttemptHasFailed{Code: run.CodeToolMissing, Summary: "There is no compiler."}})
	return err
}

// plant multiplies a queued run of the world n times, past the product: for backlogs that would take minutes to ask for.
// Such runs have no log of their own.
func (w *world) plant(t testing.TB, ref db.Ref, prefix string, n int) {
	t.Helper()
	super := w.superuser(t)
	var columns string
	must(t, super.QueryRow(t.Context(), `SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns WHERE table_name = 'runs' AND column_name <> 'id'`).Scan(&columns))
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO runs (id, %[1]s) SELECT md5($2 || n)::uuid, %[1]s FROM runs, generate_series(1, $3::int) n WHERE id = $1`, columns),
		`INSERT INTO run_queue (run_id, tenant_id, phase, repository_id, user_id, queue, risk, provider, pool, priority, requires, rank)
			SELECT md5($2 || n)::uuid, q.tenant_id, q.phase, q.repository_id, q.user_id, q.queue, q.risk, q.provider, q.pool, q.priority, q.requires, q.rank + n * interval '1 microsecond'
			FROM run_queue q, generate_series(1, $3::int) n WHERE q.run_id = $1`,
	} {
		_, err := super.Exec(t.Context(), statement, ref.Run, prefix, n)
		must(t, err)
	}
	for _, table := range []string{"runs", "run_queue"} {
		_, err := super.Exec(t.Context(), `VACUUM ANALYZE `+table)
		must(t, err)
	}
}

// R-Q-5: beside a tenant with ten thousand queued runs, fifty tenants with one run each: however they come, each is
// served before the whale gets more than its share. Counted in claims, not in time.
func TestWhaleDelaysNobody(t *testing.T) {
	t.Parallel()
	const backlog, small, head = 10_000, 50, 20
	d := dbtest.New(t)
	whale := &world{World: drive.New(t, d, drive.Options{}), db: d}
	whale.plant(t, got(whale.Run(t.Context(), drive.Ordinary()))(t), "whale", backlog-1)
	// Two hundred people of the whale ask: none of them holds much, the whale does.
	_, err := whale.Owner.Exec(t.Context(), `UPDATE run_queue SET user_id = md5('person' || hashtext(run_id::text) % 200)::uuid`)
	must(t, err)
	c := got(whale.Store.CreateWorkerCredential(t.Context(), db.WorkerCredential{Tenant: whale.Tenant, Name: "everywhere", Phases: run.Phases()}, uuid.NewString()))(t)
	id := db.WorkerID{ID: c.ID, Name: c.Name, Phases: run.Phases()}
	boot := got(whale.Store.RegisterBoot(t.Context(), id, db.Boot{Name: id.Name, Version: "test", Phases: run.Phases(), Isolation: "bwrap", MaxConcurrent: 1000}))(t)
	claim := func() uuid.UUID {
		t.Helper()
		given, _, err := whale.Store.Claim(t.Context(), db.ClaimRequest{ClaimID: whale.Key("claim"), Worker: id, Boot: boot, Phases: run.Phases(), Max: 1})
		must(t, err)
		if len(given) != 1 {
			t.Fatalf("%d leases given, want one", len(given))
		}
		return given[0].Ref.Tenant
	}
	for range head {
		if claim() != whale.Tenant {
			t.Fatal("somebody else was there")
		}
	}
	var tenants []*drive.World
	for n := range small {
		tenants = append(tenants, drive.New(t, d, drive.Options{Store: whale.Store, Tenant: fmt.Sprintf("small-%d", n), Approvers: 1}))
	}
	// Half of them come one by one: the very next claim is theirs.
	for _, w := range tenants[:small/2] {
		got(w.Run(t.Context(), drive.Ordinary()))(t)
		if who := claim(); who != w.Tenant {
			t.Errorf("a tenant that holds nothing came and %s was served first", who)
		}
	}
	// The others come at once: the next claims are theirs alone.
	waiting := map[uuid.UUID]bool{}
	for _, w := range tenants[small/2:] {
		got(w.Run(t.Context(), drive.Ordinary()))(t)
		waiting[w.Tenant] = true
	}
	for n := range small / 2 {
		who := claim()
		if !waiting[who] {
			t.Errorf("claim %d went to %s while %d tenants that hold nothing waited", n+1, who, len(waiting))
		}
		delete(waiting, who)
	}
	if claim() != whale.Tenant {
		t.Error("when nobody else waits the whale is served")
	}
	t.Logf("%d small tenants beside a backlog of %d: each had its lease after at most as many claims as others waited who held nothing", small, backlog)
}

// R-Q-5: what a claim touches does not grow with the backlog: pages counted by the server, at a thousand and at a hundred
// thousand queued items.
func TestClaimTouchesAsMuchWhateverWaits(t *testing.T) {
	t.Parallel()
	w := newStatistics(t, drive.Options{MaxConns: 2})
	first := got(w.Run(t.Context(), drive.Ordinary()))(t)
	measure := func() float64 {
		t.Helper()
		const warm, counted = 20, 40
		boot := got(w.Store.RegisterBoot(t.Context(), w.Workers[0].WorkerID, db.Boot{Name: "counted", Version: "test", Phases: run.Phases(), Isolation: "bwrap", MaxConcurrent: 1000}))(t)
		var given []db.Claimed
		claim := func() {
			got, _, err := w.Store.Claim(t.Context(), db.ClaimRequest{ClaimID: w.Key("claim"), Worker: w.Workers[0].WorkerID, Boot: boot, Phases: run.Phases(), Max: 1})
			must(t, err)
			if len(got) != 1 {
				t.Fatalf("%d leases given", len(got))
			}
			given = append(given, got...)
		}
		for range warm {
			claim()
		}
		w.forget(t)
		for range counted {
			claim()
		}
		pages := w.pages(t)
		// The next measurement begins with as many leases as this one.
		_, err := w.superuser(t).Exec(t.Context(), `DELETE FROM run_leases`)
		must(t, err)
		for _, table := range []string{"run_leases", "run_queue", "runs", "attempts", "sandboxes"} {
			_, err := w.superuser(t).Exec(t.Context(), `VACUUM ANALYZE `+table)
			must(t, err)
		}
		return float64(pages) / counted
	}
	w.plant(t, first, "few", 1_000)
	few := measure()
	w.plant(t, w.queued(t), "more", 9_000)
	more := measure()
	w.plant(t, w.queued(t), "many", 90_000)
	many := measure()
	t.Logf("a claim touches %.0f pages at 1,000 queued items, %.0f at 10,000 and %.0f at 100,000", few, more, many)
	// From a thousand on, each index that a claim descends grows by a level or none; nothing else may grow. Items are as large as what
	// their run was admitted with, and so is the part of a page that one fills.
	if many > 1.25*more || many > 1.5*few {
		t.Errorf("%.2f and %.2f times as many pages as at 10,000 and 1,000, want at most 1.25 and 1.5", many/more, many/few)
	}
}

// statistics is a world on a cluster of its own whose server counts pages.
type statistics struct{ *world }

func newStatistics(t *testing.T, o drive.Options) statistics {
	t.Helper()
	d, _ := dbtest.NewCluster(t, throwaway.Options{Settings: map[string]string{"shared_preload_libraries": "pg_stat_statements", "autovacuum": "off"}})
	w := statistics{&world{World: drive.New(t, d, o), db: d}}
	_, err := w.superuser(t).Exec(t.Context(), `CREATE EXTENSION pg_stat_statements`)
	must(t, err)
	return w
}

func (w statistics) forget(t testing.TB) {
	t.Helper()
	_, err := w.superuser(t).Exec(t.Context(), `SELECT pg_stat_statements_reset()`)
	must(t, err)
}

func (w statistics) pages(t testing.TB) (n int64) {
	t.Helper()
	must(t, w.superuser(t).QueryRow(t.Context(), `SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
		WHERE r.rolname = 'signalbox_engine'`).Scan(&n))
	return n
}

// queued is a run that waits.
func (w statistics) queued(t testing.TB) db.Ref {
	t.Helper()
	ref := db.Ref{Tenant: w.Tenant}
	must(t, w.Owner.QueryRow(t.Context(), `SELECT run_id FROM run_queue LIMIT 1`).Scan(&ref.Run))
	return ref
}
