package run

import (
	"cmp"
	"time"

	"github.com/google/uuid"

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
	// PatchFault and PlanFault are set where the stored patch or plan cannot be
	// used: a plan must state files, verifiers, risks, stop condition and forbidden
	// changes (R-PLAN-1).
	PatchFault Code
	// PatchWords is the sentence about PatchFault, or empty.
	PatchWords string
	PlanFault  Code
	// Digest is the revision digest of the gate that might be opened (D-15).
	Digest string
	// GateArtifact is what the gate shows; by default the plan, patch or report.
	GateArtifact string
	// CarriedFrom is the gate whose approval is carried over a base move.
	CarriedFrom uuid.UUID
	// CarriedBy are the people who gave it.
	CarriedBy []Actor
	// Unresolved names operations that were dispatched and not observed.
	Unresolved []string
	// PR is the pull request as read back from the forge.
	PR *PullRequest
	// LastFailure is the code of the failure before, where nothing new was handed in or said to the agent since.
	LastFailure Code
	// Pause is what a rate limit means for the provider of the run's route, counted by the server.
	Pause *ProviderPause
	// Released is how often the run was given back since it last got further, counted from its log; see GetsFurther.
	Released int
	// Drained says that the worker of the lease had been asked to stop.
	Drained bool
	// Spent says that cost or time allow no further try.
	Spent bool
	// Overdue says that the run has been active for longer than its run time-out.
	Overdue bool
	// SameWorker says that the verifier is the worker that made the patch.
	SameWorker bool
}

// VerificationFacts is the stored verification report as the server read it.
type VerificationFacts struct {
	Evidence VerificationEvidence
	Passed   bool
	// Infrastructure says that the checks could not be run at all.
	Infrastructure bool
	// Unrepairable says that no change by the agent could make them pass.
	Unrepairable bool
	// Previous is the fingerprint of the failure before, in this attempt.
	Previous string
}

// of fills in what the run itself knows, so that policy and reducer never see two
// different answers: counters, mode, risk, result, and whether an approval may be
// carried at all.
func (f Facts) of(r Run) Facts {
	p := &f.Policy
	p.Mode, p.Risk, p.Result = policy.Mode(r.Mode), policy.Risk(r.Risk), policy.Result(r.Outcome)
	p.RepairRoundsLeft = max(r.Limits.RepairRounds-r.Repairs, 0)
	p.AttemptsLeft = max(r.Limits.MaxAttempts-r.AttemptsUsed(), 0)
	p.VerificationPassed = r.Verification != ""
	p.ApprovedPlanDigest = r.ApprovedPlan
	if f.Plan != nil {
		p.PlanDigest = f.Plan.Digest
	}
	if !r.carries() {
		p.CarriedApprovals = 0
	}
	return f
}

// carries reports whether the patch is the approved one on a base that moved.
func (r Run) carries() bool {
	return r.BaseMoves > 0 && r.Patch != nil && r.ApprovedPatchID != "" && r.ApprovedPatchID == r.Patch.PatchID
}

// budget is the recorded end of a budget: a gate, or failure by policy.
func (f Facts) budget(r Run, summary string) BudgetExceededEvent {
	return BudgetExceededEvent{Limit: f.Policy.BudgetWords,
		Summary: cmp.Or(summary, f.Policy.BudgetWords, Lookup(CodeBudgetExceeded).Sentence),
		Fail:    f.Rules.Budget.OnExceeded == policy.OnFail, Gate: f.gate(r, policy.GateBudget, nil),
		Policy: PolicyWords{Version: f.Rules.Version}}
}

// gate fills what a gate of the kind needs, from policy where d is nil.
func (f Facts) gate(r Run, k policy.GateKind, d *policy.GateDecision) GateAsked {
	rule := f.Rules.Under(f.Policy).Gates.For(k)
	g := GateAsked{ID: f.Minted.Gate, Digest: f.Digest, Artifact: f.GateArtifact, Quorum: max(rule.Quorum, 1),
		Role: string(rule.Role), ExpiresAt: f.Minted.Now.Add(f.Rules.Limits.ApprovalTimeout.Std())}
	if d != nil {
		g.Quorum, g.Role = max(d.Quorum, 1), string(d.Role)
	}
	switch {
	case k == policy.GatePlan && f.Plan != nil:
		g.Base, g.Artifact = f.Plan.Base, cmp.Or(g.Artifact, f.Plan.Artifact)
	case r.Patch != nil:
		g.Base = r.Patch.Base
		if k == policy.GatePatch {
			g.Artifact = cmp.Or(g.Artifact, r.Patch.Artifact)
		}
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
