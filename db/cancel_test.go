package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// R-CAN-1, R-CAN-2: a cancel in every state: at once where nobody works on the run, by way of CANCELLING where
// somebody does, and an answer where it has ended. Nothing is left behind.
func TestCancelInEveryState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for _, s := range run.States() {
		if s == run.Created || s == run.PRCreated {
			continue
		}
		t.Run(string(s), func(t *testing.T) {
			at := w.at(t, s)
			before := w.info(t, at.Ref)
			ack, err := w.Cancel(t.Context(), at.Ref)
			switch {
			case s.Terminal():
				refusal(t, err, fault.Conflict, "Nothing was changed: the run is already "+string(s))
				if v := w.info(t, at.Ref).Version; v != before.Version {
					t.Error("a finished run was changed")
				}
				return
			case s == run.Cancelling:
				must(t, err)
				if ack.State != run.Cancelling {
					t.Errorf("the run is %s", ack.State)
				}
			case at.Lease != nil:
				must(t, err)
				if ack.State != run.Cancelling || !ack.Cancelling {
					t.Fatalf("answer %+v", ack)
				}
				if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != db.SignalCancel {
					t.Errorf("the worker hears %s", p.Signal)
				}
				// Progress is refused, evidence is taken, and whatever ends the work is the confirmation.
				progress := map[run.Phase]run.Command{run.PhaseExecute: run.SandboxIsReady{Tier: "bwrap", Base: drive.Base},
					run.PhaseVerify: run.VerifyStarted{Digest: "x"}, run.PhasePublish: run.BaseHasMoved{NewBase: "x", Overlaps: []string{"y"}}}
				_, err := at.Lease.Do(t.Context(), progress[at.Lease.Lease.Phase])
				refusal(t, err, fault.Conflict, "Nothing was changed: the run is being cancelled")
				got(at.Lease.Put(t.Context(), "log", "what was done"))(t)
			default:
				must(t, err)
				if ack.State != run.Cancelled {
					t.Fatalf("answer %+v", ack)
				}
			}
			if at.Lease != nil {
				got(at.Lease.Do(t.Context(), run.Release{Reason: "stopped"}))(t)
			}
			w.ended(t, at, run.Cancelled)
			if c := w.info(t, at.Ref).Cancel; c == nil || c.Forced || c.Reason != "Not needed any more." || c.By.ID != w.Requester.ID.String() {
				t.Errorf("cancel %+v", c)
			}
		})
	}
	w.replays(t)
}

// ended holds that a finished run holds nothing any more.
func (w *world) ended(t testing.TB, at drive.At, s run.State) {
	t.Helper()
	must(t, w.Is(t.Context(), at.Ref, s))
	for what, query := range map[string]string{
		"lease":          `SELECT count(*) FROM run_leases WHERE run_id = $1`,
		"item":           `SELECT count(*) FROM run_queue WHERE run_id = $1`,
		"delayed item":   `SELECT count(*) FROM run_delayed WHERE run_id = $1`,
		"open gate":      `SELECT count(*) FROM gates WHERE run_id = $1 AND state IN ('preparing', 'open', 'expired')`,
		"open request":   `SELECT count(*) FROM attestations WHERE run_id = $1 AND state = 'requested'`,
		"attempt":        `SELECT count(*) FROM attempts WHERE run_id = $1 AND state = 'STARTED'`,
		"sandbox":        `SELECT count(*) FROM sandboxes WHERE run_id = $1 AND state NOT IN ('DESTROYED', 'FAILED')`,
		"active in task": `SELECT count(*) FROM tasks WHERE active_run_id = $1`,
	} {
		if n := w.count(t, query, at.Ref.Run); n != 0 {
			t.Errorf("a run that is %s still has: %s", s, what)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM outbox WHERE run_id = $1 AND topic = 'cleanup'`, at.Ref.Run); n != 1 {
		t.Errorf("%d clean-ups were asked for, want 1", n)
	}
}

// R-CAN-3: a worker that does not confirm is not waited for: past its grace the lease is revoked and the run cancelled
// by force; a lease that expires in CANCELLING ends the same way.
// cancel rule 4: nothing depends on the process that may hang.
func TestForcedCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{CancelGrace: time.Nanosecond}})
	at := w.at(t, run.Cancelling)
	late := got(w.Store.DisobedientLeases(t.Context(), [16]byte{}, 10, time.Hour))(t)
	if len(late) != 1 || late[0].Ref != at.Ref {
		t.Fatalf("disobedient leases %+v", late)
	}
	if kind := got(w.Store.Reap(t.Context(), late[0]))(t); kind != run.KindCancelConfirmed {
		t.Errorf("reaped with %s", kind)
	}
	w.ended(t, at, run.Cancelled)
	if !w.info(t, at.Ref).Cancel.Forced {
		t.Error("the cancel does not say that it was forced")
	}
	if n := w.count(t, `SELECT count(*) FROM ended_leases WHERE run_id = $1 AND state = 'REVOKED'`, at.Ref.Run); n != 1 {
		t.Error("the lease was not revoked")
	}
	// The worker that comes back is told to stop, and reaping again is a lost race.
	_, err := at.Lease.Do(t.Context(), run.ConfirmCancel{})
	refusal(t, err, fault.Conflict, "Nothing was changed")
	if _, err := w.Store.Reap(t.Context(), late[0]); !db.Lost(err) {
		t.Errorf("reaped twice: %v", err)
	}
	other := w.at(t, run.Cancelling)
	if kind := got(w.Reap(t.Context(), other.Ref))(t); kind != run.KindCancelConfirmed {
		t.Errorf("an expired lease in CANCELLING was reaped with %s", kind)
	}
	w.ended(t, other, run.Cancelled)
	w.replays(t)
}

// R-CAN-4: cancelling a task cancels its run, starts no other, and ends with the run.
// cancel rule 8: blocked work is cancelled, and what was declined or cancelled is run again.
func TestCancelTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	task := func(at drive.At) run.TaskState {
		t.Helper()
		return got(w.Store.Task(t.Context(), w.Tenant, at.Task.Task))(t).State
	}
	for _, s := range []run.State{run.Queued, run.WaitingForApproval, run.AwaitingVerification} {
		at := w.at(t, s)
		a := got(w.Store.CancelTask(t.Context(), w.Request(w.Requester, "cancel"), at.Task.Task, "Not needed."))(t)
		if a.State != run.TaskCancelled || task(at) != run.TaskCancelled {
			t.Errorf("%s: the task is %s", s, a.State)
		}
		w.ended(t, at, run.Cancelled)
	}
	at := w.at(t, run.Executing)
	a := got(w.Store.CancelTask(t.Context(), w.Request(w.Requester, "cancel"), at.Task.Task, "Not needed."))(t)
	if a.State != run.TaskRunning || w.info(t, at.Ref).State != run.Cancelling {
		t.Errorf("the task is %s", a.State)
	}
	got(at.Lease.Do(t.Context(), run.ConfirmCancel{}))(t)
	if s := task(at); s != run.TaskCancelled {
		t.Errorf("the task is %s after its run", s)
	}
	_, err := w.Store.RunAgain(t.Context(), w.Request(w.Requester, "again"), at.Task.Task)
	refusal(t, err, fault.Conflict, "Nothing was changed: the task is CANCELLED")
	// A task whose run was cancelled may be run again; a cancelled one may not. Without a run it ends at once.
	at = w.at(t, run.Cancelled)
	if s := task(at); s != run.TaskReady {
		t.Errorf("the task of a cancelled run is %s", s)
	}
	got(w.Store.CancelTask(t.Context(), w.Request(w.Requester, "cancel"), at.Task.Task, "x"))(t)
	if s := task(at); s != run.TaskCancelled {
		t.Errorf("the task is %s", s)
	}
	w.replays(t)
}

// R-CAN-1: a cancel that races a claim: either the run is cancelled and nobody has a lease, or it is CANCELLING under
// the lease that the claim gave. No deadlock, no item left.
func TestCancelRacesTheClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	w.noDeadlocks(t)
	ends := map[run.State]int{}
	for range 10 {
		const n = 6
		var ats []drive.At
		for range n {
			ats = append(ats, w.at(t, run.Queued))
		}
		leases := make([]*drive.Lease, n)
		for i, err := range all(2*n, func(i int) (err error) {
			if i < n {
				leases[i], err = w.Claim(t.Context(), w.Workers[i%2])
				return err
			}
			if i%2 == 0 {
				_, err = w.Store.CancelTask(t.Context(), w.Request(w.Requester, "cancel"), ats[i-n].Task.Task, "race")
				return err
			}
			_, err = w.Cancel(t.Context(), ats[i-n].Ref)
			return err
		}) {
			if err != nil {
				t.Errorf("racer %d: %v", i, err)
			}
		}
		held := map[db.Ref]*drive.Lease{}
		for _, l := range leases {
			if l != nil {
				held[l.Ref] = l
			}
		}
		for _, at := range ats {
			info := w.info(t, at.Ref)
			ends[info.State]++
			l := held[at.Ref]
			switch info.State {
			case run.Cancelled:
				if l != nil {
					t.Error("a cancelled run was leased")
				}
			case run.Cancelling:
				if l == nil {
					t.Fatal("a run is CANCELLING without a lease")
				}
				got(l.Do(t.Context(), run.ConfirmCancel{}))(t)
			default:
				t.Errorf("a cancelled run is %s", info.State)
			}
			w.ended(t, at, run.Cancelled)
		}
	}
	t.Log("ends ", ends)
	w.replays(t)
}

// R-CAN-1: a cancel that races the completion: the run ends once, as one of the two, and whoever lost is told so.
// cancel rule 13: a stop that was recorded first wins over whatever would go on.
func TestCancelRacesTheCompletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	w.noDeadlocks(t)
	ends := map[run.State]int{}
	for round := range 24 {
		at := w.at(t, run.PRCreating)
		branch := w.info(t, at.Ref).Branch
		must(t, at.Lease.OpenPull(t.Context(), branch))
		errs := all(3, func(i int) (err error) {
			switch i {
			case 0:
				_, err = at.Lease.Do(t.Context(), run.PRReported{PR: run.PullRequest{Branch: branch}})
			case 1:
				if round%2 == 0 {
					_, err = w.Cancel(t.Context(), at.Ref)
				} else {
					_, err = w.Store.CancelTask(t.Context(), w.Request(w.Requester, "cancel"), at.Task.Task, "race")
				}
			case 2:
				_, err = at.Lease.Beat(t.Context())
			}
			return err
		})
		must(t, errs[2])
		info := w.info(t, at.Ref)
		ends[info.State]++
		switch info.State {
		case run.Succeeded:
			must(t, errs[0])
			if errs[1] != nil && !db.Lost(errs[1]) {
				t.Errorf("the cancel failed with %v", errs[1])
			}
		case run.Cancelling:
			must(t, errs[1])
			refusal(t, errs[0], fault.Conflict, "Nothing was changed: the run is being cancelled")
			got(at.Lease.Do(t.Context(), run.ConfirmCancel{}))(t)
			w.ended(t, at, run.Cancelled)
		default:
			t.Errorf("the run is %s (%v)", info.State, errs)
		}
		if n := w.count(t, `SELECT count(*) FROM run_events WHERE run_id = $1 AND to_state IN ('SUCCEEDED', 'CANCELLED', 'FAILED', 'EXPIRED')`, at.Ref.Run); n != 1 {
			t.Errorf("%d events ended the run", n)
		}
	}
	t.Log("ends ", ends)
	w.replays(t)
}

// Everybody at once at one run: worker, heartbeats, reaper, canceller, approver, task cancel. Whoever loses is told;
// nothing deadlocks, and the log replays.
func TestEverybodyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 20})
	w.noDeadlocks(t)
	for _, s := range []run.State{run.Leased, run.Executing, run.Verifying, run.Judging, run.WaitingForApproval, run.PRCreating, run.Queued} {
		for range 3 {
			at := w.at(t, s)
			tries := []func() error{
				func() error { _, err := w.Cancel(t.Context(), at.Ref); return err },
				func() error {
					_, err := w.Store.CancelTask(t.Context(), w.Request(w.Requester, "c"), at.Task.Task, "race")
					return err
				},
				func() error { _, err := w.Post(t.Context(), at.Ref, run.Scheduler, run.RunTimeoutEvent{}); return err },
				func() error { _, err := w.Claim(t.Context(), w.Workers[1]); return err },
			}
			if l := at.Lease; l != nil {
				expired := db.ExpiredLease{Ref: at.Ref, Lease: l.Proof(), Phase: l.Lease.Phase}
				tries = append(tries,
					func() error { return w.Store.SignalStop(t.Context(), at.Ref, expired.Lease.ID, "timeout") },
					func() error { _, err := l.Beat(t.Context()); return err },
					func() error { _, err := l.Do(t.Context(), run.Start{}); return err },
					func() error { _, err := l.Do(t.Context(), run.AttemptHasFailed{Code: run.CodeDiskFull}); return err },
					func() error { _, err := l.Do(t.Context(), run.Release{}); return err },
					func() error { _, err := w.Store.Reap(t.Context(), expired); return err },
					func() error {
						_, err := w.Store.Append(t.Context(), l.Holder(), db.Batch{Sequence: 1, Used: &db.Used{InputTokens: 1 << 40}})
						return err
					},
					func() error { _, err := l.Put(t.Context(), "log", "x"); return err })
			} else if s == run.WaitingForApproval {
				for i := range 3 {
					v := got(w.Verdict(t.Context(), at.Ref, w.Approvers[i], policy.Approve, ""))(t)
					tries = append(tries, func() error { _, err := w.Store.Decide(t.Context(), v); return err })
				}
			}
			for i, err := range all(len(tries), func(i int) error { return tries[i]() }) {
				if f, ok := errors.AsType[*fault.Error](err); err != nil && (!ok || f.Kind == fault.Internal) {
					t.Errorf("%s, racer %d: %v", s, i, err)
				}
			}
			_, _ = w.Store.CancelTask(t.Context(), w.Request(w.Requester, "c"), at.Task.Task, "end")
			if w.info(t, at.Ref).State == run.Cancelling {
				got(w.Reap(t.Context(), at.Ref))(t)
			}
			if info := w.info(t, at.Ref); !info.State.Terminal() {
				t.Errorf("the run is %s", info.State)
			}
		}
	}
	w.replays(t)
}

// noDeadlocks holds at the end of the test that Postgres saw none in this database: our order of locks rules them out,
// and a retry would hide them.
func (w *world) noDeadlocks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.Background()
		// A backend hands in its counts when it goes.
		w.Store.Close()
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
			var left, deadlocks int64
			err := w.Owner.QueryRow(ctx, `SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'signalbox'),
				(SELECT deadlocks FROM pg_stat_database WHERE datname = current_database())`).Scan(&left, &deadlocks)
			switch {
			case err != nil:
				t.Error(err)
				return
			case left > 0:
				continue
			case deadlocks > 0:
				t.Errorf("%d deadlocks", deadlocks)
			}
			return
		}
		t.Error("the store's connections did not end")
	})
}
