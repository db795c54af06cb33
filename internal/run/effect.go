package run

import (
	"time"

	"github.com/google/uuid"
)

// Effect is something to write together with the new state. Effects are in the
// imperative; the set is closed and db carries out every one in the same
// transaction.
type Effect interface{ effect() }

type effectSeal struct{}

func (effectSeal) effect() {}

// Enqueue makes a queue item for the phase, ready after Delay.
type Enqueue struct {
	effectSeal
	Phase Phase
	Delay time.Duration
}

// Dequeue removes the run's queue item without waiting for locks.
type Dequeue struct{ effectSeal }

// GrantLease records the lease that a claim gave.
type GrantLease struct {
	effectSeal
	Lease Lease
	TTL   time.Duration
}

// LeaseEnd says how a lease ended.
type LeaseEnd string

// How a lease ends.
const (
	LeaseReleased LeaseEnd = "RELEASED"
	LeaseExpired  LeaseEnd = "EXPIRED"
	LeaseRevoked  LeaseEnd = "REVOKED"
)

// EndLease ends the active lease; its history stays in the log.
type EndLease struct {
	effectSeal
	Lease  Lease
	As     LeaseEnd
	Reason string
}

// StartAttempt opens attempt No.
type StartAttempt struct {
	effectSeal
	Attempt uuid.UUID
	No      int
}

// EndAttempt closes the current attempt.
type EndAttempt struct {
	effectSeal
	Attempt uuid.UUID
	As      AttemptState
	Code    Code
}

// OpenGate asks people.
type OpenGate struct {
	effectSeal
	Gate  Gate
	Asked GateAsked
	// Again says that an existing gate gets a new revision.
	Again bool
}

// SetGate moves a gate.
type SetGate struct {
	effectSeal
	Gate  uuid.UUID
	State GateState
	// ExpiresAt is set where the gate opens again.
	ExpiresAt *time.Time
}

// RequestAttestation asks an attestor; ExpiresAt is when it lapses.
type RequestAttestation struct {
	effectSeal
	ExpiresAt time.Time
}

// WithdrawAttestation closes the request.
type WithdrawAttestation struct{ effectSeal }

// GiveFeedback hands text to the agent's next try.
type GiveFeedback struct {
	effectSeal
	// Source is verifier, judge, human or system.
	Source   string
	Text     string
	Artifact string
	// Author is the person who wrote it where that is not the event's own actor.
	Author string
}

// CleanUp asks for sandbox and workspace to be removed.
type CleanUp struct{ effectSeal }

// FollowUp leaves work for people or the control plane after the end.
type FollowUp struct {
	effectSeal
	// What is one of the FollowUp words.
	What   string
	Detail []string
}

// What a FollowUp asks for.
const (
	// FollowUpReconcile: look up each effect that may have happened. Detail names
	// the operations that the event knew of; db adds those it holds, and drops the
	// follow-up where none is dispatched or ambiguous.
	FollowUpReconcile = "reconcile_effects"
	// FollowUpClosePR: offer to close the pull request in Detail.
	FollowUpClosePR = "close_pr"
	// FollowUpBypass: review the break-glass decision on the gate in Detail.
	FollowUpBypass = "review_bypass"
)

// Notify tells people outside the page.
type Notify struct {
	effectSeal
	// What names the message: approval_required, attestation_required, escalated,
	// gate_bypassed or finished.
	What string
}
