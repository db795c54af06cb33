package control_test

import (
	"fmt"
	"testing"
	"time"

	"signalbox/internal/control"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

const day = 24 * time.Hour

// R-UI-3, R-FAIL-5: a gate that nobody decides escalates, cancels or fails the run as policy says, once whoever looks.
func TestGateExpiry(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[policy.Outcome]run.State{policy.OnEscalate: run.WaitingForApproval, policy.OnCancel: run.Cancelled, policy.OnFail: run.Failed} {
		t.Run(string(outcome), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, drive.Options{Policy: fmt.Sprintf("schema: 1\nversion: x\napproval: {on_expiry: %s}\n", outcome)})
			at := w.at(t, run.WaitingForApproval)
			w.pass(t, 3*day-time.Minute)
			once(t, w.gates(), 0)
			w.pass(t, 2*time.Minute)
			replicas(t, 1, many(3, w.gates)...)
			w.is(t, at.Ref, want)
			w.logged(t, at.Ref, run.KindApprovalExpired, 1)
			once(t, w.gates(), 0)
			if err := w.Approve(t.Context(), at.Ref); err == nil {
				t.Error("an expired gate was approved")
			}
			if n := w.count(t, `SELECT count(*) FROM gates WHERE run_id = $1 AND state = 'open'`, at.Ref.Run); n != 0 {
				t.Error("the gate is open")
			}
			once(t, w.admission(), 0) // not run again by itself
			i := w.info(t, at.Ref)
			if outcome == policy.OnFail && (i.Failure == nil || i.Failure.Code != run.CodeApprovalExpired) {
				t.Errorf("failed with %+v", i.Failure)
			}
			if outcome == policy.OnEscalate {
				if n := w.count(t, `SELECT count(*) FROM outbox WHERE run_id = $1 AND topic = 'escalated'`, at.Ref.Run); n != 1 {
					t.Errorf("escalated %d times", n)
				}
			}
		})
	}
}

// R-UI-3: an expired gate can be asked again; what then expires again is said again, and what nobody ever takes up is
// cancelled after the parking time.
func TestGateAskedAgainThenParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.WaitingForApproval)
	for round := range 2 {
		w.pass(t, 3*day+time.Minute)
		once(t, w.gates(), 1)
		w.logged(t, at.Ref, run.KindApprovalExpired, round+1)
		i := w.info(t, at.Ref)
		if i.Gate == nil || !i.Gate.Expired {
			t.Fatalf("gate %+v", i.Gate)
		}
		if round == 0 {
			w.pass(t, 29*day)
			once(t, w.gates(), 0)
			got(w.AskAgain(t.Context(), i.Gate.ID, w.Requester, ""))(t)
			once(t, w.gates(), 0)
		}
	}
	w.pass(t, 30*day+time.Minute)
	replicas(t, 1, many(3, w.gates)...)
	w.is(t, at.Ref, run.Cancelled)
	w.logged(t, at.Ref, run.KindApprovalExpired, 3)
	if s := w.task(t, at).State; s != run.TaskReady {
		t.Errorf("the task is %s", s)
	}
	once(t, w.admission(), 0)
}

// R-FAIL-5: an attestation that does not come escalates once per period, or fails the run, and is not waited for for ever.
func TestAttestationExpiry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.AwaitingVerification)
	w.pass(t, 7*day-time.Minute)
	once(t, w.gates(), 0)
	for period := range 4 {
		w.pass(t, 2*time.Minute)
		replicas(t, 1, many(3, w.gates)...)
		once(t, w.gates(), 0)
		w.is(t, at.Ref, run.AwaitingVerification)
		w.logged(t, at.Ref, run.KindAttestationExpired, period+1)
		w.pass(t, 7*day-time.Minute)
	}
	w.pass(t, 2*time.Minute)
	replicas(t, 1, many(3, w.gates)...)
	if i := w.info(t, at.Ref); i.State != run.Expired || i.Reason != run.CodeAttestationExpired {
		t.Errorf("after 35 days the run is %s: %s", i.State, i.Reason)
	}
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: fails\nattestation: {on_expiry: fail}\n"))
	at = w.at(t, run.AwaitingVerification)
	w.pass(t, 7*day+time.Minute)
	replicas(t, 1, many(3, w.gates)...)
	if i := w.info(t, at.Ref); i.State != run.Failed || i.Failure.Code != run.CodeAttestationExpired {
		t.Errorf("run is %s: %+v", i.State, i.Failure)
	}
}

// A replica that died between saying it and moving the expiry on leaves nothing stuck, and it is not said twice.
func TestAttestationEscalatedByADyingReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.AwaitingVerification)
	w.pass(t, 7*day+time.Minute)
	var until time.Time
	must(t, w.Owner.QueryRow(t.Context(), `SELECT expires_at FROM attestations WHERE run_id = $1`, at.Ref.Run).Scan(&until))
	once(t, w.gates(), 1)
	w.exec(t, `UPDATE attestations SET expires_at = $2 WHERE run_id = $1`, at.Ref.Run, until)
	once(t, w.gates(), 0)
	w.logged(t, at.Ref, run.KindAttestationExpired, 1)
	w.pass(t, 7*day-time.Minute)
	once(t, w.gates(), 0)
	w.pass(t, 2*time.Minute)
	once(t, w.gates(), 1)
	w.logged(t, at.Ref, run.KindAttestationExpired, 2)
}

// A gate of a run that cannot be read hides neither another gate nor an attestation.
func TestPoisonedGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: x\napproval: {on_expiry: cancel}\n"})
	bad, good, attested := w.at(t, run.WaitingForApproval), w.at(t, run.WaitingForApproval), w.at(t, run.AwaitingVerification)
	w.pass(t, 8*day)
	w.poison(t, bad.Ref)
	look := (&control.GateClocks{Store: w.Store}).RunOnce
	once(t, look, 2)
	w.is(t, good.Ref, run.Cancelled)
	w.logged(t, attested.Ref, run.KindAttestationExpired, 1)
	once(t, look, 0)
}

// A READY task that nobody touches is closed, and one whose pull request nobody merges.
func TestIdleTaskAndMergeWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	idle := w.at(t, run.Cancelled)
	c := drive.Ordinary()
	c.Mode = run.ModePRMerged
	merge := w.succeeded(t, c)
	if s := w.task(t, merge).State; s != run.TaskRunning {
		t.Fatalf("the task that waits for its merge is %s", s)
	}
	w.pass(t, 14*day-time.Minute)
	once(t, w.tasks(), 0)
	w.pass(t, 2*time.Minute)
	replicas(t, 1, many(3, w.tasks)...)
	if s := w.task(t, idle).State; s != run.TaskFailed {
		t.Errorf("the idle task is %s", s)
	}
	if s := w.task(t, merge).State; s != run.TaskRunning {
		t.Errorf("the other one is %s", s)
	}
	w.pass(t, 16*day)
	replicas(t, 1, many(3, w.tasks)...)
	if s := w.task(t, merge).State; s != run.TaskFailed {
		t.Errorf("after a month without a merge the task is %s", s)
	}
	for k, a := range map[run.TaskKind]drive.At{run.TaskEvIdle: idle, run.TaskEvMergeWaitOver: merge} {
		es := got(w.Store.TaskEvents(t.Context(), w.Tenant, a.Task.Task))(t)
		if len(es) == 0 || es[len(es)-1].Kind != k {
			t.Errorf("the task's log does not end with %s", k)
		}
	}
	once(t, w.tasks(), 0)
}

// succeeded drives a run of the contract to its pull request.
func (w *world) succeeded(t testing.TB, c run.Contract) drive.At {
	t.Helper()
	task := got(w.Task(t.Context(), c))(t)
	at := drive.At{Task: task}
	at.Ref.Tenant, at.Ref.Run = w.Tenant, *task.Run
	l := got(w.ClaimRun(t.Context(), w.Workers[0], at.Ref))(t)
	must(t, l.Prepare(t.Context()))
	got(l.Plan(t.Context(), w.Key("plan")))(t)
	got(l.HandIn(t.Context(), drive.Diff("a.go", w.Key("line"))))(t)
	l = got(w.ClaimRun(t.Context(), w.Workers[1], at.Ref))(t)
	got(l.Verify(t.Context(), passed()))(t)
	got(l.Judge(t.Context(), run.VerdictPass, 1))(t)
	must(t, w.Approve(t.Context(), at.Ref))
	l = got(w.ClaimRun(t.Context(), w.Workers[0], at.Ref))(t)
	got(l.Publish(t.Context()))(t)
	w.is(t, at.Ref, run.Succeeded)
	return at
}
