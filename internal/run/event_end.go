package run

import "time"

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
	// Commits is by how many the base went on. It is 0 where that is not known, and not written then, as in events from before it was.
	Commits int `json:"commits,omitzero"`
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
	// RetryAfter is a floor for the delay: what the pause of the provider still lasts.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Pause is what the failure means for everybody who works with the provider.
	Pause *ProviderPause `json:"pause,omitempty"`
	// Instruction is what the next try is told to do differently.
	Instruction string `json:"instruction,omitempty"`
}

// ProviderPause leaves a provider alone for everybody.
type ProviderPause struct {
	Provider string        `json:"provider"`
	For      time.Duration `json:"for"`
	// Failures is how often in a row the provider turned somebody away.
	Failures int `json:"failures"`
}

// WorkerLostEvent says that the lease expired by the database's clock.
type WorkerLostEvent struct {
	sealed
	Lease  LeaseRef `json:"lease"`
	Spent  bool     `json:"spent"`
	Jitter float64  `json:"jitter"`
	// Drained says that the worker had been asked to stop: its end counts in no budget.
	Drained bool `json:"drained,omitempty"`
}

// LeaseReleasedEvent gives the run back; it counts in no budget.
type LeaseReleasedEvent struct {
	sealed
	Reason string `json:"reason"`
	// Before is how often it was given back since it last got further, this time not included.
	Before int `json:"before,omitempty"`
}

// NonRetryableFailureEvent ends the run.
type NonRetryableFailureEvent struct {
	sealed
	Code     Code   `json:"code"`
	Summary  string `json:"summary"`
	Evidence string `json:"evidence,omitempty"`
	// Repeated says that the code allows another try and came twice in a row, so that a person has to change something.
	Repeated bool `json:"repeated,omitempty"`
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
	// Why says in one line why nobody took the run, as it was when the time was over. It may hold names that somebody
	// chose; events of older versions have none.
	Why string `json:"why,omitempty"`
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
