package web

import "time"

// TimelineData is a window of a run's events.
type TimelineData struct {
	RunID     string
	Created   time.Time // elapsed times are counted from here
	Now       time.Time
	Events    []TimelineEvent // oldest first
	Before    int             // events of the run before the window
	BeforeURL string
	After     int // events after the window; 0 when it reaches the end
	AfterURL  string
	// PrevAttempt is the attempt of the event before the window's first, so that no heading is repeated; -1: none.
	PrevAttempt int
}

// TimelineEvent is one event of a run's log, or a fact beside it.
type TimelineEvent struct {
	Seq       int64  // version of the run; 0 for a fact that is no transition
	FactID    string // for facts: a stable id for the permalink
	Kind      string
	At        time.Time
	ActorKind string // human, worker, agent_runtime, verifier, judge, policy, scheduler, control_plane, git_integration, attestor
	ActorName string
	From, To  string // states; equal or empty when unchanged
	Attempt   int
	Data      map[string]any // the event's payload, decoded
}
