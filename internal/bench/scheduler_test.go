package bench_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/pgserver"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// Sizes of the scheduler's figures.
const (
	emptyRuns   = 200    // runs of one round of empty work
	emptyJobs   = 20_000 // jobs of one round of the peer
	emptyRounds = 7
	heartLeases = 10_000
	heartBoots  = 100
)

// BenchmarkScheduler prints what waits, leases and heartbeats cost; b.N means nothing to it.
func BenchmarkScheduler(b *testing.B) {
	p := start(b)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	before := load()
	p.claimCost(line)
	p.emptyWork(line)
	p.steadyHeartbeats(line)
	line("Load average before: %s; after: %s.", before, load())
	fmt.Println()
	p.must(out.Flush(), "print")
}

// claimCost is how many pages one claim touches, by how much waits.
func (p *product) claimCost(line func(string, ...any)) {
	first := 0.0
	for _, queued := range []int{1_000, 10_000, 100_000} {
		p.backlog(queued)
		p.exec(`VACUUM ANALYZE run_queue`)
		const claims = 30
		before := p.pages()
		var got []db.Claimed
		for range claims {
			c, _, err := p.world.Store.Claim(p.b.Context(), db.ClaimRequest{ClaimID: p.key(), Worker: p.worker, Boot: p.boots[0], Phases: []run.Phase{run.PhaseExecute}, Max: 1})
			p.must(err, "claim")
			got = append(got, c...)
		}
		if len(got) != claims {
			p.b.Fatalf("bench: %d of %d claims gave work", len(got), claims)
		}
		each := (p.pages() - before) / claims
		if first == 0 {
			first = each
		}
		line("A claim with %d runs waiting: %.0f pages, %.2f of that with 1000.", queued, each, each/first)
		p.letGo(got)
	}
	p.exec(`DELETE FROM run_queue`)
}

// pages are those that the claims' own look-ups touched.
func (p *product) pages() (n float64) {
	p.must(p.root.QueryRow(p.b.Context(), `SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8 FROM pg_stat_statements
		WHERE query ~ 'name: (LockBoots|LeasesOfBoots|Lanes|HoldOffClaims|ScheduleFacts|HeadsOfLanes|LockItemsOfRuns|RunContracts) '`).Scan(&n), "read the statements")
	return n
}

// backlog fills the queue to n items: one run that was submitted, and copies of its rows.
func (p *product) backlog(n int) {
	ctx := p.b.Context()
	p.hurried(func() {
		ref, err := p.world.Run(ctx, drive.Ordinary())
		p.must(err, "submit")
		var have int
		p.must(p.root.QueryRow(ctx, `SELECT count(*) FROM run_queue`).Scan(&have), "count")
		p.exec(`INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', md5('backlog' || $3::text || ' ' || n)::uuid))).* FROM runs r, generate_series($2::int, $3::int) n WHERE r.id = $1`, ref.Run, have, n-1)
		p.exec(`INSERT INTO run_queue (run_id, tenant_id, phase, repository_id, user_id, queue, risk, provider, requires, rank)
			SELECT md5('backlog' || $3::text || ' ' || n)::uuid, q.tenant_id, q.phase, q.repository_id, q.user_id, q.queue, q.risk, q.provider, q.requires, clock_timestamp()
			FROM run_queue q, generate_series($2::int, $3::int) n WHERE q.run_id = $1`, ref.Run, have, n-1)
	})
}

// letGo ends leases without trace, so that the next figure begins where this one did.
func (p *product) letGo(leases []db.Claimed) {
	for _, l := range leases {
		p.exec(`DELETE FROM run_leases WHERE run_id = $1`, l.Ref.Run)
	}
}

// emptyWork claims and completes runs over HTTP, each call answered after its commit, beside River's burn-down of empty
// jobs in its own process: at its best, and with each completion durable before the next.
func (p *product) emptyWork(line func(string, ...any)) {
	river := p.river()
	var ours, best, durable []float64
	for round := range emptyRounds {
		kinds := []func(){
			func() { ours = append(ours, p.burnDown()) },
			func() { best = append(best, river("best", emptyJobs)) },
			func() { durable = append(durable, river("durable", emptyJobs/10)) },
		}
		rand.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		for _, k := range kinds {
			k()
		}
		fmt.Fprintf(os.Stderr, "empty work, round %d of %d: ours %.0f/s, River %.0f/s and %.0f/s\n", round+1, emptyRounds, ours[round], best[round], durable[round])
	}
	line("Empty work claimed and completed over HTTP: %.0f runs/s. River in its own process: %.0f jobs/s at its best, ratio %s; %.0f jobs/s with durable completions, ratio %s.",
		quantile(ours, 0.5), quantile(best, 0.5), ratio(ours, best), quantile(durable, 0.5), ratio(ours, durable))
}

// river builds the peer once and returns a call of it, on a database of its own in the same cluster.
func (p *product) river() func(mode string, jobs int) float64 {
	p.b.Helper()
	binary := filepath.Join(p.b.TempDir(), "river")
	build := exec.CommandContext(p.b.Context(), "go", "build", "-o", binary, ".")
	build.Dir = "river"
	if said, err := build.CombinedOutput(); err != nil {
		p.b.Fatalf("bench: build River: %v\n%s", err, said)
	}
	p.exec(`CREATE DATABASE river`)
	address := p.cluster.Server().URL(pgserver.Superuser, "river")
	return func(mode string, jobs int) float64 {
		said, err := exec.CommandContext(p.b.Context(), binary, address, strconv.Itoa(jobs), mode).Output()
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			p.b.Fatalf("bench: River: %v\n%s", err, e.Stderr)
		}
		p.must(err, "run River")
		n, err := strconv.ParseFloat(strings.TrimSpace(string(said)), 64)
		p.must(err, "read River's rate")
		return n
	}
}

// burnDown submits runs without counting the time, then has them claimed and completed as fast as they go.
func (p *product) burnDown() float64 {
	p.b.Helper()
	p.hurried(func() {
		p.each(emptyRuns, func(int) error {
			_, err := p.world.Task(p.b.Context(), drive.Ordinary())
			return err
		})
	})
	var wg sync.WaitGroup
	var done atomic.Int64
	work := make(chan wire.Assignment, emptyRuns)
	errs := make(chan error, 64)
	began := time.Now()
	for range 32 {
		wg.Go(func() {
			c, err := p.dial()
			if err != nil {
				errs <- err
				return
			}
			defer c.conn.Close()
			for a := range work {
				if _, err := c.do(p.fail(a), http.StatusOK); err != nil {
					errs <- err
					return
				}
				done.Add(1)
			}
		})
	}
	claimer, err := p.dial()
	p.must(err, "connect")
	defer claimer.conn.Close()
	for given := 0; given < emptyRuns; {
		body, err := claimer.do(p.request("/workers/claims", p.secret, p.key(), wire.Claim{BootId: typeid.Format(typeid.Boot, p.boots[1]), ClaimId: p.key(), Max: 50, Phases: []wire.Phase{wire.Execute}}), http.StatusOK)
		p.must(err, "claim")
		var ack wire.ClaimAck
		p.must(json.Unmarshal(body, &ack), "read the claim")
		for _, a := range ack.Assignments {
			work <- a
		}
		given += len(ack.Assignments)
	}
	close(work)
	wg.Wait()
	select {
	case err := <-errs:
		p.must(err, "complete")
	default:
	}
	if done.Load() != emptyRuns {
		p.b.Fatalf("bench: %d of %d runs were completed", done.Load(), emptyRuns)
	}
	return emptyRuns / time.Since(began).Seconds()
}

// fail is the shortest completion there is: the run ends, and its task with it or to be run again.
func (p *product) fail(a wire.Assignment) []byte {
	return p.request("/runs/"+a.RunId+"/commands", p.secret, p.key(), wire.RunCommand{Command: wire.CmdAttemptFailed, LeaseId: a.LeaseId, FencingToken: a.FencingToken,
		AttemptFailed: &wire.AttemptFailed{ReasonCode: string(run.CodeTaskContractInvalid), Summary: "Empty work."}})
}

// steadyHeartbeats is what ten thousand leases cost that are only kept: a hundred workers' heartbeats, each for a hundred
// leases, again and again.
func (p *product) steadyHeartbeats(line func(string, ...any)) {
	ctx := p.b.Context()
	p.hurried(func() {
		ref, err := p.world.Run(ctx, drive.Ordinary())
		p.must(err, "submit")
		p.exec(`INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', md5('heart' || n)::uuid))).* FROM runs r, generate_series(1, $2::int) n WHERE r.id = $1`, ref.Run, heartLeases)
		p.exec(`INSERT INTO worker_boots SELECT (jsonb_populate_record(b, jsonb_build_object('id', md5('boot' || n)::uuid))).* FROM worker_boots b, generate_series(0, $2::int - 1) n WHERE b.id = $1`, p.boots[0], heartBoots)
		p.exec(`INSERT INTO run_leases (run_id, lease_id, tenant_id, fencing_token, phase, worker_id, boot_id, attempt_id, repository_id, user_id, claim_id, expires_at)
			SELECT md5('heart' || n)::uuid, md5('lease' || n)::uuid, r.tenant_id, n, 'execute', $2, md5('boot' || n % $3::int)::uuid, r.id, r.repository_id, $4, 'heart', clock_timestamp() + interval '1 hour'
			FROM runs r, generate_series(1, $5::int) n WHERE r.id = $1`, ref.Run, p.worker.ID, heartBoots, p.world.Requester.ID, heartLeases)
	})
	p.exec(`VACUUM ANALYZE run_leases`)
	requests := p.heartbeats()
	const rounds = 20
	before, hotBefore := p.counters(), p.heapOnly("run_leases")
	began := time.Now()
	for range rounds {
		p.together(requests)
	}
	took := time.Since(began)
	after, hot := p.counters(), p.heapOnly("run_leases")
	beats := float64(rounds * heartLeases)
	line("%d leases kept by %d workers: a heartbeat of all of them takes %.0f ms, %.1f %% of one core-second every 5 s on this machine; %.0f bytes of WAL for each lease (%.0f kB/s at 5 s); %.1f %% heap-only.",
		heartLeases, heartBoots, took.Seconds()*1000/rounds, took.Seconds()/rounds/5*100, (after.wal-before.wal)/beats, (after.wal-before.wal)/beats*heartLeases/5/1000,
		100*(hot.hot-hotBefore.hot)/(hot.updates-hotBefore.updates))
}

func (p *product) heapOnly(table string) (c counters) {
	p.must(p.root.QueryRow(p.b.Context(), `SELECT n_tup_upd::float8, n_tup_hot_upd::float8 FROM pg_stat_user_tables WHERE relname = $1`, table).Scan(&c.updates, &c.hot), "read the tables")
	return c
}

func (p *product) heartbeats() [][]byte {
	rows, err := p.root.Query(p.b.Context(), `SELECT boot_id, run_id, lease_id, fencing_token FROM run_leases WHERE claim_id = 'heart' ORDER BY boot_id`)
	p.must(err, "read the leases")
	by := map[string]*wire.Heartbeat{}
	for rows.Next() {
		var boot, id, lease uuid.UUID
		var token int64
		p.must(rows.Scan(&boot, &id, &lease, &token), "read a lease")
		key := typeid.Format(typeid.Boot, boot)
		if by[key] == nil {
			by[key] = &wire.Heartbeat{BootId: key, State: wire.WorkerReady}
		}
		by[key].Leases = append(by[key].Leases, wire.HeldLease{RunId: typeid.Format(typeid.Run, id), LeaseId: typeid.Format(typeid.Lease, lease), FencingToken: token})
	}
	p.must(rows.Err(), "read the leases")
	var all [][]byte
	for _, h := range by {
		all = append(all, p.request("/workers/heartbeat", p.secret, p.key(), h))
	}
	return all
}

// together sends requests over as many connections as workers would have, and reads every answer.
func (p *product) together(requests [][]byte) {
	var wg sync.WaitGroup
	errs := make(chan error, len(requests))
	for _, r := range requests {
		wg.Go(func() {
			c, err := p.dial()
			if err != nil {
				errs <- err
				return
			}
			defer c.conn.Close()
			body, err := c.do(r, http.StatusOK)
			if err == nil && strings.Contains(string(body), `"lost"`) {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		p.must(err, "heartbeat")
	default:
	}
}
