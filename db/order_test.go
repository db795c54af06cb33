package db_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/dbtest/interleave"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// replica is a server of its own as far as the database can see: a store behind a gate.
type replica struct {
	gate  *interleave.Gate
	store *db.Store
	// owner speaks SQL through the same gate.
	owner *pgxpool.Pool
}

// orders is a world whose replicas meet in every order of their round trips.
type orders struct {
	*world
	t        *testing.T
	replicas []replica
	explorer interleave.Explorer
}

// newOrders makes two replicas. bound is how often one may be interrupted while it could go on; the larger sizes
// interrupt once more.
func newOrders(t *testing.T, bound int, o drive.Options) *orders {
	t.Helper()
	most := 300
	if os.Getenv("SIGNALBOX_TEST_LONG") != "" {
		bound, most = bound+1, 20000
	}
	d := dbtest.New(t)
	w := &world{World: drive.New(t, d, o), db: d}
	x := &orders{world: w, t: t, explorer: interleave.Explorer{Watch: w.superuser(t), Preemptions: bound, Most: most}}
	for range 2 {
		g := interleave.NewGate(t, d.EngineURL)
		s := got(db.Open(t.Context(), db.Options{URL: g.URL(t, d.EngineURL), AppURL: g.URL(t, d.AppURL), Timing: db.Timing{BackoffScale: 0.01}, MaxConns: 1}))(t)
		t.Cleanup(s.Close)
		p := got(pgxpool.New(t.Context(), g.URL(t, d.OwnerURL)))(t)
		t.Cleanup(p.Close)
		x.replicas = append(x.replicas, replica{g, s, p})
	}
	return x
}

// both explores what two sessions do, each at a replica of its own.
func (x *orders) both(set func() (a, b func(context.Context, replica)), check func()) {
	x.t.Helper()
	// Before the first order, so that what the drivers do once only is in none of them.
	a, b := set()
	a(x.t.Context(), x.replicas[0])
	b(x.t.Context(), x.replicas[1])
	check()
	n := 0
	found := x.explorer.Run(x.t, func() []interleave.Session {
		a, b := set()
		n++
		var out []interleave.Session
		for i, do := range []func(context.Context, replica){a, b} {
			r := x.replicas[i]
			out = append(out, interleave.Session{Name: string(rune('A' + i)), Gate: r.gate, Do: func(ctx context.Context) { do(ctx, r) }})
		}
		return out
	}, func(order string) {
		check()
		if x.t.Failed() {
			x.t.Logf("in the order %s (the %d. that was tried)", order, n)
		}
	})
	c := x.replays(x.t)
	x.gapless()
	bound := fmt.Sprintf("every order with at most %d interruptions", x.explorer.Preemptions)
	if x.explorer.Preemptions < 0 {
		bound = "every order"
	}
	if found.Cut {
		bound = "the first orders"
	}
	x.t.Logf("%s: %d orders of up to %d steps, in %d of them somebody waited for a lock; %d runs with %d events replay", bound, found.Orders, found.Steps, found.Waited, c.Runs, c.Events)
	if found.Orders < 4 {
		x.t.Errorf("only %d orders: the sessions did not meet", found.Orders)
	}
}

// gapless holds that every run's versions are 1, 2, 3 … and its tokens grow.
func (x *orders) gapless() {
	x.t.Helper()
	if n := x.count(x.t, `SELECT count(*) FROM (SELECT run_id FROM run_events GROUP BY run_id HAVING max(seq) <> count(*) OR min(seq) <> 1) s`); n != 0 {
		x.t.Errorf("%d runs have gaps in their versions", n)
	}
	if n := x.count(x.t, `SELECT count(*) FROM (SELECT (payload #>> '{event,lease,token}')::bigint AS token,
			lag((payload #>> '{event,lease,token}')::bigint) OVER (PARTITION BY run_id ORDER BY seq) AS before
		FROM run_events WHERE kind = 'lease_acquired') s WHERE token <= before`); n != 0 {
		x.t.Errorf("%d tokens are not higher than the one before", n)
	}
}

// outcome of one session.
type outcome struct {
	leases []db.Claimed
	ack    db.Ack
	err    error
}

func (x *orders) claims(at *outcome, w drive.Worker, phases ...run.Phase) func(context.Context, replica) {
	id := x.Key("claim")
	if len(phases) == 0 {
		phases = run.Phases()
	}
	return func(ctx context.Context, r replica) {
		at.leases, _, at.err = r.store.Claim(ctx, db.ClaimRequest{ClaimID: id, Worker: w.WorkerID, Boot: w.Boot, Phases: phases, Max: 1})
	}
}

func (x *orders) applies(at *outcome, ref db.Ref, in db.Intent) func(context.Context, replica) {
	return func(ctx context.Context, r replica) { at.ack, at.err = r.store.Apply(ctx, ref, in) }
}

func (x *orders) cancels(at *outcome, ref db.Ref) func(context.Context, replica) {
	key := x.Key("cancel")
	return x.applies(at, ref, db.Intent{Key: key, Hash: drive.Hash(key), By: x.Requester.Actor(), Payload: run.CancelRequestedEvent{Reason: "Not needed."},
		Audit: &db.Audit{Tenant: x.Tenant, By: x.Requester.Actor(), Channel: "page", Action: "run.cancel", ObjectType: "run", ObjectID: ref.Run.String(), Result: "recorded"}})
}

// over ends a run that the next order must not meet.
func (x *orders) over(refs ...db.Ref) {
	x.t.Helper()
	for _, ref := range refs {
		info := x.info(x.t, ref)
		if info.State.Terminal() {
			continue
		}
		got(x.Post(x.t.Context(), ref, run.Scheduler, run.RunTimeoutEvent{}))(x.t)
	}
}

// lost holds that err only says that another was faster, or is nil.
func (x *orders) lost(what string, err error) bool {
	x.t.Helper()
	if err == nil {
		return false
	}
	if !db.Lost(err) {
		x.t.Errorf("%s failed: %v (%s)", what, err, fault.KindOf(err))
	}
	return true
}

// rows counts what is stored about a run.
func (x *orders) rows(ref db.Ref) (leases, items, ended, acquired int64) {
	x.t.Helper()
	n := func(q string) int64 { return x.count(x.t, q, ref.Run) }
	return n(`SELECT count(*) FROM run_leases WHERE run_id = $1`), n(`SELECT (SELECT count(*) FROM run_queue WHERE run_id = $1) + (SELECT count(*) FROM run_delayed WHERE run_id = $1)`),
		n(`SELECT count(*) FROM ended_leases WHERE run_id = $1`), n(`SELECT count(*) FROM run_events WHERE run_id = $1 AND kind = 'lease_acquired'`)
}

// R-Q-2, R-LEASE-1, R-TEST-7: two workers claim one item at two replicas: one of them has it, the other has nothing and
// is told no error.
func TestOrdersOfTwoClaims(t *testing.T) {
	t.Parallel()
	x := newOrders(t, 1, drive.Options{})
	var ref db.Ref
	var a, b outcome
	x.both(func() (func(context.Context, replica), func(context.Context, replica)) {
		a, b = outcome{}, outcome{}
		ref = got(x.Run(t.Context(), drive.Ordinary()))(t)
		return x.claims(&a, x.Workers[0]), x.claims(&b, x.Workers[1])
	}, func() {
		if a.err != nil || b.err != nil || len(a.leases)+len(b.leases) != 1 {
			t.Errorf("given %d and %d leases (%v, %v), want one in all", len(a.leases), len(b.leases), a.err, b.err)
		}
		if leases, items, _, acquired := x.rows(ref); leases != 1 || items != 0 || acquired != 1 {
			t.Errorf("%d leases, %d items, acquired %d times", leases, items, acquired)
		}
		x.over(ref)
	})
}

// R-LEASE-2, R-LEASE-5, R-TEST-12: the holder hands in its work while the lease runs out and the reaper ends it: one of
// the two happens, wholly, and the other is told that it came too late.
func TestOrdersOfCompleteAndReap(t *testing.T) {
	t.Parallel()
	x := newOrders(t, 2, drive.Options{})
	var at drive.At
	var a, b outcome
	x.both(func() (func(context.Context, replica), func(context.Context, replica)) {
		a, b = outcome{}, outcome{}
		at = x.at(t, run.Executing)
		patch := got(at.Lease.PutPatch(t.Context(), drive.Diff("main.go", x.Key("line"))))(t)
		done := at.Lease.Intent(x.Key("patch"), run.PatchSubmitted{Artifact: patch, Base: drive.Base, Tree: drive.Tree})
		expired := db.ExpiredLease{Ref: at.Ref, Lease: at.Lease.Proof(), Phase: at.Lease.Lease.Phase, State: run.Executing}
		return x.applies(&a, at.Ref, done), func(ctx context.Context, r replica) {
			if _, err := r.owner.Exec(ctx, `UPDATE run_leases SET expires_at = clock_timestamp() - interval '1 second' WHERE run_id = $1`, at.Ref.Run); err != nil {
				b.err = err
				return
			}
			_, b.err = r.store.Reap(ctx, expired)
		}
	}, func() {
		if x.lost("the completion", a.err) == x.lost("the reaper", b.err) {
			t.Errorf("the completion ended with %v and the reaper with %v: exactly one must win", a.err, b.err)
		}
		want := run.PatchReady
		if a.err != nil {
			want = run.Queued
		}
		if info := x.info(t, at.Ref); info.State != want {
			t.Errorf("the run is %s, want %s", info.State, want)
		}
		if leases, items, ended, _ := x.rows(at.Ref); leases != 0 || items != 1 || ended != 1 {
			t.Errorf("%d leases, %d items, %d ended leases", leases, items, ended)
		}
		x.over(at.Ref)
	})
}

// R-CAN-1, R-LEASE-2: a cancel meets the completion. Whoever comes second finds the other's state; the run stops.
func TestOrdersOfCancelAndComplete(t *testing.T) {
	t.Parallel()
	x := newOrders(t, 2, drive.Options{})
	var at drive.At
	var a, b outcome
	x.both(func() (func(context.Context, replica), func(context.Context, replica)) {
		a, b = outcome{}, outcome{}
		at = x.at(t, run.Executing)
		patch := got(at.Lease.PutPatch(t.Context(), drive.Diff("main.go", x.Key("line"))))(t)
		done := at.Lease.Intent(x.Key("patch"), run.PatchSubmitted{Artifact: patch, Base: drive.Base, Tree: drive.Tree})
		return x.cancels(&a, at.Ref), x.applies(&b, at.Ref, done)
	}, func() {
		if x.lost("the cancel", a.err) {
			t.Errorf("the cancel was refused: %v", a.err)
		}
		info := x.info(t, at.Ref)
		leases, items, ended, _ := x.rows(at.Ref)
		switch {
		case b.err == nil && (info.State != run.Cancelled || leases != 0 || items != 0 || ended != 1):
			t.Errorf("completed and cancelled, the run is %s with %d leases, %d items, %d ended", info.State, leases, items, ended)
		case b.err != nil && (info.State != run.Cancelling || leases != 1 || items != 0):
			t.Errorf("cancelled before it was completed (%v), the run is %s with %d leases and %d items", b.err, info.State, leases, items)
		}
		if b.err != nil {
			got(at.Lease.Do(t.Context(), run.ConfirmCancel{}))(t)
		}
	})
}

// R-CAN-1, R-TEST-9, R-TEST-11: a cancel meets the claim: the run is cancelled and nobody has it, or somebody has it and is
// told to stop. No item is left over.
func TestOrdersOfCancelAndClaim(t *testing.T) {
	t.Parallel()
	x := newOrders(t, 1, drive.Options{})
	var ref db.Ref
	var a, b outcome
	x.both(func() (func(context.Context, replica), func(context.Context, replica)) {
		a, b = outcome{}, outcome{}
		ref = got(x.Run(t.Context(), drive.Ordinary()))(t)
		return x.cancels(&a, ref), x.claims(&b, x.Workers[0])
	}, func() {
		if a.err != nil || b.err != nil {
			t.Errorf("cancel: %v, claim: %v", a.err, b.err)
		}
		info := x.info(t, ref)
		leases, items, _, acquired := x.rows(ref)
		switch given := int64(len(b.leases)); {
		case items != 0 || acquired != given || leases != given:
			t.Errorf("%d leases given; %d items, %d leases, acquired %d times", given, items, leases, acquired)
		case given == 0 && info.State != run.Cancelled, given == 1 && info.State != run.Cancelling:
			t.Errorf("%d leases given and the run is %s", given, info.State)
		}
		if len(b.leases) == 1 {
			l := b.leases[0]
			proof := run.LeaseRef{ID: l.Lease.ID, Token: l.Lease.Token}
			key := x.Key("confirm")
			got(x.Store.Apply(t.Context(), ref, db.Intent{Key: key, Hash: drive.Hash(key), By: run.Actor{ID: l.Lease.Worker}, Lease: &proof, Worker: uuid.MustParse(l.Lease.Worker), Command: run.ConfirmCancel{}}))(t)
		}
	})
}
