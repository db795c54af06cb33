package db_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// unchanged holds that what do does leaves no trace in the run, its log and its facts.
func (w *world) unchanged(t testing.TB, ref db.Ref, do func()) {
	t.Helper()
	const trace = `SELECT md5(string_agg(x, '|')) FROM (
		SELECT r::text AS x FROM runs r WHERE r.id = $1
		UNION ALL SELECT e.id::text FROM run_events e WHERE e.run_id = $1
		UNION ALL SELECT s::text FROM steps s WHERE s.run_id = $1
		UNION ALL SELECT c.id::text FROM log_chunks c WHERE c.run_id = $1
		UNION ALL SELECT u.id::text FROM usages u WHERE u.run_id = $1
		UNION ALL SELECT o::text FROM operations o WHERE o.run_id = $1
		UNION ALL SELECT l.lease_id::text || l.fencing_token FROM run_leases l WHERE l.run_id = $1
		UNION ALL SELECT q::text FROM run_queue q WHERE q.run_id = $1
		UNION ALL SELECT i.key FROM idempotency_keys i) y`
	var before, after string
	must(t, w.Owner.QueryRow(t.Context(), trace, ref.Run).Scan(&before))
	do()
	must(t, w.Owner.QueryRow(t.Context(), trace, ref.Run).Scan(&after))
	if before != after {
		t.Error("something was written")
	}
}

// everyWrite tries each way in which a worker can write, and holds that all are refused with "stop".
func (w *world) everyWrite(t *testing.T, l *drive.Lease) {
	t.Helper()
	h := l.Holder()
	for name, write := range map[string]func() error{
		"command": func() error { _, err := l.Do(t.Context(), run.AttemptHasFailed{Code: run.CodeAgentExit}); return err },
		"start":   func() error { _, err := l.Do(t.Context(), run.Start{}); return err },
		"steps": func() error {
			_, err := w.Store.Append(t.Context(), h, db.Batch{Sequence: 99, Steps: []db.Step{{CallID: "z", Kind: "tool", Name: "n", State: run.StepRunning}}})
			return err
		},
		"logs": func() error {
			_, err := w.Store.Append(t.Context(), h, db.Batch{Sequence: 99, Chunks: []db.Chunk{{Stream: "stdout", Data: []byte("late")}}})
			return err
		},
		"usage": func() error {
			_, err := w.Store.Append(t.Context(), h, db.Batch{Sequence: 99, Used: &db.Used{ToolCalls: 1}})
			return err
		},
		"intend":   func() error { _, err := w.Store.Intend(t.Context(), h, "push_branch", "p", nil); return err },
		"dispatch": func() error { _, err := w.Store.Dispatch(t.Context(), h, "p"); return err },
		"pull": func() error {
			_, _, err := w.Store.EnsurePull(t.Context(), h, db.NewPull{HeadBranch: "b", URL: func(string) string { return "u" }})
			return err
		},
	} {
		w.unchanged(t, l.Ref, func() {
			if f := refusal(t, write(), fault.Conflict, "Nothing was changed"); !f.Stop {
				t.Errorf("%s: the answer does not tell the worker to stop", name)
			}
		})
	}
}

// R-LEASE-2: however many such writes come at once, each is answered on the connection that it has: a wave of lost leases
// leaves nobody waiting for another's connection.
func TestStaleWritesNeedOneConnectionEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 1})
	at := w.at(t, run.Executing)
	h := at.Lease.Holder()
	h.Lease.Token++
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for a failure only: nothing waits that long
	defer cancel()
	for name, write := range map[string]func() error{
		"facts": func() error {
			_, err := w.Store.Append(ctx, h, db.Batch{Sequence: 1, Used: &db.Used{ToolCalls: 1}})
			return err
		},
		"artifact": func() error {
			_, err := w.Store.PutArtifact(ctx, h, db.NewArtifact{Kind: "plan", Name: "plan", SHA256: strings.Repeat("a", 64)})
			return err
		},
		"pull": func() error {
			_, _, err := w.Store.EnsurePull(ctx, h, db.NewPull{HeadBranch: "b", URL: func(string) string { return "u" }})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { refusal(t, write(), fault.Conflict, "Nothing was changed") })
	}
}

// R-LEASE-2, R-LEASE-3: a write under a lease that is gone, with an old token, or by another worker changes nothing
// and is answered with the run's state and "stop".
func TestStaleWritesChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	t.Run("ended lease", func(t *testing.T) {
		at := w.at(t, run.Executing)
		must(t, at.Lease.All(t.Context(), run.Release{Reason: "drain"}))
		w.everyWrite(t, at.Lease)
		newer := got(w.ClaimRun(t.Context(), w.Workers[1], at.Ref))(t)
		if newer.Lease.Token <= at.Lease.Lease.Token {
			t.Errorf("token %d after %d", newer.Lease.Token, at.Lease.Lease.Token)
		}
		w.everyWrite(t, at.Lease)
		must(t, newer.All(t.Context(), run.Start{}, run.AttemptHasFailed{Code: run.CodePolicyDenied}))
	})
	t.Run("another worker", func(t *testing.T) {
		at := w.at(t, run.Executing)
		thief := *at.Lease
		thief.Worker = w.Workers[1]
		w.everyWrite(t, &thief)
		if p := got(thief.Beat(t.Context()))(t); p.Signal != db.SignalLost {
			t.Errorf("a heartbeat by another worker is answered %s", p.Signal)
		}
		must(t, at.Lease.All(t.Context(), run.NoChangeSubmitted{Summary: "none"}))
		got(w.Cancel(t.Context(), at.Ref))(t)
	})
	t.Run("older and newer token", func(t *testing.T) {
		at := w.at(t, run.Executing)
		for _, by := range []int64{-1, 1} {
			forged := *at.Lease
			forged.Lease.Token += by
			w.everyWrite(t, &forged)
		}
		got(w.Cancel(t.Context(), at.Ref))(t)
		got(at.Lease.Do(t.Context(), run.ConfirmCancel{}))(t)
	})
	t.Run("expired by the database's clock, before the reaper came", func(t *testing.T) {
		at := w.at(t, run.Executing)
		must(t, w.Lapse(t.Context(), at.Ref))
		w.everyWrite(t, at.Lease)
		if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != db.SignalLost {
			t.Errorf("an expired lease was extended: %s", p.Signal)
		}
		if kind := got(w.Reap(t.Context(), at.Ref))(t); kind != run.KindWorkerLost {
			t.Errorf("reaped with %s", kind)
		}
		w.everyWrite(t, at.Lease)
	})
	w.replays(t)
}

// R-LEASE-1, R-Q-3: a lease is exactly one item: one row in run_leases and none in the queue, and at its end the other
// way round.
func TestOneLeaseOneItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Leased)
	holds := func(leases, items, delayed int64) {
		t.Helper()
		l, q, d := w.count(t, `SELECT count(*) FROM run_leases`), w.count(t, `SELECT count(*) FROM run_queue`), w.count(t, `SELECT count(*) FROM run_delayed`)
		if l != leases || q != items || d != delayed {
			t.Errorf("%d leases, %d items, %d delayed; want %d, %d, %d", l, q, d, leases, items, delayed)
		}
	}
	holds(1, 0, 0)
	must(t, at.Lease.All(t.Context(), run.Start{}, run.AttemptHasFailed{Code: run.CodeDiskFull}))
	holds(0, 0, 1) // backoff
	must(t, w.Due(t.Context(), at.Ref))
	holds(0, 1, 0)
	l := got(w.ClaimRun(t.Context(), w.Workers[0], at.Ref))(t)
	holds(1, 0, 0)
	must(t, l.All(t.Context(), run.Release{Reason: "drain"}))
	holds(0, 1, 0) // at once
	if n := w.count(t, `SELECT count(*) FROM ended_leases WHERE state = 'RELEASED'`); n != 2 {
		t.Errorf("%d ended leases kept, want 2", n)
	}
	info := w.info(t, at.Ref)
	if info.AttemptNo != 2 || info.Released != 1 || info.AttemptsUsed() != 1 {
		t.Errorf("attempt %d, released %d: a drain must count nowhere", info.AttemptNo, info.Released)
	}
}

// R-LEASE-4: a heartbeat extends only what is active, unexpired and held with this token, and carries the signals.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{LeaseTTL: time.Minute, CancelGrace: 10 * time.Second}})
	at := w.at(t, run.Executing)
	signal := func(want db.Signal) {
		t.Helper()
		if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != want {
			t.Errorf("signal %s, want %s", p.Signal, want)
		}
	}
	left := func() (d time.Duration) {
		t.Helper()
		must(t, w.Owner.QueryRow(t.Context(), `SELECT expires_at - clock_timestamp() FROM run_leases WHERE run_id = $1`, at.Ref.Run).Scan(&d))
		return d
	}
	dbtest.Advance(t, w.db, 50*time.Second)
	if d := left(); d > 10*time.Second {
		t.Fatalf("%s are left of the lease after 50 s", d)
	}
	signal(db.SignalAlive)
	if d := left(); d < 55*time.Second {
		t.Errorf("%s are left after a heartbeat, want a minute", d)
	}
	version := w.info(t, at.Ref).Version
	signal(db.SignalAlive)
	if v := w.info(t, at.Ref).Version; v != version {
		t.Error("a heartbeat moved the run's version")
	}
	must(t, w.Store.SignalStop(t.Context(), at.Ref, at.Lease.Proof().ID, "timeout"))
	signal(db.SignalTimeout)
	must(t, w.Store.SignalStop(t.Context(), at.Ref, at.Lease.Proof().ID, "budget"))
	signal(db.SignalTimeout) // the first signal stands
	got(w.Cancel(t.Context(), at.Ref))(t)
	signal(db.SignalCancel)
	dbtest.Advance(t, w.db, 11*time.Second)
	before := left()
	signal(db.SignalLost) // past its grace it is extended no more
	if d := left(); d > before {
		t.Errorf("a lease past its cancel grace was extended to %s", d)
	}
}

// R-LEASE-4: many leases in one heartbeat, each answered for itself; a stopped boot is told to register again.
func TestHeartbeatOfManyLeases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	var beats []db.Beat
	for range 5 {
		got(w.Run(t.Context(), drive.Ordinary()))(t)
		l := got(w.Claim(t.Context(), w.Workers[0]))(t)
		beats = append(beats, db.Beat{Run: l.Ref.Run, Lease: l.Proof()})
	}
	lost := beats[2]
	lost.Lease.Token++
	beats[2] = lost
	beats = append(beats, db.Beat{Run: uuid.New(), Lease: run.LeaseRef{ID: uuid.New(), Token: 1}})
	me := w.Workers[0]
	pulses, drain, err := w.Store.Extend(t.Context(), me.WorkerID, me.Boot, false, beats)
	must(t, err)
	for i, p := range pulses {
		want := db.SignalAlive
		if i == 2 || i == 5 {
			want = db.SignalLost
		}
		if p.Signal != want || p.Run != beats[i].Run {
			t.Errorf("lease %d: %s, want %s", i, p.Signal, want)
		}
	}
	if drain {
		t.Error("drain was asked for")
	}
	// Heartbeats of the same leases in other orders, at once, do not fail.
	for _, err := range all(8, func(i int) error {
		order := append([]db.Beat{}, beats...)
		if i%2 == 0 {
			for a, b := 0, len(order)-1; a < b; a, b = a+1, b-1 {
				order[a], order[b] = order[b], order[a]
			}
		}
		for range 10 {
			if _, _, err := w.Store.Extend(t.Context(), me.WorkerID, me.Boot, false, order); err != nil {
				return err
			}
		}
		return nil
	}) {
		must(t, err)
	}
	if _, err := w.Owner.Exec(t.Context(), `UPDATE worker_boots SET drain_requested = true WHERE id = $1`, me.Boot); err != nil {
		t.Fatal(err)
	}
	pulses, drain, err = w.Store.Extend(t.Context(), me.WorkerID, me.Boot, true, beats[:1])
	must(t, err)
	if !drain || pulses[0].Signal != db.SignalDrain {
		t.Errorf("drain %t, signal %s", drain, pulses[0].Signal)
	}
	must(t, w.Store.StopBoot(t.Context(), me.WorkerID, me.Boot))
	_, _, err = w.Store.Extend(t.Context(), me.WorkerID, me.Boot, false, beats)
	refusal(t, err, fault.Conflict, "No lease was extended: this boot is over")
}

// R-LEASE-2: for some minutes after a lease ended its artifacts are kept as late evidence, of the attempt that the
// lease was given for, and no transition stands on them; afterwards, and for others, they are refused.
func TestLateArtifacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	stored := got(at.Lease.Put(t.Context(), "log", "first words"))(t)
	must(t, at.Lease.All(t.Context(), run.AttemptHasFailed{Code: run.CodeDiskFull}))
	must(t, w.Due(t.Context(), at.Ref))
	newer := got(w.ClaimRun(t.Context(), w.Workers[1], at.Ref))(t)
	must(t, newer.Prepare(t.Context()))

	late := got(at.Lease.Put(t.Context(), "plan", "late plan"))(t)
	a := got(w.Store.ArtifactOf(t.Context(), w.Tenant, late))(t)
	if !a.Late || a.AttemptNo != 1 {
		t.Errorf("late artifact: late %t, attempt %d; want true, 1", a.Late, a.AttemptNo)
	}
	if b := got(w.Store.ArtifactOf(t.Context(), w.Tenant, stored))(t); b.Late {
		t.Error("what was in time became late")
	}
	_, err := newer.Do(t.Context(), run.PlanSubmitted{Artifact: late})
	refusal(t, err, fault.Conflict, "Nothing was changed: the artifact came after its lease had ended")

	thief := *at.Lease
	thief.Worker = w.Workers[1]
	_, err = thief.Put(t.Context(), "log", "not mine")
	if err == nil {
		t.Error("an artifact was taken from a worker that never held the lease")
	}
	dbtest.Advance(t, w.db, 11*time.Minute)
	_, err = at.Lease.Put(t.Context(), "log", "too late")
	if err == nil || !strings.Contains(err.Error(), "no longer the run's lease") {
		t.Errorf("eleven minutes after the end: %v", err)
	}
}

// R-RCV-5: the same bytes from a lost verifier and from its successor are one artifact, and the successor may stand on it.
func TestSameReportFromTheNextVerifier(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Verifying)
	got(w.Reap(t.Context(), at.Ref))(t)
	must(t, w.Due(t.Context(), at.Ref))
	put := func(l *drive.Lease) db.StoredArtifact {
		return got(w.Store.PutArtifact(t.Context(), l.Holder(), db.NewArtifact{Kind: "verification_report", Name: "report", SHA256: "aa", Size: 2, BlobKey: "k",
			Verification: &db.VerificationRecord{PatchDigest: w.info(t, at.Ref).Patch.Digest, Passed: true}}))(t)
	}
	first := put(at.Lease)
	if !first.Late {
		t.Fatal("the lost verifier's report is not late")
	}
	next := got(w.ClaimRun(t.Context(), w.Workers[1], at.Ref))(t)
	second := put(next)
	if second.ID != first.ID || second.Late {
		t.Errorf("second report %+v", second)
	}
}
