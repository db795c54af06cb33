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
	if err := m.settle(r, kind, row); err != nil {
		return Result{}, err
	}
	return Result{Run: m.r, Effects: m.effects, Follow: m.follow}, nil
}

// checkLease holds that while a lease is active only its holder posts progress,
// and that nobody posts with a lease that is gone.
func checkLease(r Run, ev Event) error {
	kind := ev.Kind()
	if ev.Lease != nil && !r.Holds(ev.Lease) {
		return &StaleLeaseError{State: r.State, Token: ev.Lease.Token}
	}
	if r.Lease == nil || ev.Lease != nil || outsideLease(kind, ev.By.Kind) {
		return nil
	}
	return &LeaseHeldError{State: r.State, Kind: kind}
}

// move collects what one event does to a copy of the run.
type move struct {
	r       Run
	at      time.Time
	effects []Effect
	follow  []Payload
}

func (m *move) do(e ...Effect) { m.effects = append(m.effects, e...) }

func (m *move) apply(ev Event) error {
	switch p := ev.Payload.(type) {
	case CreatedEvent:
		return m.created(p)
	case DeferredEvent:
		return nil
	case EnqueuedEvent:
		return m.enqueued(p)
	case PolicyDeniedEvent:
		return m.fail(failure(p.Code, joinWords(p.Reasons), ""))
	case LeaseAcquiredEvent:
		return m.leaseAcquired(p)
	case WorkerStartedEvent:
		return m.needLease(Preparing)
	case SandboxReadyEvent:
		return m.needLease(ContextBuilding)
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
		return m.fail(failure(p.Code, p.Summary, p.Evidence))
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
// and a state that needs work has a lease or an item.
func (m *move) settle(before Run, kind Kind, row rule) error {
	if handover(kind) && m.r.Lease != nil {
		m.endLease(LeaseReleased, "handover")
	}
	if m.r.State.Terminal() {
		m.terminal(before)
	}
	reached := m.r.State
	if !slices.Contains(row.to, reached) && (reached != before.State || !slices.Contains(row.to, Unchanged)) {
		return fmt.Errorf("%s from %s reached %s, which the table does not list", kind, before.State, reached)
	}
	if m.r.State.NeedsWork() && m.r.Lease == nil && m.r.Queued == "" {
		return fmt.Errorf("%s from %s reached %s with neither lease nor item", kind, before.State, reached)
	}
	return nil
}

// terminal lets go of everything that a finished run may not hold.
func (m *move) terminal(before Run) {
	if m.r.Lease != nil {
		m.endLease(LeaseRevoked, "run ended")
	}
	if m.r.Queued != "" {
		m.r.Queued = ""
		m.do(Dequeue{})
	}
	// A decision has moved the gate already; a clock or a cancel has not.
	m.closeGate(GateCancelled)
	m.r.Dispatched = nil
	m.r.FinishedAt = new(m.at)
	if before.State == AwaitingVerification {
		m.do(WithdrawAttestation{})
	}
	if m.r.AttemptNo > 0 && !m.attemptEnded() {
		m.do(EndAttempt{Attempt: m.r.Attempt, As: m.attemptEnd(), Code: m.endCode()})
	}
	if before.State == PRCreating || (before.Gate != nil && before.Gate.Kind == GateReconcile) {
		// db drops it where no operation is dispatched or ambiguous.
		m.do(FollowUp{What: "reconcile_effects"})
	}
	m.do(CleanUp{}, Notify{What: "finished"})
}

func (m *move) attemptEnded() bool {
	return slices.ContainsFunc(m.effects, func(e Effect) bool { _, ok := e.(EndAttempt); return ok })
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

func (m *move) endCode() Code {
	switch {
	case m.r.Failure != nil:
		return m.r.Failure.Code
	case m.r.State == Cancelled:
		return CodeCancelledByUser
	}
	return m.r.Reason
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
	m.do(SetGate{Gate: m.r.Gate.ID, State: s})
	m.r.Gate = nil
}

func (m *move) needLease(to State) error {
	if m.r.Lease == nil {
		return &StaleLeaseError{State: m.r.State}
	}
	m.r.State = to
	return nil
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

func joinWords(ws []string) string {
	out := ""
	for i, w := range ws {
		if i > 0 {
			out += " "
		}
		out += w
	}
	return out
}
