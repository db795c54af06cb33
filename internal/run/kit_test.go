package run_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// t0 is the database's clock when the tests' runs are made.
var t0 = time.Date(2031, 5, 4, 9, 0, 0, 0, time.UTC)

// uid is a stable id made of words: the same words, the same id.
func uid(parts ...any) uuid.UUID { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, parts...)) }

// chooser picks one of n possibilities. Enumeration, rapid and the fuzzer each
// bring their own, so that all of them draw from the same events.
type chooser interface{ pick(n int) int }

// first always takes the first possibility.
type first struct{}

func (first) pick(int) int { return 0 }

// odometer walks every combination of picks that a function makes.
type odometer struct{ at, of []int }

type reading struct {
	o *odometer
	n int
}

func (r *reading) pick(n int) int {
	if r.n == len(r.o.at) {
		r.o.at, r.o.of = append(r.o.at, 0), append(r.o.of, n)
	}
	r.n++
	return r.o.at[r.n-1]
}

// every calls f once for each combination of picks.
func every(f func(chooser)) {
	o := &odometer{}
	for {
		f(&reading{o: o})
		i := len(o.at) - 1
		for i >= 0 && o.at[i] == o.of[i]-1 {
			i--
		}
		if i < 0 {
			return
		}
		o.at, o.of = o.at[:i+1], o.of[:i+1]
		o.at[i]++
	}
}

func oneOf[T any](c chooser, of ...T) T { return of[c.pick(len(of))] }

// tight are limits that are soon spent, so that every branch is near.
func tight() run.Limits {
	l := run.LimitsOf(policy.Default().Limits, policy.Default())
	l.MaxAttempts, l.RepairRounds, l.Redeliveries, l.MaxBaseMoves = 2, 1, 1, 1
	return l
}

func usual() run.Limits { return run.LimitsOf(policy.Default().Limits, policy.Default()) }

// event wraps a payload as the server would: an actor that the table names, and
// the holder's lease where the rules ask for it.
func event(r run.Run, p run.Payload, by run.ActorKind) run.Event {
	ev := run.Event{ID: uid("event", r.ID, r.Version).String(), By: run.Actor{Kind: by, ID: string(by)},
		At: t0.Add(time.Duration(r.Version) * time.Minute), Payload: p}
	if run.LeaseRuleOf(r.State, p.Kind(), by) == run.LeaseHolder && r.Lease != nil {
		ev.Lease = &run.LeaseRef{ID: r.Lease.ID, Token: r.Lease.Token}
		ev.Cause = &run.Cause{Command: "test", Lease: new(r.Lease.ID)}
	}
	return ev
}

type cell struct {
	state run.State
	kind  run.Kind
}

type answer struct {
	by []run.ActorKind
	to []run.State
}

var tableCells = sync.OnceValue(func() map[cell]answer {
	m := map[cell]answer{}
	for _, t := range run.Transitions() {
		for _, s := range t.From {
			a := m[cell{s, t.Event}]
			a.by = append(a.by, t.By...)
			for _, to := range t.To {
				if to == run.Unchanged {
					to = s
				}
				a.to = append(a.to, to)
			}
			slices.Sort(a.to)
			a.to = slices.Compact(a.to)
			m[cell{s, t.Event}] = a
		}
	}
	return m
})

// actorsOf lists who may decide the event in that state.
func actorsOf(s run.State, k run.Kind) []run.ActorKind {
	return slices.Clone(tableCells()[cell{s, k}].by)
}

// targetsOf lists where the event may lead from that state.
func targetsOf(s run.State, k run.Kind) []run.State { return slices.Clone(tableCells()[cell{s, k}].to) }

// flow is one run driven event by event; its log is what a database would hold.
type flow struct {
	t    testing.TB
	run  run.Run
	log  []run.Event
	book *ledger
	last run.Result
	// seen lists the states in the order in which they were entered.
	seen []run.State
	// rules and facts are what the server knows when a command arrives.
	rules policy.Rules
	facts run.Facts
}

func newFlow(t testing.TB, mode run.Mode, risk policy.Risk) *flow {
	t.Helper()
	f := &flow{t: t, book: newLedger(), rules: policy.Default()}
	f.rules.Execution.MinIsolation = policy.IsolationProcess
	f.facts.Policy = policy.Facts{Repository: "sample/app", Requester: "u-ana", RequesterRoles: []policy.Role{policy.RoleRequester},
		SecretScan: policy.ScanClean, BudgetLeft: true}
	f.post(run.CreatedEvent{Run: uid("run", t.Name()), Tenant: uid("tenant"), Task: uid("task", t.Name()),
		Repository: uid("repository"), Mode: mode, Risk: string(risk)})
	return f
}

// post applies an event and whatever follows it, and fails the test if refused.
func (f *flow) post(p run.Payload) *flow {
	f.t.Helper()
	by := actorsOf(f.run.State, p.Kind())
	if len(by) == 0 {
		f.t.Fatalf("%s is not legal in %s", p.Kind(), f.run.State)
	}
	return f.postAs(by[0], p)
}

func (f *flow) postAs(by run.ActorKind, p run.Payload) *flow {
	f.t.Helper()
	return f.postEvent(event(f.run, p, by))
}

func (f *flow) postEvent(ev run.Event) *flow {
	f.t.Helper()
	p := ev.Payload
	res, err := run.Reduce(f.run, ev)
	if err != nil {
		f.t.Fatalf("%s in %s: %v", p.Kind(), f.run.State, err)
	}
	f.record(ev, res)
	for _, next := range res.Follow {
		f.post(next)
	}
	return f
}

func (f *flow) record(ev run.Event, res run.Result) {
	f.t.Helper()
	if err := f.book.apply(f.run, res); err != nil {
		f.t.Fatalf("%s in %s: %v", ev.Kind(), f.run.State, err)
	}
	if len(f.seen) == 0 || f.run.State != res.Run.State {
		f.seen = append(f.seen, res.Run.State)
	}
	f.log, f.run, f.last = append(f.log, ev), res.Run, res
}

// refused posts an event that must not be accepted and returns why.
func refused[E error](f *flow, p run.Payload) E {
	f.t.Helper()
	by := run.ControlPlane
	if who := actorsOf(f.run.State, p.Kind()); len(who) > 0 {
		by = who[0]
	}
	_, err := run.Reduce(f.run, event(f.run, p, by))
	e, ok := err.(E)
	if !ok {
		f.t.Fatalf("%s in %s: got %v, want %T", p.Kind(), f.run.State, err, *new(E))
	}
	return e
}

func (f *flow) in(want run.State) *flow {
	f.t.Helper()
	if f.run.State != want {
		f.t.Fatalf("state is %s, want %s (failure %+v)", f.run.State, want, f.run.Failure)
	}
	return f
}

// claim hands the waiting item to a worker.
func (f *flow) claim() *flow {
	f.t.Helper()
	return f.post(payload(f.run, run.KindLeaseAcquired, first{}))
}

// effects returns the last event's effects of one type.
func effects[E run.Effect](f *flow) []E {
	var out []E
	for _, e := range f.last.Effects {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

func setOf[T comparable](xs []T) map[T]bool {
	return maps.Collect(func(yield func(T, bool) bool) {
		for _, x := range xs {
			if !yield(x, true) {
				return
			}
		}
	})
}
