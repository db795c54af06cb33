package run

import "slices"

// AttemptState is where one try at a run stands; an attempt is kept for ever.
type AttemptState string

// Attempt states.
const (
	AttemptStarted   AttemptState = "STARTED"
	AttemptSucceeded AttemptState = "SUCCEEDED"
	AttemptFailed    AttemptState = "FAILED"
	AttemptAborted   AttemptState = "ABORTED"
)

// StepState is where one granular action stands. Steps are a trace and never a
// run state.
type StepState string

// Step states.
const (
	StepPending   StepState = "PENDING"
	StepRunning   StepState = "RUNNING"
	StepSucceeded StepState = "SUCCEEDED"
	StepFailed    StepState = "FAILED"
	StepTimedOut  StepState = "TIMED_OUT"
	StepCancelled StepState = "CANCELLED"
)

// SandboxState is where a lease's sandbox stands.
type SandboxState string

// Sandbox states: artifacts are saved before it is destroyed.
const (
	SandboxRequested SandboxState = "REQUESTED"
	SandboxReady     SandboxState = "READY"
	SandboxSaving    SandboxState = "SAVING"
	SandboxDestroyed SandboxState = "DESTROYED"
	SandboxFailed    SandboxState = "FAILED"
)

// GateState is where a request for a decision stands.
type GateState string

// Gate states.
const (
	GatePreparing        GateState = "preparing"
	GateOpen             GateState = "open"
	GateSatisfied        GateState = "satisfied"
	GateChangesRequested GateState = "changes_requested"
	GateRejected         GateState = "rejected"
	GateSuperseded       GateState = "superseded"
	GateExpired          GateState = "expired"
	GateCancelled        GateState = "cancelled"
	GateBypassed         GateState = "bypassed"
)

// Small is a lifecycle that is only a set of moves: a state's name to the states
// that may follow it.
type Small struct {
	Name   string
	States []string
	Moves  map[string][]string
}

// May reports whether the lifecycle allows the move.
func (s Small) May(from, to string) bool { return slices.Contains(s.Moves[from], to) }

// Lifecycles returns the small lifecycles beside the run's own (R-DOM-5, R-DOM-6,
// R-DOM-7, R-Q-10, R-LEASE-6, R-WRK-1, R-RCV-3, R-DOM-8).
func Lifecycles() []Small {
	return []Small{
		{"attempt", []string{"STARTED", "SUCCEEDED", "FAILED", "ABORTED"},
			map[string][]string{"STARTED": {"SUCCEEDED", "FAILED", "ABORTED"}}},
		{"step", []string{"PENDING", "RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"},
			map[string][]string{"PENDING": {"RUNNING", "CANCELLED"}, "RUNNING": {"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"}}},
		{"sandbox", []string{"REQUESTED", "READY", "SAVING", "DESTROYED", "FAILED"},
			map[string][]string{"REQUESTED": {"READY", "FAILED"}, "READY": {"SAVING", "FAILED"}, "SAVING": {"DESTROYED", "FAILED"}}},
		{"queue item", []string{"READY", "CLAIMED", "DONE", "CANCELLED", "DEAD"},
			map[string][]string{"READY": {"CLAIMED", "CANCELLED", "DEAD"}, "CLAIMED": {"DONE", "CANCELLED", "DEAD", "READY"}}},
		{"lease", []string{"ACTIVE", "RELEASED", "EXPIRED", "REVOKED"},
			map[string][]string{"ACTIVE": {"RELEASED", "EXPIRED", "REVOKED"}}},
		{"worker", []string{"STARTING", "READY", "DRAINING", "STOPPED", "DEAD"},
			map[string][]string{"STARTING": {"READY", "DRAINING", "DEAD"}, "READY": {"DRAINING", "STOPPED", "DEAD"}, "DRAINING": {"STOPPED", "DEAD"}}},
		{"gate", []string{"preparing", "open", "satisfied", "changes_requested", "rejected", "superseded", "expired", "cancelled", "bypassed"},
			map[string][]string{"preparing": {"open", "cancelled"},
				"open":      {"satisfied", "changes_requested", "rejected", "superseded", "expired", "cancelled", "bypassed"},
				"satisfied": {"open"}, "expired": {"open", "rejected", "cancelled"}}},
		{"operation", []string{"intended", "dispatched", "observed", "ambiguous", "reconciled"},
			map[string][]string{"intended": {"dispatched", "observed"}, "dispatched": {"observed", "ambiguous"}, "ambiguous": {"reconciled"}}},
		{"pull request", []string{"OPEN", "UPDATED", "REVIEW_REQUESTED", "CHANGES_REQUESTED", "APPROVED", "MERGED", "CLOSED"},
			map[string][]string{
				"OPEN":              {"UPDATED", "REVIEW_REQUESTED", "CHANGES_REQUESTED", "APPROVED", "MERGED", "CLOSED"},
				"UPDATED":           {"UPDATED", "REVIEW_REQUESTED", "CHANGES_REQUESTED", "APPROVED", "MERGED", "CLOSED"},
				"REVIEW_REQUESTED":  {"UPDATED", "CHANGES_REQUESTED", "APPROVED", "MERGED", "CLOSED"},
				"CHANGES_REQUESTED": {"UPDATED", "REVIEW_REQUESTED", "APPROVED", "MERGED", "CLOSED"},
				"APPROVED":          {"UPDATED", "CHANGES_REQUESTED", "MERGED", "CLOSED"},
				"CLOSED":            {"OPEN"}}},
	}
}
