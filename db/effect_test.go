package db_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// R-RCV-3: an effect is written before it goes out, under the lease that carries it out; nothing goes out once a stop
// was asked for; what was seen outside is recorded even then, and stays.
func TestOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.PRCreating)
	h := at.Lease.Holder()
	_, err := w.Store.Dispatch(t.Context(), h, "never intended")
	refusal(t, err, fault.Conflict, "Nothing was changed")
	must(t, at.Lease.Effect(t.Context(), "push_branch", "push", ""))
	if o := got(w.Store.Intend(t.Context(), h, "push_branch", "push", nil))(t); o.State != "dispatched" {
		t.Errorf("the same intent again is %s, want the dispatched one", o.State)
	}
	got(w.Store.Intend(t.Context(), h, "open_pull_request", "pr", nil))(t)
	got(w.Cancel(t.Context(), at.Ref))(t)
	_, err = w.Store.Dispatch(t.Context(), h, "pr")
	refusal(t, err, fault.Conflict, "Nothing was changed: the run is being cancelled")
	_, err = w.Store.Intend(t.Context(), h, "comment", "c", nil)
	refusal(t, err, fault.Conflict, "Nothing was changed: the run is being cancelled")
	if o := got(w.Store.Observe(t.Context(), h, "push", "ambiguous", nil))(t); o.State != "ambiguous" {
		t.Errorf("state %s", o.State)
	}
	got(at.Lease.Do(t.Context(), run.ConfirmCancel{}))(t)
	var operations string
	must(t, w.Owner.QueryRow(t.Context(), `SELECT payload ->> 'operations' FROM outbox WHERE run_id = $1 AND topic = 'reconcile_effects'`, at.Ref.Run).Scan(&operations))
	if operations != `["push"]` {
		t.Errorf("the follow-up names %s, want the push", operations)
	}
	if o := got(w.Store.Observe(t.Context(), h, "push", "succeeded", map[string]string{"sha": "1"}))(t); o.State != "reconciled" {
		t.Errorf("state %s", o.State)
	}
	if o := got(w.Store.Observe(t.Context(), h, "push", "failed", nil))(t); o.State != "reconciled" || o.Outcome != "succeeded" || o.Result["sha"] != "1" {
		t.Errorf("what was certain was overwritten: %+v", o)
	}
	// Where nothing is in doubt there is nothing to look up.
	clean := w.at(t, run.PRCreating)
	got(w.Cancel(t.Context(), clean.Ref))(t)
	got(clean.Lease.Do(t.Context(), run.ConfirmCancel{}))(t)
	if n := w.count(t, `SELECT count(*) FROM outbox WHERE run_id = $1 AND topic = 'reconcile_effects'`, clean.Ref.Run); n != 0 {
		t.Errorf("%d follow-ups where nothing is in doubt", n)
	}
}

// R-FAIL-8: policy is asked once more before an effect goes out, as it is then: a run that it denies ends, and nothing
// goes out. An observation is taken from the lease that dispatched it and from no other worker.
func TestPolicyBeforeAnEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.PRCreating)
	h := at.Lease.Holder()
	must(t, at.Lease.Effect(t.Context(), "push_branch", "push", ""))
	thief := h
	thief.Worker = w.Workers[1].ID
	_, err := w.Store.Observe(t.Context(), thief, "push", "failed", nil)
	refusal(t, err, fault.Conflict, "Nothing was changed")
	guess := h
	guess.Lease.ID = uuid.New()
	_, err = w.Store.Observe(t.Context(), guess, "push", "failed", nil)
	refusal(t, err, fault.Conflict, "Nothing was changed")
	got(w.Store.Intend(t.Context(), h, "open_pull_request", "pr", nil))(t)
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: nothing\nadmission: {repositories: ['other/**']}\n"))
	_, err = w.Store.Dispatch(t.Context(), h, "pr")
	if f := refusal(t, err, fault.Conflict, "Nothing went out: policy does not allow"); !f.Stop {
		t.Error("the answer does not say stop")
	}
	w.ended(t, at, run.Failed)
	for _, o := range got(w.Store.Operations(t.Context(), at.Ref))(t) {
		if o.Identity == "pr" && o.State != "intended" {
			t.Errorf("the effect is %s", o.State)
		}
	}
	// The push that was under way is named for looking up, and may still be seen.
	if n := w.count(t, `SELECT count(*) FROM outbox WHERE run_id = $1 AND topic = 'reconcile_effects'`, at.Ref.Run); n != 1 {
		t.Errorf("%d follow-ups, want 1", n)
	}
	if o := got(w.Store.Observe(t.Context(), h, "push", "succeeded", nil))(t); o.State != "observed" {
		t.Errorf("the push is %s", o.State)
	}
	w.replays(t)
}

// R-RCV-5: a publisher that is lost between its effects is followed by one that finds branch and pull request as they
// are: one pull request in the end.
func TestLostPublisherLeavesOnePullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.PRCreating)
	branch := w.info(t, at.Ref).Branch
	must(t, at.Lease.Effect(t.Context(), "push_branch", "push:"+branch, "succeeded"))
	must(t, at.Lease.OpenPull(t.Context(), branch))
	got(w.Reap(t.Context(), at.Ref))(t)
	must(t, w.Due(t.Context(), at.Ref))
	next := got(w.ClaimRun(t.Context(), w.Workers[1], at.Ref))(t)
	if ack := got(next.Publish(t.Context()))(t); ack.State != run.Succeeded {
		t.Errorf("the run is %s", ack.State)
	}
	if n := w.count(t, `SELECT count(*) FROM pull_requests`); n != 1 {
		t.Errorf("%d pull requests, want 1", n)
	}
	// A late report of the lost one changes nothing.
	w.unchanged(t, at.Ref, func() {
		_, err := at.Lease.Do(t.Context(), run.PRReported{PR: run.PullRequest{Branch: branch}})
		refusal(t, err, fault.Conflict, "Nothing was changed")
	})
	w.replays(t)
}

// Every state that a lost worker can leave behind goes on by itself, and in the end to a person or to FAILED
// (R-LEASE-3, R-FAIL-3).
func TestLostWorkerInEveryState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for _, s := range run.ActiveStates() {
		if s.Phase() == "" || s == run.Queued {
			continue
		}
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			at := w.at(t, s)
			for n := 1; ; n++ {
				if n > 20 {
					t.Fatal("the run never ends")
				}
				got(w.Reap(t.Context(), at.Ref))(t)
				info := w.info(t, at.Ref)
				if info.State.Terminal() {
					if info.State != run.Failed || info.Failure.Code != run.CodeWorkerLost {
						t.Errorf("ended %s: %+v", info.State, info.Failure)
					}
					break
				}
				want := s
				if s.Phase() == run.PhaseExecute {
					want = run.Queued
				}
				if info.State != want {
					t.Fatalf("after losing its worker the run is %s, want %s", info.State, want)
				}
				must(t, w.Due(t.Context(), at.Ref))
				got(w.ClaimRun(t.Context(), w.Workers[n%2], at.Ref))(t)
			}
		})
	}
	w.replays(t)
}

// An effect in doubt is never delivered past its redeliveries: a person is asked (R-RCV-4).
func TestLostPublisherWithAnEffectInDoubtAsksAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.PRCreating)
	must(t, at.Lease.Effect(t.Context(), "push_branch", "push", ""))
	for {
		kind := got(w.Reap(t.Context(), at.Ref))(t)
		if kind == run.KindReconciliationRequired {
			break
		}
		if kind != run.KindWorkerLost {
			t.Fatalf("reaped with %s", kind)
		}
		must(t, w.Due(t.Context(), at.Ref))
		got(w.ClaimRun(t.Context(), w.Workers[0], at.Ref))(t)
	}
	info := w.info(t, at.Ref)
	if info.State != run.WaitingForApproval || info.Gate.Kind != run.GateReconcile {
		t.Fatalf("the run is %s at %+v", info.State, info.Gate)
	}
	must(t, w.Approve(t.Context(), at.Ref))
	l := got(w.ClaimRun(t.Context(), w.Workers[0], at.Ref))(t)
	if ack := got(l.Publish(t.Context()))(t); ack.State != run.Succeeded {
		t.Errorf("the run is %s", ack.State)
	}
	w.replays(t)
}
