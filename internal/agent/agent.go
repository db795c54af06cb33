package agent

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"signalbox/internal/sandbox"
)

// Phase is what an agent is asked for.
type Phase string

// The phases; see Job.
const (
	// PhasePlan asks for a plan and forbids changes; they are thrown away.
	PhasePlan Phase = "plan"
	// PhaseExecute asks for changes in the checkout.
	PhaseExecute Phase = "execute"
)

// Job is one invocation of an agent in a box whose workspace follows the
// layout of package sandbox: checkout in repo, inputs in input, HOME in home.
type Job struct {
	Phase Phase
	// Goal is the task in the requester's words; becomes input/goal.md.
	Goal string
	// Contract is the run's contract as JSON; becomes input/contract.json.
	Contract json.RawMessage
	// Feedback from verifier, judge or people, oldest first; becomes
	// input/feedback.json. Empty means none, and there is no such file.
	Feedback []Feedback
	// Plan is the approved plan; becomes input/plan.json. May be nil.
	Plan *Plan
	// Env is added to the agent's environment (SIGNALBOX_* are ours).
	Env map[string]string
	// Timers; zero fields mean none.
	Timers Timers
	// Log receives the agent's stdout and stderr as bytes, unbounded by line.
	Log io.Writer
}

// Timers are kept apart because they say different things.
type Timers struct {
	FirstOutput time.Duration // until the first sign of life on any stream
	Idle        time.Duration // between signs of life
	Wall        time.Duration // the whole invocation
	Grace       time.Duration // between TERM and KILL
}

// Feedback is one structured reason to work again.
type Feedback struct {
	// Source is "verifier", "judge" or "human".
	Source string `json:"source"`
	// Message is a sentence or, from people, the instruction itself.
	Message string `json:"message"`
	// Revision is the patch revision the feedback is about; 0 if none.
	Revision int `json:"revision,omitempty"`
	// Failures are the verifier's failing commands.
	Failures []Failure `json:"failures,omitempty"`
}

// Failure is one failing command of a verification.
type Failure struct {
	Command  string   `json:"command"`
	Argv     []string `json:"argv"`
	ExitCode int      `json:"exit_code"`
	Class    string   `json:"class"`
	Tail     string   `json:"tail"` // at most 16 KiB
}

// Outcome is what an invocation came to.
type Outcome struct {
	Reason  Reason
	Result  sandbox.Result
	Plan    *Plan // nil when the agent proposed no valid plan
	Usage   Usage
	Summary string // the agent's own words; may be empty
	End     string // how it ended, in ours
	// RetryAfter is how long the model's provider asked to be left alone, with the
	// reason Quota; 0 when it named no time.
	RetryAfter time.Duration
	// NoChange says that the agent declared there is nothing to change.
	NoChange bool
	// Report is the agent's last free report, bounded; may be nil.
	Report json.RawMessage
	// Events counts protocol lines by type, for evidence.
	Events map[string]int
	// StderrTail is the bounded end of the log, kept for failures.
	StderrTail string
	Warnings   int
}

// Adapter runs one kind of agent.
type Adapter interface {
	// Name and version are recorded with the run.
	Name() string
	Version() string
	// Run starts the agent in the box and reports to sink, in order and from
	// one goroutine, ending with Finished. The error is about the machinery;
	// how the agent ended is in the Outcome.
	Run(ctx context.Context, box sandbox.Box, job Job, sink func(Event)) (Outcome, error)
}
