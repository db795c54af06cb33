package run_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// TestFlowAnalysisOnly: R-TRN-12. EXECUTING, JUDGING, SUCCEEDED: no patch, no
// verification, no pull request.
func TestFlowAnalysisOnly(t *testing.T) {
	t.Parallel()
	f := newFlow(t, run.ModeAnalysis, policy.RiskLow)
	f.admit().prepare().plan("plan-a").in(run.Executing).command(run.ReportSubmitted{Artifact: "art-report"}).in(run.Judging)
	if f.run.Lease != nil || f.run.Queued != run.PhaseVerify {
		t.Errorf("lease %v, item %q: the report was not handed over to a verifier", f.run.Lease, f.run.Queued)
	}
	f.claim().judge(run.VerdictPass, 0.9).ended(run.Succeeded, "")
	f.passed(run.Created, run.Queued, run.Leased, run.Preparing, run.ContextBuilding, run.Planning, run.Executing, run.Judging, run.Succeeded)
	if f.run.Patch != nil || f.run.PR != nil || f.run.Verdict != run.VerdictPass {
		t.Errorf("patch %v, pull request %v, verdict %q", f.run.Patch, f.run.PR, f.run.Verdict)
	}
}

// TestFlowAnalysisWithDiff: a changed file in mode analysis_report_created fails
// the attempt with UNEXPECTED_DIFF, whichever command tells of it.
func TestFlowAnalysisWithDiff(t *testing.T) {
	t.Parallel()
	for _, c := range []run.Command{run.PatchSubmitted{Artifact: "change-a", Base: "c0ffee"}, run.ReportSubmitted{Artifact: "art-report"}, run.NoChangeSubmitted{Summary: "Nothing."}} {
		t.Run(c.Name(), func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, run.ModeAnalysis, policy.RiskLow)
			f.admit().prepare().plan("plan-a")
			f.facts.Patch = &run.Patch{Artifact: "change-a", Digest: "d", PatchID: "p", Base: "c0ffee", Files: 1}
			f.command(c).in(run.Queued)
			if got := effects[run.EndAttempt](f); len(got) != 1 || got[0].Code != run.CodeUnexpectedDiff || got[0].As != run.AttemptFailed {
				t.Errorf("attempt ended as %+v", got)
			}
		})
	}
}

// TestFlowHighRisk: R-TRN-13. A person decides on the plan before EXECUTING and
// on the patch before PR_CREATING, although the judge is sure and policy and task
// allow a pull request without a person.
func TestFlowHighRisk(t *testing.T) {
	t.Parallel()
	f := newFlow(t, run.ModePRCreated, policy.RiskHigh)
	f.rules.AutoPR.Allowed, f.facts.Policy.AutoPRAsked = true, true
	f.admit().prepare().plan("plan-a").gateOf(run.GatePlan)
	if f.run.Lease != nil || f.run.Queued != "" {
		t.Errorf("while a person decides: lease %v, item %q", f.run.Lease, f.run.Queued)
	}
	f.approve().in(run.Executing)
	if f.run.Queued != run.PhaseExecute || f.run.AttemptNo != 1 || f.run.ApprovedPlan != "plan-a" {
		t.Errorf("after the approval: item %q, attempt %d, approved plan %q", f.run.Queued, f.run.AttemptNo, f.run.ApprovedPlan)
	}
	f.claim().in(run.Executing).patch("change-a").verify(true, "").judge(run.VerdictPass, 1).gateOf(run.GatePatch)
	f.approve().in(run.PRCreating).publish().ended(run.Succeeded, "")
	f.passed(run.Created, run.Queued, run.Leased, run.Preparing, run.ContextBuilding, run.Planning, run.WaitingForApproval, run.Executing,
		run.PatchReady, run.Verifying, run.Judging, run.WaitingForApproval, run.PRCreating, run.PRCreated, run.Succeeded)
	if f.run.AttemptNo != 1 {
		t.Errorf("%d attempts: a return from a gate binds the same one", f.run.AttemptNo)
	}
}

// TestFlowPlanAgain: a plan with the approved digest passes the gate again in a
// later attempt; another one asks again (R-PLAN-1).
func TestFlowPlanAgain(t *testing.T) {
	t.Parallel()
	f := newFlow(t, run.ModePRCreated, policy.RiskHigh)
	f.admit().prepare().plan("plan-a").gateOf(run.GatePlan).approve().claim().lose().in(run.Queued)
	f.prepare()
	other := f.fork(t)
	f.plan("plan-a").in(run.Executing)
	other.plan("plan-b").gateOf(run.GatePlan)
	if f.run.AttemptNo != 2 || f.run.PlanRevision != 2 {
		t.Errorf("attempt %d, plan revision %d", f.run.AttemptNo, f.run.PlanRevision)
	}
}

// TestFlowRepair: R-TRN-14. A failed check and a judge's request go back to
// EXECUTING in the same attempt, with feedback, while rounds are left.
func TestFlowRepair(t *testing.T) {
	t.Parallel()
	f := newFlow(t, run.ModePRCreated, policy.RiskLow)
	f.rules.AutoPR.Allowed, f.facts.Policy.AutoPRAsked = true, true
	f.patched().verify(false, "test A").in(run.Executing)
	if got := effects[run.GiveFeedback](f); len(got) != 1 || got[0].Source != "verifier" || got[0].Text == "" || got[0].Artifact != "art-verification" {
		t.Errorf("feedback %+v", got)
	}
	f.claim().patch("change-b").verify(true, "").in(run.Judging).judge(run.VerdictFix, 0.8).in(run.Executing)
	if got := effects[run.GiveFeedback](f); len(got) != 1 || got[0].Source != "judge" || !strings.Contains(got[0].Text, "As judged.") {
		t.Errorf("feedback %+v", got)
	}
	if f.run.Repairs != 2 || f.run.AttemptNo != 1 || f.run.RepairsLeft() {
		t.Errorf("%d repairs in attempt %d", f.run.Repairs, f.run.AttemptNo)
	}
	f.claim().patch("change-c").verify(true, "").judge(run.VerdictPass, 0.9).in(run.PRCreating).publish().ended(run.Succeeded, "")
	if f.run.PatchRevision != 3 || f.run.Patch.Revision != 3 {
		t.Errorf("patch revision %d", f.run.PatchRevision)
	}
}

// TestFlowExhausted: R-TRN-14, R-DOM-5. Rounds spent: the attempt ends FAILED and
// another begins from a clean checkout with the feedback; attempts spent: the run
// ends with the checks' own code.
func TestFlowExhausted(t *testing.T) {
	t.Parallel()
	f := newFlow(t, run.ModePRCreated, policy.RiskLow)
	f.admit()
	for attempt := 1; attempt <= f.run.Limits.MaxAttempts; attempt++ {
		f.prepare().plan("plan-a").patch("change-a")
		for round := range f.run.Limits.RepairRounds {
			f.verify(false, fmt.Sprint("failure ", attempt, round)).in(run.Executing).claim().patch("change-b")
		}
		f.verify(false, fmt.Sprint("failure ", attempt, "last"))
		if attempt == f.run.Limits.MaxAttempts {
			break
		}
		f.in(run.Queued)
		end, feedback := effects[run.EndAttempt](f), effects[run.GiveFeedback](f)
		if len(end) != 1 || end[0].As != run.AttemptFailed || end[0].Code != run.CodeVerifierFailed || len(feedback) != 1 {
			t.Errorf("attempt %d ended as %+v with feedback %+v", attempt, end, feedback)
		}
		if f.run.AttemptNo != attempt || f.run.Patch != nil || f.run.Plan != "" {
			t.Errorf("attempt %d left patch %v, plan %q", attempt, f.run.Patch, f.run.Plan)
		}
	}
	f.ended(run.Failed, run.CodeVerifierFailed)
	if f.run.AttemptNo != 3 || f.run.Failure.Category != run.CatVerificationFailed || f.run.Failure.Evidence == "" {
		t.Errorf("attempt %d, failure %+v", f.run.AttemptNo, f.run.Failure)
	}
}

// TestFlowIdenticalFailure: the same failure twice ends the attempt although a
// round is left, and a failure that no change can repair ends the run.
func TestFlowIdenticalFailure(t *testing.T) {
	t.Parallel()
	f := newFlow(t, run.ModePRCreated, policy.RiskLow)
	f.patched().verify(false, "test A").in(run.Executing).claim().patch("change-b")
	hopeless := f.fork(t)
	f.verify(false, "test A").in(run.Queued)
	if f.run.AttemptNo != 1 {
		t.Errorf("attempt %d", f.run.AttemptNo)
	}
	hopeless.claim().command(run.VerifyStarted{Commands: []string{"make test"}, Digest: "commands"})
	hopeless.facts.Verification = &run.VerificationFacts{Unrepairable: true, Evidence: run.VerificationEvidence{Summary: "There is no version 9."}}
	hopeless.command(run.VerifyReported{Artifact: "art-verification"}).ended(run.Failed, run.CodeVerifierFailed)
}

// TestFlowNoChange: A33, an agent that finds nothing to do ends the run without a
// pull request, also where the task asked for one; a person may be asked.
func TestFlowNoChange(t *testing.T) {
	t.Parallel()
	f := newFlow(t, run.ModePRMerged, policy.RiskLow)
	f.admit().prepare().plan("plan-a").command(run.NoChangeSubmitted{Summary: "It is up to date."}).in(run.Judging).claim()
	gated := f.fork(t)
	f.judge(run.VerdictPass, 0.9).ended(run.Succeeded, "")
	gated.judge(run.VerdictPass, 0.2).gateOf(run.GateReport).approve().in(run.Succeeded)
	if f.run.PR != nil || gated.run.PR != nil {
		t.Error("a pull request out of nothing")
	}
}

// TestFlowPatchReady: mode patch_ready_for_review ends with the judge's pass.
func TestFlowPatchReady(t *testing.T) {
	t.Parallel()
	f := newFlow(t, run.ModePatchReady, policy.RiskLow)
	f.judged().ended(run.Succeeded, "")
	gated := newFlow(t, run.ModePatchReady, policy.RiskHigh)
	gated.admit().prepare().plan("plan-a").gateOf(run.GatePlan).approve().claim().patch("change-a").verify(true, "").
		judge(run.VerdictPass, 0.9).gateOf(run.GatePatch).approve().in(run.Succeeded)
}

// TestFlowReleaseCountsNowhere: a drain aborts the attempt, begins another at
// once and uses up nothing; later phases are handed out again in the same attempt.
func TestFlowReleaseCountsNowhere(t *testing.T) {
	t.Parallel()
	f := newFlow(t, run.ModePRCreated, policy.RiskLow)
	f.admit()
	for n := range 5 {
		f.prepare().command(run.Stopped{Why: run.StopDrain}).in(run.Queued)
		if end := effects[run.EndAttempt](f); len(end) != 1 || end[0].As != run.AttemptAborted {
			t.Errorf("attempt ended as %+v", end)
		}
		if q := effects[run.Enqueue](f); len(q) != 1 || q[0].Delay != 0 {
			t.Errorf("queued as %+v, want at once", q)
		}
		if f.run.AttemptNo != n+1 || f.run.AttemptsUsed() != 0 {
			t.Errorf("attempt %d, %d used", f.run.AttemptNo, f.run.AttemptsUsed())
		}
	}
	f.prepare().plan("plan-a").patch("change-a").claim()
	for range 9 {
		f.command(run.Release{Reason: "going down"}).in(run.PatchReady).claim()
	}
	if f.run.AttemptNo != 6 || f.run.VerifyRedeliveries != 0 {
		t.Errorf("attempt %d, %d redeliveries", f.run.AttemptNo, f.run.VerifyRedeliveries)
	}
	f.command(run.AttemptHasFailed{Code: run.CodeRefNotFound, Summary: "gone"}).ended(run.Failed, run.CodeRefNotFound)
}

// TestFlowClocks: deferral, queue time-out and run time-out.
func TestFlowClocks(t *testing.T) {
	t.Parallel()
	t.Run("deferred too long", func(t *testing.T) {
		t.Parallel()
		f := newFlow(t, run.ModePRCreated, policy.RiskLow)
		f.post(payload(f.run, run.KindDeferred, first{})).in(run.Created)
		refused[*run.EvidenceError](f, run.TimeoutEvent{Code: run.CodeQueueTimeout})
		f.post(run.TimeoutEvent{Code: run.CodeDeferTimeout}).ended(run.Expired, run.CodeDeferTimeout)
	})
	t.Run("no worker", func(t *testing.T) {
		t.Parallel()
		f := newFlow(t, run.ModePRCreated, policy.RiskLow)
		f.patched().post(run.TimeoutEvent{Code: run.CodeQueueTimeout}).ended(run.Expired, run.CodeQueueTimeout)
		if f.run.Patch == nil {
			t.Error("the stored patch was not kept")
		}
	})
	for _, fail := range []bool{false, true} {
		t.Run(fmt.Sprint("run time-out fails ", fail), func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, run.ModePRCreated, policy.RiskLow)
			want := map[bool]run.State{false: run.Expired, true: run.Failed}[fail]
			f.admit().prepare().post(run.RunTimeoutEvent{Fail: fail}).ended(want, run.CodeRunTimeout)
			if end := effects[run.EndLease](f); len(end) != 1 || end[0].As != run.LeaseRevoked {
				t.Errorf("lease ended as %+v", end)
			}
		})
	}
	t.Run("policy denies at a claim", func(t *testing.T) {
		t.Parallel()
		f := newFlow(t, run.ModePRCreated, policy.RiskLow)
		f.admit().post(run.PolicyDeniedEvent{PolicyVersion: "p2", Code: policy.CodeRisk, Reasons: []string{"Not today."}}).ended(run.Failed, run.CodePolicyDenied)
		if f.run.Failure.Category != run.CatPolicyDenied || f.run.Failure.Retryable || !strings.Contains(f.run.Failure.Summary, "RISK_NOT_ALLOWED") {
			t.Errorf("%+v", f.run.Failure)
		}
	})
}
