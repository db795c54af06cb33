package run

import (
	"slices"

	"github.com/google/uuid"
)

// ask opens a gate and parks the run: no lease, no mutation.
func (m *move) ask(k GateKind, a GateAsked, revision int, resume State) error {
	if a.ID == uuid.Nil || a.Digest == "" || a.Quorum < 1 || a.ExpiresAt.IsZero() {
		return evidence("the gate's id, digest, quorum and expiry")
	}
	g := Gate{ID: a.ID, Kind: k, Revision: max(revision, 1), Digest: a.Digest, ResumeTo: resume}
	m.r.Gate = new(g)
	m.r.State = WaitingForApproval
	m.do(OpenGate{Gate: g, Asked: a}, Notify{What: "approval_required"})
	return nil
}

// gateFits holds that a decision is about the gate and revision that is open.
func (m *move) gateFits(ref GateRef) error {
	g := m.r.Gate
	switch {
	case g == nil || g.ID != ref.ID:
		return &GateError{Why: "other_gate", Gate: g}
	case g.Revision != ref.Revision || g.Digest != ref.Digest:
		return &GateError{Why: "stale", Gate: g}
	}
	return nil
}

func (m *move) approved(a Approval, bypass bool) error {
	if err := m.gateFits(a.Gate); err != nil {
		return err
	}
	g := *m.r.Gate
	if g.Expired {
		return &GateError{Why: "expired", Gate: &g}
	}
	if len(a.Deciders) == 0 {
		return evidence("who decided")
	}
	if bypass {
		m.closeGate(GateBypassed)
		m.do(FollowUp{What: FollowUpBypass, Detail: []string{g.ID.String()}}, Notify{What: "gate_bypassed"})
	} else {
		m.closeGate(GateSatisfied)
	}
	m.notes(a)
	if err := m.granted(g, a); err != nil {
		return err
	}
	if bypass {
		// Only a satisfied gate opens again; a bypass is not withdrawn.
		m.r.Dispatched = nil
	}
	return nil
}

// notes keeps what the approvers left for the agent, whatever the approval leads to: the next invocation of an agent for this
// run reads it. Where none follows it stays on the record.
func (m *move) notes(a Approval) {
	for _, n := range a.Earlier {
		m.do(GiveFeedback{Source: "human", Text: n.Text, Author: n.By.Name})
	}
	if a.Notes != "" {
		m.do(GiveFeedback{Source: "human", Text: a.Notes})
	}
}

// granted goes where an approval of this kind of gate leads.
func (m *move) granted(g Gate, a Approval) error {
	switch g.Kind {
	case GatePlan:
		m.r.ApprovedPlan = m.r.Plan
		return m.dispatch(g, Executing, a)
	case GatePatch:
		if m.r.Patch == nil {
			return evidence("the stored patch")
		}
		m.r.ApprovedPatchID = m.r.Patch.PatchID
		if m.r.BaseMoves > m.r.Limits.MaxBaseMoves {
			// A person looked, so the patch may follow the base again.
			m.r.BaseMoves = 0
		}
		if m.r.Mode.WantsPR() {
			m.r.PublishRedeliveries = 0
			return m.dispatch(g, PRCreating, a)
		}
		return m.finish(a)
	case GateReport:
		return m.finish(a)
	case GateBudget:
		if a.Limits == nil || a.Limits.MaxAttempts < 1 {
			return evidence("the raised limit")
		}
		m.r.Limits = *a.Limits
		m.r.Limits.Delays = slices.Clone(a.Limits.Delays)
		return m.dispatch(g, g.ResumeTo, a)
	case GateReconcile:
		if a.Adopt == nil {
			m.r.PublishRedeliveries = 0
			return m.dispatch(g, PRCreating, a)
		}
		return m.havePR(*a.Adopt, a.Attest, a)
	}
	return evidence("a kind of gate")
}

// dispatch gives the approved work to the queue in the same transaction: that
// item is the ticket that is consumed once (D-2).
func (m *move) dispatch(g Gate, to State, a Approval) error {
	m.r.State = to
	m.r.Dispatched = new(g)
	m.enqueue(to.Phase(), 0)
	return nil
}

// finish ends what has nothing to publish.
func (m *move) finish(a Approval) error {
	if a.Attest {
		if a.AttestExpiresAt.IsZero() {
			return evidence("until when the attestation may come")
		}
		m.r.State = AwaitingVerification
		m.do(RequestAttestation{ExpiresAt: a.AttestExpiresAt}, Notify{What: "attestation_required"})
		return nil
	}
	return m.succeed("approved")
}

func (m *move) changesRequested(p ChangesRequestedEvent) error {
	if err := m.gateFits(p.Gate); err != nil {
		return err
	}
	g := *m.r.Gate
	switch {
	case g.Expired:
		return &GateError{Why: "expired", Gate: &g}
	case p.Instruction == "":
		return evidence("an instruction for the agent")
	case g.Kind == GateBudget || g.Kind == GateReconcile:
		return &GuardError{Guard: "gate", Sentence: "This gate asks for yes or no; there is nothing to revise."}
	}
	m.closeGate(GateChangesRequested)
	m.do(GiveFeedback{Source: "human", Text: p.Instruction})
	m.r.Verification, m.r.Verdict = "", ""
	// What a person sent back is approved no longer, even if the same comes again.
	m.r.ApprovedPatchID = ""
	m.r.State = Executing
	if g.Kind == GatePlan {
		m.r.State = Planning
		m.r.Plan = ""
	}
	m.enqueue(PhaseExecute, 0)
	return nil
}

func (m *move) rejected(p RejectedEvent) error {
	if err := m.gateFits(p.Gate); err != nil {
		return err
	}
	if p.Reason == "" {
		return evidence("a reason")
	}
	f := failure(CodeHumanRejected, p.Reason, "")
	switch m.r.Gate.Kind {
	case GatePlan:
		f.Category = CatPlanningFailed
	case GateBudget:
		f.Category, f.Code = CatBudgetExceeded, CodeBudgetExceeded
	case GateReconcile:
		f.Category, f.Code = CatPRCreationFailed, CodePRCreationFailed
	}
	m.closeGate(GateRejected)
	return m.fail(f)
}

func (m *move) approvalExpired(p ApprovalExpiredEvent, by Actor) error {
	g := m.r.Gate
	if g == nil || g.ID != p.Gate {
		return &GateError{Why: "other_gate", Gate: g}
	}
	if p.Parked || p.Outcome == ExpiryCancel {
		m.closeGate(GateCancelled)
		m.r.State = Cancelled
		m.r.Cancel = &Cancel{By: by, Reason: "Nobody decided before the request expired.", At: m.at}
		return nil
	}
	if p.Outcome == ExpiryFail {
		m.closeGate(GateExpired)
		return m.fail(failure(CodeApprovalExpired, "", ""))
	}
	if p.Outcome != ExpiryEscalate {
		return evidence("what the expiry does")
	}
	if g.Expired {
		return &GateError{Why: "expired", Gate: g}
	}
	g.Expired = true
	m.do(SetGate{Gate: g.ID, State: GateExpired}, Notify{What: "escalated"})
	return nil
}

func (m *move) approvalReopened(p ApprovalReopenedEvent) error {
	g := m.r.Gate
	switch {
	case g == nil || g.ID != p.Gate:
		return &GateError{Why: "other_gate", Gate: g}
	case !g.Expired:
		return &GateError{Why: "not_expired", Gate: g}
	case p.ExpiresAt.IsZero():
		return evidence("a new expiry")
	}
	// An expired gate cannot be superseded, so a moved base closes it, and the next
	// plan or report asks anew.
	if p.NewBase != "" && g.Kind == GatePlan {
		m.closeGate(GateCancelled)
		m.r.Plan = ""
		m.r.State = Planning
		m.enqueue(PhaseExecute, 0)
		return nil
	}
	if p.NewBase != "" && g.Kind == GatePatch {
		m.closeGate(GateCancelled)
		m.rebase(p.NewBase)
		return nil
	}
	g.Expired = false
	g.Revision++
	m.do(OpenGate{Gate: *g, Asked: GateAsked{ID: g.ID, Digest: g.Digest, ExpiresAt: p.ExpiresAt}, Again: true},
		Notify{What: "approval_required"})
	return nil
}

// rebase has the same patch verified again on another base: a new revision.
func (m *move) rebase(base string) {
	m.r.PatchRevision++
	m.r.Patch.Revision = m.r.PatchRevision
	m.r.Patch.Base = base
	m.r.Verification, m.r.Verdict = "", ""
	m.r.VerifyRedeliveries = 0
	m.r.State = PatchReady
	m.enqueue(PhaseVerify, 0)
}

func (m *move) approvalWithdrawn(p ApprovalWithdrawnEvent) error {
	g := m.r.Dispatched
	switch {
	case g == nil:
		return &GateError{Why: "claimed", Gate: nil}
	case g.ID != p.Gate:
		return &GateError{Why: "other_gate", Gate: g}
	case p.ExpiresAt.IsZero():
		return evidence("a new expiry")
	}
	switch g.Kind {
	case GatePlan:
		m.r.ApprovedPlan = ""
	case GatePatch:
		m.r.ApprovedPatchID = ""
	}
	m.r.Gate = new(*g)
	m.r.State = WaitingForApproval
	m.do(SetGate{Gate: g.ID, State: GateOpen, ExpiresAt: new(p.ExpiresAt)}, Notify{What: "approval_required"})
	return nil
}
