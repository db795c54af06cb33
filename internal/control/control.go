// Package control owns the server's loops: the least without which nothing moves
// or recovers. Each loop is a RunOnce that is correct with any number of replicas;
// it looks with one bounded query, and every change goes through the store's one
// door, where losing a race is a counted conflict and not an error.
//
// The package refuses to decide states: it says which clock ran out, and the
// reducer says what that means.
package control

import (
	"context"
	"log/slog"
	"time"

	"signalbox/db"
	"signalbox/internal/loop"
)

// Options say how often the loops look. Zero values have defaults for production.
type Options struct {
	// Tick is how often leases, running work and delays are looked at; 0 means 1 s.
	Tick time.Duration
	// Slow is how often the queue, gates, attestations and idle tasks are; 0 means 15 s.
	Slow time.Duration
	// StopGrace is how long a worker may take to obey a stop; 0 means 30 s.
	StopGrace time.Duration
	// Silent is after how long a worker without heartbeat is dead; 0 means 90 s.
	Silent time.Duration
	// Checkpoints of the audit log are made where it says; nil for none.
	Checkpoints *Checkpoints
	Log         *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Tick == 0 {
		o.Tick = time.Second
	}
	if o.Slow == 0 {
		o.Slow = 15 * time.Second
	}
	if o.StopGrace == 0 {
		o.StopGrace = 30 * time.Second
	}
	if o.Silent == 0 {
		o.Silent = 90 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// batch bounds what one look takes, so that one loop never holds up another.
const batch = 100

// Loops returns the server's loops over one store.
func Loops(s *db.Store, o Options) []*loop.Loop {
	o = o.withDefaults()
	// Three looks that did not happen; or half a lease time, where that is longer: shorter silence costs no live worker its lease.
	patience := max(3*o.Tick, s.Timing().LeaseTTL/2)
	loops := []*loop.Loop{
		{Name: "presence", Every: o.Tick, RunOnce: (&Presence{Store: s, Patience: patience}).RunOnce, Log: o.Log},
		{Name: "admission", Every: o.Tick, RunOnce: (&Admission{Store: s, Log: o.Log}).RunOnce, Log: o.Log},
		{Name: "delivery", Every: o.Tick, RunOnce: (&Delivery{Store: s}).RunOnce, Log: o.Log},
		{Name: "reaper", Every: o.Tick, RunOnce: (&Reaper{Store: s, StopGrace: o.StopGrace, Silent: o.Silent, Patience: patience, Log: o.Log}).RunOnce, Log: o.Log},
		{Name: "run clocks", Every: o.Tick, RunOnce: (&RunClocks{Store: s, StopGrace: o.StopGrace, Log: o.Log}).RunOnce, Log: o.Log},
		{Name: "queue clock", Every: o.Slow, RunOnce: (&QueueClock{Store: s, Log: o.Log}).RunOnce, Log: o.Log},
		{Name: "use clocks", Every: o.Slow, RunOnce: (&UseClocks{Store: s, Log: o.Log}).RunOnce, Log: o.Log},
		{Name: "gate clocks", Every: o.Slow, RunOnce: (&GateClocks{Store: s, Log: o.Log}).RunOnce, Log: o.Log},
		{Name: "task clocks", Every: o.Slow, RunOnce: (&TaskClocks{Store: s, Log: o.Log}).RunOnce, Log: o.Log},
		{Name: "reconciler", Every: o.Slow, RunOnce: (&Reconciler{Store: s, Log: o.Log}).RunOnce, Log: o.Log},
		{Name: "relay", Every: o.Tick, RunOnce: (&Relay{Store: s, Log: o.Log}).RunOnce, Log: o.Log},
		{Name: "campaigns", Every: o.Tick, RunOnce: (&Campaigns{Store: s, Log: o.Log}).RunOnce, Log: o.Log},
		{Name: "sweeper", Every: o.Slow, RunOnce: (&Sweeper{Store: s}).RunOnce, Log: o.Log},
	}
	loops = append(loops, &loop.Loop{Name: "secrets", Every: time.Hour, RunOnce: s.Reseal, Log: o.Log})
	if o.Checkpoints != nil {
		loops = append(loops, &loop.Loop{Name: "checkpoints", Every: time.Minute, RunOnce: o.Checkpoints.RunOnce, Log: o.Log})
	}
	return loops
}

// Delivery moves delayed queue items that are due into the queue.
type Delivery struct{ Store *db.Store }

// RunOnce returns how many items were moved.
func (d *Delivery) RunOnce(ctx context.Context) (int, error) { return d.Store.Deliver(ctx, batch) }
