package db_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// all runs n calls at once, releasing them together, and returns their errors in order.
func all(n int, do func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = do(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// R-TRN-6: the same key with the same content gets the same answer and no second event; with other content nothing
// happens.
func TestRepeatedCommandIsAnsweredAndNotDoneAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Leased)
	in := at.Lease.Intent("start-1", run.Start{})
	first := got(w.Store.Apply(t.Context(), at.Ref, in))(t)
	if first.Replayed || first.State != run.Preparing || !first.Leased {
		t.Fatalf("first answer %+v", first)
	}
	// Also after the run has moved on, and after the lease has ended.
	must(t, at.Lease.All(t.Context(), run.SandboxIsReady{Tier: "bwrap", Base: drive.Base}))
	must(t, at.Lease.All(t.Context(), run.Release{Reason: "drain"}))
	version := w.info(t, at.Ref).Version
	again := got(w.Store.Apply(t.Context(), at.Ref, in))(t)
	if !again.Replayed {
		t.Error("the repeat does not say that it is one")
	}
	again.Replayed = false
	if d := cmp.Diff(first, again); d != "" {
		t.Errorf("another answer (-first +again):\n%s", d)
	}
	other := in
	other.Hash = drive.Hash("other content")
	_, err := w.Store.Apply(t.Context(), at.Ref, other)
	refusal(t, err, fault.Invalid, "Nothing was changed: this Idempotency-Key")
	if now := w.info(t, at.Ref).Version; now != version {
		t.Errorf("version moved from %d to %d", version, now)
	}
	w.replays(t)
}

// R-TRN-6: the key is its sender's own: a person's key and a worker's never meet, and no key can take a name of the
// server's own events.
func TestKeysBelongToTheirSender(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Leased)
	for _, key := range []string{"created", "admission-1", "k"} {
		in := at.Lease.Intent(key, run.Start{})
		if key == "created" {
			got(w.Store.Apply(t.Context(), at.Ref, in))(t)
			continue
		}
		if _, err := w.Store.Apply(t.Context(), at.Ref, in); err == nil {
			t.Errorf("a second start under key %q was accepted", key)
		}
	}
	ack := got(w.Store.Apply(t.Context(), at.Ref, db.Intent{Key: "created", Hash: drive.Hash("cancel"), By: w.Requester.Actor(),
		Payload: run.CancelRequestedEvent{Reason: "Same key, another sender."}}))(t)
	if ack.Replayed || ack.State != run.Cancelling {
		t.Errorf("the person's own key was taken: %+v", ack)
	}
}

// R-TRN-6: a refused command leaves no key behind, so that it may be said again when it fits.
func TestRefusedCommandKeepsNoKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Leased)
	in := at.Lease.Intent("ready", run.SandboxIsReady{Tier: "bwrap", Base: drive.Base})
	_, err := w.Store.Apply(t.Context(), at.Ref, in)
	refusal(t, err, fault.Conflict, "Nothing was changed: sandbox_ready does not fit a run that is LEASED")
	must(t, at.Lease.All(t.Context(), run.Start{}))
	if ack := got(w.Store.Apply(t.Context(), at.Ref, in))(t); ack.Replayed || ack.State != run.ContextBuilding {
		t.Errorf("answer %+v", ack)
	}
}

// R-TRN-6, R-TRN-7: the same key from many connections at once is one event, and everybody hears the same.
func TestConcurrentRepeatsAreOneEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	for round := range 8 {
		at := w.at(t, run.Leased)
		in := at.Lease.Intent(fmt.Sprintf("start-%d", round), run.Start{})
		before := w.info(t, at.Ref).Version
		acks := make([]db.Ack, 12)
		for i, err := range all(len(acks), func(i int) (err error) {
			acks[i], err = w.Store.Apply(t.Context(), at.Ref, in)
			return err
		}) {
			if err != nil {
				t.Errorf("round %d, call %d: %v", round, i, err)
			}
		}
		fresh := 0
		for _, a := range acks {
			if !a.Replayed {
				fresh++
			}
			if a.State != run.Preparing || a.Version != before+1 {
				t.Errorf("answer %+v", a)
			}
		}
		if fresh != 1 {
			t.Errorf("%d calls were carried out, want 1", fresh)
		}
		if now := w.info(t, at.Ref).Version; now != before+1 {
			t.Errorf("version %d, want %d", now, before+1)
		}
	}
	w.replays(t)
}

// R-TRN-7: racers with different keys decide one after the other on the truth: one of them moves the run, the others
// are refused, and no update is lost.
func TestRacersDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	for range 8 {
		at := w.at(t, run.Preparing)
		before := w.info(t, at.Ref).Version
		won := 0
		for _, err := range all(8, func(int) error {
			_, err := at.Lease.Do(t.Context(), run.SandboxIsReady{Tier: "bwrap", Base: drive.Base})
			return err
		}) {
			if err == nil {
				won++
				continue
			}
			refusal(t, err, fault.Conflict, "Nothing was changed")
		}
		if won != 1 {
			t.Errorf("%d racers won, want 1", won)
		}
		if now := w.info(t, at.Ref).Version; now != before+1 {
			t.Errorf("version %d, want %d", now, before+1)
		}
	}
	w.replays(t)
}

// R-TRN-6: a task's key makes one task, also under concurrency; other content is refused.
func TestTaskKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	in := db.Request{Tenant: w.Tenant, By: w.Requester.Actor(), Roles: w.Requester.Roles, Key: "task-key", Hash: drive.Hash("one")}
	spec := db.TaskSpec{Repository: w.Repo, Title: "One", Goal: "Once.", Contract: drive.Ordinary()}
	acks := make([]db.TaskAck, 8)
	for _, err := range all(len(acks), func(i int) (err error) {
		acks[i], err = w.Store.CreateTask(t.Context(), in, spec)
		return err
	}) {
		must(t, err)
	}
	for _, a := range acks {
		if a.Task != acks[0].Task || a.Run == nil || *a.Run != *acks[0].Run {
			t.Errorf("answers differ: %+v and %+v", acks[0], a)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM tasks`); n != 1 {
		t.Errorf("%d tasks, want 1", n)
	}
	if n := w.count(t, `SELECT count(*) FROM runs`); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
	in.Hash = drive.Hash("two")
	_, err := w.Store.CreateTask(t.Context(), in, spec)
	refusal(t, err, fault.Invalid, "Nothing was changed: this Idempotency-Key")
	// Another person's equal key is another key.
	in.By, in.Roles = w.Admin.Actor(), w.Admin.Roles
	if a := got(w.Store.CreateTask(t.Context(), in, spec))(t); a.Task == acks[0].Task {
		t.Error("another person was given the first one's task")
	}
}

// Bad tasks are refused with a sentence, and nothing of them is stored.
func TestRefusedTasksAreNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	long := make([]byte, 50_001)
	for i := range long {
		long[i] = 'x'
	}
	for name, c := range map[string]struct {
		spec   db.TaskSpec
		begins string
	}{
		"unknown repository": {db.TaskSpec{Repository: uuid.New(), Title: "T", Goal: "G", Contract: drive.Ordinary()}, "The task was not stored: there is no such repository"},
		"no title":           {db.TaskSpec{Repository: w.Repo, Goal: "G", Contract: drive.Ordinary()}, "The task was not stored: its title"},
		"long goal":          {db.TaskSpec{Repository: w.Repo, Title: "T", Goal: string(long), Contract: drive.Ordinary()}, "The task was not stored: its goal"},
		"unknown parent":     {db.TaskSpec{Repository: w.Repo, Title: "T", Goal: "G", Contract: drive.Ordinary(), Parent: new(uuid.New())}, "The task was not stored: there is no such parent"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.Store.CreateTask(t.Context(), w.Request(w.Requester, "bad"), c.spec)
			refusal(t, err, fault.Invalid, c.begins)
		})
	}
	for _, table := range []string{"tasks", "task_events", "runs", "run_events", "idempotency_keys", "policy_decisions"} {
		if n := w.count(t, `SELECT count(*) FROM `+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
}

// R-ADM-4: a task that policy refuses is REJECTED with the reasons, has no run, and leaves the decision behind.
func TestPolicyRefusesATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: low-only\nadmission: {risks: [LOW]}\n"})
	c := drive.Ordinary()
	c.Risk = "HIGH"
	a := got(w.Task(t.Context(), c))(t)
	if a.State != run.TaskRejected || a.Run != nil || len(a.Reasons) == 0 {
		t.Errorf("answer %+v", a)
	}
	if n := w.count(t, `SELECT count(*) FROM policy_decisions WHERE verdict = 'DENY' AND version = 'low-only' AND task_id = $1`, a.Task); n != 1 {
		t.Errorf("%d decisions stored, want 1", n)
	}
	if n := w.count(t, `SELECT count(*) FROM runs`); n != 0 {
		t.Errorf("%d runs", n)
	}
}

// A caller that goes away in the middle leaves nothing half done.
func TestCancelledCallerLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Leased)
	before := w.info(t, at.Ref).Version
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Store.Apply(ctx, at.Ref, at.Lease.Intent("gone", run.Start{})); err == nil {
		t.Fatal("a cancelled call was carried out")
	}
	if now := w.info(t, at.Ref).Version; now != before {
		t.Errorf("version %d, want %d", now, before)
	}
	if n := w.count(t, `SELECT count(*) FROM idempotency_keys WHERE key = 'gone'`); n != 0 {
		t.Error("the key was kept")
	}
}

// Text that Postgres cannot hold is refused with a sentence, wherever it comes from, and leaves nothing.
func TestCharactersThatCannotBeStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	const nul = "a\x00b"
	for name, try := range map[string]func() error{
		"task": func() error {
			_, err := w.Store.CreateTask(t.Context(), w.Request(w.Requester, "nul"), db.TaskSpec{Repository: w.Repo, Title: nul, Goal: "G", Contract: drive.Ordinary()})
			return err
		},
		"command": func() error {
			_, err := at.Lease.Do(t.Context(), run.AttemptHasFailed{Code: run.CodeAgentExit, Summary: nul})
			return err
		},
		"cancel": func() error {
			_, err := w.Store.Apply(t.Context(), at.Ref, db.Intent{Key: "nul", Hash: drive.Hash("n"), By: w.Requester.Actor(), Payload: run.CancelRequestedEvent{Reason: nul}})
			return err
		},
		"step": func() error {
			_, err := w.Store.Append(t.Context(), at.Lease.Holder(), db.Batch{Sequence: 1, Steps: []db.Step{{CallID: nul, Kind: "tool", Name: "n", State: run.StepRunning}}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.unchanged(t, at.Ref, func() { refusal(t, try(), fault.Invalid, "Nothing was changed: a text holds a character") })
		})
	}
}

// A lock that is held for too long is answered as a busy database, not as a fault, and the request can be repeated.
func TestBusyDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Queued)
	tx := got(w.Owner.Begin(t.Context()))(t)
	_, err := tx.Exec(t.Context(), `SELECT FROM runs WHERE id = $1 FOR UPDATE`, at.Ref.Run)
	must(t, err)
	in := db.Intent{Key: "k", Hash: drive.Hash("k"), By: w.Requester.Actor(), Payload: run.CancelRequestedEvent{Reason: "x"}}
	_, err = w.Store.Apply(t.Context(), at.Ref, in)
	refusal(t, err, fault.Unavailable, "The database could not answer in time")
	must(t, tx.Rollback(t.Context()))
	if ack := got(w.Store.Apply(t.Context(), at.Ref, in))(t); ack.State != run.Cancelled {
		t.Errorf("the repeat left the run %s", ack.State)
	}
}

// Another tenant's run does not exist, whatever the id.
func TestTenantsDoNotMeet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	other := drive.New(t, w.db, drive.Options{Tenant: "other", Store: w.Store})
	at := w.at(t, run.Executing)
	foreign := db.Ref{Tenant: other.Tenant, Run: at.Ref.Run}
	_, err := w.Store.Apply(t.Context(), foreign, db.Intent{Key: "c", Hash: drive.Hash("c"), By: other.Requester.Actor(), Payload: run.CancelRequestedEvent{Reason: "x"}})
	refusal(t, err, fault.NotFound, "There is no such run")
	_, err = w.Store.CancelTask(t.Context(), other.Request(other.Requester, "cancel"), at.Task.Task, "x")
	refusal(t, err, fault.NotFound, "There is no such task")
	h := at.Lease.Holder()
	h.Ref = foreign
	_, err = w.Store.PutArtifact(t.Context(), h, db.NewArtifact{Kind: "log", Name: "log", SHA256: "00", Size: 1, BlobKey: "k"})
	refusal(t, err, fault.NotFound, "There is no such")
	if _, err := w.Store.Append(t.Context(), h, db.Batch{Sequence: 1, Chunks: []db.Chunk{{Stream: "stdout", Data: []byte("x")}}}); err == nil {
		t.Error("a log was stored under another tenant")
	}
	// A worker of the other tenant is given none of this tenant's work.
	got(w.Run(t.Context(), drive.Ordinary()))(t)
	if l := got(other.Claim(t.Context(), other.Workers[0]))(t); l != nil {
		t.Errorf("a worker of another tenant was given run %s", l.Ref.Run)
	}
	_, err = other.Task(t.Context(), drive.Ordinary())
	must(t, err)
	_, err = w.Store.CreateTask(t.Context(), other.Request(other.Requester, "x"), db.TaskSpec{Repository: w.Repo, Title: "T", Goal: "G", Contract: drive.Ordinary()})
	refusal(t, err, fault.Invalid, "The task was not stored: there is no such repository")
}
