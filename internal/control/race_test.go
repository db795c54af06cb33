package control_test

import (
	"context"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// amid runs one look of a loop that is held up at the run first, and lets something happen after the list was made and
// before the loop comes to what stands behind it. It returns how many things the loop did.
func (w *world) amid(t *testing.T, first db.Ref, look func(context.Context) (int, error), meanwhile func()) int {
	t.Helper()
	super := superuser(t, w.db)
	tx := got(super.Begin(t.Context()))(t)
	got(tx.Exec(t.Context(), `SELECT FROM runs WHERE id = $1 FOR UPDATE`, first.Run))(t)
	type answer struct {
		n   int
		err error
	}
	done := make(chan answer, 1)
	go func() {
		n, err := look(t.Context())
		done <- answer{n, err}
	}()
	for w.count(t, `SELECT count(*) FROM pg_locks WHERE NOT granted`) == 0 {
		select {
		case a := <-done:
			t.Fatalf("the loop was not held up: %+v", a)
		case <-time.After(time.Millisecond):
		}
	}
	meanwhile()
	must(t, tx.Commit(t.Context()))
	a := <-done
	must(t, a.err)
	return a.n
}

// R-FAIL-5: the clock of the queue ends no run that a worker took and gave back after the clock had looked.
func TestQueueClockWithAnOldList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: x\nlimits: {queue_timeout: 1h, max_runs: 1}\n"})
	first, second := w.at(t, run.Queued), w.at(t, run.Queued)
	w.pass(t, 61*time.Minute)
	if n := w.amid(t, first.Ref, w.queueClock(), func() {
		l := got(w.ClaimRun(t.Context(), w.Workers[0], second.Ref))(t)
		must(t, l.All(t.Context(), run.Release{Reason: "drain"}))
	}); n != 1 {
		t.Errorf("%d runs ended, want one", n)
	}
	w.is(t, first.Ref, run.Expired)
	w.is(t, second.Ref, run.Queued)
}

// The same of a run that had begun and whose own time was over while it waited: the worker that has it now is told by the
// clock of its own.
func TestRunClockOfWaitingRunsWithAnOldList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	first, second := w.at(t, run.Executing), w.at(t, run.Executing)
	for _, at := range []drive.At{first, second} {
		must(t, at.Lease.All(t.Context(), run.Release{Reason: "drain"}))
	}
	w.pass(t, 3*time.Hour+time.Minute)
	w.amid(t, first.Ref, w.queueClock(), func() { got(w.ClaimRun(t.Context(), w.Workers[0], second.Ref))(t) })
	w.is(t, first.Ref, run.Expired)
	w.is(t, second.Ref, run.Leased)
}

// R-FAIL-5: a worker that started after the clock had looked did start in time.
func TestStartClockWithAnOldList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	first, second := w.at(t, run.Leased), w.at(t, run.Leased)
	w.pass(t, 121*time.Second)
	w.keep(t, first.Ref)
	w.keep(t, second.Ref)
	if n := w.amid(t, first.Ref, w.clocks(), func() { got(second.Lease.Do(t.Context(), run.Start{}))(t) }); n != 1 {
		t.Errorf("%d attempts ended, want one", n)
	}
	w.is(t, first.Ref, run.Queued)
	if s := w.info(t, second.Ref).State; s == run.Queued {
		t.Error("the attempt of the worker that started was ended")
	}
}

// A22: a gate that somebody asked again about after the clock had looked is not closed for its old request.
func TestGateClockWithAnOldList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	first, second := w.at(t, run.WaitingForApproval), w.at(t, run.WaitingForApproval)
	w.pass(t, 3*day+time.Minute)
	once(t, w.gates(), 2)
	w.pass(t, 31*day)
	gate := w.info(t, second.Ref).Gate.ID
	w.amid(t, first.Ref, w.gates(), func() { got(w.AskAgain(t.Context(), gate, w.Requester, ""))(t) })
	w.is(t, first.Ref, run.Cancelled)
	w.is(t, second.Ref, run.WaitingForApproval)
}

// A stop that was meant for one worker is not told the next one.
func TestStopIsForOneLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	old := at.Lease.Proof()
	must(t, at.Lease.All(t.Context(), run.Release{Reason: "drain"}))
	l := got(w.ClaimRun(t.Context(), w.Workers[1], at.Ref))(t)
	must(t, w.Store.SignalStop(t.Context(), at.Ref, old.ID, "timeout"))
	if p := got(l.Beat(t.Context()))(t); p.Signal != db.SignalAlive {
		t.Errorf("signal %s", p.Signal)
	}
	must(t, w.Store.SignalStop(t.Context(), at.Ref, l.Proof().ID, "timeout"))
	if p := got(l.Beat(t.Context()))(t); p.Signal != db.SignalTimeout {
		t.Errorf("signal %s", p.Signal)
	}
}
