// Package bench_test owns `make bench`: what the product carries, beside what its own SQL carries bare on the same
// cluster in the same minutes. It refuses numbers without a peer: on a machine with neighbours only ratios of
// interleaved rounds mean anything.
package bench_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// Rounds are many and short, so that a neighbour's busy minute falls on all three kinds alike.
const (
	rounds  = 15
	samples = 300
)

// levels are the numbers of clients, each with the number of transitions of a round.
var levels = []struct{ clients, transitions int }{{1, 100}, {8, 640}, {64, 1280}}

// BenchmarkProduct prints a report of its own; b.N means nothing to it.
func BenchmarkProduct(b *testing.B) {
	r := report{load: load()}
	p := start(b)
	p.must(p.root.QueryRow(b.Context(), `SHOW server_version`).Scan(&r.postgres), "ask for the version")
	p.settle()
	// Latency first: later the disk still has work from the rounds.
	for range samples {
		r.waits = append(r.waits, p.submitToLease())
	}
	var clients []int
	for _, l := range levels {
		clients = append(clients, l.clients)
	}
	x := p.bare(clients)
	var leases []db.Claimed
	bare := 0
	for _, l := range levels {
		m := measured{clients: l.clients}
		for round := range rounds {
			leases = p.leased(l.transitions, leases)
			kinds := []func(){
				func() {
					before := p.counters()
					m.http = append(m.http, p.rate(l.clients, leases))
					r.product = r.product.plus(p.counters(), before)
					r.did += len(leases)
				},
				func() { m.write = append(m.write, x.rate(x.write, l.clients, l.transitions/l.clients)) },
				func() { m.whole = append(m.whole, x.rate(x.whole, l.clients, l.transitions/l.clients)) },
			}
			rand.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
			for _, k := range kinds {
				k()
			}
			bare += 2 * (l.transitions / l.clients) * l.clients
			fmt.Fprintf(os.Stderr, "%d clients, round %d of %d: HTTP %.0f/s, pgbench %.0f/s and %.0f/s\n", l.clients, round+1, rounds, m.http[round], m.write[round], m.whole[round])
		}
		r.rounds = append(r.rounds, m)
	}
	if n := x.written(b.Context()); n != bare {
		b.Fatalf("bench: pgbench says it made %d transitions, and there are %d", bare, n)
	}
	fmt.Println()
	r.print(os.Stdout)
	fmt.Println()
}

// settle brings the cluster to where an installation is after a day: its log goes round in files that are there already. On a fresh
// cluster, one commit in a hundred waits until a new file of 16 MB is filled with zeros.
func (p *product) settle() {
	for range 8 {
		_, err := p.root.Exec(p.b.Context(), `SELECT pg_logical_emit_message(false, 'bench', 'next'), pg_switch_wal()`)
		p.must(err, "go on to the next file of the log")
	}
	_, err := p.root.Exec(p.b.Context(), `CHECKPOINT`)
	p.must(err, "keep the files of the log")
}
