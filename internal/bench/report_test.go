package bench_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// measured are the rounds at one number of clients, in transitions per second.
type measured struct {
	clients            int
	http, write, whole []float64
}

// report is what `make bench` prints.
type report struct {
	rounds   []measured
	waits    []time.Duration // sorted
	product  counters
	did      int // transitions over HTTP that the counters are about
	postgres string
	load     string // before the first round
}

// quantile of unsorted values, by the nearest rank.
func quantile[T float64 | time.Duration](values []T, q float64) T {
	s := slices.Sorted(slices.Values(values))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

// ratio is the median of the rounds' ratios with its quartiles.
func ratio(ours, bare []float64) string {
	var all []float64
	for i := range ours {
		all = append(all, ours[i]/bare[i])
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", quantile(all, 0.5), quantile(all, 0.25), quantile(all, 0.75))
}

func (r report) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	line("%s · commit %s · %s · %d cores · %s · PostgreSQL %s, fsync on", time.Now().UTC().Format("2006-01-02 15:04 UTC"), commit(), system(), runtime.NumCPU(), runtime.Version(), r.postgres)
	line("Load average before: %s; after: %s. A load above the number of cores lowers the ratios as well: the server needs more of them than pgbench.\n", r.load, load())
	line("Durable transitions per second, acknowledged over HTTP (LEASED → PREPARING), beside pgbench of the same SQL.")
	line("Medians of %d interleaved rounds; ratios with their quartiles.\n", rounds)
	line("clients\tHTTP\tpgbench: write\tHTTP/write\tpgbench: reads + write\tHTTP/(reads + write)")
	for _, m := range r.rounds {
		line("%d\t%.0f\t%.0f\t%s\t%.0f\t%s", m.clients, quantile(m.http, 0.5), quantile(m.write, 0.5), ratio(m.http, m.write), quantile(m.whole, 0.5), ratio(m.http, m.whole))
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	line("\nSubmit → lease on an otherwise idle server, %d samples: p50 %.1f ms, p99 %.1f ms, largest %.1f ms.", len(r.waits), ms(quantile(r.waits, 0.5)), ms(quantile(r.waits, 0.99)), ms(slices.Max(r.waits)))
	n, c := float64(r.did), r.product
	line("Per transition over HTTP, with what the server's loops do meanwhile: %.2f statements, %.0f bytes of WAL (%.2f full-page images); %.1f%% of the updates of runs heap-only.",
		c.calls/n, c.wal/n, c.images/n, 100*c.hot/c.updates)
	_ = w.Flush()
}

// counters are what Postgres counted of the server's role; other work of the server is in them.
type counters struct{ calls, wal, images, updates, hot float64 }

func (c counters) plus(d, e counters) counters {
	return counters{c.calls + d.calls - e.calls, c.wal + d.wal - e.wal, c.images + d.images - e.images, c.updates + d.updates - e.updates, c.hot + d.hot - e.hot}
}

func (p *product) counters() (c counters) {
	p.b.Helper()
	ctx := p.b.Context()
	p.must(p.root.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::float8, coalesce(sum(wal_bytes), 0)::float8, coalesce(sum(wal_fpi), 0)::float8
		FROM pg_stat_statements WHERE userid = 'signalbox_engine'::regrole`).Scan(&c.calls, &c.wal, &c.images), "read the statements")
	p.must(p.root.QueryRow(ctx, `SELECT n_tup_upd::float8, n_tup_hot_upd::float8 FROM pg_stat_user_tables WHERE relname = 'runs'`).Scan(&c.updates, &c.hot), "read the tables")
	return c
}

func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(raw)); err == nil && len(fields) > 2 {
		return strings.Join(fields[:3], " ")
	}
	return "not known"
}

func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "not known"
	}
	return strings.TrimSpace(string(out))
}

func system() string {
	raw, err := os.ReadFile("/etc/os-release")
	if err == nil {
		for line := range strings.Lines(string(raw)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return strings.Trim(name, `"`)
			}
		}
	}
	return runtime.GOOS
}
