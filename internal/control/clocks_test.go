package control_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"signalbox/db"
	"signalbox/internal/control"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// failure is why the run's last failed attempt ended.
func (w *world) failure(t testing.TB, ref db.Ref) (code string) {
	t.Helper()
	must(t, w.Owner.QueryRow(t.Context(), `SELECT code FROM attempts WHERE run_id = $1 ORDER BY attempt_no DESC LIMIT 1`, ref.Run).Scan(&code))
	return code
}

// R-FAIL-5: a worker that took the run and never started is not waited for; it has nothing to store.
func TestStartTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Leased)
	w.pass(t, 119*time.Second)
	w.keep(t, at.Ref)
	once(t, w.clocks(), 0)
	w.pass(t, 2*time.Second)
	w.keep(t, at.Ref)
	replicas(t, 1, many(3, w.clocks)...)
	w.is(t, at.Ref, run.Queued)
	w.logged(t, at.Ref, run.KindAttemptFailed, 1)
	if c := w.failure(t, at.Ref); c != string(run.CodeStartTimeout) {
		t.Errorf("the attempt failed with %s", c)
	}
	if s := w.count(t, `SELECT count(*) FROM ended_leases WHERE run_id = $1 AND state = 'REVOKED'`, at.Ref.Run); s != 1 {
		t.Errorf("%d leases were revoked", s)
	}
	if _, err := at.Lease.Do(t.Context(), run.Start{}); !db.Lost(err) {
		t.Errorf("the late start was answered %v", err)
	}
}

// R-FAIL-5: when the attempt's time is over its worker is told first and has the grace to store what it has.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	w.pass(t, 44*time.Minute)
	w.keep(t, at.Ref)
	once(t, w.clocks(), 0)
	if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != db.SignalAlive {
		t.Errorf("signal %s before its time", p.Signal)
	}
	w.pass(t, 2*time.Minute)
	w.keep(t, at.Ref)
	once(t, w.clocks(), 0)
	if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != db.SignalTimeout {
		t.Errorf("signal %s after its time", p.Signal)
	}
	w.is(t, at.Ref, run.Executing)
	// The reaper leaves it to this clock, whatever it looks at.
	w.pass(t, grace/2)
	w.keep(t, at.Ref)
	once(t, w.clocks(), 0)
	w.pass(t, grace)
	w.keep(t, at.Ref)
	once(t, (&control.Reaper{Store: w.Store, StopGrace: grace, Silent: day, Patience: patience}).RunOnce, 0)
	replicas(t, 1, many(3, w.clocks)...)
	w.is(t, at.Ref, run.Queued)
	w.logged(t, at.Ref, run.KindAttemptFailed, 1)
	if c := w.failure(t, at.Ref); c != string(run.CodeAttemptTimeout) {
		t.Errorf("the attempt failed with %s", c)
	}
	// The next attempt has all its time, and the signal is gone with the lease.
	must(t, w.Due(t.Context(), at.Ref))
	l := got(w.ClaimRun(t.Context(), w.Workers[1], at.Ref))(t)
	must(t, l.Prepare(t.Context()))
	w.pass(t, 30*time.Minute)
	w.keep(t, at.Ref)
	once(t, w.clocks(), 0)
	if p := got(l.Beat(t.Context()))(t); p.Signal != db.SignalAlive {
		t.Errorf("signal %s in the next attempt", p.Signal)
	}
}

// R-FAIL-5: what people take to decide does not count against the attempt nor the run: a plan that is approved after
// hours is carried out with the time that was left.
func TestTimeAtAGateDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	c := drive.Ordinary()
	c.PlanGate = true
	ref := got(w.Run(t.Context(), c))(t)
	l := got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	must(t, l.Prepare(t.Context()))
	w.pass(t, 20*time.Minute)
	w.keep(t, ref)
	got(l.Plan(t.Context(), "the plan"))(t)
	w.is(t, ref, run.WaitingForApproval)
	w.pass(t, 10*time.Hour)
	once(t, w.clocks(), 0)
	must(t, w.Approve(t.Context(), ref))
	l = got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	for range 2 {
		once(t, w.clocks(), 0)
		if p := got(l.Beat(t.Context()))(t); p.Signal != db.SignalAlive {
			t.Fatalf("signal %s though only people took long", p.Signal)
		}
		w.pass(t, 12*time.Minute)
		w.keep(t, ref)
	}
	w.is(t, ref, run.Executing)
	// The 20 minutes before the gate do count.
	w.pass(t, 2*time.Minute)
	w.keep(t, ref)
	once(t, w.clocks(), 0)
	if p := got(l.Beat(t.Context()))(t); p.Signal != db.SignalTimeout {
		t.Errorf("signal %s after 46 minutes of work", p.Signal)
	}
}

// R-FAIL-5: a run that takes too long is EXPIRED or FAILED as policy says, whether its worker obeys or not.
func TestRunTimeout(t *testing.T) {
	t.Parallel()
	for _, outcome := range []policy.Outcome{policy.OnExpire, policy.OnFail} {
		for _, state := range []run.State{run.Leased, run.Executing, run.Verifying, run.PRCreating} {
			for _, obeys := range []bool{false, true} {
				if obeys && state == run.Leased {
					continue // not told, because it has nothing to store
				}
				t.Run(fmt.Sprintf("%s %s obeys=%t", outcome, state, obeys), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, drive.Options{Policy: fmt.Sprintf("schema: 1\nversion: x\nrun_timeout: {outcome: %s}\n", outcome)})
					at := w.at(t, state)
					w.pass(t, 3*time.Hour+time.Minute)
					w.keep(t, at.Ref)
					if state != run.Leased {
						once(t, w.clocks(), 0)
						if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != db.SignalTimeout {
							t.Errorf("signal %s", p.Signal)
						}
						w.is(t, at.Ref, state)
					}
					if obeys {
						got(at.Lease.Do(t.Context(), run.AttemptHasFailed{Code: run.CodeAttemptTimeout, Summary: "Told to stop."}))(t)
					} else {
						w.pass(t, grace+time.Second)
						w.keep(t, at.Ref)
						replicas(t, 1, many(2, w.clocks)...)
					}
					i := w.info(t, at.Ref)
					switch {
					case outcome == policy.OnExpire && (i.State != run.Expired || i.Reason != run.CodeRunTimeout):
						t.Errorf("run is %s: %s", i.State, i.Reason)
					case outcome == policy.OnFail && (i.State != run.Failed || i.Failure == nil || i.Failure.Code != run.CodeRunTimeout):
						t.Errorf("run is %s: %+v", i.State, i.Failure)
					}
					w.logged(t, at.Ref, run.KindRunTimeout, 1)
					once(t, w.clocks(), 0)
					once(t, w.admission(), 0) // not run again by itself
				})
			}
		}
	}
}

// A run that ends by the clock while an effect may have happened outside leaves the follow-up that names it.
func TestRunTimeoutWithAnEffectInDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.PRCreating)
	must(t, at.Lease.Effect(t.Context(), "push_branch", "push", ""))
	w.pass(t, 3*time.Hour+time.Minute)
	w.keep(t, at.Ref)
	once(t, w.clocks(), 0)
	w.pass(t, grace+time.Second)
	w.keep(t, at.Ref)
	once(t, w.clocks(), 1)
	w.is(t, at.Ref, run.Expired)
	if n := w.count(t, `SELECT count(*) FROM outbox WHERE run_id = $1 AND topic = 'reconcile_effects' AND payload ->> 'operations' LIKE '%push%'`, at.Ref.Run); n != 1 {
		t.Errorf("%d follow-ups name the push, want one", n)
	}
}

// R-FAIL-5: a run that no worker takes expires, whichever phase it waits for; one that is taken in time does not.
func TestQueueTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: x\nlimits: {queue_timeout: 1h, max_runs: 1}\n"})
	fresh, verify := w.at(t, run.Queued), w.at(t, run.PatchReady)
	must(t, verify.Lease.All(t.Context(), run.Release{Reason: "drain"}))
	w.pass(t, 59*time.Minute)
	once(t, w.queueClock(), 0)
	taken := w.at(t, run.Queued)
	w.pass(t, 2*time.Minute)
	replicas(t, 2, many(2, w.queueClock)...)
	for _, r := range []db.Ref{fresh.Ref, verify.Ref} {
		if i := w.info(t, r); i.State != run.Expired || i.Reason != run.CodeQueueTimeout {
			t.Errorf("run is %s: %s", i.State, i.Reason)
		}
		w.logged(t, r, run.KindTimeout, 1)
	}
	for _, r := range []db.Ref{fresh.Ref, verify.Ref} {
		if why := w.why(t, r); why == "" {
			t.Error("the event does not say what the run waited for")
		}
	}
	w.is(t, taken.Ref, run.Queued)
	if n := w.count(t, `SELECT count(*) FROM run_queue`); n != 1 {
		t.Errorf("%d items are left, want one", n)
	}
}

// why is what the event that ended the run says it had waited for.
func (w *world) why(t testing.TB, ref db.Ref) string {
	t.Helper()
	info := w.info(t, ref)
	events := got(w.Store.Events(t.Context(), ref.Tenant, ref.Run, info.Version-1, 1))(t)
	var body struct {
		Payload run.TimeoutEvent `json:"payload"`
	}
	must(t, json.Unmarshal(events[0].Payload, &body))
	return body.Payload.Why
}

// R-Q-7: what somebody wrote into the reason for a pause ends as one bounded line in the history, with nothing hidden.
func TestQueueTimeoutKeepsHostileWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: x\nlimits: {queue_timeout: 1h, max_runs: 1}\n"})
	at := w.at(t, run.Queued)
	_, err := w.Owner.Exec(t.Context(), `INSERT INTO paused_queues (tenant_id, queue, reason, by_id, by_name) VALUES ($1, 'default', $2, 'x', 'Rita')`,
		at.Ref.Tenant, "first\nEvent forged\u202e"+strings.Repeat("ä", 400))
	must(t, err)
	w.pass(t, 61*time.Minute)
	once(t, w.queueClock(), 1)
	why := w.why(t, at.Ref)
	if !strings.Contains(why, "first Event forged⟦U+202E⟧") || strings.ContainsAny(why, "\n\u202e") || len(why) > 610 || !utf8.ValidString(why) || !strings.HasSuffix(why, "…") {
		t.Errorf("the event holds %q", why)
	}
}

// A clock that looked at a lease which is over meanwhile leaves the next worker's lease alone.
func TestLateClockSparesTheNextLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Leased)
	old := at.Lease.Proof()
	must(t, at.Lease.All(t.Context(), run.Release{Reason: "drain"}))
	got(w.ClaimRun(t.Context(), w.Workers[1], at.Ref))(t)
	_, err := w.Store.Apply(t.Context(), at.Ref, db.Intent{Key: "late", By: run.Actor{Kind: run.Scheduler, ID: "run clock"}, Lease: &old,
		Payload: run.AttemptFailedEvent{Code: run.CodeStartTimeout, Summary: "Late."}})
	if !db.Lost(err) {
		t.Errorf("answered %v", err)
	}
	w.is(t, at.Ref, run.Leased)
}

// Limits that cannot be read stop no other run's clock.
func TestPoisonedClocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: x\nlimits: {queue_timeout: 1h, max_runs: 1}\n"})
	held, waiting := []drive.At{w.at(t, run.Leased), w.at(t, run.Leased)}, []drive.At{w.at(t, run.Queued), w.at(t, run.Queued)}
	w.pass(t, 2*time.Hour)
	for _, bad := range slices.Concat(held[:1], waiting[:1]) {
		w.poison(t, bad.Ref)
	}
	clocks, queue := w.clocks(), w.queueClock()
	once(t, clocks, 1)
	once(t, queue, 1)
	w.is(t, held[1].Ref, run.Queued)
	w.is(t, waiting[1].Ref, run.Expired)
	once(t, clocks, 0)
	w.logged(t, held[0].Ref, run.KindAttemptFailed, 0)
	w.logged(t, waiting[0].Ref, run.KindTimeout, 0)
}

// R-FAIL-5: a run that began and waits again, put off or ready, ends by the run's own time-out; one that waits for its
// first worker has not begun, and its time in the queue is not held against it.
func TestRunTimeoutWithoutALease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{BackoffScale: 1000}})
	fresh, delayed, ready := w.at(t, run.Queued), w.at(t, run.Executing), w.at(t, run.Executing)
	got(delayed.Lease.Do(t.Context(), run.AttemptHasFailed{Code: run.CodeAgentExit, Summary: "Exit 1."}))(t)
	must(t, ready.Lease.All(t.Context(), run.Release{Reason: "drain"}))
	w.pass(t, 3*time.Hour+time.Minute)
	replicas(t, 2, many(2, w.queueClock)...)
	for _, ref := range []db.Ref{delayed.Ref, ready.Ref} {
		if i := w.info(t, ref); i.State != run.Expired || i.Reason != run.CodeRunTimeout {
			t.Errorf("run is %s: %s", i.State, i.Reason)
		}
	}
	w.is(t, fresh.Ref, run.Queued)
	got(w.ClaimRun(t.Context(), w.Workers[0], fresh.Ref))(t)
	once(t, w.clocks(), 0)
	w.is(t, fresh.Ref, run.Leased)
}

// R-FAIL-5: a step that takes too long is TIMED_OUT with its code, while its run goes on; what comes later about it
// changes nothing.
func TestStepTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	say := func(n int64, state run.StepState) {
		got(w.Store.Append(t.Context(), at.Lease.Holder(), db.Batch{Sequence: n, Steps: []db.Step{{CallID: "c1", Kind: "tool_call", Name: "make", State: state}}}))(t)
	}
	say(500, run.StepRunning)
	w.pass(t, 19*time.Minute)
	w.keep(t, at.Ref)
	once(t, w.useClocks(), 0)
	w.pass(t, 2*time.Minute)
	w.keep(t, at.Ref)
	replicas(t, 1, many(2, w.useClocks)...)
	say(501, run.StepSucceeded)
	if n := w.count(t, `SELECT count(*) FROM steps WHERE run_id = $1 AND call_id = 'c1' AND state = 'TIMED_OUT' AND summary LIKE 'STEP_TIMEOUT: %20m%' AND duration_ms > 1000000`, at.Ref.Run); n != 1 {
		t.Error("the step is not TIMED_OUT with its code and its duration")
	}
	w.is(t, at.Ref, run.Executing)
}

// R-FAIL-4, R-FAIL-8: the time of verifiers and of sandboxes is measured here and stops the run when it is used up.
func TestTimeOfVerifiersAndSandboxes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "version: x\nlimits: {verifier_time: 5m, sandbox_time: 10m}\n"})
	verifying, executing := w.at(t, run.Verifying), w.at(t, run.Executing)
	w.pass(t, 4*time.Minute)
	w.keep(t, verifying.Ref)
	w.keep(t, executing.Ref)
	once(t, w.useClocks(), 0)
	for _, step := range []struct {
		pass time.Duration
		who  drive.At
	}{{2 * time.Minute, verifying}, {5 * time.Minute, executing}} {
		w.pass(t, step.pass)
		w.keep(t, verifying.Ref)
		w.keep(t, executing.Ref)
		once(t, w.useClocks(), 1)
		if p := got(step.who.Lease.Beat(t.Context()))(t); p.Signal != db.SignalBudget {
			t.Errorf("signal %s after the time is used up", p.Signal)
		}
	}
	once(t, w.useClocks(), 0)
}
