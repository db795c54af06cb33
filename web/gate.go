package web

import (
	"fmt"
	"strconv"
	"time"

	"github.com/a-h/templ"
)

// GatePageData is the page of one gate.
type GatePageData struct {
	Shell
	Panel    GatePanelData
	Plan     *PlanView        // plan gates, and patch gates that had a plan
	Diff     func() *DiffView // patch gates; made when all that comes before it was sent
	Report   string           // report gates: plain text
	Agent    AgentWords
	Evidence Evidence
	Work     GateWork       // budget and reconcile gates
	History  []DecisionView // all revisions, newest first
	Kept     string         // that the approval was kept as the base moved; empty: it was not
	Live     bool
	Turn     TurnView // of an open gate
	// MayBypass offers the page of an emergency; Bypasses are those of the run.
	MayBypass bool
	Bypasses  []BypassView
	Hints     []Hint
}

// GateWork is what is known of the work where the gate is not about a content.
type GateWork struct {
	Effects   []EffectView // reconcile gates, the newest first
	Stretches []Stretch
	Steps     []StepView // budget gates: the last ones
	Attempts  []AttemptView
	Models    []ModelUse
	// MoreModels says that more were used than are listed.
	MoreModels bool
}

func (w GateWork) lastSteps() string {
	if len(w.Steps) == 1 {
		return "The last step"
	}
	return fmt.Sprintf("The last %d steps", len(w.Steps))
}

// GateFilePageData is the page of one file of a gate's patch.
type GateFilePageData struct {
	Shell
	GateID    string
	Title     string // one line of the goal
	File      DiffFile
	Files     int // in the patch
	View      DiffChoice
	SpaceOnly int
	Switches  []Link
	RawURL    string
	Ticks     *TickCount // nil: nobody is asked
}

// AgentWords is what the agent says about its result. Nobody checked it.
type AgentWords struct {
	Text string // safe to show as text
	// Withheld says that there is something and why it is not shown; empty where Text is all of it.
	Withheld string
}

// GatePanelData is the decision panel: it alone is rendered again for 409, 422, 403, 401 and 410.
type GatePanelData struct {
	GateID         string
	Kind           string // plan, patch, report, budget, reconcile
	State          string // preparing, open, satisfied, …
	Revision       int
	Digest         string
	IdempotencyKey string
	PolicyVersion  string

	RunID      string
	RunState   string
	TaskID     string
	Title      string // one line of the goal
	Repository string
	Base       string
	BaseCommit string
	Mode       string
	Requester  string
	OpenedAt   time.Time
	ExpiresAt  time.Time
	Now        time.Time

	Effects     []string // what happens on approve; empty uses ApproveEffects
	Risk        string
	RiskReasons []string
	WhyStopped  string // why a person is asked

	Files, Added, Removed int

	MayDecide   bool
	WhyNot      string // separation of duties, missing role, …; shown instead of the form
	WhoCan      string // "approvers of acme/api (2)"
	MayReopen   bool   // expired
	MayWithdraw bool   // satisfied and unclaimed
	// WaitsSince is when the gate was satisfied while no worker has taken what it let through; else zero.
	WaitsSince time.Time

	Quorum    []QuorumRow
	Decisions []DecisionView // of this revision

	Outcome   *Outcome           // result of the post this panel answers; nil on a plain page
	Text      string             // the person's text, kept
	Draft     Draft              // where the text is kept while it is written
	Comments  map[int]string     // on steps of the plan, counted from 1, kept
	Lines     map[LineRef]string // comments on lines of the patch, kept
	Earlier   string             // comments on an earlier revision, not sent
	Unshown   []UnshownView      // parts of the patch that an approver declares to have read elsewhere (A26)
	Elsewhere []string           // those that are ticked, kept
	AdoptURL  string
	Budget    *BudgetView // budget gates
	Ambiguous []string    // reconcile gates: each external effect in words
	Pull      *PullRef    // after approval
}

// Outcome is the answer to a post, shown at the top of the panel with focus.
type Outcome struct {
	Kind  OutcomeKind
	Title string // overrides the kind's own title
	Text  string
	Field string // the field that it is about, if any
	Links []Link
}

// UnshownView is the files that the page does not show for one reason.
type UnshownView struct {
	Why   string // a patch.Unshown
	Files []string
}

// OutcomeKind says which answer it is.
type OutcomeKind string

// The outcomes of a posted decision.
const (
	OutcomeRecorded  OutcomeKind = "recorded"  // 200
	OutcomeExtra     OutcomeKind = "extra"     // 200, recorded but not needed
	OutcomeStale     OutcomeKind = "stale"     // 409, the digest moved
	OutcomeDecided   OutcomeKind = "decided"   // 409, somebody decided first
	OutcomeNotQuick  OutcomeKind = "not_quick" // 409, sent from a list, and approved on its own page only
	OutcomeInvalid   OutcomeKind = "invalid"   // 422
	OutcomeForbidden OutcomeKind = "forbidden" // 403
	OutcomeConfirm   OutcomeKind = "confirm"   // 403, the person has to prove again who they are
	OutcomeSession   OutcomeKind = "session"   // 401
	OutcomeGone      OutcomeKind = "gone"      // 410
	OutcomeFailed    OutcomeKind = "failed"    // 500, 503
)

// QuorumRow is one requirement.
type QuorumRow struct {
	Requirement string
	Have, Need  int
	Who         string
}

// DecisionView is one recorded decision.
type DecisionView struct {
	N        int    // of the gate's decisions, from 1, for its permalink; 0: it stands in the panel and has none
	GateID   string // of the gate of an earlier revision, where it has its place; empty: of the gate that is shown
	Who      string
	Verdict  string // approve, request_changes, reject, withdraw, bypass
	Text     string
	At       time.Time
	Revision int
	Digest   string
	Channel  string // browser, command line
	Outdated bool
	Carried  bool   // carried over from an equal patch on another base
	Extra    bool   // not needed
	Notes    int    // for the agent, with an approval
	NotesGo  string // what becomes of them
}

// PlanView is a stored plan.
type PlanView struct {
	In          string // begins the permalinks where several plans are on one page
	Revision    int
	Digest      string
	Summary     string
	Steps       []PlanStep
	Assumptions []string
	OutOfScope  []string
	Raw         string // the exact bytes as text, when there are no steps
}

// PlanStep is one step of a plan.
type PlanStep struct {
	Title    string
	Text     string
	Files    []string
	Commands []string
	Effects  []string // network, migration, …
}

// Evidence is what an approver can rely on.
type Evidence struct {
	Commands      []CommandResult
	Verdict       string // PASS, FAIL, …
	Confidence    string
	JudgeReasons  []string
	Guards        []GuardView
	Isolation     string
	IsolationNote string
	SameWorker    bool
	ReportDigest  string
	Verifier      string // worker that verified
}

// CommandResult is one verification command.
type CommandResult struct {
	Command  string
	Passed   bool
	ExitCode int
	Duration time.Duration
	Baseline string // "also fails without the patch", …
	Tests    string // "41 passed, 2 skipped"
	LogURL   string
	LogTail  string
}

// GuardView is one policy guard in words.
type GuardView struct {
	Words  string
	Met    bool
	Detail string
}

// BudgetView is the record of a budget gate.
type BudgetView struct {
	What   string // "cost", "active time", "tokens"
	Spent  string
	Limit  string
	Raised string // limit after approval
}

// GateNoticeData tells a reader of a gate page that the gate moved, without touching the form.
type GateNoticeData struct {
	GateID   string
	Revision int // newest
	Shown    int // the one on the page
	State    string
	By       string
	At       time.Time
	Now      time.Time
}

// decisionAnchor is the place of a decision on its gate's page; decisions are only ever added, so that it stays.
func decisionAnchor(n int) string { return "decision-" + strconv.Itoa(n) }

// anchored names a decision's place where it has one.
func anchored(v DecisionView) templ.Attributes {
	if v.N == 0 || v.GateID != "" {
		return nil
	}
	return templ.Attributes{"id": decisionAnchor(v.N)}
}

// place is the address of a decision.
func (v DecisionView) place() string {
	if v.GateID != "" {
		return GateURL(v.GateID) + "#" + decisionAnchor(v.N)
	}
	return "#" + decisionAnchor(v.N)
}
