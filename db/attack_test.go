package db_test

import (
	"testing"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// R-ATT-1: an attempt may pass through several hands. Whoever made the patch that is verified now is the maker, not
// whoever began the attempt.
func TestTheLastMakerIsPassedOver(t *testing.T) {
	t.Parallel()
	const separate = "schema: 1\nversion: other\nexecution: {same_worker_may_verify: false}\n"
	a, b := 0, 1
	t.Run("a repair", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, drive.Options{Policy: separate})
		ref := got(w.Run(t.Context(), drive.Ordinary()))(t)
		l := got(w.ClaimRun(t.Context(), w.Workers[a], ref))(t)
		must(t, l.Prepare(t.Context()))
		got(l.Plan(t.Context(), "plan"))(t)
		got(l.HandIn(t.Context(), drive.Diff("a.go", "first")))(t)
		v := got(w.ClaimRun(t.Context(), w.Workers[b], ref))(t)
		got(v.Verify(t.Context(), db.VerificationRecord{Fingerprint: "one", Summary: "It fails."}))(t)
		repair := got(w.ClaimRun(t.Context(), w.Workers[b], ref))(t)
		got(repair.HandIn(t.Context(), drive.Diff("a.go", "second")))(t)
		if l := got(w.Claim(t.Context(), w.Workers[b]))(t); l != nil {
			t.Error("whoever repaired the patch was given it to verify")
		}
		if l := got(w.Claim(t.Context(), w.Workers[a]))(t); l == nil {
			t.Error("whoever made only the patch before was passed over")
		}
	})
	t.Run("after a plan gate", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, drive.Options{Policy: separate})
		c := drive.Ordinary()
		c.PlanGate = true
		ref := got(w.Run(t.Context(), c))(t)
		l := got(w.ClaimRun(t.Context(), w.Workers[a], ref))(t)
		must(t, l.Prepare(t.Context()))
		got(l.Plan(t.Context(), "plan"))(t)
		must(t, w.Approve(t.Context(), ref))
		l = got(w.ClaimRun(t.Context(), w.Workers[b], ref))(t)
		got(l.HandIn(t.Context(), drive.Diff("a.go", "b's")))(t)
		if l := got(w.Claim(t.Context(), w.Workers[b]))(t); l != nil {
			t.Error("whoever made the patch was given it to verify")
		}
	})
}

// R-PR-1, W6: a pull request that another run of the task left behind is not this run's: a publisher that did nothing
// cannot report it.
func TestAnotherRunsPullRequestIsNotReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: once\nlimits: {redeliveries: 0}\n"})
	at := w.at(t, run.PRCreating)
	first := w.info(t, at.Ref)
	must(t, at.Lease.OpenPull(t.Context(), first.Branch))
	got(at.Lease.Do(t.Context(), run.AttemptHasFailed{Code: run.CodePRCreationFailed, Summary: "I give up."}))(t)
	must(t, w.Is(t.Context(), at.Ref, run.Failed))
	again := got(w.Store.RunAgain(t.Context(), w.Request(w.Requester, "again"), first.Task))(t)
	ref := db.Ref{Tenant: w.Tenant, Run: *again.Run}
	l := got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	must(t, l.Prepare(t.Context()))
	got(l.Plan(t.Context(), "plan"))(t)
	got(l.HandIn(t.Context(), drive.Diff("a.go", "another change")))(t)
	v := got(w.ClaimRun(t.Context(), w.Workers[1], ref))(t)
	got(v.Verify(t.Context(), db.VerificationRecord{Passed: true}))(t)
	got(v.Judge(t.Context(), run.VerdictPass, 0.99))(t)
	must(t, w.Approve(t.Context(), ref))
	p := got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	if w.info(t, ref).Branch != first.Branch {
		t.Fatalf("branch %s, want %s taken over", w.info(t, ref).Branch, first.Branch)
	}
	_, err := p.Do(t.Context(), run.PRReported{PR: run.PullRequest{Branch: first.Branch}})
	refusal(t, err, fault.Conflict, "Nothing was changed: the branch's pull request belongs to another run")
	must(t, w.Is(t.Context(), ref, run.PRCreating))
}

// A key belongs to one gate: used again at the next gate of the same run it is a new request.
func TestAKeyAtTwoGatesOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	c := drive.Ordinary()
	c.PlanGate = true
	ref := got(w.Run(t.Context(), c))(t)
	l := got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	must(t, l.Prepare(t.Context()))
	got(l.Plan(t.Context(), "plan"))(t)
	approve := func() {
		t.Helper()
		v := got(w.Verdict(t.Context(), ref, w.Approvers[0], policy.Approve, ""))(t)
		v.Key = "the-same-key"
		got(w.Store.Decide(t.Context(), v))(t)
	}
	approve()
	l = got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	got(l.HandIn(t.Context(), drive.Diff("a.go", "x")))(t)
	v := got(w.ClaimRun(t.Context(), w.Workers[1], ref))(t)
	got(v.Verify(t.Context(), db.VerificationRecord{Passed: true}))(t)
	got(v.Judge(t.Context(), run.VerdictPass, 0.99))(t)
	approve()
	must(t, w.Is(t.Context(), ref, run.PRCreating))
}

// Verdicts, expiry, a question asked again, a withdrawal and a cancel at one gate at once: whatever comes
// first, nobody's approval of an expired gate counts, and nothing is left that fits no state.
func TestEverythingAtAGateAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	for round := range 40 {
		at := w.at(t, run.WaitingForApproval)
		gate := w.info(t, at.Ref).Gate.ID
		outcome := []run.ExpiryOutcome{run.ExpiryEscalate, run.ExpiryCancel, run.ExpiryFail}[round%3]
		verdicts := []db.Verdict{
			got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t), got(w.Verdict(t.Context(), at.Ref, w.Approvers[1], policy.Approve, ""))(t),
			got(w.Verdict(t.Context(), at.Ref, w.Approvers[1], policy.RequestChanges, "Other."))(t), got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Reject, "No."))(t),
		}
		for _, err := range all(len(verdicts)+4, func(i int) (err error) {
			switch i {
			case len(verdicts):
				_, err = w.Post(t.Context(), at.Ref, run.Scheduler, run.ApprovalExpiredEvent{Gate: gate, Outcome: outcome})
			case len(verdicts) + 1:
				_, err = w.Cancel(t.Context(), at.Ref)
			case len(verdicts) + 2:
				_, err = w.Withdraw(t.Context(), gate, w.Approvers[0])
			case len(verdicts) + 3:
				_, err = w.AskAgain(t.Context(), gate, w.Approvers[1], "")
			default:
				_, err = w.Store.Decide(t.Context(), verdicts[i])
			}
			return err
		}) {
			if k := fault.KindOf(err); err != nil && k != fault.Conflict && k != fault.Gone && k != fault.Forbidden {
				t.Errorf("round %d: %v", round, err)
			}
		}
		for what, query := range map[string]string{
			"an open gate of a run that does not wait": `SELECT count(*) FROM gates g JOIN runs r ON r.id = g.run_id WHERE r.id = $1 AND g.state IN ('open', 'expired') AND r.state <> 'WAITING_FOR_APPROVAL'
				AND NOT (g.state = 'expired' AND r.state = 'FAILED')`,
			"a waiting run without a gate":  `SELECT count(*) FROM runs r WHERE r.id = $1 AND r.state = 'WAITING_FOR_APPROVAL' AND NOT EXISTS (SELECT FROM gates g WHERE g.run_id = r.id AND g.state IN ('open', 'expired'))`,
			"work of a run that needs none": `SELECT count(*) FROM run_queue q JOIN runs r ON r.id = q.run_id WHERE r.id = $1 AND r.state NOT IN ('PR_CREATING', 'EXECUTING')`,
			"a run without its work":        `SELECT count(*) FROM runs r WHERE r.id = $1 AND r.state IN ('PR_CREATING', 'EXECUTING') AND NOT EXISTS (SELECT FROM run_queue q WHERE q.run_id = r.id)`,
		} {
			if n := w.count(t, query, at.Ref.Run); n != 0 {
				t.Errorf("round %d: %s", round, what)
			}
		}
	}
	w.replays(t)
}
