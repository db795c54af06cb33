// Package agent owns the one event model that every coding agent is translated
// into, and the adapters that do it. It refuses to trust an agent: what one
// says is bounded, decoded strictly and reported, never obeyed; whether its
// work is any good is judged elsewhere.
package agent

import "time"

// Event is one thing an agent said or did. The set is closed: Started, Text,
// ToolStarted, ToolFinished, Plan, Step, Usage, Warning, Finished.
type Event interface{ event() }

// Started says that the agent answers.
type Started struct {
	SessionRef string // the agent's own id for the session; may be empty
	Model      string // may be empty
}

// Text is something the agent said to people.
type Text struct {
	Text  string
	Delta bool // continues the last Text
}

// Step is a sentence about what the agent is doing now.
type Step struct {
	Title  string
	Status string // "started", "done" or "failed"; empty when not said
}

// ToolStarted is a call the agent made: a command, an edit, a search.
type ToolStarted struct {
	CallID string // ties it to its ToolFinished
	Name   string
	Kind   string // "execute", "edit", "read", "search", "fetch", "think", "other"
	Input  string // bounded, for people; never run
	Parent string // call id of the enclosing call; may be empty
}

// ToolFinished is the end of a call.
type ToolFinished struct {
	CallID   string
	Status   string // "ok", "failed" or "cancelled"
	Output   string // bounded
	ExitCode *int   // nil when the call has none
	Duration time.Duration
}

// PlanProposed carries a plan; Outcome.Plan holds the last valid one.
type PlanProposed struct{ Plan Plan }

// Usage counts tokens of a turn; amounts add up.
type Usage struct {
	Input, Output, CacheRead, CacheWrite int64
	// CostMicros is what the agent says the turn cost, in millionths of the installation's currency. HasCost tells a turn
	// that cost nothing from one of which the agent does not know.
	CostMicros      int64
	HasCost         bool
	Provider, Model string
}

// Warning is something wrong that did not stop the agent: a line that was not
// JSON, an unknown call id, a plan without its parts.
type Warning struct{ Message string }

// Finished is always the last event.
type Finished struct {
	Reason     Reason
	SessionRef string
	Usage      Usage
	Summary    string // the agent's own words, or why it ended
}

func (Started) event()      {}
func (Text) event()         {}
func (Step) event()         {}
func (ToolStarted) event()  {}
func (ToolFinished) event() {}
func (PlanProposed) event() {}
func (Usage) event()        {}
func (Warning) event()      {}
func (Finished) event()     {}

// Reason says why an agent ended. It is set from typed facts (exit code,
// signal, timer), never by reading prose.
type Reason string

// The reasons. Only Completed means that there may be a result to look at.
const (
	Completed   Reason = "completed"
	MaxTurns    Reason = "max_turns"
	Budget      Reason = "budget"
	Refused     Reason = "refused"
	Cancelled   Reason = "cancelled"
	Auth        Reason = "auth"
	Quota       Reason = "quota"
	ContextFull Reason = "context_full"
	Crashed     Reason = "crashed"
	NoResult    Reason = "no_result"
	// NoStart is an agent that said nothing within the first-output time.
	NoStart Reason = "no_start"
	// Idle is an agent that fell silent for the idle time.
	Idle Reason = "idle"
	// TimedOut is an agent that used up its wall clock.
	TimedOut Reason = "timed_out"
	// OutOfMemory is an agent that was killed for memory.
	OutOfMemory Reason = "out_of_memory"
)
