package run

import "fmt"

// IllegalError says that the table has no such event in that state. Nothing
// happened.
type IllegalError struct {
	State State
	Kind  Kind
}

func (e *IllegalError) Error() string {
	return fmt.Sprintf("event %s is not legal in state %s", e.Kind, e.State)
}

// ActorError says that somebody else decides this event.
type ActorError struct {
	State State
	Kind  Kind
	Actor ActorKind
}

func (e *ActorError) Error() string {
	return fmt.Sprintf("event %s in state %s is not decided by %s", e.Kind, e.State, e.Actor)
}

// StaleLeaseError says that the sender's lease is not the run's active lease.
type StaleLeaseError struct {
	State State
	Token int64
}

func (e *StaleLeaseError) Error() string {
	return fmt.Sprintf("lease with token %d is not the active lease (run is %s)", e.Token, e.State)
}

// LeaseHeldError says that only the lease's holder may post this event now.
type LeaseHeldError struct {
	State State
	Kind  Kind
}

func (e *LeaseHeldError) Error() string {
	return fmt.Sprintf("event %s needs the active lease (run is %s)", e.Kind, e.State)
}

// EvidenceError says that a state cannot be entered without something.
type EvidenceError struct{ Missing string }

func (e *EvidenceError) Error() string { return "missing evidence: " + e.Missing }

func evidence(what string) error { return &EvidenceError{Missing: what} }

// GuardError says which guard refused. Sentence may be shown to a person.
type GuardError struct {
	Guard    string
	Sentence string
}

func (e *GuardError) Error() string { return "guard " + e.Guard + ": " + e.Sentence }

// GateError says why a decision about a gate was refused. Nothing was decided.
type GateError struct {
	// Why is stale, expired, other_gate, claimed or not_open.
	Why  string
	Gate *Gate
}

func (e *GateError) Error() string { return "gate decision refused: " + e.Why }
