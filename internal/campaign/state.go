package campaign

import (
	"slices"
	"time"
)

// State is where a campaign stands.
type State string

// States of a campaign (ux.md 5.1). Which wave runs, canary, ramp or full, is beside it in Campaign.Wave. The last three are
// terminal.
const (
	Draft     State = "DRAFT"
	Previewed State = "PREVIEWED"
	// Running: targets of the wave are started as the limits allow.
	Running State = "RUNNING"
	// AwaitingPromotion: the wave is done, and a person says whether the next one begins.
	AwaitingPromotion State = "AWAITING_PROMOTION"
	// Paused: nothing new starts; what runs goes on.
	Paused State = "PAUSED"
	// Stopping: nothing starts any more; what runs ends, or is cancelled.
	Stopping              State = "STOPPING"
	Stopped               State = "STOPPED"
	Completed             State = "COMPLETED"
	CompletedWithFailures State = "COMPLETED_WITH_FAILURES"
)

// States lists every state.
func States() []State {
	return []State{Draft, Previewed, Running, AwaitingPromotion, Paused, Stopping, Stopped, Completed, CompletedWithFailures}
}

// Terminal reports whether the campaign is over.
func (s State) Terminal() bool { return s == Stopped || s == Completed || s == CompletedWithFailures }

// PauseBy says who or what paused a campaign.
type PauseBy string

// Causes of a pause. Only that of a window ends by itself.
const (
	ByPerson       PauseBy = "person"
	ByRule         PauseBy = "rule"
	ByWindow       PauseBy = "window"
	ByInconclusive PauseBy = "inconclusive"
)

// PauseBys lists every cause of a pause.
func PauseBys() []PauseBy { return []PauseBy{ByPerson, ByRule, ByWindow, ByInconclusive} }

// Stage is where one target stands.
type Stage string

// Stages of a target. Running and Held are the ones that count as at work at once.
const (
	Waiting Stage = "WAITING" // not started
	Active  Stage = "RUNNING" // its task goes on
	Held    Stage = "HELD"    // its task waits for a person
	// Open: its pull request is open and the campaign completes by merges. It holds no place among those that run.
	Open     Stage = "OPEN"
	Ended    Stage = "ENDED"
	Excluded Stage = "EXCLUDED"
)

// Stages lists every stage.
func Stages() []Stage { return []Stage{Waiting, Active, Held, Open, Ended, Excluded} }

// Outcome is how a target ended.
type Outcome string

// Outcomes. Only Failed is a failure, unless the stop rule counts others too (ux.md 5.4, rule 1).
const (
	NoOutcome Outcome = ""
	Delivered Outcome = "DELIVERED" // the pull request is open, or the patch or report is there
	Merged    Outcome = "MERGED"
	NoChange  Outcome = "NO_CHANGE"
	Failed    Outcome = "FAILED"
	Infra     Outcome = "INFRA" // the machinery failed, not the work
	Rejected  Outcome = "REJECTED"
	Cancelled Outcome = "CANCELLED"
	Closed    Outcome = "CLOSED" // the pull request was closed without merging
	// Inconclusive: nobody can say, as when the checks never reported. It is never a success.
	Inconclusive Outcome = "INCONCLUSIVE"
)

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	return []Outcome{Delivered, Merged, NoChange, Failed, Infra, Rejected, Cancelled, Closed, Inconclusive}
}

// Success reports whether the target got what the campaign is for.
func (o Outcome) Success() bool { return o == Delivered || o == Merged }

// Leftover reports whether somebody has something left to do about the target.
func (o Outcome) Leftover() bool { return o != NoChange && !o.Success() }

// Target is one repository of a campaign, as the rules see it. Its place in Snapshot.Targets is its order.
type Target struct {
	Repository string // a stable name
	Owner      string // empty: nobody is known
	Wave       int    // index into Spec.Waves
	Stage      Stage
	Outcome    Outcome // of an ended target
	// SpecVersion is that of the last start; 0 before the first.
	SpecVersion int
	// StartedAt is the last start, EndedAt the end, OpenedAt when its pull request was opened, each zero before.
	StartedAt, EndedAt, OpenedAt time.Time
	// PullOpen says that its pull request is open, whatever the campaign completes by.
	PullOpen bool
	// CancelAsked says that its task was told to end.
	CancelAsked bool
}

// atWork reports whether the target holds one of the places at once.
func (t Target) atWork() bool { return t.Stage == Active || t.Stage == Held }

// done reports whether the wave need not wait for the target.
func (t Target) done() bool { return t.Stage == Ended || t.Stage == Excluded }

// counted reports whether an ended target is in the failure rate at all, and whether it is a failure.
func (t Target) counted(also []Outcome) (in, failure bool) {
	if t.Stage != Ended {
		return false, false
	}
	failure = t.Outcome == Failed || slices.Contains(also, t.Outcome)
	return failure || t.Outcome.Success(), failure
}
