package db_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// held lets writes pile up: the rows of two runs are locked by somebody else, so that the two batches with these runs
// stand still, and what is posted meanwhile waits for the next.
type held struct {
	w  *world
	tx pgx.Tx
	wg sync.WaitGroup
}

func (w *world) hold(t *testing.T) *held {
	t.Helper()
	h := &held{w: w}
	first, second := w.at(t, run.Leased), w.at(t, run.Leased)
	super := w.superuser(t)
	h.tx = got(w.Owner.Begin(t.Context()))(t)
	t.Cleanup(func() { _ = h.tx.Rollback(context.WithoutCancel(t.Context())) }) // where the test ends before
	_, err := h.tx.Exec(t.Context(), `SELECT 1 FROM runs WHERE id IN ($1, $2) FOR UPDATE`, first.Ref.Run, second.Ref.Run)
	must(t, err)
	for n, at := range []drive.At{first, second} {
		h.start(t, at)
		waitFor(t, super, fmt.Sprintf(`SELECT count(*) = %d FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%%WriteRuns%%'`, n+1))
	}
	return h
}

// start posts the run's start in the background.
func (h *held) start(t *testing.T, at drive.At) {
	h.wg.Go(func() {
		if _, err := at.Lease.Do(context.WithoutCancel(t.Context()), run.Start{}); err != nil {
			t.Errorf("start: %v", err)
		}
	})
}

// await returns when so many transitions wait for their batch.
func (h *held) await(t *testing.T, n int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for h.w.Store.WaitingWrites() < n {
		if time.Now().After(deadline) {
			t.Fatalf("%d transitions wait, want %d", h.w.Store.WaitingWrites(), n)
		}
	}
}

func (h *held) release(t *testing.T) {
	t.Helper()
	must(t, h.tx.Commit(t.Context()))
	h.wg.Wait()
}

// Transitions that come at the same time are one transaction: they share its id. Each is acknowledged after it.
func TestTransitionsThatMeetAreWrittenTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 30})
	var ats []drive.At
	for range 20 {
		ats = append(ats, w.at(t, run.Leased))
	}
	h := w.hold(t)
	for _, at := range ats {
		h.start(t, at)
	}
	h.await(t, len(ats))
	h.release(t)
	if n := w.count(t, `SELECT count(DISTINCT xid) FROM run_events WHERE kind = 'worker_started'`); n > 4 {
		t.Errorf("%d transitions took %d transactions", len(ats)+2, n)
	}
	if n := w.count(t, `SELECT count(*) FROM runs WHERE state = 'PREPARING'`); n != int64(len(ats)+2) {
		t.Errorf("%d runs are PREPARING, want %d", n, len(ats)+2)
	}
	w.replays(t)
}

// R-TRN-4: in a batch, a run that has moved on meanwhile loses alone and has nothing written for it, neither an event nor
// a key nor an item; the others are written.
func TestAStaleRunInABatchWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 30, Timing: db.Timing{BackoffScale: 1}})
	good, stale := w.at(t, run.Executing), w.at(t, run.Executing)
	h := w.hold(t)
	release := func(at drive.At, key string) {
		h.wg.Go(func() {
			ack, err := w.Store.Apply(context.WithoutCancel(t.Context()), at.Ref, at.Lease.Intent(key, run.Release{Reason: "drain"}))
			switch {
			case at.Ref == good.Ref && (err != nil || ack.State != run.Queued):
				t.Errorf("the good one: %v, %v", ack.State, err)
			case at.Ref == stale.Ref && fault.KindOf(err) != fault.Conflict:
				t.Errorf("the stale one: %v, %v", ack.State, err)
			}
		})
	}
	release(good, "good-key-1")
	release(stale, "stale-key-1")
	h.await(t, 2)
	// The stale one's attempt is ended by somebody who does not wait in this process: another replica.
	other := got(db.Open(t.Context(), db.Options{URL: w.db.EngineURL, AppURL: w.db.AppURL, MaxConns: 2}))(t)
	defer other.Close()
	_, err := other.Apply(t.Context(), stale.Ref, db.Intent{Key: "reap", By: run.Actor{Kind: run.Scheduler, ID: "reaper"}, Payload: run.AttemptFailedEvent{Code: run.CodeAttemptTimeout}})
	must(t, err)
	h.release(t)
	if n := w.count(t, `SELECT count(*) FROM run_queue WHERE run_id = $1`, good.Ref.Run); n != 1 {
		t.Errorf("the good one has %d items", n)
	}
	if n := w.count(t, `SELECT count(*) FROM ended_leases WHERE run_id = $1`, stale.Ref.Run); n != 1 {
		t.Errorf("the stale one's lease ended %d times", n)
	}
	for what, n := range map[string]int64{
		"items":  w.count(t, `SELECT count(*) FROM run_queue WHERE run_id = $1`, stale.Ref.Run), // it is delayed
		"keys":   w.count(t, `SELECT count(*) FROM idempotency_keys WHERE key = 'stale-key-1'`),
		"events": w.count(t, `SELECT count(*) FROM run_events WHERE run_id = $1 AND kind = 'lease_released'`, stale.Ref.Run),
	} {
		if n != 0 {
			t.Errorf("the stale one has %d %s", n, what)
		}
	}
	w.replays(t)
}

// One transition that the database refuses fails alone: the batch falls back to single writes.
func TestAPoisonedTransitionFailsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 30})
	bad := w.at(t, run.Leased)
	var ats []drive.At
	for range 10 {
		ats = append(ats, w.at(t, run.Leased))
	}
	w.owner(t, "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.run_id = '"+bad.Ref.Run.String()+"' THEN RAISE EXCEPTION 'broken run'; END IF; RETURN NEW; END $$")
	w.owner(t, "CREATE TRIGGER broken BEFORE INSERT ON run_events FOR EACH ROW EXECUTE FUNCTION broken()")
	h := w.hold(t)
	for _, at := range ats {
		h.start(t, at)
	}
	h.wg.Go(func() {
		if _, err := bad.Lease.Do(context.WithoutCancel(t.Context()), run.Start{}); err == nil {
			t.Error("the poisoned transition was acknowledged")
		}
	})
	h.await(t, len(ats)+1)
	h.release(t)
	must(t, w.Is(t.Context(), bad.Ref, run.Leased))
	for _, at := range ats {
		must(t, w.Is(t.Context(), at.Ref, run.Preparing))
	}
	w.replays(t)
}

// A Store that closes writes what it has accepted.
func TestCloseWritesWhatWasAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 30})
	var ats []drive.At
	for range 5 {
		ats = append(ats, w.at(t, run.Leased))
	}
	h := w.hold(t)
	for _, at := range ats {
		h.start(t, at)
	}
	h.await(t, len(ats))
	h.wg.Go(w.Store.Close)
	h.release(t)
	if n := w.count(t, `SELECT count(*) FROM runs WHERE state = 'PREPARING'`); n != int64(len(ats)+2) {
		t.Errorf("%d runs are PREPARING, want %d", n, len(ats)+2)
	}
}

// R-TRN-4: what the end of a run means for its task is part of the same transaction. Where the task has moved meanwhile
// nothing is written, and the end is decided again on the task as it is; others in the batch are not held up.
func TestATaskThatMovedFailsTheEndOfItsRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 30})
	ends, other := w.at(t, run.Executing), w.at(t, run.Leased)
	h := w.hold(t)
	h.wg.Go(func() {
		ack, err := ends.Lease.Do(context.WithoutCancel(t.Context()), run.AttemptHasFailed{Code: run.CodeTaskContractInvalid})
		if err != nil || ack.State != run.Failed {
			t.Errorf("the end of the run: %s, %v", ack.State, err)
		}
	})
	h.start(t, other)
	h.await(t, 2)
	w.owner(t, `UPDATE tasks SET version = version + 1 WHERE id = '`+ends.Task.Task.String()+`'`)
	h.release(t)
	must(t, w.Is(t.Context(), ends.Ref, run.Failed))
	must(t, w.Is(t.Context(), other.Ref, run.Preparing))
	if n := w.count(t, `SELECT count(*) FROM tasks WHERE id = $1 AND state <> 'RUNNING' AND active_run_id IS NULL`, ends.Task.Task); n != 1 {
		t.Error("the task did not hear that its run ended")
	}
	if n := w.count(t, `SELECT count(*) FROM task_events WHERE task_id = $1 AND kind = 'run_ended'`, ends.Task.Task); n != 1 {
		t.Errorf("the task heard %d times that its run ended", n)
	}
	w.replays(t)
}
