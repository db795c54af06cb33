package run

import "slices"

// State is the last durable fact about a run. Who works on it now is the
// lease's business, so a state that needs work may for a moment have none.
type State string

// The nineteen states. Each comment says whose turn it is and what ends it.
const (
	// Created: the scheduler's turn. Ends by admission, denial or max_defer.
	Created State = "CREATED"
	// Queued: a worker's turn to claim. Ends by a claim or the queue time-out.
	Queued State = "QUEUED"
	// Leased: the worker's turn to start. Ends by its start, or by the lease.
	Leased State = "LEASED"
	// Preparing: the worker makes a sandbox and a checkout.
	Preparing State = "PREPARING"
	// ContextBuilding: the worker reads the repository; nothing is edited.
	ContextBuilding State = "CONTEXT_BUILDING"
	// Planning: the agent's turn to state files, verifiers, risks and limits.
	Planning State = "PLANNING"
	// Executing: the agent's turn to change code inside the workspace.
	Executing State = "EXECUTING"
	// PatchReady: a patch is stored; a verifier's turn to claim it.
	PatchReady State = "PATCH_READY"
	// Verifying: the verifier runs the fixed commands on a fresh checkout.
	Verifying State = "VERIFYING"
	// Judging: reports exist; the judge gives a verdict, policy decides.
	Judging State = "JUDGING"
	// WaitingForApproval: a person's turn. No lease, no mutation.
	WaitingForApproval State = "WAITING_FOR_APPROVAL"
	// PRCreating: the publisher pushes the stored patch and opens one pull request.
	PRCreating State = "PR_CREATING"
	// PRCreated: the pull request exists; the control plane completes at once.
	PRCreated State = "PR_CREATED"
	// AwaitingVerification: an attestor's turn; no lease is held.
	AwaitingVerification State = "AWAITING_VERIFICATION"
	// Cancelling: a stop was asked for and the worker has not yet confirmed.
	Cancelling State = "CANCELLING"
	// Succeeded is terminal: the completion mode is met and a verdict exists.
	Succeeded State = "SUCCEEDED"
	// Failed is terminal: category, reason code and retryability are stored.
	Failed State = "FAILED"
	// Cancelled is terminal: a reason is stored and clean-up was attempted.
	Cancelled State = "CANCELLED"
	// Expired is terminal: a clock ended it; artifacts are kept.
	Expired State = "EXPIRED"
)

// States lists every state in the order of the happy path, then the rest.
func States() []State {
	return []State{
		Created, Queued, Leased, Preparing, ContextBuilding, Planning, Executing,
		PatchReady, Verifying, Judging, WaitingForApproval, PRCreating, PRCreated,
		AwaitingVerification, Cancelling, Succeeded, Failed, Cancelled, Expired,
	}
}

// Terminal reports whether nothing can move the run any more.
func (s State) Terminal() bool {
	return s == Succeeded || s == Failed || s == Cancelled || s == Expired
}

// Valid reports whether s is one of the nineteen states.
func (s State) Valid() bool { return slices.Contains(States(), s) }

// ActiveStates lists the fifteen states that are not terminal.
func ActiveStates() []State {
	return slices.DeleteFunc(States(), State.Terminal)
}

// Phase is the unit of work a lease is given for.
type Phase string

// The three phases. A worker claims only phases that its roles allow.
const (
	// PhaseExecute covers QUEUED to the stored patch.
	PhaseExecute Phase = "execute"
	// PhaseVerify covers the stored patch to the verdict.
	PhaseVerify Phase = "verify"
	// PhasePublish covers the push and the pull request.
	PhasePublish Phase = "publish"
)

// Phases lists the phases in the order in which a run passes them.
func Phases() []Phase { return []Phase{PhaseExecute, PhaseVerify, PhasePublish} }

// Valid reports whether p is one of the three phases.
func (p Phase) Valid() bool { return slices.Contains(Phases(), p) }

// Phase returns the phase whose worker moves a run in this state on, or "" where
// no worker does.
func (s State) Phase() Phase {
	switch s {
	case Queued, Leased, Preparing, ContextBuilding, Planning, Executing:
		return PhaseExecute
	case PatchReady, Verifying, Judging:
		return PhaseVerify
	case PRCreating:
		return PhasePublish
	}
	return ""
}

// NeedsWork reports whether the state must have an active lease or a queue item.
func (s State) NeedsWork() bool { return s.Phase() != "" }

var (
	executeStates = []State{Leased, Preparing, ContextBuilding, Planning, Executing}
	verifyStates  = []State{PatchReady, Verifying, Judging}
	publishStates = []State{PRCreating}
)

// Owner says who controls a state: the group whose events end it in the normal
// course. Shown in the docs and on the run page.
func (s State) Owner() ActorKind {
	switch s {
	case Created, Queued:
		return Scheduler
	case Leased, Preparing, ContextBuilding, Cancelling:
		return Worker
	case Planning, Executing:
		return AgentRuntime
	case PatchReady, Verifying:
		return Verifier
	case Judging:
		return Judge
	case WaitingForApproval:
		return Human
	case PRCreating:
		return GitIntegration
	case AwaitingVerification:
		return Attestor
	}
	return ControlPlane
}

// Mode is a task's completion mode: what the task asked to be left with.
type Mode string

// Completion modes (R-DOM-3). A campaign completes its batch by
// `migration_batch_completed`, which is not a run's mode.
const (
	ModePRCreated  Mode = "pr_created"
	ModePRMerged   Mode = "pr_merged"
	ModePatchReady Mode = "patch_ready_for_review"
	ModeAnalysis   Mode = "analysis_report_created"
)

// Modes lists the completion modes.
func Modes() []Mode { return []Mode{ModePRCreated, ModePRMerged, ModePatchReady, ModeAnalysis} }

// Valid reports whether m is a completion mode of a run.
func (m Mode) Valid() bool { return slices.Contains(Modes(), m) }

// WantsPR reports whether the mode ends in a pull request.
func (m Mode) WantsPR() bool { return m == ModePRCreated || m == ModePRMerged }

// Outcome is what the execute phase left behind.
type Outcome string

// Outcomes of the execute phase; empty before it ended.
const (
	OutcomePatch    Outcome = "patch"
	OutcomeReport   Outcome = "report"
	OutcomeNoChange Outcome = "no_change"
)

// GateKind names what a person is asked to decide.
type GateKind string

// Gate kinds.
const (
	GatePlan      GateKind = "plan"
	GatePatch     GateKind = "patch"
	GateReport    GateKind = "report"
	GateBudget    GateKind = "budget"
	GateReconcile GateKind = "reconcile"
)

// GateKinds lists the kinds of gate.
func GateKinds() []GateKind {
	return []GateKind{GatePlan, GatePatch, GateReport, GateBudget, GateReconcile}
}
