package run

import (
	"time"

	"github.com/google/uuid"

	"signalbox/internal/policy"
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
	// PolicyVersion is whose rules put it off.
	PolicyVersion string `json:"policy_version,omitempty"`
}

// EnqueuedEvent carries the admission: limits, route and policy version are
// snapshotted.
type EnqueuedEvent struct {
	sealed
	PolicyVersion string   `json:"policy_version"`
	Reasons       []string `json:"reasons,omitempty"`
	Limits        Limits   `json:"limits"`
	policy.Route
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
	// Facts is what the policy's own rules were asked with where work was let go on, so that the log alone shows what they
	// asked for; nil where there are none, and in events from before this was recorded.
	Facts *policy.Facts `json:"facts,omitempty"`
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
	// Summary is what the agent says it did. Nobody checked it and nothing is decided on it; logs of before lack it.
	Summary string `json:"summary,omitempty"`
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
