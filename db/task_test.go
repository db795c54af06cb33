package db_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

var controlPlane = run.Actor{Kind: run.ControlPlane, ID: "signalbox"}

// R-DOM-2, R-FAIL-4: a run that failed in a way that may be tried again is followed by the next one, made by the
// control plane itself, until the task's runs are spent; whatever else ended it is a person's to decide.
func TestTheNextRunOfATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: tight\nlimits: {max_attempts: 1, max_runs: 2}\n"})
	at := w.at(t, run.Executing)
	task := func() db.TaskInfo { return got(w.Store.Task(t.Context(), w.Tenant, at.Task.Task))(t) }
	fail := func(l *drive.Lease, c run.Code) {
		t.Helper()
		if ack := got(l.Do(t.Context(), run.AttemptHasFailed{Code: c, Summary: "It broke."}))(t); ack.State != run.Failed {
			t.Fatalf("the run is %s", ack.State)
		}
	}
	fail(at.Lease, run.CodeDiskFull)
	if s := task().State; s != run.TaskReady {
		t.Fatalf("task is %s", s)
	}
	due := got(w.Store.TasksToRun(t.Context(), uuid.Nil, 10))(t)
	if len(due) != 1 || due[0].Task != at.Task.Task {
		t.Fatalf("tasks to run: %+v", due)
	}
	// Any number of replicas make one run.
	made := map[uuid.UUID]bool{}
	for _, err := range all(4, func(int) error {
		_, err := w.Store.RunAgain(t.Context(), db.Request{Tenant: w.Tenant, By: controlPlane}, at.Task.Task)
		if err != nil && db.Lost(err) {
			return nil
		}
		return err
	}) {
		must(t, err)
	}
	runs := got(w.Store.Runs(t.Context(), w.Tenant, db.RunFilter{Task: at.Task.Task, Limit: 10}))(t)
	for _, r := range runs {
		made[r.ID] = true
	}
	if len(made) != 2 || task().State != run.TaskRunning {
		t.Fatalf("%d runs, task is %s", len(made), task().State)
	}
	second := db.Ref{Tenant: w.Tenant, Run: runs[0].ID}
	l := got(w.ClaimRun(t.Context(), w.Workers[0], second))(t)
	fail(l, run.CodeDiskFull)
	if s := task().State; s != run.TaskFailed {
		t.Errorf("after its last run the task is %s", s)
	}
	_, err := w.Store.RunAgain(t.Context(), w.Request(w.Requester, "again"), at.Task.Task)
	refusal(t, err, fault.Conflict, "Nothing was changed: the task is FAILED")

	// A failure that must not be tried again waits for a person.
	at = w.at(t, run.Executing)
	fail(at.Lease, run.CodeGitAuthFailed)
	if due := got(w.Store.TasksToRun(t.Context(), uuid.Nil, 10))(t); len(due) != 0 || task().State != run.TaskReady {
		t.Errorf("%d tasks run by themselves; the task is %s", len(due), task().State)
	}
	if _, err := w.Store.RunAgain(t.Context(), db.Request{Tenant: w.Tenant, By: controlPlane}, at.Task.Task); !db.Lost(err) {
		t.Errorf("the control plane ran it again: %v", err)
	}
	again := got(w.Store.RunAgain(t.Context(), w.Request(w.Requester, "again"), at.Task.Task))(t)
	if again.Run == nil || task().State != run.TaskRunning {
		t.Errorf("answer %+v", again)
	}
	w.replays(t)
}

// R-DOM-2: a READY task can be closed by a person, and closes by itself when nobody touches it.
func TestClosedAndIdleTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	a, b := w.at(t, run.Cancelled), w.at(t, run.Cancelled)
	if got(w.Store.CloseTask(t.Context(), w.Request(w.Requester, "close"), a.Task.Task, "Done by hand."))(t).State != run.TaskFailed {
		t.Error("a closed task is not FAILED")
	}
	p, err := w.Store.Patience(t.Context())
	must(t, err)
	idle, err := w.Store.IdleTasks(t.Context(), p, uuid.Nil, 10)
	if err != nil || len(idle) != 0 {
		t.Fatalf("idle tasks %v, %v", idle, err)
	}
	dbtest.Advance(t, w.db, 15*24*time.Hour)
	idle, err = w.Store.IdleTasks(t.Context(), p, uuid.Nil, 10)
	if err != nil || len(idle) != 1 || idle[0].Task != b.Task.Task {
		t.Fatalf("idle tasks %v, %v", idle, err)
	}
	// One that was touched after the look is left alone.
	_, err = w.Owner.Exec(t.Context(), `UPDATE tasks SET updated_at = updated_at + interval '1 microsecond' WHERE id = $1`, b.Task.Task)
	must(t, err)
	if err := w.Store.CloseIdle(t.Context(), idle[0]); !db.Lost(err) {
		t.Errorf("closed by an old list: %v", err)
	}
	idle, err = w.Store.IdleTasks(t.Context(), p, uuid.Nil, 10)
	must(t, err)
	must(t, w.Store.CloseIdle(t.Context(), idle[0]))
	if got(w.Store.Task(t.Context(), w.Tenant, b.Task.Task))(t).State != run.TaskFailed {
		t.Error("an idle task is not FAILED")
	}
	var kinds []run.TaskKind
	for _, e := range got(w.Store.TaskEvents(t.Context(), w.Tenant, b.Task.Task))(t) {
		kinds = append(kinds, e.Kind)
	}
	if len(kinds) == 0 || kinds[len(kinds)-1] != run.TaskEvIdle {
		t.Errorf("the task's log ends %v", kinds)
	}
}

// R-DOM-3: in the mode pr_merged the task waits for the merge; a closed pull request is as a failed run, and nobody
// waits for ever.
func TestTaskWaitsForTheMerge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	c := drive.Ordinary()
	c.Mode = run.ModePRMerged
	succeed := func() (uuid.UUID, db.PullInfo) {
		t.Helper()
		task := got(w.Task(t.Context(), c))(t)
		ref := db.Ref{Tenant: w.Tenant, Run: *task.Run}
		l := got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
		must(t, l.Prepare(t.Context()))
		got(l.Plan(t.Context(), w.Key("plan")))(t)
		got(l.HandIn(t.Context(), drive.Diff("a.go", w.Key("line"))))(t)
		l = got(w.ClaimRun(t.Context(), w.Workers[1], ref))(t)
		got(l.Verify(t.Context(), db.VerificationRecord{Passed: true}))(t)
		got(l.Judge(t.Context(), run.VerdictPass, 1))(t)
		must(t, w.Approve(t.Context(), ref))
		l = got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
		got(l.Publish(t.Context()))(t)
		must(t, w.Is(t.Context(), ref, run.Succeeded))
		for _, p := range got(w.Store.Pulls(t.Context(), w.Tenant, db.PullFilter{}))(t) {
			if p.Run == ref.Run {
				return task.Task, p
			}
		}
		t.Fatal("there is no pull request")
		return uuid.Nil, db.PullInfo{}
	}
	state := func(task uuid.UUID) run.TaskState { return got(w.Store.Task(t.Context(), w.Tenant, task))(t).State }
	task, pull := succeed()
	if s := state(task); s != run.TaskRunning {
		t.Fatalf("the task is %s", s)
	}
	for range 2 { // a repeat finds the same state
		must(t, w.Store.MovePull(t.Context(), w.Request(w.Approvers[0], "merge"), pull.ID, "MERGED", drive.Tree, w.Approvers[0].ID))
	}
	if s := state(task); s != run.TaskCompleted {
		t.Errorf("after the merge the task is %s", s)
	}
	err := w.Store.MovePull(t.Context(), w.Request(w.Approvers[0], "close"), pull.ID, "CLOSED", "", w.Approvers[0].ID)
	refusal(t, err, fault.Conflict, "Nothing was changed: the pull request is already MERGED")

	task, pull = succeed()
	must(t, w.Store.MovePull(t.Context(), w.Request(w.Approvers[0], "close"), pull.ID, "CLOSED", "", w.Approvers[0].ID))
	if s := state(task); s != run.TaskReady {
		t.Errorf("after closing the pull request the task is %s", s)
	}
	task, _ = succeed()
	dbtest.Advance(t, w.db, 31*24*time.Hour)
	merges, err := w.Store.UnmergedTasks(t.Context(), got(w.Store.Patience(t.Context()))(t), uuid.Nil, 10)
	if err != nil || len(merges) != 1 || merges[0].Task != task {
		t.Fatalf("tasks that wait too long: %v, %v", merges, err)
	}
	must(t, w.Store.CloseUnmerged(t.Context(), merges[0]))
	if state(task) != run.TaskFailed {
		t.Error("a task whose merge never came is not FAILED")
	}
}

// R-ADM-2: what admission puts off stays CREATED with its reason and is looked at again; past the longest delay it
// expires.
func TestDeferredAdmission(t *testing.T) {
	t.Parallel()
	const incident = "schema: 1\nversion: incident\nadmission: {incident: {on: true, message: 'Storage is down.', retry_after: 1m}}\n"
	w := newWorld(t, drive.Options{Policy: incident})
	a := got(w.Task(t.Context(), drive.Ordinary()))(t)
	ref := db.Ref{Tenant: w.Tenant, Run: *a.Run}
	must(t, w.Is(t.Context(), ref, run.Created))
	if n := w.count(t, `SELECT count(*) FROM run_queue`); n != 0 {
		t.Error("it is in the queue")
	}
	if due := got(w.Store.DueAdmissions(t.Context(), nil, nil, 10, 10))(t); len(due) != 0 {
		t.Errorf("it is looked at again at once: %v", due)
	}
	dbtest.Advance(t, w.db, 2*time.Minute)
	due := got(w.Store.DueAdmissions(t.Context(), nil, nil, 10, 10))(t)
	if len(due) != 1 || due[0] != ref {
		t.Fatalf("due admissions %v", due)
	}
	got(w.Store.Admit(t.Context(), ref))(t)
	must(t, w.Is(t.Context(), ref, run.Created))
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: calm\n"))
	got(w.Store.Admit(t.Context(), ref))(t)
	info := w.info(t, ref)
	if info.State != run.Queued || info.PolicyVersion != "calm" || info.Limits.MaxAttempts == 0 {
		t.Errorf("run is %s under %q with %d attempts", info.State, info.PolicyVersion, info.Limits.MaxAttempts)
	}
	got(w.Store.Admit(t.Context(), ref))(t) // once more changes nothing
	if v := w.info(t, ref).Version; v != info.Version {
		t.Error("a run that is admitted was admitted again")
	}
	if n := w.count(t, `SELECT count(*) FROM policy_decisions WHERE run_id = $1 AND point = 'admission'`, ref.Run); n != 3 {
		t.Errorf("%d decisions kept, want 3", n)
	}
	// Past the longest delay.
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: incident-2\nlimits: {max_defer: 1h}\nadmission: {incident: {on: true, retry_after: 1m}}\n"))
	b := got(w.Task(t.Context(), drive.Ordinary()))(t)
	late := db.Ref{Tenant: w.Tenant, Run: *b.Run}
	dbtest.Advance(t, w.db, 2*time.Hour)
	got(w.Store.Admit(t.Context(), late))(t)
	if info := w.info(t, late); info.State != run.Expired || info.Reason != run.CodeDeferTimeout {
		t.Errorf("run is %s: %s", info.State, info.Reason)
	}
	if n := w.count(t, `SELECT count(*) FROM run_admissions`); n != 0 {
		t.Errorf("%d admissions are left", n)
	}
}

// A draft is not validated and makes no run until it is submitted.
func TestDrafts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	a := got(w.Store.CreateTask(t.Context(), w.Request(w.Requester, "draft"), db.TaskSpec{Repository: w.Repo, Title: "T", Goal: "G", Contract: drive.Ordinary(), Draft: true}))(t)
	if a.State != run.TaskDraft || a.Run != nil {
		t.Fatalf("answer %+v", a)
	}
	in := w.Request(w.Requester, "submit")
	b := got(w.Store.SubmitTask(t.Context(), in, a.Task))(t)
	if b.Run == nil || b.State != run.TaskRunning {
		t.Errorf("answer %+v", b)
	}
	if c := got(w.Store.SubmitTask(t.Context(), in, a.Task))(t); !c.Replayed || *c.Run != *b.Run {
		t.Errorf("the repeat made %+v", c)
	}
	_, err := w.Store.SubmitTask(t.Context(), w.Request(w.Requester, "submit"), a.Task)
	refusal(t, err, fault.Conflict, "Nothing was changed: the task is RUNNING")
	w.replays(t)
}

// R-VER-1: a task whose change no check could verify is refused when it is submitted, before anything was done, with the
// way on; one that brings its own check, or asks for a report, is taken.
func TestTaskWithoutAnyCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	bare := got(w.Store.CreateRepository(t.Context(), w.Tenant, w.Admin.ID, db.RepositoryInfo{Forge: db.LocalForge, Name: "bare", CloneURL: "file:///srv/bare.git", DefaultBranch: "main"}))(t)
	submit := func(repository uuid.UUID, draft bool, c run.Contract) (db.TaskAck, error) {
		key := w.Key("task")
		return w.Store.CreateTask(t.Context(), db.Request{Tenant: w.Tenant, By: w.Requester.Actor(), Roles: w.Requester.Roles, Key: key, Hash: drive.Hash(key)},
			db.TaskSpec{Repository: repository, Title: "A change", Goal: "Change one line.", BaseRef: "main", Contract: c, Draft: draft})
	}
	check := []run.Check{{Name: "test", Kind: "test", Argv: []string{"true"}}}
	none := drive.Ordinary()
	own := drive.Ordinary()
	own.Verification = check
	report := drive.Ordinary()
	report.Mode = run.ModeAnalysis

	_, err := submit(bare.ID, false, none)
	if f := refusal(t, err, fault.Invalid, "The task was not submitted. Neither the repository nor the task names a check"); f.Code != "task_contract_invalid" || f.Field != "verification" {
		t.Errorf("refused with code %q about %q", f.Code, f.Field)
	}
	_, err = submit(w.Repo, false, own)
	refusal(t, err, fault.Invalid, `The task was not submitted. Two checks are named "test"`)
	draft := got(submit(bare.ID, true, none))(t)
	_, err = w.Store.SubmitTask(t.Context(), w.Request(w.Requester, "submit"), draft.Task)
	refusal(t, err, fault.Invalid, "The task was not submitted.")
	if s := got(w.Store.Task(t.Context(), w.Tenant, draft.Task))(t).State; s != run.TaskDraft {
		t.Errorf("the refused draft is %s", s)
	}
	for name, c := range map[string]run.Contract{"its own check": own, "a report only": report} {
		if a, err := submit(bare.ID, false, c); err != nil || a.Run == nil {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}
