package run_test

import (
	"fmt"
	"time"

	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// payload makes a suitable event of the kind for the run; c picks among the
// variants that lead elsewhere. A kind without a case here fails every test that
// walks the kinds, so that a new kind has to be answered.
func payload(r run.Run, k run.Kind, c chooser) run.Payload {
	if p := startPayload(r, k, c); p != nil {
		return p
	}
	if p := judgePayload(r, k, c); p != nil {
		return p
	}
	if p := gatePayload(r, k, c); p != nil {
		return p
	}
	if p := endPayload(r, k, c); p != nil {
		return p
	}
	panic(fmt.Sprintf("no sample for event kind %q: add one", k))
}

func startPayload(r run.Run, k run.Kind, c chooser) run.Payload {
	switch k {
	case run.KindCreated:
		return run.CreatedEvent{Run: uid("run"), Tenant: uid("tenant"), Task: uid("task"), Repository: uid("repository"),
			Mode: oneOf(c, run.Modes()...), Risk: string(oneOf(c, policy.RiskLow, policy.RiskHigh))}
	case run.KindDeferred:
		return run.DeferredEvent{Code: "NO_CAPACITY", Reasons: []string{"No room."}, RetryAfter: time.Minute}
	case run.KindEnqueued:
		return run.EnqueuedEvent{PolicyVersion: "default-1", Limits: tight(), Route: policy.Route{Queue: "default"}}
	case run.KindPolicyDenied:
		return run.PolicyDeniedEvent{PolicyVersion: "default-1", Code: oneOf(c, run.CodePolicyDenied, run.Code("REPOSITORY_NOT_ALLOWED")),
			Reasons: []string{"Not allowed."}}
	case run.KindLeaseAcquired:
		return run.LeaseAcquiredEvent{Attempt: uid("attempt", r.ID, r.Version), TTL: 30 * time.Second,
			Lease: run.Lease{ID: uid("lease", r.ID, r.Version), Token: r.Token + 1, Phase: r.State.Phase(), Worker: "wrk-1", Boot: "boot-1"}}
	case run.KindWorkerStarted:
		return run.WorkerStartedEvent{}
	case run.KindSandboxReady:
		return run.SandboxReadyEvent{Tier: "bwrap", Base: "c0ffee"}
	case run.KindContextReady:
		return run.ContextReadyEvent{Artifact: "art-context", Digest: "context", Base: "c0ffee"}
	case run.KindPlanCreated:
		return run.PlanCreatedEvent{Plan: plan(c), Policy: words()}
	case run.KindPlanApprovalRequired:
		return run.PlanApprovalRequiredEvent{Plan: plan(c), Policy: words(), Gate: asked(r)}
	case run.KindPatchCreated:
		id := oneOf(c, "change-a", "change-b")
		return run.PatchCreatedEvent{Patch: run.Patch{Artifact: "art-patch", Digest: "bytes-" + id, PatchID: id,
			Base: "c0ffee", Tree: "7ree", Files: 2, Added: 10, Removed: 3}, Summary: oneOf(c, "", "I replaced the call.")}
	case run.KindReportCreated:
		return run.ReportCreatedEvent{Artifact: "art-report", Digest: "report", Base: "c0ffee"}
	case run.KindNoChangeReported:
		return run.NoChangeReportedEvent{Digest: "no-change", Summary: "Nothing to do.", Base: "c0ffee"}
	}
	return nil
}

func plan(c chooser) run.PlanEvidence {
	d := oneOf(c, "plan-a", "plan-b")
	return run.PlanEvidence{Artifact: "art-" + d, Digest: d, Base: "c0ffee", Summary: "Two files."}
}

func words() run.PolicyWords {
	return run.PolicyWords{Version: "default-1", Reasons: []string{"Because policy says so."}}
}

func asked(r run.Run) run.GateAsked {
	return run.GateAsked{ID: uid("gate", r.ID, r.Version), Digest: fmt.Sprintf("revision-%d", r.Version), Quorum: 1, Role: "approver",
		Artifact: "art", Base: "c0ffee", ExpiresAt: t0.Add(72 * time.Hour)}
}

func verdict(v string) run.JudgeEvidence {
	return run.JudgeEvidence{Artifact: "art-judge", Verdict: v, Confidence: 0.9, Reasons: []string{"It does what was asked."}}
}

func report(r run.Run, summary string) run.VerificationEvidence {
	v := run.VerificationEvidence{Artifact: "art-verification", Digest: fmt.Sprintf("verification-%d", r.Version), Summary: summary}
	if r.Patch != nil {
		v.Patch = r.Patch.Digest
	}
	return v
}

func judgePayload(r run.Run, k run.Kind, c chooser) run.Payload {
	until := t0.Add(7 * 24 * time.Hour)
	switch k {
	case run.KindVerificationStarted:
		return run.VerificationStartedEvent{Commands: []string{"make test"}, Digest: "commands"}
	case run.KindVerificationPassed:
		return run.VerificationPassedEvent{Report: report(r, "All passed.")}
	case run.KindVerificationFailed:
		return run.VerificationFailedEvent{Report: report(r, "One test failed.")}
	case run.KindJudgeRequiresFix:
		return run.JudgeRequiresFixEvent{Judge: verdict(run.VerdictFix), Policy: words()}
	case run.KindAttemptExhausted:
		return run.AttemptExhaustedEvent{Code: run.CodeVerifierFailed, Summary: "The same again.", Identical: c.pick(2) == 1}
	case run.KindHumanApprovalRequired:
		return run.HumanApprovalRequiredEvent{Judge: verdict(run.VerdictPass), Policy: words(), Gate: asked(r)}
	case run.KindApprovalCarried:
		return run.ApprovalCarriedEvent{Judge: verdict(run.VerdictPass), Policy: words(), From: uid("gate")}
	case run.KindAutoPRAllowed:
		return run.AutoPRAllowedEvent{Judge: verdict(run.VerdictPass), Policy: words(), Guards: []string{"Everything passed."}}
	case run.KindCompletionConditionMet:
		return run.CompletionConditionMetEvent{Judge: new(verdict(run.VerdictPass))}
	case run.KindAttestationRequired:
		return run.AttestationRequiredEvent{Judge: new(verdict(run.VerdictPass)), Policy: words(), ExpiresAt: until}
	case run.KindAttestationAccepted:
		return run.AttestationAcceptedEvent{Statement: "art-statement"}
	case run.KindAttestationRefused:
		return run.AttestationRefusedEvent{Statement: "art-statement", Reason: "The result is not what was asked."}
	case run.KindAttestationExpired:
		return run.AttestationExpiredEvent{Outcome: oneOf(c, run.ExpiryEscalate, run.ExpiryFail, run.ExpiryExpire)}
	}
	return nil
}

func gateRef(r run.Run) run.GateRef {
	if r.Gate == nil {
		return run.GateRef{ID: uid("no gate"), Revision: 1, Digest: "none"}
	}
	return run.GateRef{ID: r.Gate.ID, Revision: r.Gate.Revision, Digest: r.Gate.Digest}
}

func approval(r run.Run, c chooser) run.Approval {
	a := run.Approval{Gate: gateRef(r), Policy: words(), Deciders: []run.Actor{{Kind: run.Human, ID: "u-ben", Name: "Ben"}}}
	raised := r.Limits
	raised.CostCents *= 2
	a.Limits = &raised
	if r.Gate != nil && r.Gate.Kind == run.GateReconcile && c.pick(2) == 1 {
		a.Adopt = new(pullRequest())
	}
	if a.Attest = c.pick(2) == 1; a.Attest {
		a.AttestExpiresAt = t0.Add(7 * 24 * time.Hour)
	}
	return a
}

func pullRequest() run.PullRequest {
	return run.PullRequest{URL: "https://forge.example/app/pulls/7", SHA: "5ha", Branch: "agent/task/run", Number: 7}
}

func gatePayload(r run.Run, k run.Kind, c chooser) run.Payload {
	ref, until := gateRef(r), t0.Add(96*time.Hour)
	switch k {
	case run.KindApproved:
		return run.ApprovedEvent{Approval: approval(r, c)}
	case run.KindGateBypassed:
		return run.GateBypassedEvent{Approval: approval(r, c), Reason: "The site is down."}
	case run.KindChangesRequested:
		return run.ChangesRequestedEvent{Gate: ref, Instruction: "Leave the generated files alone."}
	case run.KindRejected:
		return run.RejectedEvent{Gate: ref, Reason: "Not wanted."}
	case run.KindApprovalExpired:
		p := run.ApprovalExpiredEvent{Gate: ref.ID, Outcome: oneOf(c, run.ExpiryEscalate, run.ExpiryCancel, run.ExpiryFail)}
		p.Parked = p.Outcome == run.ExpiryEscalate && c.pick(2) == 1
		return p
	case run.KindApprovalReopened:
		return run.ApprovalReopenedEvent{Gate: ref.ID, ExpiresAt: until, NewBase: oneOf(c, "", "ba5e2")}
	case run.KindApprovalWithdrawn:
		p := run.ApprovalWithdrawnEvent{Gate: ref.ID, Reason: "Too soon.", ExpiresAt: until}
		if r.Dispatched != nil {
			p.Gate = r.Dispatched.ID
		}
		return p
	}
	return nil
}

func endPayload(r run.Run, k run.Kind, c chooser) run.Payload {
	switch k {
	case run.KindPRCreated:
		p := run.PRCreatedEvent{PR: pullRequest(), Policy: words()}
		if p.Attest = c.pick(2) == 1; p.Attest {
			p.AttestExpiresAt = t0.Add(7 * 24 * time.Hour)
		}
		return p
	case run.KindBaseMoved:
		return run.BaseMovedEvent{NewBase: fmt.Sprintf("ba5e%d", r.BaseMoves), Overlaps: []string{"main.go"}, Gate: asked(r)}
	case run.KindBranchTouched:
		return run.BranchTouchedEvent{Branch: "agent/task/run", SHA: "5ha2"}
	case run.KindReconciliationRequired:
		return run.ReconciliationRequiredEvent{Operations: []string{"open_pull_request app"}, Summary: "Nobody knows.",
			Lost: r.Lease != nil && c.pick(2) == 1, Gate: asked(r)}
	case run.KindAttemptFailed:
		return run.AttemptFailedEvent{Code: oneOf(c, run.CodeProviderRateLimit, run.CodeTaskContractInvalid), Summary: "Slow down.",
			Spent: c.pick(2) == 1, Jitter: 0.5, RetryAfter: time.Second}
	case run.KindWorkerLost:
		p := run.WorkerLostEvent{Spent: c.pick(2) == 1, Jitter: 0.5}
		if r.Lease != nil {
			p.Lease = run.LeaseRef{ID: r.Lease.ID, Token: r.Lease.Token}
		}
		return p
	case run.KindLeaseReleased:
		return run.LeaseReleasedEvent{Reason: "drain", Before: 40 * c.pick(2)}
	case run.KindNonRetryableFailure:
		return run.NonRetryableFailureEvent{Code: run.CodeRefNotFound, Summary: "There is no such branch.", Evidence: "art-log", Repeated: c.pick(2) == 1}
	case run.KindBudgetExceeded:
		return run.BudgetExceededEvent{Limit: "cost", Summary: "The cost limit is reached.", Fail: c.pick(2) == 1, Gate: asked(r), Policy: words()}
	case run.KindTimeout:
		if r.State == run.Created {
			return run.TimeoutEvent{Code: run.CodeDeferTimeout}
		}
		return run.TimeoutEvent{Code: run.CodeQueueTimeout, Why: "No live worker offers agent:unheard-of."}
	case run.KindRunTimeout:
		return run.RunTimeoutEvent{Fail: c.pick(2) == 1}
	case run.KindCancelRequested:
		return run.CancelRequestedEvent{Reason: "Not needed any more.", Unresolved: []string{"push_branch app"}}
	case run.KindCancelConfirmed:
		return run.CancelConfirmedEvent{Unresolved: []string{"push_branch app"}, Observed: "Stopped after the push."}
	}
	return nil
}
