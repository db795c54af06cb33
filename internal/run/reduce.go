package run

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Result is what one event does: the next run, what to write with it, and the
// events that follow at once in the same transaction.
type Result struct {
	Run     Run
	Effects []Effect
	Follow  []Payload
}

// rule is the part of the table that Reduce looks up.
type rule struct {
	to []State
	by []ActorKind
}

type pair struct {
	state State
	kind  Kind
}

var rules = sync.OnceValue(func() map[pair]rule {
	m := make(map[pair]rule)
	for _, t := range Transitions() {
		for _, s := range t.From {
			r := m[pair{s, t.Event}]
			r.to = append(r.to, t.To...)
			r.by = append(r.by, t.By...)
			m[pair{s, t.Event}] = r
		}
	}
	return m
})

// Legal reports whether the table knows the event in that state.
func Legal(s State, k Kind) bool {
	_, ok := rules()[pair{s, k}]
	return ok
}

// Reduce applies one event. It is total: every (run, event) gives either the
// next run with version+1 or a typed error and nothing else. It never changes
// its arguments.
func Reduce(r Run, ev Event) (Result, error) {
	if ev.Payload == nil {
		return Result{}, &IllegalError{State: r.State, Kind: "(none)"}
	}
	kind := ev.Kind()
	row, ok := rules()[pair{r.State, kind}]
	if !ok {
		return Result{}, &IllegalError{State: r.State, Kind: kind}
	}
	if !slices.Contains(row.by, ev.By.Kind) {
		return Result{}, &ActorError{State: r.State, Kind: kind, Actor: ev.By.Kind}
	}
	if err := checkLease(r, ev); err != nil {
		return Result{}, err
	}
	m := &move{r: r.clone(), at: ev.At}
	m.r.Version++
	if err := m.apply(ev); err != nil {
		return Result{}, err
	}
	if err := m.settle(r, ev, row); err != nil {
		return Result{}, err
	}
	return Result{Run: m.r, Effects: m.effects, Follow: m.follow}, nil
}

// checkLease holds that while a lease is active only its holder posts progress,
// that without one nobody does, and that a lease that is gone proves nothing.
func checkLease(r Run, ev Event) error {
	kind := ev.Kind()
	if ev.Lease != nil && !r.Holds(ev.Lease) {
		return &StaleLeaseError{State: r.State, Token: ev.Lease.Token}
	}
	switch LeaseRuleOf(r.State, kind, ev.By.Kind) {
	case LeaseHolder:
		if r.Lease == nil {
			return &StaleLeaseError{State: r.State}
		}
		if ev.Lease == nil {
			return &LeaseHeldError{State: r.State, Kind: kind}
		}
	case LeaseOverruled:
		if r.Lease == nil {
			return &StaleLeaseError{State: r.State}
		}
	case LeaseNone:
		if r.Lease != nil {
			return &LeaseHeldError{State: r.State, Kind: kind}
		}
	}
	return nil
}

// move collects what one event does to a copy of the run.
type move struct {
	r       Run
	at      time.Time
	effects []Effect
	follow  []Payload
	// unresolved names operations that may have had an effect.
	unresolved []string
}

func (m *move) do(e ...Effect) { m.effects = append(m.effects, e...) }

func (m *move) apply(ev Event) error {
	switch p := ev.Payload.(type) {
	case CreatedEvent:
		return m.created(p)
	case DeferredEvent:
		return deferred(p)
	case EnqueuedEvent:
		return m.enqueued(p)
	case PolicyDeniedEvent:
		return m.policyDenied(p)
	case LeaseAcquiredEvent:
		return m.leaseAcquired(p)
	case WorkerStartedEvent:
		m.r.State = Preparing
		return nil
	case SandboxReadyEvent:
		return m.sandboxReady(p)
	case ContextReadyEvent:
		return m.contextReady(p)
	case PlanCreatedEvent:
		return m.planCreated(p)
	case PlanApprovalRequiredEvent:
		return m.planApprovalRequired(p)
	case PatchCreatedEvent:
		return m.patchCreated(p)
	case ReportCreatedEvent:
		return m.reportCreated(p)
	case NoChangeReportedEvent:
		return m.noChange(p)
	case VerificationStartedEvent:
		return m.verificationStarted(p)
	case VerificationPassedEvent:
		return m.verificationPassed(p)
	case VerificationFailedEvent:
		return m.verificationFailed(p)
	case JudgeRequiresFixEvent:
		return m.judgeRequiresFix(p)
	case AttemptExhaustedEvent:
		return m.attemptExhausted(p)
	case HumanApprovalRequiredEvent:
		return m.humanApprovalRequired(p)
	case ApprovalCarriedEvent:
		return m.approvalCarried(p)
	case AutoPRAllowedEvent:
		return m.autoPR(p)
	case CompletionConditionMetEvent:
		return m.complete(p)
	case AttestationRequiredEvent:
		return m.attestationRequired(p)
	case ApprovedEvent:
		return m.approved(p.Approval, false)
	case GateBypassedEvent:
		if p.Reason == "" {
			return evidence("a reason for the bypass")
		}
		return m.approved(p.Approval, true)
	case ChangesRequestedEvent:
		return m.changesRequested(p)
	case RejectedEvent:
		return m.rejected(p)
	case ApprovalExpiredEvent:
		return m.approvalExpired(p, ev.By)
	case ApprovalReopenedEvent:
		return m.approvalReopened(p)
	case ApprovalWithdrawnEvent:
		return m.approvalWithdrawn(p)
	case PRCreatedEvent:
		return m.prCreated(p)
	case BaseMovedEvent:
		return m.baseMoved(p)
	case BranchTouchedEvent:
		return m.fail(failure(CodeBranchTouched, "Somebody committed to "+p.Branch+"; Signalbox keeps its hands off.", ""))
	case ReconciliationRequiredEvent:
		return m.reconciliationRequired(p)
	case AttestationAcceptedEvent:
		m.r.Attested = true
		return m.succeed("verified")
	case AttestationRefusedEvent:
		return m.fail(failure(CodeAttestationRefused, p.Reason, p.Statement))
	case AttestationExpiredEvent:
		return m.attestationExpired(p)
	case AttemptFailedEvent:
		return m.attemptFailed(p, ev.By)
	case WorkerLostEvent:
		return m.workerLost(p)
	case LeaseReleasedEvent:
		return m.leaseReleased(p, ev.By)
	case NonRetryableFailureEvent:
		f := failure(p.Code, p.Summary, p.Evidence)
		f.Retryable = f.Retryable && !p.Repeated
		return m.fail(f)
	case BudgetExceededEvent:
		return m.budgetExceeded(p)
	case TimeoutEvent:
		return m.timeout(p)
	case RunTimeoutEvent:
		return m.runTimeout(p)
	case CancelRequestedEvent:
		return m.cancelRequested(p, ev.By)
	case CancelConfirmedEvent:
		return m.cancelConfirmed(p, ev.By)
	}
	return &IllegalError{State: m.r.State, Kind: ev.Kind()}
}

// settle checks what every result must satisfy, whatever the event: the target
// is in the table, a handed-over lease has ended, a terminal run holds nothing,
// and a state that needs work has a lease or an item, never both.
func (m *move) settle(before Run, ev Event, row rule) error {
	kind := ev.Kind()
	if m.r.Lease != nil && (HandsOver(kind) || m.r.State.Terminal()) {
		as, why := LeaseReleased, "handover"
		if !HandsOver(kind) {
			why = "run ended"
		}
		if ev.Lease == nil {
			as, why = LeaseRevoked, string(kind)
		}
		m.endLease(as, why)
	}
	if !m.r.State.NeedsWork() && m.r.Queued != "" {
		m.r.Queued = ""
		m.do(Dequeue{})
	}
	if m.r.Queued == "" {
		m.r.Dispatched = nil
	}
	if m.r.State.Terminal() {
		m.terminal(before)
	}
	reached := m.r.State
	if !slices.Contains(row.to, reached) && (reached != before.State || !slices.Contains(row.to, Unchanged)) {
		return fmt.Errorf("%s from %s reached %s, which the table does not list", kind, before.State, reached)
	}
	switch leased, queued := m.r.Lease != nil, m.r.Queued != ""; {
	case reached.NeedsWork() && leased == queued:
		return fmt.Errorf("%s from %s reached %s with lease %t and item %t, not exactly one of them", kind, before.State, reached, leased, queued)
	case !reached.NeedsWork() && reached != Cancelling && leased:
		return fmt.Errorf("%s from %s reached %s with a lease", kind, before.State, reached)
	}
	return nil
}

// terminal lets go of everything that a finished run may not hold.
func (m *move) terminal(before Run) {
	// A decision has moved the gate already; a clock or a cancel has not.
	m.closeGate(GateCancelled)
	m.r.FinishedAt = new(m.at)
	if before.State == AwaitingVerification {
		m.do(WithdrawAttestation{})
	}
	// A requeued run waits between two attempts: the last one has ended already.
	if m.r.AttemptNo > 0 && before.State != Queued {
		m.do(EndAttempt{Attempt: m.r.Attempt, As: m.attemptEnd(), Code: m.r.EndCode()})
	}
	if before.State == PRCreating || (before.Gate != nil && before.Gate.Kind == GateReconcile) ||
		(before.Lease != nil && before.Lease.Phase == PhasePublish) {
		// db drops it where no operation is dispatched or ambiguous.
		m.do(FollowUp{What: FollowUpReconcile, Detail: m.unresolved})
	}
	if m.r.PR != nil && m.r.State != Succeeded {
		m.do(FollowUp{What: FollowUpClosePR, Detail: []string{m.r.PR.URL}})
	}
	m.do(CleanUp{}, Notify{What: "finished"})
}

func (m *move) attemptEnd() AttemptState {
	switch m.r.State {
	case Succeeded:
		return AttemptSucceeded
	case Cancelled:
		return AttemptAborted
	}
	return AttemptFailed
}

func (m *move) endLease(as LeaseEnd, reason string) {
	if m.r.Lease == nil {
		return
	}
	m.do(EndLease{Lease: *m.r.Lease, As: as, Reason: reason})
	m.r.Lease = nil
}

// enqueue gives the run's next phase to the queue.
func (m *move) enqueue(p Phase, delay time.Duration) {
	m.r.Queued = p
	m.do(Enqueue{Phase: p, Delay: delay})
}

func (m *move) fail(f *Failure) error {
	m.r.State = Failed
	m.r.Failure = f
	return nil
}

func (m *move) succeed(verdict string) error {
	if m.r.Verdict == "" {
		m.r.Verdict = verdict
	}
	m.r.State = Succeeded
	return nil
}

// closeGate moves an open or expired gate of a run that goes on without it.
func (m *move) closeGate(s GateState) {
	if m.r.Gate == nil {
		return
	}
	if s != GateExpired || !m.r.Gate.Expired {
		m.do(SetGate{Gate: m.r.Gate.ID, State: s})
	}
	m.r.Gate = nil
}

// clone copies what the reducer may change through pointers.
func (r Run) clone() Run {
	r.Lease = clonePtr(r.Lease)
	r.Gate = clonePtr(r.Gate)
	r.Dispatched = clonePtr(r.Dispatched)
	r.Patch = clonePtr(r.Patch)
	r.PR = clonePtr(r.PR)
	r.Failure = clonePtr(r.Failure)
	r.Cancel = clonePtr(r.Cancel)
	r.FinishedAt = clonePtr(r.FinishedAt)
	r.Limits.Delays = slices.Clone(r.Limits.Delays)
	return r
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}
