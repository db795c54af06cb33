package web

import "time"

// RunPageData is the page of one run.
type RunPageData struct {
	Shell
	RunParts
	Panel    RunPanelData
	Timeline TimelineData
	Facts    RunFacts
	Bypasses []BypassView // of its gates, for good
	Live     bool         // open the event stream; false for a terminal run
	// CancelNow offers to cancel without a question: nobody works on it, and this person asked for it.
	CancelNow      bool
	IdempotencyKey string
	LastSeq        int64 // newest event that this page shows or knows
}

// RunParts are what is reported beside the log of events: live, as the timeline is, or else a page that stays open says
// of a finished run that a step is still running.
type RunParts struct {
	Steps     []StepView
	Attempts  []AttemptView
	Gates     []GateRef
	Artifacts []ArtifactView
	Effects   []EffectView // outside of Signalbox, the newest first; at most some
}

// RunPanelData is the live region: state sentence, rail, facts that move.
type RunPanelData struct {
	Run RunView
	Now time.Time
}

// RunView is what the state sentence and the rail are made of.
type RunView struct {
	ID           string
	TaskID       string
	Title        string
	Repository   string
	Mode         string // pr_created, pr_merged, patch_ready_for_review, analysis_report_created
	State        string
	Since        time.Time // in this state since
	Created      time.Time
	Ended        time.Time // zero while active
	Attempt      int
	MaxAttempts  int
	RepairRound  int
	Leased       bool
	Worker       string    // holder of the lease
	HeartbeatAt  time.Time // last sign of that worker
	SetAside     string    // why the loops leave it alone though a worker holds it, in words
	QueueReason  string    // why nobody has it yet, in words; empty: waiting for a free worker
	RetryAt      time.Time // not before; zero: at once
	Gate         *GateRef  // open or expired gate
	PlanGate     bool      // the rail shows a plan gate
	PatchGate    bool      // the rail shows a patch gate
	MyTurn       bool      // the signed-in person may decide the gate
	EndedFrom    string    // state before the terminal one, so that the rail shows where it ended
	WaitedFor    string    // why nobody had taken it when its time in the queue was over; may be empty
	Category     string    // failure category
	ReasonCode   string
	Reason       string // sentence of the ending or of the cancel request
	Retryable    bool
	CancelBy     string
	CancelAt     time.Time
	CancelAcked  bool    // the worker has been told
	Ladder       *Ladder // a cancellation, while it lasts and afterwards; nil: none was asked for
	Pull         *PullRef
	NextAction   *Link // what to do now, for this person
	MayCancel    bool
	StateSeconds map[string]time.Duration // time spent per state so far, from StateTimes; may be nil
	Stretches    []Stretch                // where the time went, from Stretches; may be nil
}

// GateRef names a gate in lists and sentences.
type GateRef struct {
	ID        string
	Kind      string
	State     string
	Revision  int
	Digest    string
	Have      int
	Need      int
	OpenedAt  time.Time
	ExpiresAt time.Time
	DecidedBy string
	DecidedAt time.Time
	Text      string // instruction or reason
}

// RunFacts is the side column.
type RunFacts struct {
	Requester      string
	Agent          string // profile and adapter version
	Isolation      string // bwrap, container, process
	IsolationNote  string // what that tier does and does not promise
	Base           string // branch
	BaseCommit     string
	Branch         string
	PolicyVersion  string
	SameWorker     bool // the verifier is the worker that executed
	Verdict        string
	Confidence     string
	Risk           string
	RiskReasons    []string
	FencingToken   int64
	PlanDigest     string
	PatchDigest    string
	PatchRevision  int
	Files          int
	Added, Removed int
	Cost           string // in money, or empty
	Uses           []Use  // what else it cost, each thing for itself
	Models         []ModelUse
	MoreModels     bool // others were used, too
}

// Use is one thing that a run used up, in words: how much, and its limit where it has one.
type Use struct{ Name, Amount string }

// AttemptView is one attempt.
type AttemptView struct {
	Number     int
	State      string
	Worker     string
	Started    time.Time
	Ended      time.Time
	Reason     string
	Superseded bool
}

// StepView is one step with the tail of its log.
type StepView struct {
	ID       string
	Name     string
	Kind     string
	State    string
	Attempt  int
	Started  time.Time
	Ended    time.Time
	ExitCode *int
	Reason   string
	LogTail  string // raw bytes as text, at most some hundred lines; escape sequences are dealt with here
	LogLines int    // lines in the whole log
	LogURL   string // download; empty: none stored
	// Superseded says that a later attempt made it history.
	Superseded bool
}

// ArtifactView is one stored artifact.
type ArtifactView struct {
	ID       string
	Kind     string
	Name     string
	Size     int64
	SHA256   string
	Attempt  int
	Revision int
	At       time.Time
	Late     bool // stored after the lease had ended
}

// RunLiveData is one message of a run's event stream.
type RunLiveData struct {
	RunParts
	Panel RunPanelData
	Facts RunFacts
	Rows  TimelineData // only events after the client's cursor
	Stage string       // non-empty: announce this stage change politely
}
