package control_test

import (
	"context"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/control"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/dbtest/throwaway"
	"signalbox/internal/run"
)

// watchful is a reaper as it runs, on a slower clock: silence of five minutes is an outage.
func (w *world) watchful() func(context.Context) (int, error) {
	return (&control.Reaper{Store: w.Store, StopGrace: grace, Silent: 90 * time.Second, Patience: 5 * time.Minute}).RunOnce
}

// R-LEASE-5: after an outage of the servers a full lease time passes before anything is taken from a worker, whoever of
// the replicas comes back first; then who is lost is lost.
func TestNothingIsReapedAfterAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{LeaseTTL: 10 * time.Minute, BackoffScale: 0.01}})
	alive, dead, told := w.at(t, run.Executing), w.at(t, run.Verifying), w.at(t, run.Cancelling)
	once(t, w.watchful(), 0)
	w.pass(t, time.Hour) // nobody said that he was there
	replicas(t, 0, many(3, w.watchful)...)
	if n := w.count(t, `SELECT outages FROM control_heartbeat`); n != 1 {
		t.Errorf("three replicas settled %d outages", n)
	}
	if n := w.count(t, `SELECT count(*) FROM worker_boots WHERE state = 'DEAD'`); n != 0 {
		t.Errorf("%d workers are dead whom nobody could hear", n)
	}
	if p := got(alive.Lease.Beat(t.Context()))(t); p.Signal != db.SignalAlive {
		t.Errorf("the live worker is told %s", p.Signal)
	}
	for _, d := range []time.Duration{4 * time.Minute, 4 * time.Minute} { // the loops go on meanwhile
		w.pass(t, d)
		once(t, w.watchful(), 0)
		if p := got(alive.Lease.Beat(t.Context()))(t); p.Signal != db.SignalAlive {
			t.Errorf("the live worker is told %s", p.Signal)
		}
	}
	w.is(t, told.Ref, run.Cancelling)
	w.pass(t, 3*time.Minute)
	once(t, w.watchful(), 2)
	w.is(t, alive.Ref, run.Executing)
	w.is(t, dead.Ref, run.Verifying)
	w.logged(t, dead.Ref, run.KindWorkerLost, 1)
	w.is(t, told.Ref, run.Cancelled)
}

// R-LEASE-3, R-LEASE-5: a worker that speaks before any loop has looked is not told that its lease is lost, whatever it
// says first; one whose lease ran out while somebody listened is.
func TestTheFirstWordAfterAnOutage(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(context.Context, *world, *drive.Lease) error{
		"heartbeat": func(ctx context.Context, _ *world, l *drive.Lease) error {
			p, err := l.Beat(ctx)
			if err == nil && p.Signal != db.SignalAlive {
				t.Errorf("the heartbeat is answered %s", p.Signal)
			}
			return err
		},
		"command": func(ctx context.Context, _ *world, l *drive.Lease) error {
			_, err := l.HandIn(ctx, drive.Diff("main.go", "new"))
			return err
		},
		"facts": func(ctx context.Context, w *world, l *drive.Lease) error {
			_, err := w.Store.Append(ctx, l.Holder(), db.Batch{Sequence: 1, Used: &db.Used{Model: "m", InputTokens: 1}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, drive.Options{})
			at := w.at(t, run.Executing)
			once(t, w.watchful(), 0)
			w.pass(t, time.Hour)
			must(t, say(t.Context(), w, at.Lease))
			once(t, w.watchful(), 0)
		})
	}
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	once(t, w.watchful(), 0)
	must(t, w.Lapse(t.Context(), at.Ref))
	if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != db.SignalLost {
		t.Errorf("without an outage a lease that ran out is answered %s", p.Signal)
	}
	once(t, w.watchful(), 1)
}

// R-LEASE-5: the first server that ever looks, after an upgrade perhaps, knows of no beat and takes nothing either.
func TestTheFirstBeatTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	w.exec(t, `DELETE FROM control_heartbeat`)
	must(t, w.Lapse(t.Context(), at.Ref))
	replicas(t, 0, many(3, w.watchful)...)
	if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != db.SignalAlive {
		t.Errorf("the worker is told %s", p.Signal)
	}
}

// R-LEASE-5: a database that crashed and came back, with a real cluster stopped in the hard way: the live worker keeps
// its lease, the dead one loses it after a full lease time and not before.
func TestTheDatabaseCrashes(t *testing.T) {
	t.Parallel()
	d, cluster := dbtest.NewCluster(t, throwaway.Options{Fsync: true})
	w := &world{World: drive.New(t, d, drive.Options{Timing: db.Timing{LeaseTTL: 10 * time.Minute, BackoffScale: 0.01}}), db: d}
	// The store that reaps has the short lease time, so that only what this test is about depends on the clock.
	const ttl = 8 * time.Second
	store := got(db.Open(t.Context(), db.Options{URL: d.EngineURL, AppURL: d.AppURL, Timing: db.Timing{LeaseTTL: ttl, BackoffScale: 0.01}}))(t)
	t.Cleanup(store.Close)
	reaper := func() *control.Reaper {
		return &control.Reaper{Store: store, StopGrace: grace, Silent: time.Hour, Patience: time.Hour}
	}
	once(t, reaper().RunOnce, 0)
	alive, dead := w.at(t, run.Executing), w.at(t, run.Executing)
	w.exec(t, `UPDATE run_leases SET expires_at = clock_timestamp() + interval '1 second'`)
	must(t, cluster.Crash())
	// Both leases run out while the database is gone.
	tick(t, 2*time.Second)
	must(t, cluster.Again(t.Context()))
	again := time.Now()
	reaped := func() int {
		n, err := reaper().RunOnce(t.Context())
		if err != nil {
			t.Logf("the reaper waits for the database: %v", err)
		}
		return n
	}
	for reaped() == 0 {
		if p, err := alive.Lease.Beat(t.Context()); err == nil && p.Signal != db.SignalAlive {
			t.Fatalf("after %s the live worker is told %s", time.Since(again), p.Signal)
		}
		if time.Since(again) > time.Minute {
			t.Fatal("the dead worker's lease is not ended")
		}
		tick(t, 50*time.Millisecond)
	}
	if took := time.Since(again); took < ttl {
		t.Errorf("a lease was ended %s after the database came back, before a lease time of %s", took, ttl)
	}
	w.is(t, alive.Ref, run.Executing)
	w.is(t, dead.Ref, run.Queued)
	w.logged(t, dead.Ref, run.KindWorkerLost, 1)
	w.logged(t, alive.Ref, run.KindWorkerLost, 0)
}

// tick waits between two looks at something real.
func tick(t testing.TB, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
