package run

import (
	"encoding/json"
	"fmt"
	"time"
)

// envelope is an event's form in the log.
type envelope struct {
	ID       string          `json:"id"`
	Kind     Kind            `json:"kind"`
	By       Actor           `json:"by"`
	At       time.Time       `json:"at"`
	Occurred *time.Time      `json:"occurred,omitempty"`
	Cause    *Cause          `json:"cause,omitempty"`
	Lease    *LeaseRef       `json:"lease,omitempty"`
	Payload  json.RawMessage `json:"payload"`
}

// Encode returns the event as JSON with fields in a fixed order, so that the
// same event always gives the same bytes.
func Encode(ev Event) ([]byte, error) {
	if ev.Payload == nil {
		return nil, fmt.Errorf("encode event %s: it has no payload", ev.ID)
	}
	p, err := json.Marshal(ev.Payload)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ev.Kind(), err)
	}
	occurred := clonePtr(ev.Occurred)
	if occurred != nil {
		*occurred = occurred.UTC()
	}
	return json.Marshal(envelope{ev.ID, ev.Kind(), ev.By, ev.At.UTC(), occurred, ev.Cause, ev.Lease, p})
}

// Decode reads what Encode wrote under the given schema.
func Decode(schema int, data []byte) (Event, error) {
	if schema < 1 || schema > Schema {
		return Event{}, fmt.Errorf("decode event: schema %d is not known to this version (newest %d)", schema, Schema)
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	p, err := decodePayload(e.Kind, e.Payload)
	if err != nil {
		return Event{}, fmt.Errorf("decode event %s: %w", e.Kind, err)
	}
	return Event{e.ID, e.By, e.At, e.Occurred, e.Cause, e.Lease, p}, nil
}

// Kind returns run_created.
func (CreatedEvent) Kind() Kind { return KindCreated }

// Kind returns run_deferred.
func (DeferredEvent) Kind() Kind { return KindDeferred }

// Kind returns run_enqueued.
func (EnqueuedEvent) Kind() Kind { return KindEnqueued }

// Kind returns policy_denied.
func (PolicyDeniedEvent) Kind() Kind { return KindPolicyDenied }

// Kind returns lease_acquired.
func (LeaseAcquiredEvent) Kind() Kind { return KindLeaseAcquired }

// Kind returns worker_started.
func (WorkerStartedEvent) Kind() Kind { return KindWorkerStarted }

// Kind returns sandbox_ready.
func (SandboxReadyEvent) Kind() Kind { return KindSandboxReady }

// Kind returns context_ready.
func (ContextReadyEvent) Kind() Kind { return KindContextReady }

// Kind returns plan_created.
func (PlanCreatedEvent) Kind() Kind { return KindPlanCreated }

// Kind returns plan_approval_required.
func (PlanApprovalRequiredEvent) Kind() Kind { return KindPlanApprovalRequired }

// Kind returns patch_created.
func (PatchCreatedEvent) Kind() Kind { return KindPatchCreated }

// Kind returns report_created.
func (ReportCreatedEvent) Kind() Kind { return KindReportCreated }

// Kind returns no_change_reported.
func (NoChangeReportedEvent) Kind() Kind { return KindNoChangeReported }

// Kind returns verification_started.
func (VerificationStartedEvent) Kind() Kind { return KindVerificationStarted }

// Kind returns verification_passed.
func (VerificationPassedEvent) Kind() Kind { return KindVerificationPassed }

// Kind returns verification_failed_retryable.
func (VerificationFailedEvent) Kind() Kind { return KindVerificationFailed }

// Kind returns judge_requires_fix.
func (JudgeRequiresFixEvent) Kind() Kind { return KindJudgeRequiresFix }

// Kind returns attempt_exhausted.
func (AttemptExhaustedEvent) Kind() Kind { return KindAttemptExhausted }

// Kind returns human_approval_required.
func (HumanApprovalRequiredEvent) Kind() Kind { return KindHumanApprovalRequired }

// Kind returns approval_carried.
func (ApprovalCarriedEvent) Kind() Kind { return KindApprovalCarried }

// Kind returns auto_pr_allowed.
func (AutoPRAllowedEvent) Kind() Kind { return KindAutoPRAllowed }

// Kind returns completion_condition_met.
func (CompletionConditionMetEvent) Kind() Kind { return KindCompletionConditionMet }

// Kind returns attestation_required.
func (AttestationRequiredEvent) Kind() Kind { return KindAttestationRequired }

// Kind returns approved.
func (ApprovedEvent) Kind() Kind { return KindApproved }

// Kind returns gate_bypassed.
func (GateBypassedEvent) Kind() Kind { return KindGateBypassed }

// Kind returns changes_requested.
func (ChangesRequestedEvent) Kind() Kind { return KindChangesRequested }

// Kind returns rejected.
func (RejectedEvent) Kind() Kind { return KindRejected }

// Kind returns approval_expired.
func (ApprovalExpiredEvent) Kind() Kind { return KindApprovalExpired }

// Kind returns approval_reopened.
func (ApprovalReopenedEvent) Kind() Kind { return KindApprovalReopened }

// Kind returns approval_withdrawn.
func (ApprovalWithdrawnEvent) Kind() Kind { return KindApprovalWithdrawn }

// Kind returns pr_created.
func (PRCreatedEvent) Kind() Kind { return KindPRCreated }

// Kind returns base_moved.
func (BaseMovedEvent) Kind() Kind { return KindBaseMoved }

// Kind returns branch_touched.
func (BranchTouchedEvent) Kind() Kind { return KindBranchTouched }

// Kind returns reconciliation_required.
func (ReconciliationRequiredEvent) Kind() Kind { return KindReconciliationRequired }

// Kind returns attestation_accepted.
func (AttestationAcceptedEvent) Kind() Kind { return KindAttestationAccepted }

// Kind returns attestation_refused.
func (AttestationRefusedEvent) Kind() Kind { return KindAttestationRefused }

// Kind returns attestation_expired.
func (AttestationExpiredEvent) Kind() Kind { return KindAttestationExpired }

// Kind returns attempt_failed.
func (AttemptFailedEvent) Kind() Kind { return KindAttemptFailed }

// Kind returns worker_lost.
func (WorkerLostEvent) Kind() Kind { return KindWorkerLost }

// Kind returns lease_released.
func (LeaseReleasedEvent) Kind() Kind { return KindLeaseReleased }

// Kind returns non_retryable_failure.
func (NonRetryableFailureEvent) Kind() Kind { return KindNonRetryableFailure }

// Kind returns budget_exceeded.
func (BudgetExceededEvent) Kind() Kind { return KindBudgetExceeded }

// Kind returns timeout.
func (TimeoutEvent) Kind() Kind { return KindTimeout }

// Kind returns run_timeout.
func (RunTimeoutEvent) Kind() Kind { return KindRunTimeout }

// Kind returns cancel_requested.
func (CancelRequestedEvent) Kind() Kind { return KindCancelRequested }

// Kind returns cancel_confirmed.
func (CancelConfirmedEvent) Kind() Kind { return KindCancelConfirmed }

// decodePayload reads the payload of one kind; every kind has one.
func decodePayload(k Kind, data []byte) (Payload, error) {
	switch k {
	case KindCreated:
		return decodeAs[CreatedEvent](data)
	case KindDeferred:
		return decodeAs[DeferredEvent](data)
	case KindEnqueued:
		return decodeAs[EnqueuedEvent](data)
	case KindPolicyDenied:
		return decodeAs[PolicyDeniedEvent](data)
	case KindLeaseAcquired:
		return decodeAs[LeaseAcquiredEvent](data)
	case KindWorkerStarted:
		return decodeAs[WorkerStartedEvent](data)
	case KindSandboxReady:
		return decodeAs[SandboxReadyEvent](data)
	case KindContextReady:
		return decodeAs[ContextReadyEvent](data)
	case KindPlanCreated:
		return decodeAs[PlanCreatedEvent](data)
	case KindPlanApprovalRequired:
		return decodeAs[PlanApprovalRequiredEvent](data)
	case KindPatchCreated:
		return decodeAs[PatchCreatedEvent](data)
	case KindReportCreated:
		return decodeAs[ReportCreatedEvent](data)
	case KindNoChangeReported:
		return decodeAs[NoChangeReportedEvent](data)
	case KindVerificationStarted:
		return decodeAs[VerificationStartedEvent](data)
	case KindVerificationPassed:
		return decodeAs[VerificationPassedEvent](data)
	case KindVerificationFailed:
		return decodeAs[VerificationFailedEvent](data)
	case KindJudgeRequiresFix:
		return decodeAs[JudgeRequiresFixEvent](data)
	case KindAttemptExhausted:
		return decodeAs[AttemptExhaustedEvent](data)
	case KindHumanApprovalRequired:
		return decodeAs[HumanApprovalRequiredEvent](data)
	case KindApprovalCarried:
		return decodeAs[ApprovalCarriedEvent](data)
	case KindAutoPRAllowed:
		return decodeAs[AutoPRAllowedEvent](data)
	case KindCompletionConditionMet:
		return decodeAs[CompletionConditionMetEvent](data)
	case KindAttestationRequired:
		return decodeAs[AttestationRequiredEvent](data)
	case KindApproved:
		return decodeAs[ApprovedEvent](data)
	case KindGateBypassed:
		return decodeAs[GateBypassedEvent](data)
	case KindChangesRequested:
		return decodeAs[ChangesRequestedEvent](data)
	case KindRejected:
		return decodeAs[RejectedEvent](data)
	case KindApprovalExpired:
		return decodeAs[ApprovalExpiredEvent](data)
	case KindApprovalReopened:
		return decodeAs[ApprovalReopenedEvent](data)
	case KindApprovalWithdrawn:
		return decodeAs[ApprovalWithdrawnEvent](data)
	case KindPRCreated:
		return decodeAs[PRCreatedEvent](data)
	case KindBaseMoved:
		return decodeAs[BaseMovedEvent](data)
	case KindBranchTouched:
		return decodeAs[BranchTouchedEvent](data)
	case KindReconciliationRequired:
		return decodeAs[ReconciliationRequiredEvent](data)
	case KindAttestationAccepted:
		return decodeAs[AttestationAcceptedEvent](data)
	case KindAttestationRefused:
		return decodeAs[AttestationRefusedEvent](data)
	case KindAttestationExpired:
		return decodeAs[AttestationExpiredEvent](data)
	case KindAttemptFailed:
		return decodeAs[AttemptFailedEvent](data)
	case KindWorkerLost:
		return decodeAs[WorkerLostEvent](data)
	case KindLeaseReleased:
		return decodeAs[LeaseReleasedEvent](data)
	case KindNonRetryableFailure:
		return decodeAs[NonRetryableFailureEvent](data)
	case KindBudgetExceeded:
		return decodeAs[BudgetExceededEvent](data)
	case KindTimeout:
		return decodeAs[TimeoutEvent](data)
	case KindRunTimeout:
		return decodeAs[RunTimeoutEvent](data)
	case KindCancelRequested:
		return decodeAs[CancelRequestedEvent](data)
	case KindCancelConfirmed:
		return decodeAs[CancelConfirmedEvent](data)
	}
	return nil, fmt.Errorf("unknown event kind %q", k)
}

func decodeAs[P Payload](data []byte) (Payload, error) {
	var p P
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, err
	}
	return p, nil
}
