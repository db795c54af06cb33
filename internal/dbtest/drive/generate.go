package drive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// Generated counts what a generator did.
type Generated struct {
	Runs, Events, Refused int
	// Ends counts the states in which runs were left.
	Ends map[run.State]int
	// Pairs counts "STATE event" as they happened.
	Pairs map[string]int
}

// Pairs lists every "STATE event" of the table: its edges, whatever they lead to.
func Pairs() []string {
	var out []string
	for _, t := range run.Transitions() {
		for _, s := range t.From {
			out = append(out, pair(s, t.Event))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func pair(s run.State, k run.Kind) string { return fmt.Sprintf("%s %s", s, k) }

// Generate drives n runs through the store by seeded chance, steering towards what has happened least: two walkers at
// once, each in a tenant of its own. Every event goes the way it goes in the product; only clocks are short cut.
func Generate(t testing.TB, d dbtest.Database, seed uint64, n int) Generated {
	t.Helper()
	const walkers = 2
	results := make([]Generated, walkers)
	errs := make(chan error, walkers)
	for i := range walkers {
		w := New(t, d, Options{Tenant: fmt.Sprintf("generated-%d-%d", seed, i), MaxConns: 4})
		go func() {
			g := &generator{World: w, rng: rand.New(rand.NewPCG(seed, uint64(i))), out: Generated{Ends: map[run.State]int{}, Pairs: map[string]int{}}}
			err := g.all(t.Context(), n/walkers+(n%walkers)*(1-i))
			results[i] = g.out
			errs <- err
		}()
	}
	for range walkers {
		if err := <-errs; err != nil {
			t.Errorf("generator with seed %d: %v", seed, err)
		}
	}
	sum := Generated{Ends: map[run.State]int{}, Pairs: map[string]int{}}
	for _, r := range results {
		sum.Runs, sum.Events, sum.Refused = sum.Runs+r.Runs, sum.Events+r.Events, sum.Refused+r.Refused
		for s, c := range r.Ends {
			sum.Ends[s] += c
		}
		for p, c := range r.Pairs {
			sum.Pairs[p] += c
		}
	}
	return sum
}

// generator is one walker.
type generator struct {
	*World
	rng *rand.Rand
	out Generated

	// The present run.
	ref   db.Ref
	info  db.RunInfo
	lease *Lease
	c     run.Contract
	plan  string
	n     int
}

// action is something that may be done now; it counts as the event that it is expected to lead to.
type action struct {
	kind run.Kind
	// way is how much it belongs to the straight way; 0 for what disturbs it.
	way float64
	do  func(context.Context) error
}

func (g *generator) all(ctx context.Context, n int) error {
	for range n {
		if err := g.one(ctx); err != nil {
			return err
		}
	}
	return nil
}

// one makes a run under a policy of its own and leaves it somewhere, mostly at its end.
func (g *generator) one(ctx context.Context) error {
	g.n++
	calm := g.rng.Float64() < 0.85
	if err := g.SetPolicy(ctx, g.policy(calm)); err != nil {
		return err
	}
	g.c = g.contract()
	ref, err := g.Run(ctx, g.c)
	if err != nil {
		return err
	}
	g.ref, g.lease, g.plan = ref, nil, ""
	g.out.Runs++
	patience := 12 + g.rng.IntN(60)
	if g.rng.Float64() < 0.12 {
		patience = g.rng.IntN(12) // left where it stands
	}
	for range patience {
		if err := g.look(ctx); err != nil || g.info.State.Terminal() {
			break
		}
		if err := g.step(ctx); err != nil {
			return err
		}
	}
	if err := g.look(ctx); err != nil {
		return err
	}
	g.out.Ends[g.info.State]++
	g.out.Events += int(g.info.Version)
	events, err := g.Store.Events(ctx, g.Tenant, ref.Run, 0, 1000)
	if err != nil {
		return err
	}
	for _, e := range events {
		g.out.Pairs[pair(e.From, e.Kind)]++
	}
	return nil
}

func (g *generator) look(ctx context.Context) (err error) {
	g.info, err = g.Store.RunInfo(ctx, g.Tenant, g.ref.Run)
	if err == nil && g.info.Lease == nil {
		g.lease = nil
	}
	return err
}

// step does one thing. A refusal is an answer like any other, as long as it is one that people may read.
func (g *generator) step(ctx context.Context) error {
	as := g.actions()
	weights := make([]float64, len(as))
	total := 0.0
	for i, a := range as {
		seen := g.out.Pairs[pair(g.info.State, a.kind)]
		weights[i] = a.way + 0.02 + 1.5/float64(1+6*seen*seen)
		total += weights[i]
	}
	at := g.rng.Float64() * total
	for i, a := range as {
		if at -= weights[i]; at > 0 && i < len(as)-1 {
			continue
		}
		err := a.do(ctx)
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind != fault.Internal {
			g.out.Refused++
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s in %s: %w", a.kind, g.info.State, err)
		}
		g.out.Pairs[pair(g.info.State, a.kind)]++ // so that the next run steers elsewhere
		return nil
	}
	return nil
}

func pick[T any](g *generator, of ...T) T { return of[g.rng.IntN(len(of))] }

func (g *generator) contract() run.Contract {
	return run.Contract{
		Mode: pick(g, run.ModePRCreated, run.ModePRCreated, run.ModePRCreated, run.ModePRMerged, run.ModePatchReady, run.ModeAnalysis),
		Risk: pick(g, "LOW", "LOW", "MEDIUM", "HIGH", "CRITICAL"), PlanGate: g.rng.IntN(2) == 0, AutoPR: g.rng.IntN(2) == 0,
		Attestation: g.rng.IntN(3) == 0,
	}
}

// policy has tight limits, so that every limit is met, and draws what its clocks do.
func (g *generator) policy(calm bool) string {
	incident := ""
	if !calm {
		incident = "admission: {incident: {on: true, retry_after: 1s}}\n"
	}
	return fmt.Sprintf("schema: 1\nversion: generated-%d\n%slimits: {max_attempts: 2, max_runs: 3, repair_rounds: 1, redeliveries: 1, max_base_moves: 1}\n"+
		"retry: {delays: [1s], jitter: 0.5}\nauto_pr: {allowed: true}\napproval: {on_expiry: %s}\nattestation: {on_expiry: %s}\n"+
		"budget: {on_exceeded: %s}\nrun_timeout: {outcome: %s}\ngates: {report: {when: by_risk, risks: [HIGH, CRITICAL]}}\n",
		g.n, incident, pick(g, "escalate", "escalate", "cancel", "fail"), pick(g, "escalate", "fail"), pick(g, "gate", "gate", "gate", "fail"), pick(g, "expire", "fail"))
}

// Uncovered lists the pairs of the table that did not happen.
func (s Generated) Uncovered() []string {
	var out []string
	for _, p := range Pairs() {
		if s.Pairs[p] == 0 {
			out = append(out, p)
		}
	}
	return out
}

// States lists the states in which runs were left.
func (s Generated) States() []run.State { return slices.Sorted(maps.Keys(s.Ends)) }
