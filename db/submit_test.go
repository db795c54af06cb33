package db_test

import (
	"testing"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/dbtest/interleave"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

const (
	putOff = "admission: {incident: {on: true, message: 'Storage is down.', retry_after: 1m}}"
	quota  = "admission: {quota: {max_queued: 100}}"
)

// submitWorld is a world under the policy, and what it asks for.
func submitWorld(t *testing.T, rules string) *world {
	t.Helper()
	return newWorld(t, drive.Options{Policy: "schema: 1\nversion: submit\n" + rules + "\n"})
}

func (w *world) spec() db.TaskSpec {
	return db.TaskSpec{Repository: w.Repo, Title: "A change", Goal: "Change one line.", BaseRef: "main", Contract: drive.Ordinary()}
}

// audited is a request of a person as a page makes it.
func (w *world) audited() db.Request {
	in := w.Request(w.Requester, "submit")
	in.Audit = &db.Audit{Tenant: w.Tenant, By: w.Requester.Actor(), Channel: "api", Action: "task.submit", ObjectType: "task", Result: "recorded"}
	return in
}

// A submission waits for the database twice: for what it stands on, and for its commit. Each further round trip is paid by
// everybody who waits for a lease. Where policy bounds a count, one admission of the tenant decides at a time, in a
// transaction of its own.
func TestRoundTripsOfASubmission(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules       string
		most, again int
		draft       bool
		state       run.TaskState
	}{
		"admitted":      {most: 2, again: 1, state: run.TaskRunning},
		"a draft":       {most: 2, again: 1, draft: true, state: run.TaskDraft},
		"put off":       {rules: putOff, most: 2, again: 1, state: run.TaskRunning},
		"under a quota": {rules: quota, most: 6, again: 1, state: run.TaskRunning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := submitWorld(t, c.rules)
			gate := interleave.NewGate(t, w.db.EngineURL)
			store := got(db.Open(t.Context(), db.Options{URL: gate.URL(t, w.db.EngineURL), AppURL: w.db.AppURL, MaxConns: 1}))(t)
			t.Cleanup(store.Close)
			spec := w.spec()
			spec.Draft = c.draft
			trips := func(in db.Request) int {
				t.Helper()
				before := gate.Requests()
				if a := got(store.CreateTask(t.Context(), in, spec))(t); a.State != c.state {
					t.Fatalf("the task is %s", a.State)
				}
				return gate.Requests() - before
			}
			in := w.audited()
			trips(in) // the statements are prepared once for each connection
			// A connection that was idle for a while is asked whether it lives; the least of a few is without that.
			made, again := trips(w.audited()), trips(in)
			for range 4 {
				made, again = min(made, trips(w.audited())), min(again, trips(in))
			}
			if made > c.most || again > c.again {
				t.Errorf("a submission takes %d round trips, want at most %d; its repeat takes %d, want %d", made, c.most, again, c.again)
			}
		})
	}
}

// R-TRN-4: task, run, contract, events, queue item, policy's decisions, key and audit are one transaction. Where a part
// cannot be written nothing is, and the same request succeeds once the fault is gone.
func TestASubmissionIsWrittenWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	for table, rules := range map[string]string{"tasks": "", "task_events": "", "policy_decisions": "", "runs": "", "run_events": "", "run_queue": "",
		"run_admissions": putOff, "idempotency_keys": "", "audit_log": quota} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			w := submitWorld(t, rules)
			w.owner(t, "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken part'; END $$")
			w.owner(t, "CREATE TRIGGER broken BEFORE INSERT OR UPDATE ON "+table+" FOR EACH ROW EXECUTE FUNCTION broken()")
			const rest = `SELECT (SELECT count(*) FROM run_admissions) + (SELECT count(*) FROM audit_log)`
			before, restBefore := w.parts(t), w.count(t, rest)
			in := w.audited()
			if _, err := w.Store.CreateTask(t.Context(), in, w.spec()); err == nil {
				t.Fatalf("a task was submitted without its part in %s", table)
			}
			if after := w.parts(t); after != before || w.count(t, rest) != restBefore {
				t.Errorf("something was written although %s could not be:\nbefore %s\nafter  %s", table, before, after)
			}
			w.owner(t, "DROP TRIGGER broken ON "+table)
			if a := got(w.Store.CreateTask(t.Context(), in, w.spec()))(t); a.Run == nil || a.Replayed {
				t.Errorf("answer %+v", a)
			}
			w.replays(t)
		})
	}
}

// R-TRN-4: what is asked for several times at once, at several replicas, is one task with one run, one line in the audit that
// names it, and the same answer for all; also where one admission of the tenant decides at a time.
func TestSubmittedByManyAtOnce(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]string{"admitted": "", "under a quota": quota} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := submitWorld(t, rules)
			other := got(db.Open(t.Context(), db.Options{URL: w.db.EngineURL, AppURL: w.db.AppURL}))(t)
			t.Cleanup(other.Close)
			in := w.audited()
			acks := make([]db.TaskAck, 8)
			for _, err := range all(len(acks), func(n int) (err error) {
				acks[n], err = []*db.Store{w.Store, other}[n%2].CreateTask(t.Context(), in, w.spec())
				return err
			}) {
				must(t, err)
			}
			made := map[uuid.UUID]int{}
			first := 0
			for _, a := range acks {
				if made[a.Task]++; !a.Replayed {
					first++
				}
				if a.Run == nil || a.State != run.TaskRunning || *a.Run != *acks[0].Run {
					t.Errorf("answer %+v", a)
				}
			}
			if len(made) != 1 || first != 1 {
				t.Errorf("%d tasks were answered, %d of them as new", len(made), first)
			}
			for _, table := range []string{"tasks", "runs", "run_queue", "idempotency_keys", "audit_log"} {
				if n := w.count(t, `SELECT count(*) FROM `+table); n != 1 {
					t.Errorf("%d rows in %s", n, table)
				}
			}
			if n := w.count(t, `SELECT count(*) FROM audit_log WHERE object_id = $1`, typeid.Format(typeid.Task, acks[0].Task)); n != 1 {
				t.Error("the audit names another task")
			}
			w.replays(t)
		})
	}
}

// The quota is exact however many submit at once: what is over it is put off.
func TestAQuotaIsExactForManySubmissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: tight\nadmission: {quota: {max_queued: 3}}\n"})
	for _, err := range all(10, func(int) error {
		_, err := w.Task(t.Context(), drive.Ordinary())
		return err
	}) {
		must(t, err)
	}
	if queued, later := w.count(t, `SELECT count(*) FROM run_queue`), w.count(t, `SELECT count(*) FROM run_admissions`); queued != 3 || later != 7 {
		t.Errorf("%d are in the queue and %d are put off, want 3 and 7", queued, later)
	}
	w.replays(t)
}
