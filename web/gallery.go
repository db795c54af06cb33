package web

import (
	"time"

	"signalbox/internal/run"
	"signalbox/web/ui"
)

// GalleryPageData is the page that shows every component in every state. Only dev mode serves it.
type GalleryPageData struct {
	Shell
	// Made is the instant of which all samples tell; zero: the shell's.
	Made time.Time
}

func (d GalleryPageData) now() time.Time {
	if d.Made.IsZero() {
		return d.Shell.Now
	}
	return d.Made
}

// galleryPart is a section of the gallery: its anchor and its name.
type galleryPart struct{ ID, Name string }

func (p galleryPart) href() string { return "#" + p.ID }

var (
	partBadges   = galleryPart{"badges", "Badges"}
	partNotices  = galleryPart{"notices", "Notices"}
	partIcons    = galleryPart{"icons", "Pictograms"}
	partTimes    = galleryPart{"times", "Times"}
	partFacts    = galleryPart{"facts", "Facts, identifiers and sizes"}
	partEmpty    = galleryPart{"empty", "Empty states"}
	partForms    = galleryPart{"forms", "Fields and buttons"}
	partLists    = galleryPart{"lists", "Results and pages of lists"}
	partLive     = galleryPart{"live-states", "Live chip"}
	partRails    = galleryPart{"rails", "Rails of every state"}
	partTimeline = galleryPart{"timelines", "Timeline"}
	partDiff     = galleryPart{"diffs", "Patch"}
	partLog      = galleryPart{"logs", "Log"}
	partGate     = galleryPart{"gate", "Decision panel"}
)

func galleryParts() []galleryPart {
	return []galleryPart{
		partBadges, partNotices, partIcons, partTimes, partFacts, partEmpty, partForms, partLists, partLive, partRails, partTimeline, partDiff, partLog, partGate,
	}
}

// family is one vocabulary of states with a badge for each.
type family struct {
	Name string
	All  []ui.Status
}

func statuses(of func(string) ui.Status, states ...string) []ui.Status {
	var all []ui.Status
	for _, s := range states {
		all = append(all, of(s))
	}
	return all
}

// newState stands for one that a newer server has: it is shown by its own name.
const newState = "STATE_OF_A_NEWER_SERVER"

func galleryFamilies() []family {
	var runs []string
	for _, s := range run.States() {
		runs = append(runs, string(s))
	}
	return []family{
		{"Runs", statuses(ui.RunStatus, append(runs, newState)...)},
		{"Tasks", statuses(ui.TaskStatus, "DRAFT", "SUBMITTED", "VALIDATING", "READY", "REJECTED", "RUNNING", "WAITING_FOR_APPROVAL", "COMPLETED", "FAILED", "CANCELLED", newState)},
		{"Gates", statuses(ui.GateStatus, "preparing", "open", "satisfied", "changes_requested", "rejected", "superseded", "expired", "cancelled", "bypassed", newState)},
		{"Steps", statuses(ui.StepStatus, "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", newState)},
		{"Attempts", statuses(ui.AttemptStatus, "STARTED", "SUCCEEDED", "FAILED", "ABORTED", newState)},
		{"Workers", statuses(ui.WorkerStatus, "STARTING", "READY", "DRAINING", "STOPPED", "STALE", "DEAD", newState)},
		{"Pull requests", statuses(ui.PullStatus, "OPEN", "UPDATED", "REVIEW_REQUESTED", "CHANGES_REQUESTED", "APPROVED", "MERGED", "CLOSED", newState)},
		{"Risks", statuses(ui.RiskStatus, "LOW", "MEDIUM", "HIGH", "CRITICAL", "", newState)},
	}
}

func galleryTones() []ui.Tone {
	return []ui.Tone{ui.ToneQueued, ui.ToneRunning, ui.ToneWaiting, ui.ToneDone, ui.ToneFailed, ui.ToneCancelled, ui.ToneExpired, ui.ToneDenied, ui.ToneNeutral}
}

// namedIcon is a pictogram with the name under which the code knows it.
type namedIcon struct {
	Name string
	Icon ui.Icon
}

func galleryIcons() []namedIcon {
	return []namedIcon{
		{"Queued", ui.IconQueued}, {"Running", ui.IconRunning}, {"Waiting", ui.IconWaiting}, {"Done", ui.IconDone}, {"Failed", ui.IconFailed}, {"Cancelled", ui.IconCancelled},
		{"Expired", ui.IconExpired}, {"Denied", ui.IconDenied}, {"Note", ui.IconNote}, {"RiskLow", ui.IconRiskLow}, {"RiskMedium", ui.IconRiskMedium}, {"RiskHigh", ui.IconRiskHigh},
		{"RiskCritical", ui.IconRiskCritical}, {"Warning", ui.IconWarning}, {"Info", ui.IconInfo}, {"Person", ui.IconPerson}, {"Agent", ui.IconAgent}, {"Machine", ui.IconMachine},
		{"Policy", ui.IconPolicy}, {"Branch", ui.IconBranch}, {"File", ui.IconFile}, {"Chevron", ui.IconChevron}, {"Plus", ui.IconPlus}, {"Clock", ui.IconClock}, {"Tool", ui.IconTool},
	}
}

// liveState is what the live chip may say; app.js says it from the age of the last byte.
type liveState struct{ State, Text string }

func galleryLive() []liveState {
	return []liveState{
		{"start", "Connecting"}, {"live", "Live"}, {"reconnecting", "Reconnecting (2)"}, {"stale", "Stale since 14:02 UTC"}, {"paused", "Paused by you"}, {"done", "Finished"},
	}
}

// galleryRuns is a run in every state, as its rail shows it.
func galleryRuns(now time.Time) []RunView {
	var all []RunView
	for _, s := range run.States() {
		r := RunView{ID: "run_sample", Mode: "pr_created", State: string(s), Since: now.Add(-4 * time.Minute), PatchGate: true, Leased: !s.Terminal(), Worker: "harbour-1"}
		r.StateSeconds = map[string]time.Duration{"QUEUED": 42 * time.Second, "PLANNING": 3 * time.Minute, "EXECUTING": 11 * time.Minute}
		switch s {
		case run.WaitingForApproval:
			r.Gate = &GateRef{ID: "gate_sample", Kind: "patch"}
		case run.Failed:
			r.EndedFrom = string(run.Verifying)
		case run.Cancelled, run.Cancelling:
			r.EndedFrom = string(run.Executing)
			r.Ladder = &Ladder{By: "Rita Requester", Asked: now.Add(-20 * time.Second), Told: now.Add(-17 * time.Second), Latest: now.Add(20 * time.Second), MayForce: s == run.Cancelling}
			if s == run.Cancelled {
				r.Ladder.Stopping, r.Ladder.Ended = now.Add(-16*time.Second), now.Add(-12*time.Second)
			}
		case run.Expired:
			r.EndedFrom = string(run.Queued)
		}
		all = append(all, r)
	}
	return all
}

func galleryStretches() []Stretch {
	var all []Stretch
	for i, k := range stretchKinds {
		all = append(all, Stretch{Kind: k.kind, Took: time.Duration(i+2) * 3 * time.Minute, Now: k.kind == "people"})
	}
	return all
}
