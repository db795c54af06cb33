package run

import (
	"slices"
	"strings"

	"github.com/google/uuid"
)

func (m *move) created(p CreatedEvent) error {
	switch {
	case !p.Mode.Valid():
		return evidence("a completion mode")
	case p.Run == uuid.Nil || p.Tenant == uuid.Nil || p.Task == uuid.Nil || p.Repository == uuid.Nil:
		return evidence("the ids of run, tenant, task and repository")
	}
	m.r = Run{ID: p.Run, Tenant: p.Tenant, Task: p.Task, Repository: p.Repository, Mode: p.Mode,
		Risk: p.Risk, State: Created, Version: 1, CreatedAt: m.at}
	return nil
}

func deferred(p DeferredEvent) error {
	if p.Code == "" || p.RetryAfter <= 0 {
		return evidence("why the run waits and until when")
	}
	return nil
}

// policyDenied keeps the code that policy gave where it is a reason code of runs,
// and otherwise (a code of admission) the general one, with policy's own in the
// summary. A denial is never tried again.
func (m *move) policyDenied(p PolicyDeniedEvent) error {
	code, words := p.Code, strings.Join(p.Reasons, " ")
	if i := Lookup(code); i.Code != code || i.Category != CatPolicyDenied {
		if code != "" && words != "" {
			words = string(code) + ": " + words
		}
		code = CodePolicyDenied
	}
	f := failure(code, words, "")
	f.Retryable = false
	return m.fail(f)
}

func (m *move) enqueued(p EnqueuedEvent) error {
	if p.Limits.MaxAttempts < 1 || p.PolicyVersion == "" {
		return evidence("limits and policy version")
	}
	m.r.State = Queued
	m.r.Limits = p.Limits
	m.r.Limits.Delays = slices.Clone(p.Limits.Delays)
	m.r.PolicyVersion = p.PolicyVersion
	m.r.Route = p.Route
	m.r.Route.Requires = slices.Clone(p.Requires)
	m.enqueue(PhaseExecute, 0)
	return nil
}

// leaseAcquired turns the claimed item into a lease. The item must be the run's
// own: a stale or duplicated delivery is refused here and does nothing (R-Q-1).
func (m *move) leaseAcquired(p LeaseAcquiredEvent) error {
	if p.Lease.ID == uuid.Nil || p.Lease.Worker == "" {
		return evidence("the lease's id and worker")
	}
	if p.Lease.Token <= m.r.Token {
		return &StaleLeaseError{State: m.r.State, Token: p.Lease.Token}
	}
	if m.r.Queued == "" || m.r.Queued != p.Lease.Phase || m.r.State.Phase() != p.Lease.Phase {
		return &GuardError{Guard: "item", Sentence: "The run has no waiting work of this phase."}
	}
	m.r.Queued = ""
	m.r.Token = p.Lease.Token
	m.r.Lease = new(p.Lease)
	m.r.Dispatched = nil
	if m.r.State == Queued {
		if p.Attempt == uuid.Nil {
			return evidence("the new attempt's id")
		}
		m.r.State = Leased
		m.r.AttemptNo++
		m.r.Attempt = p.Attempt
		m.r.Repairs = 0
		m.do(StartAttempt{Attempt: p.Attempt, No: m.r.AttemptNo})
	}
	m.do(GrantLease{Lease: p.Lease, TTL: p.TTL})
	return nil
}

func (m *move) sandboxReady(p SandboxReadyEvent) error {
	if p.Tier == "" || p.Base == "" {
		return evidence("the sandbox's isolation and the commit that was checked out")
	}
	m.r.State = ContextBuilding
	return nil
}

func (m *move) contextReady(p ContextReadyEvent) error {
	if p.Artifact == "" || p.Digest == "" {
		return evidence("the stored context")
	}
	m.r.Context = p.Digest
	m.r.State = Planning
	return nil
}

func (m *move) storePlan(p PlanEvidence) error {
	if p.Artifact == "" || p.Digest == "" {
		return evidence("the stored plan")
	}
	m.r.Plan = p.Digest
	m.r.PlanRevision++
	return nil
}

func (m *move) planCreated(p PlanCreatedEvent) error {
	if err := m.storePlan(p.Plan); err != nil {
		return err
	}
	m.r.State = Executing
	return nil
}

func (m *move) planApprovalRequired(p PlanApprovalRequiredEvent) error {
	if err := m.storePlan(p.Plan); err != nil {
		return err
	}
	return m.ask(GatePlan, p.Gate, m.r.PlanRevision, "")
}

func (m *move) patchCreated(p PatchCreatedEvent) error {
	switch {
	case m.r.Mode == ModeAnalysis:
		return &GuardError{Guard: "mode", Sentence: "The task asked for a report; a patch is not accepted."}
	case p.Patch.Artifact == "" || p.Patch.Digest == "" || p.Patch.PatchID == "" || p.Patch.Base == "":
		return evidence("the stored patch")
	case p.Patch.Files < 1:
		return &GuardError{Guard: "empty", Sentence: "The patch changes nothing."}
	}
	m.r.PatchRevision++
	m.r.Patch = new(p.Patch)
	m.r.Patch.Revision = m.r.PatchRevision
	m.r.Outcome = OutcomePatch
	m.r.Report, m.r.Verification, m.r.Verdict = "", "", ""
	m.r.VerifyRedeliveries = 0
	m.r.State = PatchReady
	m.enqueue(PhaseVerify, 0)
	return nil
}

func (m *move) reportCreated(p ReportCreatedEvent) error {
	if m.r.Mode != ModeAnalysis {
		return &GuardError{Guard: "mode", Sentence: "The task asked for a change; a report alone does not complete it."}
	}
	if p.Artifact == "" || p.Digest == "" {
		return evidence("the stored report")
	}
	return m.withoutPatch(OutcomeReport, p.Digest)
}

func (m *move) noChange(p NoChangeReportedEvent) error {
	if p.Digest == "" {
		return evidence("the no-change record")
	}
	return m.withoutPatch(OutcomeNoChange, p.Digest)
}

func (m *move) withoutPatch(o Outcome, digest string) error {
	m.r.Outcome = o
	m.r.Report = digest
	m.r.Patch = nil
	m.r.Verification, m.r.Verdict = "", ""
	m.r.VerifyRedeliveries = 0
	m.r.State = Judging
	m.enqueue(PhaseVerify, 0)
	return nil
}

// again puts the run back into the queue for a fresh attempt. What belongs to
// the run stays (approved plan, feedback, stored revisions); what belonged to the
// attempt goes.
func (m *move) again() {
	m.r.State = Queued
	m.r.Outcome = ""
	m.r.Patch = nil
	m.r.Context, m.r.Plan, m.r.Report, m.r.Verification, m.r.Verdict = "", "", "", "", ""
	m.r.VerifyRedeliveries, m.r.PublishRedeliveries = 0, 0
}
