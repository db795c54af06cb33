package bench_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// Sizes of steady heartbeats.
const (
	heartLeases = 10_000
	heartBoots  = 100
)

// BenchmarkHeartbeats prints what leases cost that are only kept; b.N means nothing to it.
func BenchmarkHeartbeats(b *testing.B) {
	p := start(b)
	f := p.figure()
	defer f.print()
	p.steadyHeartbeats(f.line)
}

// steadyHeartbeats is what ten thousand leases cost that are only kept: a hundred workers' heartbeats, each for a hundred
// leases, again and again.
func (p *product) steadyHeartbeats(line func(string, ...any)) {
	ctx := p.b.Context()
	p.hurried(func() {
		ref, err := p.world.Run(ctx, drive.Ordinary())
		p.must(err, "submit")
		// Each copy is as its lease makes it: the reconciler ends a lease that the run knows nothing of.
		p.exec(`INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', md5('heart' || n)::uuid, 'state', 'PREPARING', 'queued', NULL, 'attempt_no', 1, 'attempt_id', r.id,
				'fencing_token', n, 'lease_id', md5('lease' || n)::uuid, 'lease_phase', 'execute', 'lease_worker', $3::uuid, 'lease_boot', md5('boot' || n % $4::int)::uuid))).*
			FROM runs r, generate_series(1, $2::int) n WHERE r.id = $1`, ref.Run, heartLeases, p.worker.ID, heartBoots)
		p.exec(`INSERT INTO worker_boots SELECT (jsonb_populate_record(b, jsonb_build_object('id', md5('boot' || n)::uuid))).* FROM worker_boots b, generate_series(0, $2::int - 1) n WHERE b.id = $1`, p.boots[0], heartBoots)
		p.exec(`INSERT INTO run_leases (run_id, lease_id, tenant_id, fencing_token, phase, worker_id, boot_id, attempt_id, repository_id, user_id, claim_id, expires_at)
			SELECT md5('heart' || n)::uuid, md5('lease' || n)::uuid, r.tenant_id, n, 'execute', $2, md5('boot' || n % $3::int)::uuid, r.id, r.repository_id, $4, 'heart', clock_timestamp() + interval '1 hour'
			FROM runs r, generate_series(1, $5::int) n WHERE r.id = $1`, ref.Run, p.worker.ID, heartBoots, p.world.Requester.ID, heartLeases)
	})
	// As autovacuum would have it after minutes; without, the plans are those of empty tables.
	p.exec(`VACUUM ANALYZE run_leases, runs, worker_boots`)
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
				err = errors.New("a lease was answered as lost")
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
