package run

import (
	"time"

	"github.com/google/uuid"
)

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
	// Deciders are the people whose approval is kept; none in events from before this was recorded.
	Deciders []Actor `json:"deciders,omitempty"`
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
	// Notes are what the person who completed the quorum left for the agent.
	Notes string `json:"notes,omitempty"`
	// Earlier are the notes of those who approved before, in their order.
	Earlier []Note `json:"earlier_notes,omitempty"`
	// NoteCount is how many notes Notes and Earlier hold together: a text and each comment on a part is one.
	NoteCount int `json:"note_count,omitempty"`
	// Attest says that policy or contract asks for an attestation afterwards.
	Attest          bool      `json:"attest"`
	AttestExpiresAt time.Time `json:"attest_expires_at,omitzero"`
	// Limits are the raised limits of a budget approval.
	Limits *Limits `json:"limits,omitempty"`
	// Adopt is the pull request that a reconcile approval takes over; nil retries.
	Adopt *PullRequest `json:"adopt,omitempty"`
}

// Note is what one of several approvers left for the agent.
type Note struct {
	By   Actor  `json:"by"`
	Text string `json:"text"`
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
