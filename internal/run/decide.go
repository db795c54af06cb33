package run

import (
	"time"

	"signalbox/internal/policy"
)

// Facts are what the server holds itself when a command arrives. A worker's word
// is never among them: the stored patch was parsed and scanned by the server.
type Facts struct {
	Rules  policy.Rules
	Policy policy.Facts
	Minted Minted

	// Plan, Patch, Report, Context and Verification describe the stored artifact
	// that the command names; nil where it names none.
	Plan         *PlanEvidence
	Patch        *Patch
	Report       *PlanEvidence
	Context      *PlanEvidence
	Verification *VerificationFacts
	// PatchFault is set where the stored patch cannot be used.
	PatchFault Code
	// Digest is the revision digest of the gate that might be opened (D-15).
	Digest string
	// GateArtifact is what the gate shows.
	GateArtifact string
	// Unresolved names operations that were dispatched and not observed.
	Unresolved []string
	// PR is the pull request as read back from the forge.
	PR *PullRequest
	// Spent says that cost or time allow no further try.
	Spent bool
	// SameWorker says that the verifier is the worker that made the patch.
	SameWorker bool
}

// VerificationFacts is the stored verification report as the server read it.
type VerificationFacts struct {
	Evidence VerificationEvidence
	Passed   bool
	// Infrastructure says that the checks could not be run at all.
	Infrastructure bool
	// Previous is the fingerprint of the failure before, in this attempt.
	Previous string
}

// Decide turns a command into the event that the server records. Policy is asked
// here and its answer travels in the event; Reduce never evaluates policy (D-3).
// A command that does not fit is a typed error and nothing happened.
func Decide(r Run, c Command, f Facts) (Payload, error) {
	if r.State == Cancelling {
		return decideCancelling(r, c, f)
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
		if f.Report == nil {
			return nil, evidence("the stored report")
		}
		return ReportCreatedEvent{Artifact: f.Report.Artifact, Digest: f.Report.Digest, Base: f.Report.Base}, nil
	case NoChangeSubmitted:
		return NoChangeReportedEvent{Digest: f.Digest, Summary: c.Summary}, nil
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
		return BaseMovedEvent{NewBase: c.NewBase, Overlaps: c.Overlaps, Gate: f.gate(policy.GatePatch, nil)}, nil
	case BranchWasTouched:
		return BranchTouchedEvent{Branch: c.Branch, SHA: c.SHA}, nil
	case AttemptHasFailed:
		return decideFailure(c, f), nil
	case Release:
		return LeaseReleasedEvent{Reason: c.Reason}, nil
	case Stopped:
		return decideStopped(r, c, f)
	}
	return nil, &IllegalError{State: r.State, Kind: Kind(c.Name())}
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
	if f.Plan == nil {
		return nil, evidence("the stored plan")
	}
	d := policy.Plan(f.Rules, f.Policy)
	w := PolicyWords{Version: d.PolicyVersion, Reasons: d.Reasons}
	if !d.Gate || f.Plan.Digest == r.ApprovedPlan {
		return PlanCreatedEvent{Plan: *f.Plan, Policy: w}, nil
	}
	return PlanApprovalRequiredEvent{Plan: *f.Plan, Policy: w, Gate: f.gate(policy.GatePlan, &d)}, nil
}

func decidePatch(r Run, c PatchSubmitted, f Facts) (Payload, error) {
	fail := func(code Code) (Payload, error) {
		return decideFailure(AttemptHasFailed{Code: code, Artifact: c.Artifact}, f), nil
	}
	switch {
	case f.PatchFault != "":
		return fail(f.PatchFault)
	case f.Patch == nil:
		return nil, evidence("the stored patch")
	case f.Patch.Files < 1:
		return fail(CodeEmptyPatch)
	case r.Mode == ModeAnalysis:
		return fail(CodeUnexpectedDiff)
	}
	return PatchCreatedEvent{Patch: *f.Patch}, nil
}

func decideVerification(r Run, f Facts) (Payload, error) {
	v := f.Verification
	switch {
	case v == nil:
		return nil, evidence("the verification report")
	case v.Infrastructure:
		return decideFailure(AttemptHasFailed{Code: CodeVerifierError, Summary: v.Evidence.Summary, Artifact: v.Evidence.Artifact}, f), nil
	case v.Passed:
		return VerificationPassedEvent{Report: v.Evidence}, nil
	}
	identical := v.Evidence.Fingerprint != "" && v.Evidence.Fingerprint == v.Previous
	switch {
	case !f.Policy.BudgetLeft:
		return f.budget("The checks failed and the budget allows no repair."), nil
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
	d := policy.Judged(f.Rules, f.Policy)
	w := PolicyWords{Version: d.PolicyVersion, Reasons: d.Reasons}
	switch d.Outcome {
	case policy.OutcomeComplete:
		return CompletionConditionMetEvent{Judge: &j}, nil
	case policy.OutcomeGate:
		return HumanApprovalRequiredEvent{Judge: j, Policy: w, Gate: f.gate(d.Gate.Kind, &d.Gate)}, nil
	case policy.OutcomeAutoPR:
		guards := make([]string, 0, len(d.Guards))
		for _, g := range d.Guards {
			guards = append(guards, g.Words)
		}
		return AutoPRAllowedEvent{Judge: j, Policy: w, Guards: guards}, nil
	case policy.OutcomeCarried:
		return ApprovalCarriedEvent{Judge: j, Policy: w}, nil
	case policy.OutcomeAttest:
		return AttestationRequiredEvent{Judge: &j, Policy: w, ExpiresAt: f.attestBy()}, nil
	case policy.OutcomeFix:
		return JudgeRequiresFixEvent{Judge: j, Policy: w}, nil
	case policy.OutcomeExhausted:
		return AttemptExhaustedEvent{Code: Code(d.Code), Summary: joinWords(d.Reasons), Evidence: j.Artifact}, nil
	case policy.OutcomeBudget:
		return f.budget(joinWords(d.Reasons)), nil
	}
	return NonRetryableFailureEvent{Code: Code(d.Code), Summary: joinWords(d.Reasons), Evidence: j.Artifact}, nil
}

// decideFailure: a code that must not be tried again ends the run at once.
func decideFailure(c AttemptHasFailed, f Facts) Payload {
	i := Lookup(c.Code)
	summary := c.Summary
	if summary == "" {
		summary = i.Sentence
	}
	if i.Retry == RetryAgain {
		return AttemptFailedEvent{Code: i.Code, Summary: summary, Evidence: c.Artifact, Spent: f.Spent,
			Jitter: f.Minted.Draw, RetryAfter: c.RetryAfter}
	}
	return NonRetryableFailureEvent{Code: i.Code, Summary: summary, Evidence: c.Artifact}
}

func decideStopped(r Run, c Stopped, f Facts) (Payload, error) {
	switch c.Why {
	case StopBudget:
		return f.budget(c.Summary), nil
	case StopDrain:
		return LeaseReleasedEvent{Reason: "drain"}, nil
	}
	// The signal to cancel is sent only in CANCELLING, which decideCancelling has.
	return nil, &IllegalError{State: r.State, Kind: Kind(c.Name())}
}

// budget is the recorded end of a budget: a gate, or failure by policy.
func (f Facts) budget(summary string) BudgetExceededEvent {
	if summary == "" {
		summary = f.Policy.BudgetWords
	}
	return BudgetExceededEvent{Limit: f.Policy.BudgetWords, Summary: summary,
		Fail: f.Rules.Budget.OnExceeded == policy.OnFail, Gate: f.gate(policy.GateBudget, nil),
		Policy: PolicyWords{Version: f.Rules.Version}}
}

// gate fills what a gate of the kind needs, from policy where d is nil.
func (f Facts) gate(k policy.GateKind, d *policy.GateDecision) GateAsked {
	rule := f.Rules.Gates.For(k)
	g := GateAsked{ID: f.Minted.Gate, Digest: f.Digest, Artifact: f.GateArtifact, Quorum: max(rule.Quorum, 1),
		Role: string(rule.Role), ExpiresAt: f.Minted.Now.Add(f.Rules.Limits.ApprovalTimeout.Std())}
	if d != nil {
		g.Quorum, g.Role = max(d.Quorum, 1), string(d.Role)
	}
	return g
}

func (f Facts) attestBy() time.Time {
	return f.Minted.Now.Add(f.Rules.Limits.AttestationTimeout.Std())
}

func words(f Facts, reason string) PolicyWords {
	w := PolicyWords{Version: f.Rules.Version}
	if reason != "" {
		w.Reasons = []string{reason}
	}
	return w
}
