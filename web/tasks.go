package web

import "time"

// TasksPageData is the list of tasks.
type TasksPageData struct {
	Shell
	Filter       TaskFilter
	Views        SavedViews
	States       []Option
	Repositories []Option
	Rows         []TaskRow
	Pager        Pager
}

// TaskFilter is what the GET form holds.
type TaskFilter struct {
	Query string
	Mine  bool
	Set   bool // any filter is active
}

// TaskRow is one task of the list.
type TaskRow struct {
	ID         string
	Title      string
	Repository string
	State      string
	Since      time.Time // in this state since
	Requester  string
	LastRunID  string
	RunState   string
	Runs       int
	Created    time.Time
}

// NewTaskPageData is the form for a new task; after a refused post it comes back filled, with Errors by field name.
type NewTaskPageData struct {
	Shell
	Repositories   []Option
	Modes          []Option // completion modes
	Risks          []Option // least risk classes
	Title          string
	Goal           string
	Draft          Draft // where the goal is kept while it is written
	BaseRef        string
	Scope          string // path globs, one a line
	Exclude        string
	PlanGate       bool
	AutoPR         bool
	IdempotencyKey string
	Errors         map[string]string // field → sentence; "" → the whole form
	Preview        TaskPreviewData
	Previewed      bool     // the answer to "Preview" of a browser without scripts
	StartedFrom    *Link    // the task that the form was filled from
	NotCopied      []string // what that task has and this form has no field for
}

// LeastRisks are the choices of how risky a task is at least.
func LeastRisks(chosen string) []Option {
	all := []Option{{Value: "", Label: "Low, unless policy or the changed paths say more"}, {Value: "MEDIUM", Label: "Medium"}, {Value: "HIGH", Label: "High"}, {Value: "CRITICAL", Label: "Critical"}}
	for i := range all {
		all[i].Selected = all[i].Value == chosen
	}
	return all
}

// TaskPageData is one task with its conversation of revisions.
type TaskPageData struct {
	Shell
	Task           TaskView
	Conversation   []TaskMessage // oldest first
	Runs           []RunRow      // newest first
	Pulls          []PullRef
	Gate           *GateRef // what the newest run waits for
	MayRunAgain    bool
	WhyNoRun       string // shown instead of the button when it is absent for a reason worth knowing
	MayCancel      bool
	IdempotencyKey string
}

// TaskView is the contract of a task.
type TaskView struct {
	ID         string
	Title      string
	Goal       string
	State      string
	Since      time.Time
	Reason     string // why it is in this state, in words
	Repository string
	BaseRef    string
	Mode       string
	Scope      []string
	Exclude    []string
	PlanGate   bool
	AutoPR     bool
	Requester  string
	Created    time.Time
	RunsUsed   int
	MaxRuns    int
	Rounds     Rounds
	ParentID   string
}

// Rounds counts how often the newest run's present attempt was sent back to the agent because a check or the judge refused its result.
// What people ask for is no such round: policy bounds those not. Most is 0 where policy allows none, or nothing has run.
type Rounds struct{ Used, Most, Attempt int }

// TaskMessage is one entry of the conversation: what a person asked, what came back.
type TaskMessage struct {
	At    time.Time
	Who   string // who did it; empty where What is a whole sentence
	Actor string // human, agent, policy, verifier, judge, control plane
	What  string // "asked", "sent plan revision 1", "requested changes", …
	Text  string // instruction or summary; may be empty
	Link  *Link  // gate, patch or event
}

// PullRef names a pull request.
type PullRef struct {
	Number int
	Title  string
	State  string
	Href   string // page of ours or address at the forge
	Branch string
	Commit string
}
