package db_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

func (w *world) resume(t testing.TB, ref db.Ref) db.Resumed {
	t.Helper()
	return got(w.Store.Resume(t.Context(), w.Request(w.Requester, "run.resume"), ref.Run))(t)
}

func codes(of []db.Note) (all []string) {
	for _, n := range of {
		all = append(all, n.Code)
	}
	return all
}

// said holds that the resume found and did what is wanted, in words for people.
func said(t testing.TB, r db.Resumed, found string, done ...string) {
	t.Helper()
	if !slices.Contains(codes(r.Found), found) || !slices.Equal(codes(r.Done), done) || r.Next == "" {
		t.Errorf("%s: found %v, done %v, next %q; want found %s, done %v", r.State, codes(r.Found), codes(r.Done), r.Next, found, done)
	}
	for _, n := range slices.Concat(r.Found, r.Done) {
		if n.Text == "" || !strings.HasSuffix(strings.TrimSpace(n.Text), ".") && n.Code != "set_aside" {
			t.Errorf("%s says %q", n.Code, n.Text)
		}
	}
}

// finish takes the run from where it waits to its end, each phase by the next worker; it fails where a stored result was
// made again.
func (w *world) finish(t testing.TB, ref db.Ref) {
	t.Helper()
	for range 10 {
		info := got(w.Store.RunInfo(t.Context(), ref.Tenant, ref.Run))(t)
		switch {
		case info.State.Terminal():
			return
		case info.State == run.WaitingForApproval:
			must(t, w.Approve(t.Context(), ref))
			continue
		}
		must(t, w.Due(t.Context(), ref))
		worker := w.Workers[0]
		if info.Queued == run.PhaseVerify {
			worker = w.Workers[1]
		}
		l := got(w.ClaimRun(t.Context(), worker, ref))(t)
		switch l.Lease.Phase {
		case run.PhaseExecute:
			must(t, l.Prepare(t.Context()))
			got(l.Plan(t.Context(), w.Key("plan")))(t)
			got(l.HandIn(t.Context(), drive.Diff("main.go", w.Key("line"))))(t)
		case run.PhaseVerify:
			if info.State == run.PatchReady {
				_, digest, err := w.Store.CommandSet(t.Context(), ref)
				must(t, err)
				must(t, l.All(t.Context(), run.VerifyStarted{Commands: []string{"true"}, Digest: digest}))
			}
			if info.State != run.Judging {
				got(l.Report(t.Context(), db.VerificationRecord{Passed: true, Summary: "1 check passed."}))(t)
			}
			got(l.Judge(t.Context(), run.VerdictPass, 0.95))(t)
		default:
			got(l.Publish(t.Context()))(t)
		}
	}
	t.Errorf("run %s does not come to an end", ref.Run)
}

// R-RCV-1, R-TEST-8: whatever state its worker was lost in, a run goes on from its last durable state: in the execute
// phase by a new attempt, afterwards with the same attempt and the very patch that was stored.
func TestResumeFromEachState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for _, s := range []run.State{run.Leased, run.Preparing, run.ContextBuilding, run.Planning, run.Executing, run.PatchReady, run.Verifying, run.Judging, run.PRCreating} {
		at := w.at(t, s)
		before := got(w.Store.RunInfo(t.Context(), at.Ref.Tenant, at.Ref.Run))(t)
		said(t, w.resume(t, at.Ref), "lease_active")
		must(t, w.Lapse(t.Context(), at.Ref))
		r := w.resume(t, at.Ref)
		if !slices.Contains(codes(r.Found), "lease_expired") || !slices.Contains(codes(r.Done), "lease_ended") || !slices.Contains(codes(r.Found), "durable_state") {
			t.Errorf("%s: found %v, done %v", s, codes(r.Found), codes(r.Done))
		}
		after := got(w.Store.RunInfo(t.Context(), at.Ref.Tenant, at.Ref.Run))(t)
		if s.Phase() == run.PhaseExecute {
			if after.State != run.Queued || after.Queued != run.PhaseExecute {
				t.Errorf("lost in %s it is %s and waits for %s", s, after.State, after.Queued)
			}
			w.finish(t, at.Ref)
			if end := got(w.Store.RunInfo(t.Context(), at.Ref.Tenant, at.Ref.Run))(t); end.State != run.Succeeded || end.AttemptNo != 2 {
				t.Errorf("lost in %s it ended as %s in attempt %d", s, end.State, end.AttemptNo)
			}
			continue
		}
		if after.State != s || after.Queued != s.Phase() || after.AttemptNo != 1 {
			t.Errorf("lost in %s it is %s, attempt %d, and waits for %s", s, after.State, after.AttemptNo, after.Queued)
		}
		if !slices.Contains(codes(r.Found), "durable_results") {
			t.Errorf("%s: nothing is said of the stored patch: %v", s, r.Found)
		}
		w.finish(t, at.Ref)
		end := got(w.Store.RunInfo(t.Context(), at.Ref.Tenant, at.Ref.Run))(t)
		if end.State != run.Succeeded || end.AttemptNo != 1 || end.Patch == nil || before.Patch == nil || end.Patch.Digest != before.Patch.Digest || end.PatchRevision != 1 {
			t.Errorf("lost in %s it ended as %s in attempt %d with patch %+v instead of %+v", s, end.State, end.AttemptNo, end.Patch, before.Patch)
		}
	}
}

// R-RCV-1: a resume does what is right for what it finds, and says plainly where there is nothing to do.
func TestResumeSaysWhatItFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{BackoffScale: 1}})

	queued := w.at(t, run.Queued)
	said(t, w.resume(t, queued.Ref), "item_ready")

	delayed := w.at(t, run.Executing)
	got(delayed.Lease.Do(t.Context(), run.AttemptHasFailed{Code: run.CodeDiskFull}))(t)
	said(t, w.resume(t, delayed.Ref), "item_delayed", "item_made_ready")
	got(w.ClaimRun(t.Context(), w.Workers[0], delayed.Ref))(t)

	missing := w.at(t, run.Queued)
	w.write(t, `DELETE FROM run_queue WHERE run_id = $1`, missing.Ref.Run)
	said(t, w.resume(t, missing.Ref), "item_missing", "repaired")
	got(w.ClaimRun(t.Context(), w.Workers[0], missing.Ref))(t)

	said(t, w.resume(t, w.at(t, run.WaitingForApproval).Ref), "waits_for_person")
	said(t, w.resume(t, w.at(t, run.AwaitingVerification).Ref), "waits_for_attestor")
	said(t, w.resume(t, w.at(t, run.Cancelling).Ref), "lease_active")
	said(t, w.resume(t, w.at(t, run.Succeeded).Ref), "ended")
	failed := w.at(t, run.Failed)
	r := w.resume(t, failed.Ref)
	said(t, r, "ended")
	if !strings.Contains(r.Next, "signalbox task run task_") && !strings.Contains(r.Next, "signalbox task run tsk_") {
		t.Errorf("running it again is not offered: %s", r.Next)
	}

	published := w.at(t, run.PRCreating)
	must(t, published.Lease.Effect(t.Context(), "push_branch", "branch", "ambiguous"))
	said(t, w.resume(t, published.Ref), "effect_ambiguous")

	aside := w.at(t, run.Queued)
	got(w.Store.SetAside(t.Context(), aside.Ref.Run, "reaper", 6, errNothing{}))(t)
	said(t, w.resume(t, aside.Ref), "set_aside", "released")
	if a := got(w.Store.AsideOf(t.Context(), aside.Ref))(t); a != nil {
		t.Errorf("it is still set aside: %+v", a)
	}
	said(t, w.resume(t, aside.Ref), "item_ready")

	unreadable := w.at(t, run.Queued)
	w.write(t, `UPDATE runs SET limits = '["poison"]' WHERE id = $1`, unreadable.Ref.Run)
	said(t, w.resume(t, unreadable.Ref), "unreadable")
	if r.State == "" {
		t.Error("no state is told")
	}

	if _, err := w.Store.Resume(t.Context(), w.Request(w.Requester, "run.resume"), w.Tenant); err == nil {
		t.Error("a run that does not exist was resumed")
	}
}

type errNothing struct{}

func (errNothing) Error() string { return "nothing works" }

// R-RCV-1: after an outage a resume takes no lease either; its worker has a full lease time to come back.
func TestResumeAfterAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{LeaseTTL: time.Minute}})
	at := w.at(t, run.Executing)
	got(w.Store.Beat(t.Context(), 15*time.Second))(t)
	w.write(t, `UPDATE control_heartbeat SET beat_at = beat_at - interval '2 minutes', hold_until = hold_until - interval '2 minutes'`)
	w.write(t, `UPDATE run_leases SET expires_at = expires_at - interval '2 minutes'`)
	said(t, w.resume(t, at.Ref), "after_outage")
	if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != db.SignalAlive {
		t.Errorf("the worker is told %s", p.Signal)
	}
}

// R-TRN-6, R-RCV-1: the same request again gets the first answer and changes nothing; each is in the audit before anything is done.
func TestResumeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	must(t, w.Lapse(t.Context(), at.Ref))
	in := w.Request(w.Requester, "run.resume")
	in.Audit = &db.Audit{Tenant: w.Tenant, By: in.By, Channel: "api", Action: "run.resume", ObjectType: "run", ObjectID: "it", Result: "recorded"}
	first := got(w.Store.Resume(t.Context(), in, at.Ref.Run))(t)
	again := got(w.Store.Resume(t.Context(), in, at.Ref.Run))(t)
	if !again.Replayed || first.Replayed || again.Next != first.Next || !slices.Equal(again.Done, first.Done) {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if n := w.count(t, `SELECT count(*) FROM audit_log WHERE action = 'run.resume'`); n != 1 {
		t.Errorf("%d lines in the audit", n)
	}
	if n := w.count(t, `SELECT count(*) FROM run_events WHERE run_id = $1 AND kind = 'worker_lost'`, at.Ref.Run); n != 1 {
		t.Errorf("the worker was lost %d times", n)
	}
}

// R-TEST-9: a run that ends leaves no item behind, whatever it waited for: ready or delayed, ended by cancel or clock.
func TestEndedRunLeavesNoItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{BackoffScale: 1}})
	items := func(ref db.Ref) int64 {
		return w.count(t, `SELECT (SELECT count(*) FROM run_queue WHERE run_id = $1) + (SELECT count(*) FROM run_delayed WHERE run_id = $1)`, ref.Run)
	}
	ready, delayed := w.at(t, run.Queued), w.at(t, run.Executing)
	got(delayed.Lease.Do(t.Context(), run.AttemptHasFailed{Code: run.CodeDiskFull}))(t)
	clocked := w.at(t, run.Queued)
	for name, end := range map[string]struct {
		ref db.Ref
		by  func() error
	}{
		"ready, cancelled":   {ready.Ref, func() error { _, err := w.Cancel(t.Context(), ready.Ref); return err }},
		"delayed, cancelled": {delayed.Ref, func() error { _, err := w.Cancel(t.Context(), delayed.Ref); return err }},
		"ready, timed out": {clocked.Ref, func() error {
			_, err := w.Post(t.Context(), clocked.Ref, run.Scheduler, run.TimeoutEvent{Code: run.CodeQueueTimeout})
			return err
		}},
	} {
		if items(end.ref) != 1 {
			t.Errorf("%s: %d items before", name, items(end.ref))
		}
		must(t, end.by())
		if items(end.ref) != 0 {
			t.Errorf("%s: %d items after", name, items(end.ref))
		}
		var state string
		must(t, w.Owner.QueryRow(t.Context(), `SELECT state FROM queue_items WHERE run_id = $1`, end.ref.Run).Scan(&state))
		if state == "READY" || state == "CLAIMED" {
			t.Errorf("%s: shown as %s", name, state)
		}
	}
}

// R-TEST-10, R-TEST-15: a run is in the queue once, however often it is put there, and a row that came twice does nothing:
// delivered again beside a waiting item, for a run that was claimed, for one that has ended.
func TestDuplicateItemsDoNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	const again = `INSERT INTO run_delayed (run_id, tenant_id, phase, available_at) SELECT id, tenant_id, 'execute', clock_timestamp() FROM runs WHERE id = $1`
	waiting, held, ended := w.at(t, run.Queued), w.at(t, run.Executing), w.at(t, run.Succeeded)
	for _, at := range []drive.At{waiting, held, ended} {
		before := got(w.Store.RunInfo(t.Context(), at.Ref.Tenant, at.Ref.Run))(t)
		w.write(t, again, at.Ref.Run)
		got(w.Store.Deliver(t.Context(), 10))(t)
		got(w.Store.Deliver(t.Context(), 10))(t)
		want := int64(0)
		if at.Ref == waiting.Ref {
			want = 1
		}
		if n := w.count(t, `SELECT count(*) FROM run_queue WHERE run_id = $1`, at.Ref.Run); n != want {
			t.Errorf("%s: %d items, want %d", before.State, n, want)
		}
		if after := got(w.Store.RunInfo(t.Context(), at.Ref.Tenant, at.Ref.Run))(t); after.Version != before.Version {
			t.Errorf("%s: it was changed", before.State)
		}
	}
	// A row that stands there twice over for a run that has moved on is put away by the claim that meets it.
	w.write(t, `INSERT INTO run_queue (run_id, tenant_id, phase, repository_id, user_id, risk) SELECT r.id, r.tenant_id, 'execute', r.repository_id, t.requested_by, r.risk FROM runs r JOIN tasks t ON t.id = r.task_id WHERE r.id = $1`, held.Ref.Run)
	if l := got(w.Claim(t.Context(), w.Workers[0]))(t); l == nil || l.Ref != waiting.Ref {
		t.Errorf("claimed %+v", l)
	}
	if l := got(w.Claim(t.Context(), w.Workers[0]))(t); l != nil {
		t.Errorf("a run was given out twice: %+v", l)
	}
	if p := got(held.Lease.Beat(t.Context()))(t); p.Signal != db.SignalAlive {
		t.Errorf("the holder is told %s", p.Signal)
	}
}

// R-LEASE-6: how each lease ended, with its reason, stays on record: given back, handed over, run out, taken away.
func TestEndedLeasesAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	released, lost, revoked := w.at(t, run.Executing), w.at(t, run.Executing), w.at(t, run.Leased)
	handed := w.at(t, run.Executing)
	got(handed.Lease.HandIn(t.Context(), drive.Diff("main.go", "new")))(t)
	got(released.Lease.Do(t.Context(), run.Release{Reason: "drain"}))(t)
	got(w.Reap(t.Context(), lost.Ref))(t)
	got(w.Post(t.Context(), revoked.Ref, run.Scheduler, run.AttemptFailedEvent{Code: run.CodeStartTimeout, Summary: "It did not start."}))(t)
	for name, c := range map[string]struct {
		at            drive.At
		state, reason string
	}{
		"given back": {released, "RELEASED", "drain"}, "run out": {lost, "EXPIRED", "WORKER_LOST"}, "taken away": {revoked, "REVOKED", ""}, "handed over": {handed, "RELEASED", "handover"},
	} {
		var state, reason string
		var token int64
		var whole bool
		must(t, w.Owner.QueryRow(t.Context(), `SELECT state, reason, fencing_token, ended_at >= acquired_at AND worker_id = $2 FROM ended_leases WHERE lease_id = $1`,
			c.at.Lease.Lease.ID, c.at.Lease.Worker.ID).Scan(&state, &reason, &token, &whole))
		if state != c.state || reason == "" || c.reason != "" && reason != c.reason || token != c.at.Lease.Lease.Token || !whole {
			t.Errorf("%s: %s, %q, token %d, whole %t", name, state, reason, token, whole)
		}
		if n := w.count(t, `SELECT count(*) FROM run_leases WHERE lease_id = $1`, c.at.Lease.Lease.ID); n != 0 {
			t.Errorf("%s: it is active, too", name)
		}
	}
	engine := got(pgx.Connect(t.Context(), w.db.EngineURL))(t)
	defer engine.Close(context.WithoutCancel(t.Context()))
	denied(t, engine, `DELETE FROM ended_leases`)
	denied(t, engine, `UPDATE ended_leases SET reason = ''`)
	denied(t, engine, `DELETE FROM repairs`)
}

func (w *world) write(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := w.Owner.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}
