package db_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// R-Q-1, R-Q-2, R-Q-6, R-LEASE-1, R-LEASE-2, R-LEASE-3, R-LEASE-4, R-WRK-1, R-WRK-3: whatever people, workers and the
// clock do one after the other, queue and leases are those of the model (model_test.go): nothing is lost or given
// twice, no limit is exceeded, nothing that may be given stays with somebody who has room and asks, tokens rise, what is stale
// changes no row, and every log replays to its run. rapid prints the seed of what it finds; RAPID_CHECKS
// and RAPID_STEPS, or the flags of those names, make it longer.
func TestQueueAndLeasesAgainstTheModel(t *testing.T) {
	t.Parallel()
	sizes := map[string]string{"rapid.checks": "16", "rapid.steps": "40"}
	if os.Getenv("SIGNALBOX_TEST_LONG") != "" {
		sizes = map[string]string{"rapid.checks": "300", "rapid.steps": "80"}
	}
	flag.Visit(func(f *flag.Flag) { delete(sizes, f.Name) })
	for name, v := range sizes {
		if os.Getenv(strings.ToUpper(strings.ReplaceAll(name, ".", "_"))) == "" {
			must(t, flag.Set(name, v))
		}
	}
	rig := newRig(t)
	rapid.Check(t, func(t *rapid.T) {
		m := rig.begin(t)
		t.Repeat(m.commands())
		m.replays(t)
	})
	var done []string
	for _, what := range slices.Sorted(maps.Keys(rig.did)) {
		done = append(done, fmt.Sprintf("%s %d", what, rig.did[what]))
	}
	t.Logf("%d cases: %s", rig.cases, strings.Join(done, ", "))
}

// rig is what all cases share: a database, two tenants and three credentials. Each case begins with nothing else.
type rig struct {
	store  *db.Store
	super  *pgx.Conn
	worlds []*drive.World
	people [][]drive.Person
	repos  [][]uuid.UUID
	ids    []db.WorkerID
	kinds  []modelWorker
	forget string
	cases  int
	did    map[string]int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	d := dbtest.New(t)
	// Retries wait for years, so that only the command that says so lets one come.
	first := &world{World: drive.New(t, d, drive.Options{MaxConns: 2, Approvers: 1, Timing: db.Timing{LeaseTTL: modelTTL * time.Minute,
		CancelGrace: modelGrace * time.Minute, Aging: modelAging * time.Minute, BackoffScale: 1e5}}), db: d}
	second := drive.New(t, d, drive.Options{Tenant: "second", Store: first.Store, Approvers: 1})
	r := &rig{store: first.Store, super: first.superuser(t), worlds: []*drive.World{first.World, second}, did: map[string]int{}}
	for _, w := range r.worlds {
		var forge uuid.UUID
		must(t, w.Owner.QueryRow(t.Context(), `SELECT forge_id FROM repositories WHERE id = $1`, w.Repo).Scan(&forge))
		more := got(w.Store.CreateRepository(t.Context(), w.Tenant, w.Admin.ID, db.RepositoryInfo{Forge: forge, Name: "more", CloneURL: "file:///srv/more.git",
			DefaultBranch: "main", Verification: []run.Check{{Name: "test", Argv: []string{"true"}}}}))(t)
		r.people = append(r.people, []drive.Person{w.Requester, w.Admin})
		r.repos = append(r.repos, []uuid.UUID{w.Repo, more.ID})
	}
	r.kinds = []modelWorker{{-1, run.Phases()}, {0, run.Phases()}, {1, []run.Phase{run.PhaseExecute, run.PhaseVerify}}}
	for n, m := range r.kinds {
		w := r.worlds[max(m.tenant, 0)]
		c := got(w.Store.CreateWorkerCredential(t.Context(), db.WorkerCredential{Tenant: w.Tenant, Name: fmt.Sprint("model-", n), Phases: m.phases}, uuid.NewString()))(t)
		id := db.WorkerID{ID: c.ID, Name: c.Name, Phases: m.phases}
		if m.tenant >= 0 {
			id.Tenant = &w.Tenant
		} else {
			_, err := w.Owner.Exec(t.Context(), `UPDATE worker_credentials SET tenant_id = NULL WHERE id = $1`, c.ID)
			must(t, err)
		}
		r.ids = append(r.ids, id)
	}
	r.forget = got(r.forgetting(t.Context()))(t)
	return r
}

// forgetting is the statement that takes away whatever a case left: all tables that hold nothing now, and those of boots
// and policies.
func (r *rig) forgetting(ctx context.Context) (string, error) {
	rows, err := r.super.Query(ctx, `SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`)
	if err != nil {
		return "", err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", err
	}
	var all []string
	for _, table := range tables {
		var empty bool
		if err := r.super.QueryRow(ctx, `SELECT NOT EXISTS (SELECT 1 FROM `+table+`)`).Scan(&empty); err != nil {
			return "", err
		}
		if empty || table == "worker_boots" || table == "policies" {
			all = append(all, `DELETE FROM `+table)
		}
	}
	return strings.Join(all, "; "), nil
}

// machine is the product beside its model, for one case.
type machine struct {
	model
	*rig
	ctx context.Context
	// ended are leases that are over, with who had them.
	ended  []*drive.Lease
	claims int
	tokens map[int64]bool
	print  string // of every row, as they were after the last command
}

func (r *rig) begin(t *rapid.T) *machine {
	m := &machine{rig: r, ctx: t.Context(), tokens: map[int64]bool{}}
	r.cases++
	_, err := r.super.Exec(m.ctx, r.forget)
	m.ok(t, err)
	m.workers, m.limits, m.paused = r.kinds, make([]modelLimits, len(r.worlds)), make([]bool, len(r.worlds))
	for tenant := range r.worlds {
		m.limit(t, tenant)
	}
	// Something to begin with, so that few steps are enough to get far.
	for range 2 {
		m.register(t)
	}
	for range 4 {
		m.submit(t)
	}
	return m
}

// wrong ends the case. What differs between two runs of the same draws (ids, tokens) or between two sizes of the same
// failure is said before: rapid takes failures with other words for other failures and would not shrink them.
func (m *machine) wrong(t *rapid.T, how string, args ...any) {
	t.Helper()
	t.Logf(how, args...)
	t.Fatal("the product does not do as the model says; the line before this one says how")
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

// ok ends the case where something failed that may not. Ids are left out: see wrong.
func (m *machine) ok(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(anyID.ReplaceAllString(err.Error(), "…"))
	}
}

// commands by name; a name with a number is the same command drawn more often.
func (m *machine) commands() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":           m.same,
		"submit":     m.submit,
		"submit 2":   m.submit,
		"register":   m.register,
		"claim":      m.claim,
		"claim 2":    m.claim,
		"claim 3":    m.claim,
		"ask again":  m.claimAgain,
		"beat":       m.beat,
		"complete":   m.complete,
		"complete 2": m.complete,
		"start":      m.start,
		"fail":       m.fail,
		"release":    m.release,
		"stale":      m.stale,
		"stale 2":    m.stale,
		"cancel":     m.cancelHeld,
		"approve":    m.approve,
		"approve 2":  m.approve,
		"pass":       m.pass,
		"reap":       m.reap,
		"deliver":    m.deliver,
		"deliver 2":  m.deliver,
		"drain":      m.drain,
		"manage":     m.manage,
	}
}

// manage is what people do more rarely than workers anything.
func (m *machine) manage(t *rapid.T) {
	switch rapid.SampledFrom([]string{"resume", "limit", "cancel", "pause", "stop"}).Draw(t, "what") {
	case "resume":
		m.pause(t, true)
	case "pause":
		m.pause(t, false)
	case "limit":
		m.limit(t, rapid.IntRange(0, len(m.worlds)-1).Draw(t, "tenant"))
	case "cancel":
		m.cancelRun(t)
	case "stop":
		m.stop(t)
	}
}

// one draws one of those, and skips the command where there is none.
func one[T any](t *rapid.T, what string, of []T) T {
	if len(of) == 0 {
		t.Skip("there is no " + what)
	}
	return of[rapid.IntRange(0, len(of)-1).Draw(t, what)]
}

func (m *machine) which(ok func(*modelRun) bool) (out []*modelRun) {
	for _, r := range m.runs {
		if ok(r) {
			out = append(out, r)
		}
	}
	return out
}

// up are the boots that did not stop.
func (m *machine) up() []*modelBoot {
	return slices.DeleteFunc(slices.Clone(m.boots), func(b *modelBoot) bool { return b.state == "STOPPED" })
}

// working are the runs whose worker may go on.
func (m *machine) working() []*modelRun {
	return m.which(func(r *modelRun) bool { return r.lease != nil && !m.over(r.lease) && r.state != run.Cancelling })
}

// held is the lease of the run as its worker has it.
func (m *machine) held(r *modelRun) *drive.Lease {
	l := r.lease
	c := db.Claimed{Ref: r.ref, Lease: run.Lease{ID: l.id, Token: l.token, Phase: l.phase, Worker: m.ids[l.boot.worker].ID.String(), Boot: l.boot.id.String()}}
	return m.worlds[r.tenant].Held(c, m.worker(l.boot))
}

func (m *machine) worker(b *modelBoot) drive.Worker {
	return drive.Worker{WorkerID: m.ids[b.worker], Boot: b.id}
}

// gone keeps a lease that ends now, for those that speak too late.
func (m *machine) gone(r *modelRun) { m.ended = append(m.ended, m.held(r)) }

func (m *machine) submit(t *rapid.T) {
	r := &modelRun{n: len(m.runs), tenant: rapid.IntRange(0, 1).Draw(t, "tenant"), user: rapid.IntRange(0, 1).Draw(t, "user"), repository: rapid.IntRange(0, 1).Draw(t, "repository"),
		priority: rapid.SampledFrom([]int{0, 0, 1, -2}).Draw(t, "priority"), jdk: rapid.SampledFrom([]bool{false, false, true}).Draw(t, "jdk"), state: run.Queued}
	c := drive.Ordinary()
	if r.jdk {
		c.Requires = []string{"jdk >= 21"}
	}
	w := m.worlds[r.tenant]
	a, err := w.Store.CreateTask(m.ctx, w.Request(m.people[r.tenant][r.user], "task"), db.TaskSpec{Repository: m.repos[r.tenant][r.repository], Title: "A change",
		Goal: "Change one line.", BaseRef: "main", Contract: c, Priority: r.priority})
	m.ok(t, err)
	if a.Run == nil {
		m.wrong(t, "the task is %s and has no run: %v", a.State, a.Reasons)
	}
	r.ref = db.Ref{Tenant: w.Tenant, Run: *a.Run}
	m.enqueue(r, run.PhaseExecute, false)
	m.runs = append(m.runs, r)
}

func (m *machine) register(t *rapid.T) {
	b := &modelBoot{n: len(m.boots), worker: rapid.IntRange(0, len(m.ids)-1).Draw(t, "worker"), jdk: rapid.SampledFrom([]bool{true, true, false}).Draw(t, "jdk"), room: rapid.SampledFrom([]int{3, 2, 4, 1}).Draw(t, "room"), state: "READY"}
	offers := []string{"jdk=17"}
	if b.jdk {
		offers = []string{"jdk=21.0.2"}
	}
	id := m.ids[b.worker]
	var err error
	b.id, err = m.store.RegisterBoot(m.ctx, id, db.Boot{Name: id.Name, Version: "test", Phases: id.Phases, Isolation: "bwrap", MaxConcurrent: b.room, Capabilities: offers})
	m.ok(t, err)
	m.boots = append(m.boots, b)
}

func (m *machine) limit(t *rapid.T, tenant int) {
	few := func(what string) int { return rapid.SampledFrom([]int{0, 0, 0, 0, 0, 2, 1, 3}).Draw(t, what) }
	l := &m.limits[tenant]
	l.tenant, l.repository, l.user = few("limit of the tenant"), few("limit of a repository"), few("limit of a user")
	words := fmt.Sprintf("schema: 1\nversion: %s\nlimits: {max_attempts: %d, max_crashes: %d, redeliveries: %d, sandbox_time: 168h, verifier_time: 168h}\nconcurrency: {tenant: %d, repository: %d, user: %d}\n",
		m.worlds[tenant].Key("limits"), modelAttempts, modelCrashes, modelDelivered, l.tenant, l.repository, l.user)
	if tenant == 0 {
		m.all, m.limits[1].share = few("limit of the installation"), few("share of the second")
		words += fmt.Sprintf("installation: {concurrency: {tenant: %d}, tenants: {second: {max: %d}}}\n", m.all, m.limits[1].share)
	}
	m.ok(t, m.worlds[tenant].SetPolicy(m.ctx, words))
}

// pause stops a queue, or lets one go on that was stopped.
func (m *machine) pause(t *rapid.T, stopped bool) {
	var all []int
	for n, p := range m.paused {
		if p == stopped {
			all = append(all, n)
		}
	}
	tenant := one(t, "tenant", all)
	w := m.worlds[tenant]
	if stopped {
		m.ok(t, m.store.ResumeQueue(m.ctx, w.Request(w.Admin, "resume"), policy.DefaultQueue))
	} else {
		m.ok(t, m.store.PauseQueue(m.ctx, w.Request(w.Admin, "pause"), policy.DefaultQueue, "For a while."))
	}
	m.paused[tenant] = !stopped
	if up := m.up(); len(up) > 0 {
		m.tries(t, one(t, "boot", up))
	}
}
