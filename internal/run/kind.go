package run

// Kind names an event. Events are in the past tense: they say what happened.
type Kind string

// Event kinds, in the order of the table in table.go.
const (
	KindCreated                Kind = "run_created"
	KindDeferred               Kind = "run_deferred"
	KindEnqueued               Kind = "run_enqueued"
	KindPolicyDenied           Kind = "policy_denied"
	KindLeaseAcquired          Kind = "lease_acquired"
	KindWorkerStarted          Kind = "worker_started"
	KindSandboxReady           Kind = "sandbox_ready"
	KindContextReady           Kind = "context_ready"
	KindPlanCreated            Kind = "plan_created"
	KindPlanApprovalRequired   Kind = "plan_approval_required"
	KindPatchCreated           Kind = "patch_created"
	KindReportCreated          Kind = "report_created"
	KindNoChangeReported       Kind = "no_change_reported"
	KindVerificationStarted    Kind = "verification_started"
	KindVerificationPassed     Kind = "verification_passed"
	KindVerificationFailed     Kind = "verification_failed_retryable"
	KindJudgeRequiresFix       Kind = "judge_requires_fix"
	KindAttemptExhausted       Kind = "attempt_exhausted"
	KindHumanApprovalRequired  Kind = "human_approval_required"
	KindApprovalCarried        Kind = "approval_carried"
	KindAutoPRAllowed          Kind = "auto_pr_allowed"
	KindCompletionConditionMet Kind = "completion_condition_met"
	KindAttestationRequired    Kind = "attestation_required"
	KindApproved               Kind = "approved"
	KindChangesRequested       Kind = "changes_requested"
	KindRejected               Kind = "rejected"
	KindApprovalExpired        Kind = "approval_expired"
	KindApprovalReopened       Kind = "approval_reopened"
	KindGateBypassed           Kind = "gate_bypassed"
	KindApprovalWithdrawn      Kind = "approval_withdrawn"
	KindPRCreated              Kind = "pr_created"
	KindBaseMoved              Kind = "base_moved"
	KindBranchTouched          Kind = "branch_touched"
	KindReconciliationRequired Kind = "reconciliation_required"
	KindAttestationAccepted    Kind = "attestation_accepted"
	KindAttestationRefused     Kind = "attestation_refused"
	KindAttestationExpired     Kind = "attestation_expired"
	KindAttemptFailed          Kind = "attempt_failed"
	KindWorkerLost             Kind = "worker_lost"
	KindLeaseReleased          Kind = "lease_released"
	KindNonRetryableFailure    Kind = "non_retryable_failure"
	KindBudgetExceeded         Kind = "budget_exceeded"
	KindTimeout                Kind = "timeout"
	KindRunTimeout             Kind = "run_timeout"
	KindCancelRequested        Kind = "cancel_requested"
	KindCancelConfirmed        Kind = "cancel_confirmed"
)

// ActorKind is the role in which somebody decides an event. One kind owns each
// group of states (R-DOM-11).
type ActorKind string

// Actor kinds.
const (
	ControlPlane   ActorKind = "control_plane"
	Scheduler      ActorKind = "scheduler"
	Worker         ActorKind = "worker"
	AgentRuntime   ActorKind = "agent_runtime"
	Verifier       ActorKind = "verifier"
	Judge          ActorKind = "judge"
	Policy         ActorKind = "policy"
	Human          ActorKind = "human"
	GitIntegration ActorKind = "git_integration"
	Attestor       ActorKind = "attestor"
)

// ActorKinds lists the kinds of actor.
func ActorKinds() []ActorKind {
	return []ActorKind{ControlPlane, Scheduler, Worker, AgentRuntime, Verifier, Judge,
		Policy, Human, GitIntegration, Attestor}
}

// Actor is who decided an event: the role, a stable id, and a name for people.
// The name is a label and never decides anything.
type Actor struct {
	Kind ActorKind `json:"kind"`
	ID   string    `json:"id"`
	Name string    `json:"name,omitempty"`
}
