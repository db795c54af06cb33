package run

import (
	"time"

	"github.com/google/uuid"
)

// Command is what a lease holder posts. A command never names a state and never
// says whether something is tried again; its name alone fixes the actor, and the
// credential and the lease's phase decide who may post it.
type Command interface {
	// Name is the command's word in the API.
	Name() string
	command()
}

type commandSeal struct{}

func (commandSeal) command() {}

// Commands of the execute phase.
type (
	// Start says that the worker begins.
	Start struct{ commandSeal }
	// SandboxIsReady carries the measured isolation and the base commit.
	SandboxIsReady struct {
		commandSeal
		Tier, Base string
	}
	// ContextIsReady names the stored context.
	ContextIsReady struct {
		commandSeal
		Artifact string
	}
	// PlanSubmitted names the stored plan.
	PlanSubmitted struct {
		commandSeal
		Artifact string
	}
	// PatchSubmitted names the stored patch, its base and the tree it must give. Summary is what the agent says it did.
	PatchSubmitted struct {
		commandSeal
		Artifact, Base, Tree, Summary string
	}
	// ReportSubmitted names the stored analysis report.
	ReportSubmitted struct {
		commandSeal
		Artifact string
	}
	// NoChangeSubmitted says why nothing needs to change.
	NoChangeSubmitted struct {
		commandSeal
		Summary string
	}
)

// Commands of the verify phase.
type (
	// VerifyStarted names the commands that will run.
	VerifyStarted struct {
		commandSeal
		Commands []string
		Digest   string
	}
	// VerifyReported names the stored report.
	VerifyReported struct {
		commandSeal
		Artifact string
	}
	// JudgeReported is the verdict with its stored report.
	JudgeReported struct {
		commandSeal
		Judge JudgeEvidence
	}
)

// Commands of the publish phase.
type (
	// PRReported says that the pull request exists.
	PRReported struct {
		commandSeal
		PR PullRequest
	}
	// BaseHasMoved says that the base changed files that the patch touches. Commits is 0 where it is not known.
	BaseHasMoved struct {
		commandSeal
		NewBase  string
		Overlaps []string
		Commits  int
	}
	// EffectIsAmbiguous says that an effect may have happened and that the target
	// cannot be asked. It is how the server reads operation_observed with the
	// outcome ambiguous.
	EffectIsAmbiguous struct {
		commandSeal
		Operations []string
		Summary    string
	}
	// BranchWasTouched says that somebody else committed to the branch.
	BranchWasTouched struct {
		commandSeal
		Branch, SHA string
	}
)

// Commands of every phase.
type (
	// AttemptHasFailed carries a reason code; the server knows what it allows.
	AttemptHasFailed struct {
		commandSeal
		Code       Code
		Summary    string
		Artifact   string
		RetryAfter time.Duration
	}
	// Release gives the run back.
	Release struct {
		commandSeal
		Reason string
	}
	// Stopped answers a signal.
	Stopped struct {
		commandSeal
		Why     StopWhy
		Summary string
	}
	// ConfirmCancel says that the work has stopped.
	ConfirmCancel struct{ commandSeal }
)

// StopWhy is the signal that a worker obeyed.
type StopWhy string

// Signals that a heartbeat's answer can carry.
const (
	StopCancel StopWhy = "cancel"
	StopBudget StopWhy = "budget"
	StopDrain  StopWhy = "drain"
)

// Names of the commands, as in the API.
func (Start) Name() string             { return "start" }
func (SandboxIsReady) Name() string    { return "sandbox_ready" }
func (ContextIsReady) Name() string    { return "context_ready" }
func (PlanSubmitted) Name() string     { return "plan_submitted" }
func (PatchSubmitted) Name() string    { return "patch_submitted" }
func (ReportSubmitted) Name() string   { return "report_submitted" }
func (NoChangeSubmitted) Name() string { return "no_change_submitted" }
func (VerifyStarted) Name() string     { return "verification_started" }
func (VerifyReported) Name() string    { return "verification_reported" }
func (JudgeReported) Name() string     { return "judge_reported" }
func (PRReported) Name() string        { return "pr_reported" }
func (BaseHasMoved) Name() string      { return "base_moved" }
func (EffectIsAmbiguous) Name() string { return "operation_observed" }
func (BranchWasTouched) Name() string  { return "branch_touched" }
func (AttemptHasFailed) Name() string  { return "attempt_failed" }
func (Release) Name() string           { return "release" }
func (Stopped) Name() string           { return "stopped" }
func (ConfirmCancel) Name() string     { return "cancel_confirmed" }

// CommandSpec says in which role a command is posted and in which phases.
type CommandSpec struct {
	Name   string
	Actor  ActorKind
	Phases []Phase
}

// CommandSpecs is the table of R-DOM-11 for commands: the name fixes the actor,
// the lease's phase says whether it is accepted.
func CommandSpecs() []CommandSpec {
	ex, ve, pu := []Phase{PhaseExecute}, []Phase{PhaseVerify}, []Phase{PhasePublish}
	return []CommandSpec{
		{"start", Worker, ex}, {"sandbox_ready", Worker, ex}, {"context_ready", Worker, ex},
		{"plan_submitted", AgentRuntime, ex}, {"patch_submitted", AgentRuntime, ex},
		{"report_submitted", AgentRuntime, ex}, {"no_change_submitted", AgentRuntime, ex},
		{"verification_started", Verifier, ve}, {"verification_reported", Verifier, ve},
		{"judge_reported", Judge, ve},
		{"operation_intended", GitIntegration, pu}, {"operation_dispatched", GitIntegration, pu},
		{"operation_observed", GitIntegration, pu},
		{"pr_reported", GitIntegration, pu}, {"base_moved", GitIntegration, pu}, {"branch_touched", GitIntegration, pu},
		{"attempt_failed", Worker, Phases()}, {"release", Worker, Phases()},
		{"stopped", Worker, Phases()}, {"cancel_confirmed", Worker, Phases()},
	}
}

// SpecOf returns the row of a command's name.
func SpecOf(name string) (CommandSpec, bool) {
	for _, s := range CommandSpecs() {
		if s.Name == name {
			return s, true
		}
	}
	return CommandSpec{}, false
}

// ActorFor says in which role an event is decided when a command of actor asked
// for it: the command's own where the table allows it, else the first listed.
func ActorFor(s State, k Kind, actor ActorKind) ActorKind {
	row, ok := rules()[pair{s, k}]
	if !ok {
		return actor
	}
	for _, a := range row.by {
		if a == actor {
			return a
		}
	}
	return row.by[0]
}

// Minted are the ids and numbers that the pure code may not make itself.
type Minted struct {
	Gate uuid.UUID
	Now  time.Time
	// Draw is in [0, 1) and spreads retries.
	Draw float64
}
