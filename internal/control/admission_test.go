package control_test

import (
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/control"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

const incident = "schema: 1\nversion: incident\nlimits: {max_defer: 1h}\nadmission: {incident: {on: true, message: 'Storage is down.', retry_after: 1m}}\n"

// R-ADM-1: a run that incident mode puts off is looked at again when its time has come, and admitted once it is over;
// any number of replicas admit it once.
func TestAdmissionIsPutOffThenGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: incident})
	ref := got(w.Run(t.Context(), drive.Ordinary()))(t)
	w.is(t, ref, run.Created)
	once(t, w.admission(), 0)
	w.logged(t, ref, run.KindDeferred, 1)
	w.pass(t, 61*time.Second)
	once(t, w.admission(), 0) // put off once more, by the incident that goes on
	w.is(t, ref, run.Created)
	w.logged(t, ref, run.KindDeferred, 2)
	once(t, w.admission(), 0)
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: calm\n"))
	once(t, w.admission(), 0) // not before its time
	w.pass(t, 61*time.Second)
	for _, look := range many(3, w.admission) {
		_, err := look(t.Context())
		must(t, err)
	}
	w.is(t, ref, run.Queued)
	w.logged(t, ref, run.KindEnqueued, 1)
	if v := w.info(t, ref).PolicyVersion; v != "calm" {
		t.Errorf("admitted under %q", v)
	}
	if got(w.Claim(t.Context(), w.Workers[0]))(t) == nil {
		t.Error("there is nothing to claim")
	}
}

// R-ADM-1, R-FAIL-5: admission is not put off for ever, and its time-out has an outcome of its own.
func TestAdmissionPutOffForTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: strings.Replace(incident, "max_defer: 1h", "max_defer: 1h, max_runs: 1", 1)})
	ref := got(w.Run(t.Context(), drive.Ordinary()))(t)
	w.pass(t, 59*time.Minute)
	once(t, w.admission(), 0)
	w.logged(t, ref, run.KindDeferred, 2)
	w.is(t, ref, run.Created)
	w.pass(t, 2*time.Minute)
	replicas(t, 1, w.admission())
	if i := w.info(t, ref); i.State != run.Expired || i.Reason != run.CodeDeferTimeout {
		t.Errorf("run is %s: %s", i.State, i.Reason)
	}
	w.logged(t, ref, run.KindTimeout, 1)
	once(t, w.admission(), 0)
}

// A delay that is over puts the item into the queue, once.
func TestDelayIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{BackoffScale: 1}})
	at := w.at(t, run.Executing)
	got(at.Lease.Do(t.Context(), run.AttemptHasFailed{Code: run.CodeDiskFull}))(t)
	w.is(t, at.Ref, run.Queued)
	deliver := func() *control.Delivery { return &control.Delivery{Store: w.Store} }
	once(t, deliver().RunOnce, 0)
	if got(w.Claim(t.Context(), w.Workers[0]))(t) != nil {
		t.Fatal("a delayed item was given out")
	}
	w.pass(t, time.Minute)
	replicas(t, 1, deliver().RunOnce, deliver().RunOnce, deliver().RunOnce)
	if got(w.Claim(t.Context(), w.Workers[0]))(t) == nil {
		t.Error("a delivered item is not given out")
	}
}

// R-FAIL-4: what failed in a way that may be tried again is run again by itself until the task's runs are spent, once
// however many replicas look.
func TestTaskIsRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: two\nlimits: {max_attempts: 1, max_runs: 2}\n"})
	at := w.at(t, run.Executing)
	got(at.Lease.Do(t.Context(), run.AttemptHasFailed{Code: run.CodeDiskFull}))(t)
	w.is(t, at.Ref, run.Failed)
	replicas(t, 1, many(4, w.admission)...)
	runs := got(w.Store.Runs(t.Context(), w.Tenant, db.RunFilter{Task: at.Task.Task, Limit: 10}))(t)
	if len(runs) != 2 || w.task(t, at).State != run.TaskRunning {
		t.Fatalf("%d runs, the task is %s", len(runs), w.task(t, at).State)
	}
	l := got(w.Claim(t.Context(), w.Workers[0]))(t)
	got(l.Do(t.Context(), run.AttemptHasFailed{Code: run.CodeDiskFull}))(t)
	once(t, w.admission(), 0)
	if s := w.task(t, at).State; s != run.TaskFailed {
		t.Errorf("with its runs spent the task is %s", s)
	}
}

// A person's no is final for the control plane.
func TestNoRunAfterAReject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.WaitingForApproval)
	got(w.Decide(t.Context(), at.Ref, w.Approvers[0], policy.Reject, "Not like this."))(t)
	w.is(t, at.Ref, run.Failed)
	once(t, w.admission(), 0)
	if s := w.task(t, at).State; s != run.TaskReady {
		t.Errorf("the task is %s", s)
	}
}

// A run that cannot be read hides nobody: the others are admitted at every look.
func TestPoisonedAdmission(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: incident})
	// More of them, and due for longer, than a tenant's share of one look.
	var bad []db.Ref
	for range 21 {
		bad = append(bad, got(w.Run(t.Context(), drive.Ordinary()))(t))
	}
	good := got(w.Run(t.Context(), drive.Ordinary()))(t)
	w.poison(t, bad...)
	w.pass(t, 2*time.Minute)
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: calm\n"))
	look := w.admission()
	once(t, look, 1)
	w.is(t, good, run.Queued)
	once(t, look, 0)
	w.heal(t, bad...)
	once(t, w.admission(), len(bad)) // another replica does not wait for this one's pause
	w.is(t, bad[20], run.Queued)
}

// poison makes the runs' rows unreadable, as a bad migration would.
func (w *world) poison(t testing.TB, refs ...db.Ref) {
	t.Helper()
	w.exec(t, `ALTER TABLE runs ADD COLUMN IF NOT EXISTS healthy_limits jsonb`)
	for _, ref := range refs {
		w.exec(t, `UPDATE runs SET healthy_limits = limits, limits = '["poison"]' WHERE id = $1`, ref.Run)
	}
}

func (w *world) heal(t testing.TB, refs ...db.Ref) {
	t.Helper()
	for _, ref := range refs {
		w.exec(t, `UPDATE runs SET limits = healthy_limits WHERE id = $1`, ref.Run)
	}
	w.exec(t, `ALTER TABLE runs DROP COLUMN healthy_limits`)
}
