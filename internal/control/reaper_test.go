package control_test

import (
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-LEASE-5: a lost worker costs the attempt in the execute phase and a delivery in the others; the run goes on.
func TestLostLeaseInEachPhase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for _, c := range []struct {
		in, out run.State
		phase   run.Phase
		failed  int64
	}{
		{run.Leased, run.Queued, run.PhaseExecute, 1},
		{run.Executing, run.Queued, run.PhaseExecute, 1},
		{run.Verifying, run.Verifying, run.PhaseVerify, 0},
		{run.PRCreating, run.PRCreating, run.PhasePublish, 0},
	} {
		at := w.at(t, c.in)
		once(t, w.reaper(), 0)
		must(t, w.Lapse(t.Context(), at.Ref))
		once(t, w.reaper(), 1)
		once(t, w.reaper(), 0)
		w.is(t, at.Ref, c.out)
		w.logged(t, at.Ref, run.KindWorkerLost, 1)
		if n := w.count(t, `SELECT count(*) FROM attempts WHERE run_id = $1 AND state = 'FAILED' AND code = 'WORKER_LOST'`, at.Ref.Run); n != c.failed {
			t.Errorf("%s: %d attempts failed, want %d", c.in, n, c.failed)
		}
		if n := w.count(t, `SELECT count(*) FROM run_leases WHERE run_id = $1`, at.Ref.Run); n != 0 {
			t.Errorf("%s: the lease goes on", c.in)
		}
		must(t, w.Due(t.Context(), at.Ref))
		l := got(w.ClaimRun(t.Context(), w.Workers[0], at.Ref))(t)
		if l.Lease.Phase != c.phase {
			t.Errorf("%s: the next worker got %s", c.in, l.Lease.Phase)
		}
		got(w.Cancel(t.Context(), at.Ref))(t)
	}
}

// U10: with the times of an installation that sets none, a worker that works hears of a cancel with a heartbeat within 10 seconds, and
// one that was killed is waited for less than a minute: then the run is over, looked at once a second.
func TestACancelIsOverWithinAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{}})
	if beat := w.Store.Timing().Heartbeat; beat == 0 || beat > 10*time.Second {
		t.Errorf("a worker is heard of every %s", beat)
	}
	at := w.at(t, run.Executing)
	got(w.Cancel(t.Context(), at.Ref))(t)
	once(t, w.reaper(), 0)
	w.is(t, at.Ref, run.Cancelling)
	w.pass(t, 58*time.Second) // and not a word of the worker
	replicas(t, 1, many(2, w.reaper)...)
	w.is(t, at.Ref, run.Cancelled)
}

// The cancel is confirmed by force when the worker did not confirm within the grace, and by nothing before that.
func TestForcedCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{BackoffScale: 0.01, CancelGrace: 10 * time.Second}})
	at := w.at(t, run.Cancelling)
	w.pass(t, 9*time.Second)
	w.keep(t, at.Ref)
	once(t, w.reaper(), 0)
	w.is(t, at.Ref, run.Cancelling)
	w.pass(t, 2*time.Second)
	w.keep(t, at.Ref)
	replicas(t, 1, many(2, w.reaper)...)
	i := w.info(t, at.Ref)
	if i.State != run.Cancelled || i.Cancel == nil || !i.Cancel.Forced {
		t.Errorf("run is %s: %+v", i.State, i.Cancel)
	}
	w.logged(t, at.Ref, run.KindCancelConfirmed, 1)
	if _, err := at.Lease.Do(t.Context(), run.ConfirmCancel{}); !db.Lost(err) {
		t.Errorf("the late confirmation was answered %v", err)
	}
}

// R-LEASE-5: from several servers at once each lease is ended once, in one event.
func TestReapersRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 12})
	var refs []db.Ref
	for range 12 {
		at := w.at(t, run.Leased)
		refs = append(refs, at.Ref)
	}
	for _, r := range refs {
		must(t, w.Lapse(t.Context(), r))
	}
	replicas(t, len(refs), many(3, w.reaper)...)
	for _, r := range refs {
		w.logged(t, r, run.KindWorkerLost, 1)
		w.is(t, r, run.Queued)
	}
	if n := w.count(t, `SELECT count(*) FROM run_delayed`) + w.count(t, `SELECT count(*) FROM run_queue`); n != int64(len(refs)) {
		t.Errorf("%d items for %d runs", n, len(refs))
	}
}

// R-FAIL-6: a worker that does not obey the stop for the budget is not waited for longer than the grace; a person is asked.
func TestBudgetStopNotObeyed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	limit := w.info(t, at.Ref).Limits.TokensIn
	got(w.Store.Append(t.Context(), at.Lease.Holder(), db.Batch{Sequence: 1, Used: &db.Used{Model: "m", InputTokens: limit}}))(t)
	w.pass(t, grace/2)
	w.keep(t, at.Ref)
	once(t, w.reaper(), 0)
	w.pass(t, grace)
	w.keep(t, at.Ref)
	replicas(t, 1, many(2, w.reaper)...)
	i := w.info(t, at.Ref)
	if i.State != run.WaitingForApproval || i.Gate == nil || i.Gate.Kind != run.GateBudget {
		t.Fatalf("run is %s at %+v", i.State, i.Gate)
	}
	w.logged(t, at.Ref, run.KindBudgetExceeded, 1)
	must(t, w.Approve(t.Context(), at.Ref))
	w.is(t, at.Ref, run.Executing)
}

// A worker that was silent for long is dead, and gets no work under that boot.
func TestSilentWorkerIsDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	got(w.Run(t.Context(), drive.Ordinary()))(t)
	dead := func() int64 { return w.count(t, `SELECT count(*) FROM worker_boots WHERE state = 'DEAD'`) }
	w.pass(t, 80*time.Second)
	once(t, w.reaper(), 0)
	if dead() != 0 {
		t.Error("a worker is dead before its time")
	}
	if _, _, err := w.Store.Extend(t.Context(), w.Workers[1].WorkerID, w.Workers[1].Boot, false, nil); err != nil {
		t.Fatal(err)
	}
	w.pass(t, 11*time.Second)
	once(t, w.reaper(), 0)
	if n := dead(); n != 1 {
		t.Errorf("%d workers are dead, want the silent one", n)
	}
	if _, err := w.Claim(t.Context(), w.Workers[0]); err == nil {
		t.Error("a dead boot was given work")
	}
	if got(w.Claim(t.Context(), w.Workers[1]))(t) == nil {
		t.Error("the worker that is alive was given nothing")
	}
}

// A run whose row cannot be read hides no other lease, and does not slow the loop down.
func TestPoisonedLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{BackoffScale: 0.01, CancelGrace: 10 * time.Second}})
	bad, lost, late := w.at(t, run.Executing), w.at(t, run.Executing), w.at(t, run.Cancelling)
	w.pass(t, 11*time.Second)
	w.keep(t, late.Ref)
	must(t, w.Lapse(t.Context(), bad.Ref))
	must(t, w.Lapse(t.Context(), lost.Ref))
	w.poison(t, bad.Ref)
	once(t, w.reaper(), 2)
	w.is(t, lost.Ref, run.Queued)
	w.is(t, late.Ref, run.Cancelled)
	w.heal(t, bad.Ref)
	w.is(t, bad.Ref, run.Executing)
	once(t, w.reaper(), 1)
	w.is(t, bad.Ref, run.Queued)
}
