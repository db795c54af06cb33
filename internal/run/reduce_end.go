package run

import "time"

func (m *move) prCreated(p PRCreatedEvent) error {
	return m.havePR(p.PR, p.Attest, Approval{Policy: p.Policy, AttestExpiresAt: p.AttestExpiresAt})
}

// havePR records the pull request and says what follows at once: the run never
// waits in PR_CREATED.
func (m *move) havePR(pr PullRequest, attest bool, a Approval) error {
	if pr.URL == "" || pr.SHA == "" || pr.Branch == "" {
		return evidence("the pull request's url, sha and branch")
	}
	m.r.PR = new(pr)
	m.r.State = PRCreated
	if attest {
		if a.AttestExpiresAt.IsZero() {
			return evidence("until when the attestation may come")
		}
		m.follow = append(m.follow, AttestationRequiredEvent{Policy: a.Policy, ExpiresAt: a.AttestExpiresAt})
		return nil
	}
	m.follow = append(m.follow, CompletionConditionMetEvent{})
	return nil
}

func (m *move) baseMoved(p BaseMovedEvent) error {
	if p.NewBase == "" || len(p.Overlaps) == 0 || m.r.Patch == nil {
		return evidence("the new base, the overlapping files and the stored patch")
	}
	m.r.BaseMoves++
	if m.r.BaseMoves > m.r.Limits.MaxBaseMoves {
		m.r.ApprovedPatchID = ""
		return m.ask(GatePatch, p.Gate, m.r.Patch.Revision, "")
	}
	m.rebase(p.NewBase)
	return nil
}

func (m *move) reconciliationRequired(p ReconciliationRequiredEvent) error {
	if len(p.Operations) == 0 {
		return evidence("the ambiguous operations")
	}
	if p.Lost {
		m.endLease(LeaseExpired, "worker lost")
	}
	return m.ask(GateReconcile, p.Gate, 1, "")
}

func (m *move) budgetExceeded(p BudgetExceededEvent) error {
	if p.Fail {
		return m.fail(failure(CodeBudgetExceeded, p.Summary, ""))
	}
	return m.ask(GateBudget, p.Gate, 1, m.r.State)
}

func (m *move) attemptFailed(p AttemptFailedEvent, by Actor) error {
	if p.Code == "" {
		return evidence("a reason code")
	}
	as := LeaseReleased
	if by.Kind == Scheduler {
		as = LeaseRevoked
	}
	m.endLease(as, string(p.Code))
	if err := m.lost(loss{code: p.Code, summary: p.Summary, evidence: p.Evidence, spent: p.Spent, jitter: p.Jitter, floor: p.RetryAfter}); err != nil {
		return err
	}
	if p.Instruction != "" && !m.r.State.Terminal() {
		m.do(GiveFeedback{Source: "system", Text: p.Instruction})
	}
	return nil
}

func (m *move) workerLost(p WorkerLostEvent) error {
	if !m.r.Holds(&p.Lease) {
		return &StaleLeaseError{State: m.r.State, Token: p.Lease.Token}
	}
	m.endLease(LeaseExpired, string(CodeWorkerLost))
	return m.lost(loss{code: CodeWorkerLost, spent: p.Spent, jitter: p.Jitter, drained: p.Drained})
}

func (m *move) leaseReleased(p LeaseReleasedEvent, by Actor) error {
	as := LeaseReleased
	if by.Kind == Scheduler {
		as = LeaseRevoked
	}
	m.endLease(as, p.Reason)
	phase := m.r.State.Phase()
	if phase == PhaseExecute {
		m.do(EndAttempt{Attempt: m.r.Attempt, As: AttemptAborted})
		m.r.Released++
		m.again()
	}
	m.enqueue(phase, ReleaseDelay(p.Before))
	return nil
}

// LongestReleaseDelay bounds the wait of a run that is given back again and again.
const LongestReleaseDelay = time.Minute

// ReleaseDelay is the wait of a run that is given back after it was given back so often before without getting further:
// none the first time, then a second that doubles. A release costs the run nothing, so without a wait a worker that takes
// a run and gives it back at once would do so as fast as the database allows, for ever.
func ReleaseDelay(before int) time.Duration {
	if before < 1 {
		return 0
	}
	return min(time.Second<<min(before-1, 10), LongestReleaseDelay)
}

func (m *move) timeout(p TimeoutEvent) error {
	want := CodeQueueTimeout
	if m.r.State == Created {
		want = CodeDeferTimeout
	}
	if p.Code != want {
		return evidence("which clock ran out: " + string(want))
	}
	m.r.State = Expired
	m.r.Reason = p.Code
	return nil
}

func (m *move) runTimeout(p RunTimeoutEvent) error {
	if p.Fail {
		return m.fail(failure(CodeRunTimeout, "", ""))
	}
	m.r.State = Expired
	m.r.Reason = CodeRunTimeout
	return nil
}

// cancelRequested follows the order of the cancel rules: a pull request that
// exists is not undone, a second request changes nothing, a worker is told and
// given time, and what nobody works on ends at once.
func (m *move) cancelRequested(p CancelRequestedEvent, by Actor) error {
	switch {
	case m.r.State == PRCreated:
		return &GuardError{Guard: "pull_request", Sentence: "The pull request exists already; it can be closed instead."}
	case m.r.State == Cancelling:
		return nil
	}
	reason := p.Reason
	if reason == "" {
		reason = "No reason was given."
	}
	m.r.Cancel = &Cancel{By: by, Reason: reason, At: m.at}
	m.unresolved = p.Unresolved
	if m.r.Lease != nil {
		m.r.State = Cancelling
		return nil
	}
	m.r.State = Cancelled
	return nil
}

func (m *move) cancelConfirmed(p CancelConfirmedEvent, by Actor) error {
	as, why := LeaseReleased, "cancelled"
	switch by.Kind {
	case Scheduler:
		as, why = LeaseRevoked, "cancel grace over"
	case Human:
		as, why = LeaseRevoked, "forced by "+by.Name
	}
	forced := as == LeaseRevoked
	m.endLease(as, why)
	m.r.Cancel.Forced = forced
	m.unresolved = p.Unresolved
	m.r.State = Cancelled
	return nil
}
