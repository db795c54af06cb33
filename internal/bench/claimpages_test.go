package bench_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/run"
)

// claims of each size.
const claims = 30

// lookups are the statements by which a claim finds and decides; writes are those by which it says what it gave.
var (
	lookups = []string{"LockBoots", "LeasesOfBoots", "Lanes", "HoldOffClaims", "ScheduleFacts", "HeadsOfLanes", "LockItemsOfRuns"}
	writes  = []string{"WriteRuns", "WriteDequeued", "WriteUndelayed", "WriteLeases", "WriteAttempts", "WriteSandboxes"}
)

// BenchmarkClaimPages prints how many pages a claim touches, by how much waits; b.N means nothing to it.
func BenchmarkClaimPages(b *testing.B) {
	sizes := []int{1_000, 10_000, 100_000, 1_000_000}
	if testing.Short() {
		sizes = sizes[:2]
	}
	p := start(b)
	p.exec(`CREATE EXTENSION pageinspect`)
	f := p.figure()
	defer f.print()
	var first map[string]float64
	for _, queued := range sizes {
		began := time.Now()
		p.backlog(p.world, queued)
		// Dead rows and plans that were made for a smaller table are no matter of how much waits.
		p.exec(`VACUUM ANALYZE run_queue, runs, tasks, run_leases, worker_boots`)
		progress("%d runs wait: filled in %.0f s", queued, time.Since(began).Seconds())
		before := p.pages()
		got := p.claimed(claims)
		each := p.pages()
		for name := range each {
			each[name] = (each[name] - before[name]) / claims
		}
		if first == nil {
			first = each
		}
		look, write := total(each, lookups), total(each, writes)
		f.line("A claim with %d runs waiting: its look-ups %.0f pages, %.2f of that with %d; its writes %.0f, %.2f. Height of the indexes: %s.",
			queued, look, look/total(first, lookups), sizes[0], write, write/total(first, writes), p.heights("run_queue_lane_idx", "run_queue_pkey", "runs_pkey", "tasks_pkey"))
		f.line("    %s", pagesOf(each, slices.Concat(lookups, writes)))
		p.letGo(got)
	}
}

// claimed are n claims of one lease each.
func (p *product) claimed(n int) (got []db.Claimed) {
	p.b.Helper()
	for range n {
		c, _, err := p.world.Store.Claim(p.b.Context(), db.ClaimRequest{ClaimID: p.key(), Worker: p.worker, Boot: p.boots[0], Phases: []run.Phase{run.PhaseExecute}, Max: 1})
		p.must(err, "claim")
		got = append(got, c...)
	}
	if len(got) != n {
		p.b.Fatalf("bench: %d of %d claims gave work", len(got), n)
	}
	return got
}

func total(pages map[string]float64, names []string) (sum float64) {
	for _, n := range names {
		sum += pages[n]
	}
	return sum
}

func pagesOf(pages map[string]float64, names []string) string {
	var all []string
	for _, n := range names {
		all = append(all, fmt.Sprintf("%s %.1f", n, pages[n]))
	}
	return strings.Join(all, ", ")
}

// pages are those that the statements of the server touched, by the name of the query, with what their foreign keys and
// triggers touched.
func (p *product) pages() map[string]float64 {
	p.b.Helper()
	rows, err := p.root.Query(p.b.Context(), `SELECT substring(query FROM 'name: (\w+) '), sum(shared_blks_hit + shared_blks_read)::float8
		FROM pg_stat_statements WHERE userid = 'signalbox_engine'::regrole AND query ~ 'name: \w+ ' GROUP BY 1`)
	p.must(err, "read the statements")
	all := map[string]float64{}
	for rows.Next() {
		var name string
		var pages float64
		p.must(rows.Scan(&name, &pages), "read a statement")
		all[name] = pages
	}
	p.must(rows.Err(), "read the statements")
	return all
}

// heights are the levels of indexes, the leaves counted too.
func (p *product) heights(indexes ...string) string {
	p.b.Helper()
	all := map[string]string{}
	for _, i := range indexes {
		var level int
		p.must(p.root.QueryRow(p.b.Context(), `SELECT level + 1 FROM bt_metap($1)`, i).Scan(&level), "look at an index")
		all[i] = fmt.Sprintf("%s %d", i, level)
	}
	return strings.Join(slices.Sorted(maps.Values(all)), ", ")
}

// letGo ends leases without trace, so that the next figure begins where this one did.
func (p *product) letGo(leases []db.Claimed) {
	for _, l := range leases {
		p.exec(`DELETE FROM run_leases WHERE run_id = $1`, l.Ref.Run)
	}
}
