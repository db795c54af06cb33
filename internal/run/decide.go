package run

import (
	"slices"
	"strings"
	"time"

	"signalbox/internal/policy"
)

// Decide turns a command into the event that the server records. Policy is asked
// here and its answer travels in the event; Reduce never evaluates policy (D-3).
// A command that does not fit is a typed error and nothing happened.
//
// Facts about the run itself (mode, risk, counters, what was approved) are taken
// from the run, whatever f.Policy says of them.
func Decide(r Run, c Command, f Facts) (Payload, error) {
	p, err := decide(r, c, f.of(r))
	if err != nil {
		return nil, err
	}
	if !Legal(r.State, p.Kind()) {
		return nil, &IllegalError{State: r.State, Kind: p.Kind()}
	}
	return p, nil
}

func decide(r Run, c Command, f Facts) (Payload, error) {
	if r.State == Cancelling {
		return decideCancelling(r, c, f)
	}
	// A result counts only where it is expected, even where what is wrong with it would end the run in any state: a
	// judge who speaks before the verifier is refused, not believed.
	if at, bound := expectedIn(c); bound && r.State != at {
		return nil, &IllegalError{State: r.State, Kind: Kind(c.Name())}
	}
	switch c := c.(type) {
	case Start:
		return WorkerStartedEvent{}, nil
	case SandboxIsReady:
		return SandboxReadyEvent{Tier: c.Tier, Base: c.Base}, nil
	case ContextIsReady:
		if f.Context == nil {
			return nil, evidence("the stored context")
		}
		return ContextReadyEvent{Artifact: f.Context.Artifact, Digest: f.Context.Digest, Base: f.Context.Base}, nil
	case PlanSubmitted:
		return decidePlan(r, f)
	case PatchSubmitted:
		return decidePatch(r, c, f)
	case ReportSubmitted:
		return decideReport(r, c, f)
	case NoChangeSubmitted:
		return decideNoChange(r, c, f)
	case VerifyStarted:
		return VerificationStartedEvent{Commands: c.Commands, Digest: c.Digest, SameWorker: f.SameWorker}, nil
	case VerifyReported:
		return decideVerification(r, f)
	case JudgeReported:
		return decideJudged(r, c.Judge, f)
	case PRReported:
		if f.PR == nil {
			return nil, evidence("the pull request, read back from the forge")
		}
		attest, why := policy.Attest(f.Rules, f.Policy)
		return PRCreatedEvent{PR: *f.PR, Attest: attest, Policy: words(f, why), AttestExpiresAt: f.attestBy()}, nil
	case BaseHasMoved:
		return BaseMovedEvent{NewBase: c.NewBase, Overlaps: c.Overlaps, Commits: c.Commits, Gate: f.gate(r, policy.GatePatch, nil)}, nil
	case BranchWasTouched:
		return BranchTouchedEvent{Branch: c.Branch, SHA: c.SHA}, nil
	case EffectIsAmbiguous:
		return ReconciliationRequiredEvent{Operations: c.Operations, Summary: c.Summary, Gate: f.gate(r, policy.GateReconcile, nil)}, nil
	case AttemptHasFailed:
		if serverOnly(c.Code) {
			c.Code = CodeUnknown
		}
		if c.Code == CodeAttemptTimeout && f.Overdue {
			// A worker that obeyed the run's clock knows only that it had to stop.
			return RunTimeoutEvent{Fail: r.Limits.RunTimeoutFails}, nil
		}
		return decideFailure(r, c, f), nil
	case Release:
		return LeaseReleasedEvent{Reason: c.Reason, Before: f.Released}, nil
	case Stopped:
		return decideStopped(r, c, f)
	}
	return nil, &IllegalError{State: r.State, Kind: Kind(c.Name())}
}

// expectedIn returns the one state in which a command makes sense; false for those
// that end the work wherever it is.
func expectedIn(c Command) (State, bool) {
	switch c.(type) {
	case Start:
		return Leased, true
	case SandboxIsReady:
		return Preparing, true
	case ContextIsReady:
		return ContextBuilding, true
	case PlanSubmitted:
		return Planning, true
	case PatchSubmitted, ReportSubmitted, NoChangeSubmitted:
		return Executing, true
	case VerifyStarted:
		return PatchReady, true
	case VerifyReported:
		return Verifying, true
	case JudgeReported:
		return Judging, true
	case PRReported, BaseHasMoved, BranchWasTouched, EffectIsAmbiguous:
		return PRCreating, true
	}
	return "", false
}

// decideCancelling: whatever ends the work of a run that is being cancelled is
// the confirmation; progress is refused and its evidence stays stored.
func decideCancelling(r Run, c Command, f Facts) (Payload, error) {
	switch c := c.(type) {
	case ConfirmCancel:
		return CancelConfirmedEvent{Unresolved: f.Unresolved}, nil
	case Stopped:
		return CancelConfirmedEvent{Unresolved: f.Unresolved, Observed: c.Summary}, nil
	case Release:
		return CancelConfirmedEvent{Unresolved: f.Unresolved, Observed: c.Reason}, nil
	case AttemptHasFailed:
		return CancelConfirmedEvent{Unresolved: f.Unresolved, Observed: c.Summary}, nil
	}
	return nil, &IllegalError{State: r.State, Kind: Kind(c.Name())}
}

func decidePlan(r Run, f Facts) (Payload, error) {
	switch {
	case f.PlanFault != "":
		return decideFailure(r, AttemptHasFailed{Code: f.PlanFault}, f), nil
	case f.Plan == nil:
		return nil, evidence("the stored plan")
	}
	d := policy.Plan(f.Rules, f.Policy)
	w := PolicyWords{Version: d.PolicyVersion, Reasons: d.Reasons}
	if !d.Gate || f.Plan.Digest == r.ApprovedPlan {
		return PlanCreatedEvent{Plan: *f.Plan, Policy: w}, nil
	}
	return PlanApprovalRequiredEvent{Plan: *f.Plan, Policy: w, Gate: f.gate(r, policy.GatePlan, &d)}, nil
}

func decidePatch(r Run, c PatchSubmitted, f Facts) (Payload, error) {
	fail := func(code Code, words string) (Payload, error) {
		return decideFailure(r, AttemptHasFailed{Code: code, Summary: words, Artifact: c.Artifact}, f), nil
	}
	switch {
	case f.PatchFault != "":
		return fail(f.PatchFault, f.PatchWords)
	case f.Patch == nil:
		return nil, evidence("the stored patch")
	case f.Patch.Files < 1:
		return fail(CodeEmptyPatch, "")
	case r.Mode == ModeAnalysis:
		return fail(CodeUnexpectedDiff, "")
	}
	return PatchCreatedEvent{Patch: *f.Patch, Summary: c.Summary}, nil
}

// decideReport and decideNoChange hold that the working tree is unchanged: a diff
// that the server holds for this attempt speaks against it.
func decideReport(r Run, c ReportSubmitted, f Facts) (Payload, error) {
	switch {
	case r.Mode != ModeAnalysis:
		return nil, &GuardError{Guard: "mode", Sentence: "The task asked for a change; a report alone does not complete it."}
	case f.Patch != nil && f.Patch.Files > 0:
		return decideFailure(r, AttemptHasFailed{Code: CodeUnexpectedDiff, Artifact: c.Artifact}, f), nil
	case f.Report == nil:
		return nil, evidence("the stored report")
	}
	return ReportCreatedEvent{Artifact: f.Report.Artifact, Digest: f.Report.Digest, Base: f.Report.Base}, nil
}

func decideNoChange(r Run, c NoChangeSubmitted, f Facts) (Payload, error) {
	if f.Patch != nil && f.Patch.Files > 0 {
		return decideFailure(r, AttemptHasFailed{Code: CodeUnexpectedDiff, Summary: c.Summary}, f), nil
	}
	if f.Report != nil {
		return NoChangeReportedEvent{Digest: f.Report.Digest, Summary: c.Summary, Base: f.Report.Base}, nil
	}
	return NoChangeReportedEvent{Digest: f.Digest, Summary: c.Summary}, nil
}

func decideVerification(r Run, f Facts) (Payload, error) {
	v := f.Verification
	switch {
	case v == nil:
		return nil, evidence("the verification report")
	case v.Infrastructure:
		return decideFailure(r, AttemptHasFailed{Code: CodeVerifierError, Summary: v.Evidence.Summary, Artifact: v.Evidence.Artifact}, f), nil
	case v.Passed:
		return VerificationPassedEvent{Report: v.Evidence}, nil
	}
	identical := v.Evidence.Fingerprint != "" && v.Evidence.Fingerprint == v.Previous
	switch {
	case v.Unrepairable:
		return NonRetryableFailureEvent{Code: CodeVerifierFailed, Summary: v.Evidence.Summary, Evidence: v.Evidence.Artifact}, nil
	case !f.Policy.BudgetLeft:
		return f.budget(r, "The checks failed and the budget allows no repair."), nil
	case r.RepairsLeft() && !identical:
		return VerificationFailedEvent{Report: v.Evidence}, nil
	case r.AttemptsLeft():
		return AttemptExhaustedEvent{Code: CodeVerifierFailed, Summary: v.Evidence.Summary,
			Evidence: v.Evidence.Artifact, Identical: identical}, nil
	}
	return NonRetryableFailureEvent{Code: CodeVerifierFailed, Summary: v.Evidence.Summary, Evidence: v.Evidence.Artifact}, nil
}

func decideJudged(r Run, j JudgeEvidence, f Facts) (Payload, error) {
	if j.Verdict != VerdictPass && j.Verdict != VerdictFix && j.Verdict != VerdictFail {
		return nil, evidence("the judge's verdict")
	}
	if words := r.oversized(); words != "" && j.Verdict == VerdictPass {
		// The judge runs on a worker; what the run was admitted with is held here.
		j.Verdict, j.Reasons = VerdictFix, append(slices.Clone(j.Reasons), words)
	}
	f.Policy.Verdict, f.Policy.Confidence, f.Policy.JudgeReasons = policy.Verdict(j.Verdict), j.Confidence, j.Reasons
	d := policy.Judged(f.Rules, f.Policy)
	w := PolicyWords{Version: d.PolicyVersion, Reasons: d.Reasons}
	switch d.Outcome {
	case policy.OutcomeComplete:
		return CompletionConditionMetEvent{Judge: &j}, nil
	case policy.OutcomeGate:
		return HumanApprovalRequiredEvent{Judge: j, Policy: w, Gate: f.gate(r, d.Gate.Kind, &d.Gate)}, nil
	case policy.OutcomeAutoPR:
		guards := make([]string, 0, len(d.Guards))
		for _, g := range d.Guards {
			guards = append(guards, g.Words)
		}
		w.Facts = f.Rules.Asked(f.Policy)
		return AutoPRAllowedEvent{Judge: j, Policy: w, Guards: guards}, nil
	case policy.OutcomeCarried:
		w.Facts = f.Rules.Asked(f.Policy)
		return ApprovalCarriedEvent{Judge: j, Policy: w, From: f.CarriedFrom, Deciders: f.CarriedBy}, nil
	case policy.OutcomeAttest:
		return AttestationRequiredEvent{Judge: &j, Policy: w, ExpiresAt: f.attestBy()}, nil
	case policy.OutcomeFix:
		return JudgeRequiresFixEvent{Judge: j, Policy: w}, nil
	case policy.OutcomeExhausted:
		return AttemptExhaustedEvent{Code: Code(d.Code), Summary: strings.Join(d.Reasons, " "),
			Evidence: j.Artifact, Identical: f.Policy.SameFailureAgain}, nil
	case policy.OutcomeBudget:
		return f.budget(r, strings.Join(d.Reasons, " ")), nil
	}
	return NonRetryableFailureEvent{Code: Code(d.Code), Summary: strings.Join(d.Reasons, " "), Evidence: j.Artifact}, nil
}

// decideFailure: a code that must not be tried again ends the run at once, as does
// one that would only be repeated. Where
// the last delivery of a publication fails while an effect is unresolved, a person
// is asked instead.
func decideFailure(r Run, c AttemptHasFailed, f Facts) Payload {
	i := Lookup(c.Code)
	summary := c.Summary
	if summary == "" {
		summary = i.Sentence
	}
	switch {
	case i.Retry != RetryAgain:
		return NonRetryableFailureEvent{Code: i.Code, Summary: summary, Evidence: c.Artifact}
	case i.Code.Deterministic() && f.LastFailure == i.Code:
		return NonRetryableFailureEvent{Code: i.Code, Summary: summary + " This came twice in a row, so it is not tried a third time: change the task or the agent, then run it again.",
			Evidence: c.Artifact, Repeated: true}
	case f.cautious(r, i):
		return NonRetryableFailureEvent{Code: i.Code, Summary: summary + " Policy " + f.Rules.Version + " does not try work of risk " + r.Risk + " again by itself: look at it, then run it again.",
			Evidence: c.Artifact}
	case r.lastPublication() && len(f.Unresolved) > 0:
		return ReconciliationRequiredEvent{Operations: f.Unresolved, Summary: summary, Gate: f.gate(r, policy.GateReconcile, nil)}
	}
	ev := AttemptFailedEvent{Code: i.Code, Summary: summary, Evidence: c.Artifact, Spent: f.Spent,
		Jitter: f.Minted.Draw, RetryAfter: c.RetryAfter, Instruction: i.Code.Instruction()}
	if i.Code == CodeProviderRateLimit && f.Pause != nil {
		// Those who failed together do not come back together when the pause is over.
		ev.Pause, ev.RetryAfter = f.Pause, max(c.RetryAfter, Backoff([]time.Duration{f.Pause.For}, 1, r.Limits.Jitter, f.Minted.Draw))
	}
	return ev
}

// cautious reports whether policy wants a person to look before work of this risk is tried again: only where the
// agent's own doing failed, before its result is stored.
func (f Facts) cautious(r Run, i CodeInfo) bool {
	return r.State.Phase() == PhaseExecute && (i.Category == CatToolFailed || i.Category == CatPlanningFailed) &&
		slices.Contains(f.Rules.Retry.Cautious, policy.Risk(r.Risk))
}

// lastPublication reports whether a failed publication would not be delivered again.
func (r Run) lastPublication() bool {
	return r.State == PRCreating && r.PublishRedeliveries >= r.Limits.Redeliveries
}

// DecideLost is what the scheduler records when the active lease expired by the
// database's clock: a lost worker, in CANCELLING the forced confirmation, and in
// PR_CREATING with its redeliveries spent and an effect unresolved a question to a
// person. Without an active lease there is nothing to lose.
func DecideLost(r Run, f Facts) (Payload, error) {
	switch {
	case r.Lease == nil:
		return nil, &StaleLeaseError{State: r.State}
	case r.State == Cancelling:
		return CancelConfirmedEvent{Forced: true, Unresolved: f.Unresolved}, nil
	case r.lastPublication() && len(f.Unresolved) > 0:
		return ReconciliationRequiredEvent{Operations: f.Unresolved, Summary: Lookup(CodeWorkerLost).Sentence, Lost: true,
			Gate: f.gate(r, policy.GateReconcile, nil)}, nil
	}
	return WorkerLostEvent{Lease: LeaseRef{ID: r.Lease.ID, Token: r.Lease.Token}, Spent: f.Spent, Jitter: f.Minted.Draw, Drained: f.Drained}, nil
}

// serverOnly reports whether only the server may give this reason: decisions of
// people, policy and clocks. A worker that names one is not believed.
func serverOnly(c Code) bool {
	return slices.Contains([]Code{CodeWorkerLost, CodePolicyDenied, CodeTaskContractInvalid, CodeCancelledByUser,
		CodeHumanRejected, CodeApprovalExpired, CodeAttestationRefused, CodeAttestationExpired, CodeBudgetExceeded,
		CodeRunTimeout, CodeQueueTimeout, CodeDeferTimeout}, c)
}

func decideStopped(r Run, c Stopped, f Facts) (Payload, error) {
	switch c.Why {
	case StopBudget:
		return f.budget(r, c.Summary), nil
	case StopDrain:
		return LeaseReleasedEvent{Reason: "drain", Before: f.Released}, nil
	}
	// The signal to cancel is sent only in CANCELLING, which decideCancelling has.
	return nil, &IllegalError{State: r.State, Kind: Kind(c.Name())}
}
