package run

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Schema is the version of the event payloads. The reducer accepts every
// earlier one (D-4).
const Schema = 1

// Event is what happened to a run: who decided it, when, and what it carries.
type Event struct {
	// ID is minted by whoever caused the event and makes a repeat harmless.
	ID string
	By Actor
	// At is the database's clock when the event was recorded.
	At time.Time
	// Occurred is when the sender says it happened; nil where it is At.
	Occurred *time.Time
	// Cause names the command and lease behind an event that the server decided.
	Cause *Cause
	// Lease proves the holder; nil for events of people and control plane.
	Lease *LeaseRef
	Payload
}

// Cause ties an event to the command that led to it.
type Cause struct {
	Command string     `json:"command"`
	Lease   *uuid.UUID `json:"lease,omitempty"`
}

// Payload is the part of an event that differs by kind. The set is closed.
type Payload interface {
	Kind() Kind
	payload()
}

type sealed struct{}

func (sealed) payload() {}

// CreatedEvent starts a run's log.
type CreatedEvent struct {
	sealed
	Run        uuid.UUID `json:"run"`
	Tenant     uuid.UUID `json:"tenant"`
	Task       uuid.UUID `json:"task"`
	Repository uuid.UUID `json:"repository"`
	Mode       Mode      `json:"mode"`
	Risk       string    `json:"risk"`
}

// DeferredEvent says that admission has to wait.
type DeferredEvent struct {
	sealed
	Code       string        `json:"code"`
	Reasons    []string      `json:"reasons"`
	RetryAfter time.Duration `json:"retry_after"`
}

// EnqueuedEvent carries the admission: limits and policy version are snapshotted.
type EnqueuedEvent struct {
	sealed
	PolicyVersion string   `json:"policy_version"`
	Reasons       []string `json:"reasons,omitempty"`
	Limits        Limits   `json:"limits"`
	Queue         string   `json:"queue,omitempty"`
	Priority      int      `json:"priority,omitempty"`
}

// PolicyDeniedEvent ends a run that policy does not allow.
type PolicyDeniedEvent struct {
	sealed
	PolicyVersion string   `json:"policy_version"`
	Code          Code     `json:"code"`
	Reasons       []string `json:"reasons"`
}

// LeaseAcquiredEvent gives the run to a worker.
type LeaseAcquiredEvent struct {
	sealed
	Lease Lease `json:"lease"`
	// Attempt is the id of the attempt that begins where the run was QUEUED;
	// otherwise it is ignored and the current attempt goes on.
	Attempt uuid.UUID     `json:"attempt"`
	TTL     time.Duration `json:"ttl"`
}

// WorkerStartedEvent says that the worker began.
type WorkerStartedEvent struct{ sealed }

// SandboxReadyEvent carries the isolation that the worker measured.
type SandboxReadyEvent struct {
	sealed
	Tier string `json:"tier"`
	Base string `json:"base"`
}

// ContextReadyEvent carries the stored first context (R-CTX-1).
type ContextReadyEvent struct {
	sealed
	Artifact string `json:"artifact"`
	Digest   string `json:"digest"`
	Base     string `json:"base"`
}

// PlanEvidence is the stored plan.
type PlanEvidence struct {
	Artifact string `json:"artifact"`
	Digest   string `json:"digest"`
	Base     string `json:"base"`
	Summary  string `json:"summary,omitempty"`
}

// PolicyWords is the decision of policy in words, with its version.
type PolicyWords struct {
	Version string   `json:"version"`
	Reasons []string `json:"reasons,omitempty"`
}

// GateAsked is what a new gate needs.
type GateAsked struct {
	ID     uuid.UUID `json:"id"`
	Digest string    `json:"digest"`
	// Artifact is what the person is shown; Base is the commit it stands on.
	Artifact string `json:"artifact,omitempty"`
	Base     string `json:"base,omitempty"`
	Quorum   int    `json:"quorum"`
	Role     string `json:"role"`
	// ExpiresAt is when the gate expires undecided.
	ExpiresAt time.Time `json:"expires_at"`
}

// PlanCreatedEvent lets the agent execute the stored plan.
type PlanCreatedEvent struct {
	sealed
	Plan   PlanEvidence `json:"plan"`
	Policy PolicyWords  `json:"policy"`
}

// PlanApprovalRequiredEvent stops at the plan gate.
type PlanApprovalRequiredEvent struct {
	sealed
	Plan   PlanEvidence `json:"plan"`
	Policy PolicyWords  `json:"policy"`
	Gate   GateAsked    `json:"gate"`
}

// PatchCreatedEvent carries the stored patch as the server parsed it.
type PatchCreatedEvent struct {
	sealed
	Patch Patch `json:"patch"`
}

// ReportCreatedEvent carries the stored analysis report.
type ReportCreatedEvent struct {
	sealed
	Artifact string `json:"artifact"`
	Digest   string `json:"digest"`
	Base     string `json:"base,omitempty"`
}

// NoChangeReportedEvent says that the agent found nothing to change.
type NoChangeReportedEvent struct {
	sealed
	Digest  string `json:"digest"`
	Summary string `json:"summary"`
	Base    string `json:"base,omitempty"`
}

// VerificationStartedEvent fixes the command set.
type VerificationStartedEvent struct {
	sealed
	Commands   []string `json:"commands"`
	Digest     string   `json:"digest"`
	SameWorker bool     `json:"same_worker"`
}

// VerificationEvidence is the stored verification report.
type VerificationEvidence struct {
	Artifact string `json:"artifact"`
	Digest   string `json:"digest"`
	// Patch is the digest of the patch that was verified.
	Patch   string `json:"patch"`
	Summary string `json:"summary,omitempty"`
	// Fingerprint identifies the failure, so that the same one twice is noticed.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// VerificationPassedEvent sends the patch to the judge; the lease is kept.
type VerificationPassedEvent struct {
	sealed
	Report VerificationEvidence `json:"report"`
}

// VerificationFailedEvent goes back to EXECUTING with feedback.
type VerificationFailedEvent struct {
	sealed
	Report VerificationEvidence `json:"report"`
}

// JudgeEvidence is the judge's report.
type JudgeEvidence struct {
	Artifact   string   `json:"artifact,omitempty"`
	Verdict    string   `json:"verdict"`
	Confidence float64  `json:"confidence"`
	Reasons    []string `json:"reasons,omitempty"`
}

// JudgeRequiresFixEvent goes back to EXECUTING with the judge's feedback.
type JudgeRequiresFixEvent struct {
	sealed
	Judge  JudgeEvidence `json:"judge"`
	Policy PolicyWords   `json:"policy"`
}

// AttemptExhaustedEvent ends an attempt whose repair rounds are spent.
type AttemptExhaustedEvent struct {
	sealed
	Code     Code   `json:"code"`
	Summary  string `json:"summary"`
	Evidence string `json:"evidence,omitempty"`
	// Identical says that the same failure came twice in a row.
	Identical bool `json:"identical"`
}

// HumanApprovalRequiredEvent stops at the patch or report gate.
type HumanApprovalRequiredEvent struct {
	sealed
	Judge  JudgeEvidence `json:"judge"`
	Policy PolicyWords   `json:"policy"`
	Gate   GateAsked     `json:"gate"`
}

// ApprovalCarriedEvent goes on after a base move that left the patch unchanged.
type ApprovalCarriedEvent struct {
	sealed
	Judge  JudgeEvidence `json:"judge"`
	Policy PolicyWords   `json:"policy"`
	From   uuid.UUID     `json:"from"`
}

// AutoPRAllowedEvent goes on without a person: every guard passed.
type AutoPRAllowedEvent struct {
	sealed
	Judge  JudgeEvidence `json:"judge"`
	Policy PolicyWords   `json:"policy"`
	Guards []string      `json:"guards,omitempty"`
}

// CompletionConditionMetEvent ends the run well.
type CompletionConditionMetEvent struct {
	sealed
	Judge *JudgeEvidence `json:"judge,omitempty"`
}

// AttestationRequiredEvent halts the run until an attestor speaks.
type AttestationRequiredEvent struct {
	sealed
	Judge     *JudgeEvidence `json:"judge,omitempty"`
	Policy    PolicyWords    `json:"policy"`
	ExpiresAt time.Time      `json:"expires_at"`
}

// GateRef binds a decision to the gate and to what was shown.
type GateRef struct {
	ID       uuid.UUID `json:"id"`
	Revision int       `json:"revision"`
	Digest   string    `json:"digest"`
}

// Approval is a quorum of people, or one who broke the glass.
type Approval struct {
	Gate   GateRef     `json:"gate"`
	Policy PolicyWords `json:"policy"`
	// Deciders are the people whose approvals made the quorum.
	Deciders []Actor `json:"deciders"`
	Notes    string  `json:"notes,omitempty"`
	// Attest says that policy or contract asks for an attestation afterwards.
	Attest          bool      `json:"attest"`
	AttestExpiresAt time.Time `json:"attest_expires_at,omitzero"`
	// Limits are the raised limits of a budget approval.
	Limits *Limits `json:"limits,omitempty"`
	// Adopt is the pull request that a reconcile approval takes over; nil retries.
	Adopt *PullRequest `json:"adopt,omitempty"`
}

// ApprovedEvent is the decision that completed the quorum.
type ApprovedEvent struct {
	sealed
	Approval
}

// GateBypassedEvent is a break-glass approval.
type GateBypassedEvent struct {
	sealed
	Approval
	Reason string `json:"reason"`
}

// ChangesRequestedEvent sends the work back with an instruction.
type ChangesRequestedEvent struct {
	sealed
	Gate        GateRef `json:"gate"`
	Instruction string  `json:"instruction"`
}

// RejectedEvent ends the run.
type RejectedEvent struct {
	sealed
	Gate   GateRef `json:"gate"`
	Reason string  `json:"reason"`
}

// ExpiryOutcome is what an expiry does.
type ExpiryOutcome string

// What an expired gate or attestation does to its run.
const (
	ExpiryEscalate ExpiryOutcome = "escalate"
	ExpiryCancel   ExpiryOutcome = "cancel"
	ExpiryFail     ExpiryOutcome = "fail"
	ExpiryExpire   ExpiryOutcome = "expire"
)

// ApprovalExpiredEvent marks the gate expired, or ends the run by policy.
type ApprovalExpiredEvent struct {
	sealed
	Gate    uuid.UUID     `json:"gate"`
	Outcome ExpiryOutcome `json:"outcome"`
	// Parked says that max_park is over.
	Parked bool `json:"parked"`
}

// ApprovalReopenedEvent is "Ask again": a new revision of the gate.
type ApprovalReopenedEvent struct {
	sealed
	Gate      uuid.UUID `json:"gate"`
	ExpiresAt time.Time `json:"expires_at"`
	// NewBase is the commit that the base moved to, or empty.
	NewBase string `json:"new_base,omitempty"`
}

// ApprovalWithdrawnEvent reopens the gate that was satisfied.
type ApprovalWithdrawnEvent struct {
	sealed
	Gate      uuid.UUID `json:"gate"`
	Reason    string    `json:"reason,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

// PRCreatedEvent carries what the forge read back.
type PRCreatedEvent struct {
	sealed
	PR PullRequest `json:"pr"`
	// Attest says that an attestation is asked for before the run may succeed.
	Attest          bool        `json:"attest"`
	AttestExpiresAt time.Time   `json:"attest_expires_at,omitzero"`
	Policy          PolicyWords `json:"policy"`
}

// BaseMovedEvent says that the base branch changed files that the patch touches.
type BaseMovedEvent struct {
	sealed
	NewBase  string   `json:"new_base"`
	Overlaps []string `json:"overlaps"`
	// Gate is used when the limit of base moves is reached.
	Gate GateAsked `json:"gate"`
}

// BranchTouchedEvent says that somebody else committed to the branch.
type BranchTouchedEvent struct {
	sealed
	Branch string `json:"branch"`
	SHA    string `json:"sha"`
}

// ReconciliationRequiredEvent asks a person about an ambiguous effect.
type ReconciliationRequiredEvent struct {
	sealed
	Operations []string  `json:"operations"`
	Summary    string    `json:"summary"`
	Lost       bool      `json:"lost"`
	Gate       GateAsked `json:"gate"`
}

// AttestationAcceptedEvent makes the run VERIFIED.
type AttestationAcceptedEvent struct {
	sealed
	Statement string `json:"statement"`
}

// AttestationRefusedEvent fails the run.
type AttestationRefusedEvent struct {
	sealed
	Statement string `json:"statement"`
	Reason    string `json:"reason"`
}

// AttestationExpiredEvent escalates, fails or expires.
type AttestationExpiredEvent struct {
	sealed
	Outcome ExpiryOutcome `json:"outcome"`
}

// AttemptFailedEvent is a failure that may be tried again.
type AttemptFailedEvent struct {
	sealed
	Code     Code   `json:"code"`
	Summary  string `json:"summary"`
	Evidence string `json:"evidence,omitempty"`
	// Spent says that cost or time allow no further try.
	Spent  bool    `json:"spent"`
	Jitter float64 `json:"jitter"`
	// RetryAfter is a floor for the delay that a provider asked for.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
}

// WorkerLostEvent says that the lease expired by the database's clock.
type WorkerLostEvent struct {
	sealed
	Lease  LeaseRef `json:"lease"`
	Spent  bool     `json:"spent"`
	Jitter float64  `json:"jitter"`
}

// LeaseReleasedEvent gives the run back; it counts nowhere.
type LeaseReleasedEvent struct {
	sealed
	Reason string `json:"reason"`
}

// NonRetryableFailureEvent ends the run.
type NonRetryableFailureEvent struct {
	sealed
	Code     Code   `json:"code"`
	Summary  string `json:"summary"`
	Evidence string `json:"evidence,omitempty"`
}

// BudgetExceededEvent stops at the budget gate, or fails.
type BudgetExceededEvent struct {
	sealed
	Limit   string `json:"limit"`
	Summary string `json:"summary"`
	// Fail is budget.on_exceeded: fail; otherwise Gate is asked.
	Fail   bool        `json:"fail"`
	Gate   GateAsked   `json:"gate"`
	Policy PolicyWords `json:"policy"`
}

// TimeoutEvent ends a run that waited too long.
type TimeoutEvent struct {
	sealed
	Code Code `json:"code"`
}

// RunTimeoutEvent ends a run that took too long.
type RunTimeoutEvent struct {
	sealed
	// Fail is run_timeout.outcome: fail; otherwise the run expires.
	Fail bool `json:"fail"`
}

// CancelRequestedEvent asks for a stop.
type CancelRequestedEvent struct {
	sealed
	Reason string `json:"reason"`
	// Unresolved names operations that may have had an effect.
	Unresolved []string `json:"unresolved,omitempty"`
}

// CancelConfirmedEvent is the stop itself.
type CancelConfirmedEvent struct {
	sealed
	Forced     bool     `json:"forced"`
	Unresolved []string `json:"unresolved,omitempty"`
	// Observed is the worker's last observation, in words.
	Observed string `json:"observed,omitempty"`
}

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
	p, err := json.Marshal(ev.Payload)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ev.Kind(), err)
	}
	return json.Marshal(envelope{ev.ID, ev.Kind(), ev.By, ev.At.UTC(), ev.Occurred, ev.Cause, ev.Lease, p})
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
