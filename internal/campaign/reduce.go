package campaign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// Campaign is what the reducer owns.
type Campaign struct {
	State State
	Spec  Spec
	// SpecVersion is that of Spec; the first is 1.
	SpecVersion int
	// Wave is the index of the wave that runs or was run last.
	Wave int
	// WaveSince is when that wave began.
	WaveSince time.Time
	// ProvenVersion is the version that the first wave ran with, or that a person let go on without one; 0 before.
	ProvenVersion int
	// Pause is set while paused, ResumeTo is where a resume leads.
	Pause    Pause
	ResumeTo State
	// RuleSince is from when finished targets count for the stop rule: a person who resumes starts its count anew.
	RuleSince time.Time
	// AcceptedAt is when a person last resumed after what was inconclusive.
	AcceptedAt time.Time
	// LaunchBy is who asked for the launch of a campaign that needs a second person.
	LaunchBy string
	// CancelRunning says that a stop cancels what runs.
	CancelRunning bool
}

// Pause says why nothing starts.
type Pause struct {
	By    PauseBy
	Cause string
	Until time.Time // of a window
}

// Kind names an event of a campaign.
type Kind string

// Events.
const (
	Created         Kind = "campaign_created"
	SpecChanged     Kind = "spec_changed"
	WasPreviewed    Kind = "campaign_previewed"
	LaunchRequested Kind = "launch_requested"
	Launched        Kind = "campaign_launched"
	PromotionAsked  Kind = "promotion_awaited"
	Promoted        Kind = "wave_promoted"
	CanaryRerun     Kind = "canary_rerun"
	VersionAccepted Kind = "version_accepted"
	WasPaused       Kind = "campaign_paused"
	Resumed         Kind = "campaign_resumed"
	StopRequested   Kind = "stop_requested"
	WasStopped      Kind = "campaign_stopped"
	WasCompleted    Kind = "campaign_completed"
	// Of targets: the campaign's state stays.
	TargetStarted  Kind = "target_started"
	TargetMoved    Kind = "target_moved"
	TargetExcluded Kind = "target_excluded"
	TargetRetried  Kind = "target_retried"
)

// Event is what happened to a campaign.
type Event struct {
	Kind Kind
	By   run.Actor
	At   time.Time
	// Spec is the new version, of created and spec_changed.
	Spec *Spec
	// Pause is why, of campaign_paused.
	Pause Pause
	// Reason is a person's, where one is asked.
	Reason string
	// CancelRunning of stop_requested.
	CancelRunning bool
	// Failures of campaign_completed.
	Failures bool
	// Targets is how many are eligible, of launch_requested and campaign_launched.
	Targets int
}

// SecondPerson is above how many targets a launch needs a second person.
const SecondPerson = 25

// Transition is one row of a campaign's table.
type Transition struct {
	From  []State
	Event Kind
	To    []State
	By    []run.ActorKind
	Notes string
}

// Unchanged marks a target that equals the source.
const Unchanged State = "(unchanged)"

// NoCampaign is the source of one that does not exist yet.
const NoCampaign State = ""

// Transitions is the normative table: Reduce consults it, tests walk it and the docs print it.
func Transitions() []Transition {
	open := slices.DeleteFunc(States(), State.Terminal)
	launched := slices.DeleteFunc(slices.Clone(open), func(s State) bool { return s == Draft || s == Previewed })
	going := slices.DeleteFunc(slices.Clone(launched), func(s State) bool { return s == Stopping })
	person, plane := []run.ActorKind{run.Human}, []run.ActorKind{run.ControlPlane}
	return []Transition{
		{[]State{NoCampaign}, Created, []State{Draft}, person, ""},
		{append([]State{Draft, Previewed}, going...), SpecChanged, []State{Draft, Unchanged}, person, "before the launch the preview is made anew; after it, waves go on with the version that was proven until a person says otherwise"},
		{[]State{Draft, Previewed}, WasPreviewed, []State{Previewed}, person, "targets resolved, counted and shown"},
		{[]State{Previewed}, LaunchRequested, []State{Unchanged}, person, "above 25 targets, a second person launches"},
		{[]State{Previewed}, Launched, []State{Running}, person, "by another person than who asked, where two are needed"},
		{[]State{Running}, PromotionAsked, []State{AwaitingPromotion}, plane, "every target of the wave ended or is excluded"},
		{[]State{AwaitingPromotion}, Promoted, []State{Running}, person, "refused while the version is not the proven one"},
		{[]State{Running}, Promoted, []State{Running}, plane, "by rule: soaked, and the wave's failures are within the limit"},
		{going, CanaryRerun, []State{Running}, person, "the first wave's targets are run again with the new version"},
		{going, VersionAccepted, []State{Unchanged}, person, "override with a reason: the version goes on without a canary"},
		{[]State{Running, AwaitingPromotion}, WasPaused, []State{Paused}, []run.ActorKind{run.Human, run.ControlPlane}, "by a person, a rule, a window, or what is inconclusive; work goes on"},
		{[]State{Paused}, WasPaused, []State{Paused}, person, "a person takes over the pause of a window"},
		{[]State{Paused}, Resumed, []State{Running, AwaitingPromotion}, []run.ActorKind{run.Human, run.ControlPlane}, "the control plane ends only the pause of a window"},
		{append([]State{Draft, Previewed}, launched...), StopRequested, []State{Stopping, Stopped}, person, "final; lets what runs finish, or cancels it; before the launch at once"},
		{[]State{Stopping}, WasStopped, []State{Stopped}, plane, "nothing is at work any more"},
		{[]State{Running}, WasCompleted, []State{Completed, CompletedWithFailures}, plane, "every target ended or is excluded"},
		{[]State{Running}, TargetStarted, []State{Unchanged}, plane, "within concurrency, tolerance, caps and windows"},
		{launched, TargetMoved, []State{Unchanged}, plane, "its task or pull request moved"},
		{going, TargetExcluded, []State{Unchanged}, person, "with a reason; not while it is at work; before the launch the spec excludes"},
		{going, TargetRetried, []State{Unchanged, Running}, person, "an ended target waits again, with an added instruction"},
	}
}

// IllegalError says that the table has no such event, from this actor, in that state.
type IllegalError struct {
	State State
	Kind  Kind
	Why   string
}

func (e *IllegalError) Error() string {
	s := fmt.Sprintf("campaign event %s is not legal in state %q", e.Kind, e.State)
	if e.Why != "" {
		s += ": " + e.Why
	}
	return s
}

// Reduce applies one event: pure and total. Refused, it returns the campaign as it was.
func Reduce(c Campaign, ev Event) (Campaign, error) {
	legal := slices.ContainsFunc(Transitions(), func(t Transition) bool {
		return t.Event == ev.Kind && slices.Contains(t.From, c.State) && slices.Contains(t.By, ev.By.Kind)
	})
	if !legal {
		return c, &IllegalError{State: c.State, Kind: ev.Kind}
	}
	next, why := reduce(c, ev)
	if why != "" {
		return c, &IllegalError{c.State, ev.Kind, why}
	}
	return next, nil
}

func reduce(c Campaign, ev Event) (next Campaign, why string) {
	switch ev.Kind {
	case Created, SpecChanged:
		if ev.Spec == nil {
			return c, "it names no spec"
		}
		return c.respecified(*ev.Spec)
	case WasPreviewed:
		c.State, c.LaunchBy = Previewed, ""
	case LaunchRequested:
		c.LaunchBy = ev.By.ID
	case Launched:
		return launch(c, ev)
	case PromotionAsked:
		c.State = AwaitingPromotion
	case Promoted:
		return promote(c, ev)
	case CanaryRerun:
		c.State, c.Wave, c.WaveSince, c.RuleSince, c.ProvenVersion, c.Pause = Running, 0, ev.At, ev.At, c.SpecVersion, Pause{}
	case VersionAccepted:
		if strings.TrimSpace(ev.Reason) == "" {
			return c, "a version that no canary has proven goes on with a reason only"
		}
		c.ProvenVersion = c.SpecVersion
	case WasPaused:
		return pause(c, ev)
	case Resumed:
		return resume(c, ev)
	case StopRequested:
		c.CancelRunning, c.Pause = ev.CancelRunning, Pause{}
		switch c.State {
		case Draft, Previewed:
			c.State = Stopped
		default:
			c.State = Stopping
		}
	case TargetRetried:
		// It waits again, so the wave is not done.
		switch {
		case c.State == AwaitingPromotion:
			c.State = Running
		case c.State == Paused:
			c.ResumeTo = Running
		}
	case WasStopped:
		c.State = Stopped
	case WasCompleted:
		c.State = Completed
		if ev.Failures {
			c.State = CompletedWithFailures
		}
	}
	return c, ""
}

// respecified puts a new version in force. What the work is, its proof goes with; limits hold at once.
func (c Campaign) respecified(spec Spec) (Campaign, string) {
	if c.Launched() {
		if !sameFleet(c.Spec, spec) {
			return c, "targets and the sizes of waves are settled at the launch; what is left over becomes a follow-up campaign"
		}
		if !c.promotionBlocked() && sameWork(c.Spec, spec) {
			c.ProvenVersion++
		}
	}
	c.Spec, c.SpecVersion, c.LaunchBy = spec, c.SpecVersion+1, ""
	if !c.Launched() {
		c.State = Draft
	}
	return c, ""
}

// Launched reports whether targets may have been started.
func (c Campaign) Launched() bool {
	return c.State != NoCampaign && c.State != Draft && c.State != Previewed
}

// sameWork reports whether two specs ask the same of a target.
func sameWork(a, b Spec) bool {
	x, errX := a.Contract.Digest()
	y, errY := b.Contract.Digest()
	return errX == nil && errY == nil && x == y && a.Goal == b.Goal && a.Title == b.Title && a.Agent == b.Agent
}

// sameFleet reports whether two specs have the same targets in the same waves.
func sameFleet(a, b Spec) bool {
	x, errX := json.Marshal(a.Targets) // an empty list and none are the same
	y, errY := json.Marshal(b.Targets)
	return errX == nil && errY == nil && bytes.Equal(x, y) && a.Completes == b.Completes &&
		slices.EqualFunc(a.Waves, b.Waves, func(x, y Wave) bool { return x.Kind == y.Kind && x.Size == y.Size })
}

func launch(c Campaign, ev Event) (Campaign, string) {
	switch {
	case ev.Targets == 0:
		return c, "no repository takes part"
	case ev.Targets > SecondPerson && c.LaunchBy == "":
		return c, fmt.Sprintf("above %d targets it is asked for first, and launched by a second person", SecondPerson)
	case ev.Targets > SecondPerson && c.LaunchBy == ev.By.ID:
		return c, "whoever asked for the launch is not the second person"
	}
	c.State, c.Wave, c.WaveSince, c.RuleSince, c.ProvenVersion = Running, 0, ev.At, ev.At, c.SpecVersion
	return c, ""
}

func promote(c Campaign, ev Event) (Campaign, string) {
	switch {
	case c.lastWave():
		return c, "there is no further wave"
	case c.promotionBlocked():
		return c, fmt.Sprintf("the canary ran with version %d of the spec, which is now version %d", c.ProvenVersion, c.SpecVersion)
	}
	c.State, c.Wave, c.WaveSince = Running, c.Wave+1, ev.At
	return c, ""
}

func pause(c Campaign, ev Event) (Campaign, string) {
	switch {
	case ev.Pause.By == "":
		return c, "it does not say by whom"
	case ev.Pause.By != ByPerson && ev.By.Kind == run.Human, ev.Pause.By == ByPerson && ev.By.Kind != run.Human:
		return c, "it names another cause than who did it"
	case c.State == Paused && c.Pause.By != ByWindow:
		return c, "it is paused already"
	}
	if c.State != Paused {
		c.ResumeTo = c.State
	}
	c.State, c.Pause = Paused, ev.Pause
	return c, ""
}

func resume(c Campaign, ev Event) (Campaign, string) {
	if ev.By.Kind != run.Human && c.Pause.By != ByWindow {
		return c, "a person has to resume it"
	}
	switch c.Pause.By {
	case ByRule:
		// What finished before is known to who resumes; the rule begins to count anew.
		c.RuleSince = ev.At
	case ByInconclusive:
		c.AcceptedAt = ev.At
	}
	c.State, c.Pause = c.ResumeTo, Pause{}
	return c, ""
}

func (c Campaign) lastWave() bool { return c.Wave >= len(c.Spec.Waves)-1 }

// promotionBlocked reports whether the spec is another than the one that was proven.
func (c Campaign) promotionBlocked() bool { return c.ProvenVersion != c.SpecVersion }

// Refusal is what a person is told of an event that is not legal.
func Refusal(err error) error {
	illegal, ok := errors.AsType[*IllegalError](err)
	switch {
	case !ok:
		return err
	case illegal.Why != "":
		return fault.Wrap(fault.Conflict, err, "Nothing was changed: "+illegal.Why+".")
	default:
		return fault.Wrap(fault.Conflict, err, fmt.Sprintf("Nothing was changed: that cannot be done with a campaign that is %s.", strings.ToLower(strings.ReplaceAll(string(illegal.State), "_", " "))))
	}
}
