package control_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/control"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// eager acts at the second look, however soon.
func (w *world) eager() *control.Reconciler {
	return &control.Reconciler{Store: w.Store, Settle: time.Nanosecond}
}

// repaired are the codes on record for the run.
func (w *world) repaired(t testing.TB, ref db.Ref) (codes []db.RepairCode) {
	t.Helper()
	for _, r := range got(w.Store.Repairs(t.Context(), ref))(t) {
		if r.Detail == "" || r.At.IsZero() {
			t.Errorf("%s says nothing: %+v", r.Code, r)
		}
		codes = append(codes, r.Code)
	}
	return codes
}

// damage is one thing that should never be, and what it is afterwards.
type damage struct {
	code  db.RepairCode
	state run.State
	// harm breaks what is in order, past every trigger and constraint that a bug would have had to pass, too.
	harm string
	// wrong counts what is wrong; after the repair it is 0.
	wrong string
	// then is the state afterwards, where the run itself changes.
	then run.State
}

const copyOfItem = `INSERT INTO %s (run_id, tenant_id, phase%s) SELECT id, tenant_id, '%s'%s FROM runs WHERE id = $1`

var damages = []damage{
	{db.RepairItemMissing, run.Queued, `DELETE FROM run_queue WHERE run_id = $1`,
		`SELECT 1 - count(*) FROM run_queue q JOIN runs r ON r.id = q.run_id WHERE r.id = $1 AND q.phase = r.queued AND q.user_id IS NOT NULL AND q.queue = 'default'`, ""},
	{db.RepairItemMissing, run.PatchReady, `DELETE FROM run_queue WHERE run_id = $1`,
		`SELECT 1 - count(*) FROM run_queue q JOIN runs r ON r.id = q.run_id WHERE r.id = $1 AND q.phase = r.queued`, ""},
	{db.RepairItemOfEnded, run.Succeeded, fmt.Sprintf(copyOfItem, "run_queue", ", repository_id, user_id, risk", "execute", ", repository_id, id, risk"),
		`SELECT count(*) FROM run_queue WHERE run_id = $1`, ""},
	{db.RepairDelayOfEnded, run.Cancelled, fmt.Sprintf(copyOfItem, "run_delayed", ", available_at", "execute", ", now() + interval '1 day'"),
		`SELECT count(*) FROM run_delayed WHERE run_id = $1`, ""},
	{db.RepairItemOfOther, run.Executing, fmt.Sprintf(copyOfItem, "run_queue", ", repository_id, user_id, risk", "publish", ", repository_id, id, risk"),
		`SELECT count(*) FROM run_queue WHERE run_id = $1`, ""},
	{db.RepairDelayOfOther, run.WaitingForApproval, fmt.Sprintf(copyOfItem, "run_delayed", ", available_at", "publish", ", now()"),
		`SELECT count(*) FROM run_delayed WHERE run_id = $1`, ""},
	{db.RepairItemTwice, run.Queued, fmt.Sprintf(copyOfItem, "run_delayed", ", available_at", "execute", ", now() + interval '1 day'"),
		`SELECT count(*) FROM run_delayed WHERE run_id = $1`, ""},
	{db.RepairLeaseMissing, run.Executing, `DELETE FROM run_leases WHERE run_id = $1`, `SELECT count(*) FROM runs WHERE id = $1 AND lease_id IS NOT NULL`, run.Queued},
	{db.RepairLeaseMissing, run.Verifying, `DELETE FROM run_leases WHERE run_id = $1`, `SELECT count(*) FROM runs WHERE id = $1 AND lease_id IS NOT NULL`, run.Verifying},
	{db.RepairLeaseMissing, run.Cancelling, `DELETE FROM run_leases WHERE run_id = $1`, `SELECT count(*) FROM runs WHERE id = $1 AND lease_id IS NOT NULL`, run.Cancelled},
	{db.RepairLeaseOfNobody, run.WaitingForApproval, `INSERT INTO run_leases (run_id, lease_id, tenant_id, fencing_token, phase, worker_id, boot_id, attempt_id, repository_id, user_id, claim_id, expires_at)
		SELECT id, gen_random_uuid(), tenant_id, 1, 'execute', id, id, id, repository_id, id, 'nobody', now() + interval '1 day' FROM runs WHERE id = $1`, `SELECT count(*) FROM run_leases WHERE run_id = $1`, ""},
	{db.RepairAttemptsSpent, run.Queued, `UPDATE runs SET attempt_no = 3, attempt_id = gen_random_uuid(), limits = jsonb_set(limits, '{max_attempts}', '3') WHERE id = $1`,
		`SELECT count(*) FROM run_queue WHERE run_id = $1`, run.Failed},
	{db.RepairAdmissionMissing, run.Created, `DELETE FROM run_admissions WHERE run_id = $1`, `SELECT 1 - count(*) FROM run_admissions WHERE run_id = $1 AND due_at <= clock_timestamp()`, ""},
	{db.RepairCompletionMissing, run.Succeeded, `WITH t AS (UPDATE tasks SET state = 'RUNNING', active_run_id = $1 WHERE id = (SELECT task_id FROM runs WHERE id = $1))
		UPDATE runs SET state = 'PR_CREATED', finished_at = NULL, verdict = '' WHERE id = $1`, `SELECT count(*) FROM runs WHERE id = $1 AND finished_at IS NULL`, run.Succeeded},
	{db.RepairAttemptOpen, run.Succeeded, `UPDATE attempts SET state = 'STARTED', ended_at = NULL WHERE run_id = $1`, `SELECT count(*) FROM attempts WHERE run_id = $1 AND state <> 'SUCCEEDED'`, ""},
	{db.RepairAttemptOpen, run.Cancelled, `INSERT INTO attempts (id, tenant_id, run_id, attempt_no, state, worker_id) SELECT gen_random_uuid(), tenant_id, id, 9, 'STARTED', id FROM runs WHERE id = $1`,
		`SELECT count(*) FROM attempts WHERE run_id = $1 AND state <> 'ABORTED'`, ""},
	{db.RepairSandboxLeft, run.Succeeded, `UPDATE sandboxes SET state = 'READY' WHERE lease_id = (SELECT lease_id FROM sandboxes WHERE run_id = $1 LIMIT 1)`,
		`SELECT count(*) FROM sandboxes WHERE run_id = $1 AND state NOT IN ('FAILED', 'DESTROYED')`, ""},
	{db.RepairGateLeft, run.Succeeded, `UPDATE gates SET state = 'open', closed_at = NULL WHERE run_id = $1`, `SELECT count(*) FROM gates WHERE run_id = $1 AND (state <> 'cancelled' OR closed_at IS NULL)`, ""},
	{db.RepairTaskWithoutRun, run.Failed, `UPDATE tasks SET state = 'RUNNING', active_run_id = $1 WHERE id = (SELECT task_id FROM runs WHERE id = $1)`,
		`SELECT count(*) FROM tasks t JOIN runs r ON r.task_id = t.id WHERE r.id = $1 AND t.state <> 'READY'`, ""},
	{db.RepairTaskWithoutRun, run.Succeeded, `UPDATE tasks SET state = 'WAITING_FOR_APPROVAL', active_run_id = NULL WHERE id = (SELECT task_id FROM runs WHERE id = $1)`,
		`SELECT count(*) FROM tasks t JOIN runs r ON r.task_id = t.id WHERE r.id = $1 AND t.state <> 'COMPLETED'`, ""},
	{db.RepairTaskWithoutRun, run.Executing, `UPDATE tasks SET active_run_id = NULL WHERE id = (SELECT task_id FROM runs WHERE id = $1)`,
		`SELECT count(*) FROM tasks t JOIN runs r ON r.task_id = t.id WHERE r.id = $1 AND t.active_run_id IS DISTINCT FROM r.id`, ""},
}

// R-REC-1: each thing that should never be is found and put right, at the second look and not at the first, once
// however many replicas look, on record under its code; an event stands for it where the run changed.
func TestRepairs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for _, d := range damages {
		name := fmt.Sprintf("R-REC-1 %s %s", d.code, d.state)
		at := w.reach(t, d.state)
		w.damage(t, d.harm, at.Ref)
		if n := w.count(t, d.wrong, at.Ref.Run); n == 0 {
			t.Fatalf("%s: nothing is wrong", name)
		}
		version := w.info(t, at.Ref).Version
		a, b := w.eager(), w.eager()
		once(t, a.RunOnce, 0)
		once(t, b.RunOnce, 0)
		if n := w.count(t, d.wrong, at.Ref.Run); n == 0 {
			t.Errorf("%s: was put right at the first look", name)
		}
		replicas(t, 1, a.RunOnce, b.RunOnce)
		once(t, a.RunOnce, 0)
		once(t, b.RunOnce, 0)
		if n := w.count(t, d.wrong, at.Ref.Run); n != 0 {
			t.Errorf("%s: %d things are still wrong", name, n)
		}
		i := w.info(t, at.Ref)
		if changed := i.Version != version; changed != (d.then != "") {
			t.Errorf("%s: the run changed: %t; it is %s", name, changed, i.State)
		}
		if d.then != "" {
			w.is(t, at.Ref, d.then)
		}
		codes := w.repaired(t, at.Ref)
		if d.code == db.RepairTaskWithoutRun {
			if n := w.count(t, `SELECT count(*) FROM repairs p JOIN runs r ON r.task_id = p.task_id WHERE r.id = $1 AND p.code = $2`, at.Ref.Run, string(d.code)); n != 1 {
				t.Errorf("%s: %d repairs of the task on record", name, n)
			}
		} else if !slices.Equal(codes, []db.RepairCode{d.code}) {
			t.Errorf("%s: on record is %v", name, codes)
		}
		w.settle(t, at.Ref)
		if t.Failed() {
			t.Fatalf("%s", name)
		}
	}
	if n := got(w.Store.RepairCounts(t.Context()))(t); n[db.RepairItemMissing] != 2 || n[db.RepairTaskWithoutRun] != 3 {
		t.Errorf("counted %v", n)
	}
}

// R-REC-1, R-ATT-1: whether somebody else attests a result that the reconciler finds published is asked with the facts of the result, and
// under the policy of the admission, too.
func TestTheReconcilerAsksForAnAttestation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	const harm = `WITH t AS (UPDATE tasks SET state = 'RUNNING', active_run_id = $1 WHERE id = (SELECT task_id FROM runs WHERE id = $1)), a AS (DELETE FROM attestations WHERE run_id = $1)
		UPDATE runs SET state = 'PR_CREATED', finished_at = NULL, verdict = '' WHERE id = $1`
	by := "version: %s\nrules:\n  - name: changes\n    when: changed_files > 0\n    then: {attestation: %t}\n"
	for n, c := range []struct {
		admitted, today string
		ends            run.State
	}{
		{"version: plain-0\n", fmt.Sprintf(by, "attested-0", true), run.Succeeded},
		{fmt.Sprintf(by, "attested-1", true), "version: plain-1\n", run.AwaitingVerification},
		{"version: required-2\nattestation: {required: true}\n", "version: plain-2\n", run.AwaitingVerification},
	} {
		must(t, w.SetPolicy(t.Context(), c.admitted))
		at := w.at(t, c.ends)
		must(t, w.SetPolicy(t.Context(), c.today))
		w.damage(t, harm, at.Ref)
		a := w.eager()
		once(t, a.RunOnce, 0)
		once(t, a.RunOnce, 1)
		if s := w.info(t, at.Ref).State; s != run.AwaitingVerification {
			t.Errorf("case %d went on to %s", n, s)
		}
	}
}

// reach makes a run in the state; a CREATED one is one that admission puts off, and one that is PATCH_READY waits.
func (w *world) reach(t *testing.T, s run.State) drive.At {
	t.Helper()
	if s != run.Created {
		at := w.at(t, s)
		if s == run.PatchReady { // reached under a lease; its item is wanted
			got(at.Lease.Do(t.Context(), run.Release{}))(t)
		}
		return at
	}
	must(t, w.SetPolicy(t.Context(), incident))
	ref := got(w.Run(t.Context(), drive.Ordinary()))(t)
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: calm-again\n"))
	return drive.At{Ref: ref}
}

// R-REC-1, R-FAIL-2: a run that waits for another try has spent its attempts by those alone that use one up: what a drain
// released, what took its worker down and what the provider turned away is found only beyond them.
func TestAttemptsThatUseNothingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for _, column := range []string{"released", "crashed", "rate_limited"} {
		at := w.reach(t, run.Queued)
		for attempts, want := range map[int]int{4: 0, 5: 1} {
			w.damage(t, fmt.Sprintf(`UPDATE runs SET attempt_no = %d, %s = 2, attempt_id = gen_random_uuid(), limits = jsonb_set(limits, '{max_attempts}', '3') WHERE id = $1`, attempts, column), at.Ref)
			found := 0
			for _, list := range w.Store.Findings() {
				found += len(got(list(t.Context(), uuid.Nil, 10))(t))
			}
			if found != want {
				t.Errorf("%d attempts, 2 of them %s, 3 allowed: %d findings, want %d", attempts, column, found, want)
			}
		}
		w.settle(t, at.Ref)
	}
}

// settle takes the run out of the way of the next case.
func (w *world) settle(t testing.TB, ref db.Ref) {
	t.Helper()
	if !w.info(t, ref).State.Terminal() {
		got(w.Cancel(t.Context(), ref))(t)
	}
}

// damage writes past triggers and checks of constraints, as only a bug below them could.
func (w *world) damage(t testing.TB, harm string, ref db.Ref) {
	t.Helper()
	super := superuser(t, w.db)
	if _, err := super.Exec(t.Context(), `SET session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	if tag, err := super.Exec(t.Context(), harm, ref.Run); err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v, %v", harm, tag, err)
	}
}

// R-REC-1: what is in order is left alone, whatever else is wrong, and a page full of it hides nothing.
func TestTheReconcilerIsConservative(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for _, s := range run.States() {
		if s != run.PRCreated && s != run.Created && s != run.Expired {
			w.at(t, s)
		}
	}
	snapshot := func() string {
		var all string
		must(t, w.Owner.QueryRow(t.Context(), `SELECT (SELECT string_agg(concat(id, state, version, lease_id, queued), ';' ORDER BY id) FROM runs)
			|| (SELECT string_agg(concat(run_id, phase), ';' ORDER BY run_id) FROM run_queue) || (SELECT string_agg(concat(run_id, lease_id), ';' ORDER BY run_id) FROM run_leases)
			|| (SELECT string_agg(concat(id, state, version), ';' ORDER BY id) FROM tasks) || (SELECT string_agg(concat(id, state), ';' ORDER BY id) FROM gates)`).Scan(&all))
		return all
	}
	before := snapshot()
	r := w.eager()
	for range 3 {
		once(t, r.RunOnce, 0)
	}
	if after := snapshot(); after != before {
		t.Errorf("something in order was changed:\n%s\n%s", before, after)
	}
	if n := w.count(t, `SELECT count(*) FROM repairs`); n != 0 {
		t.Errorf("%d repairs on record", n)
	}
	// With the usual patience a second look at once does nothing yet.
	at := w.at(t, run.Queued)
	w.damage(t, `DELETE FROM run_queue WHERE run_id = $1`, at.Ref)
	slow := &control.Reconciler{Store: w.Store}
	once(t, slow.RunOnce, 0)
	once(t, slow.RunOnce, 0)
}

// R-REC-1: a finding that moved on between the looks is another one.
func TestAFindingThatMovesIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Queued)
	w.damage(t, `DELETE FROM run_queue WHERE run_id = $1`, at.Ref)
	r := w.eager()
	once(t, r.RunOnce, 0)
	got(w.Cancel(t.Context(), at.Ref))(t)
	once(t, r.RunOnce, 0)
	once(t, r.RunOnce, 0)
	if codes := w.repaired(t, at.Ref); len(codes) != 0 {
		t.Errorf("on record is %v", codes)
	}
}

// R-REC-1: more than a page of things that are wrong, one of which cannot be handled: all others are put right.
func TestPagesOfRepairs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Queued)
	const many = 230
	w.exec(t, `INSERT INTO attempts (id, tenant_id, run_id, attempt_no, state, worker_id) SELECT gen_random_uuid(), tenant_id, id, n, 'STARTED', id FROM runs, generate_series(2, 231) n WHERE id = $1`, at.Ref.Run)
	r := w.eager()
	once(t, r.RunOnce, 0)
	once(t, r.RunOnce, many)
	if n := w.count(t, `SELECT count(*) FROM attempts WHERE state = 'STARTED'`); n != 0 {
		t.Errorf("%d attempts are still open", n)
	}
}

// R-REC-1: what the schema itself refuses needs no repair: nobody can write it.
func TestWhatCannotBeWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for name, c := range map[string]struct {
		state      run.State
		harm, rule string
	}{
		"a state that needs work with neither lease nor item": {run.Queued, `UPDATE runs SET queued = NULL WHERE id = $1`, "runs_work_check"},
		"lease and item at once":                              {run.Executing, `UPDATE runs SET queued = 'execute' WHERE id = $1`, "runs_lease_or_item_check"},
		"waiting for a person under a lease":                  {run.WaitingForApproval, `UPDATE runs SET lease_id = id, lease_phase = 'execute', lease_worker = 'w', lease_boot = 'b' WHERE id = $1`, "runs_waiting_check"},
		"an ended run that says it waits":                     {run.Succeeded, `UPDATE runs SET queued = 'execute' WHERE id = $1`, "which is final"},
		"two leases of one run":                               {run.Executing, `INSERT INTO run_leases SELECT * FROM run_leases WHERE run_id = $1`, "run_leases_pkey"},
		"two items of one run":                                {run.Queued, `INSERT INTO run_queue (run_id, tenant_id, phase, repository_id, user_id, risk) SELECT run_id, tenant_id, phase, repository_id, user_id, risk FROM run_queue WHERE run_id = $1`, "run_queue_pkey"},
	} {
		at := w.at(t, c.state)
		_, err := w.Owner.Exec(t.Context(), c.harm, at.Ref.Run)
		if err == nil || !strings.Contains(err.Error(), c.rule) {
			t.Errorf("%s: %v, want %s", name, err, c.rule)
		}
	}
}

// R-REC-1: a run that cannot be handled is set aside after some tries: recorded with its reason, left alone by the loop
// that failed on every replica, and handled again once it is released.
func TestPoisonIsSetAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	bad, good := w.at(t, run.Executing), w.at(t, run.Executing)
	must(t, w.Lapse(t.Context(), bad.Ref))
	w.poison(t, bad.Ref)
	r := &control.Reaper{Store: w.Store, StopGrace: grace, Silent: day, Patience: patience, Pause: time.Nanosecond}
	for range 6 {
		if a := got(w.Store.AsideOf(t.Context(), bad.Ref))(t); a != nil {
			t.Fatalf("set aside too early: %+v", a)
		}
		once(t, r.RunOnce, 0)
	}
	a := got(w.Store.AsideOf(t.Context(), bad.Ref))(t)
	if a == nil || a.By != "reaper" || a.Failures != 6 || !strings.Contains(a.Reason, "limits") {
		t.Fatalf("set aside: %+v", a)
	}
	if y := got(w.Store.Why(t.Context(), bad.Ref.Tenant, bad.Ref.Run))(t); y.Reason.Code != "set_aside" || !strings.Contains(y.Reason.Words, "reaper") {
		t.Errorf("why it waits: %+v", y)
	}
	w.heal(t, bad.Ref)
	once(t, w.reaper(), 0) // also by another replica it is left alone
	must(t, w.Lapse(t.Context(), good.Ref))
	once(t, w.reaper(), 1)
	w.exec(t, `DELETE FROM quarantine`)
	once(t, r.RunOnce, 1)
	w.is(t, bad.Ref, run.Queued)
}

// R-REC-1, R-LEASE-5: what one loop set aside keeps the others from nothing: the lease of a lost worker ends and the run
// goes on; a cancel completes even where the reaper itself had given the run up.
func TestSetAsideStopsOneLoopOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{BackoffScale: 0.01, CancelGrace: 10 * time.Second}})
	lost, gone := w.at(t, run.Executing), w.at(t, run.Cancelling)
	got(w.Store.SetAside(t.Context(), lost.Ref.Run, "run clock", 6, context.Canceled))(t)
	must(t, w.Lapse(t.Context(), lost.Ref))
	once(t, w.reaper(), 1)
	w.is(t, lost.Ref, run.Queued)
	must(t, w.Due(t.Context(), lost.Ref))
	if y := got(w.Store.Why(t.Context(), lost.Ref.Tenant, lost.Ref.Run))(t); y.Reason.Code == "set_aside" {
		t.Errorf("it has an item and is said to wait for a person: %+v", y)
	}
	if l := got(w.ClaimRun(t.Context(), w.Workers[0], lost.Ref))(t); l == nil {
		t.Error("nobody got the run")
	}
	got(w.Store.SetAside(t.Context(), gone.Ref.Run, "reaper", 6, context.Canceled))(t)
	w.pass(t, 11*time.Second)
	w.keep(t, lost.Ref)
	must(t, w.Lapse(t.Context(), gone.Ref))
	once(t, w.reaper(), 1)
	w.is(t, gone.Ref, run.Cancelled)
}

// R-REC-1: an item that no claim can read is set aside by the first claim that meets it; everybody else is served.
func TestPoisonInTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	bad, good := w.at(t, run.Queued), w.at(t, run.Queued)
	w.poison(t, bad.Ref)
	l := got(w.Claim(t.Context(), w.Workers[0]))(t)
	if l == nil || l.Ref != good.Ref {
		t.Fatalf("claimed %+v", l)
	}
	if a := got(w.Store.AsideOf(t.Context(), bad.Ref))(t); a == nil || a.By != "claim" {
		t.Errorf("set aside: %+v", a)
	}
	e := w.eager()
	once(t, e.RunOnce, 0)
	once(t, e.RunOnce, 0) // its item is not put back while it is set aside
	if got(w.Claim(t.Context(), w.Workers[0]))(t) != nil {
		t.Error("the poisoned run was given out")
	}
	w.heal(t, bad.Ref)
	ctx := context.WithoutCancel(t.Context())
	w.exec(t, `DELETE FROM quarantine`)
	_, err := e.RunOnce(ctx)
	must(t, err)
	once(t, e.RunOnce, 1)
	if l := got(w.Claim(t.Context(), w.Workers[0]))(t); l == nil || l.Ref != bad.Ref {
		t.Errorf("claimed %+v", l)
	}
}

// R-REC-1: the record of a repair and the event that it is about are one: where the one cannot be written, the other is not.
func TestRepairIsOnRecordWithItsEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for _, d := range damages {
		if d.code != db.RepairLeaseMissing && d.code != db.RepairAttemptsSpent && d.code != db.RepairCompletionMissing {
			continue
		}
		at := w.reach(t, d.state)
		w.damage(t, d.harm, at.Ref)
		before := w.info(t, at.Ref).Version
		f := db.Finding{Code: d.code, Ref: at.Ref, Key: at.Ref.Run, Mark: before}
		got(w.Owner.Exec(t.Context(), `REVOKE INSERT ON repairs FROM signalbox_engine`))(t)
		if done, err := w.Store.Repair(t.Context(), f); err == nil || done {
			t.Errorf("%s %s: done %t, %v", d.code, d.state, done, err)
		}
		if v := w.info(t, at.Ref).Version; v != before {
			t.Errorf("%s %s: the run moved by %d events without a record", d.code, d.state, v-before)
		}
		got(w.Owner.Exec(t.Context(), `GRANT INSERT ON repairs TO signalbox_engine`))(t)
		if done, err := w.Store.Repair(t.Context(), f); err != nil || !done {
			t.Errorf("%s %s: done %t, %v", d.code, d.state, done, err)
		}
		if codes := w.repaired(t, at.Ref); !slices.Equal(codes, []db.RepairCode{d.code}) {
			t.Errorf("%s %s: on record is %v", d.code, d.state, codes)
		}
	}
}
