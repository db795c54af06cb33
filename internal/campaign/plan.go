package campaign

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Snapshot is all that a plan is made of.
type Snapshot struct {
	Campaign
	// Targets in their order, which never changes.
	Targets []Target
	// SpentMicros is what all tasks cost so far.
	SpentMicros int64
}

// ActionKind is what the control plane does next.
type ActionKind string

// Actions.
const (
	ActStart    ActionKind = "start"   // the target's task is made
	ActCancel   ActionKind = "cancel"  // the target's task is told to end
	ActPause    ActionKind = "pause"   // by a rule, a window or what is inconclusive
	ActResume   ActionKind = "resume"  // after a window, only
	ActAwait    ActionKind = "await"   // the wave is done: a person promotes
	ActPromote  ActionKind = "promote" // by rule
	ActComplete ActionKind = "complete"
	ActStopped  ActionKind = "stopped"
)

// Action is one thing to do, with the sentence that says why where a person wants to know.
type Action struct {
	Kind   ActionKind
	Target int // index into Snapshot.Targets, of start and cancel
	By     PauseBy
	Cause  string
	// Until is when a window opens.
	Until time.Time
	// Failures says whether a completed campaign has leftovers.
	Failures bool
}

// maxStarts bounds what one plan starts, so that a pass is short; the next pass goes on.
const maxStarts = 200

// Plan says what the control plane does now. It proposes nothing for a campaign that waits for a person, and at most one change of
// the campaign's state, alone: what follows from it is the next plan's.
func Plan(s Snapshot, now time.Time) []Action {
	switch s.State {
	case Stopping:
		return s.planStop()
	case Paused:
		return s.planPaused(now)
	case Running:
		return s.planRunning(now)
	default:
		return nil
	}
}

func (s Snapshot) planStop() []Action {
	var cancel []Action
	busy := false
	for i, t := range s.Targets {
		if !t.atWork() {
			continue
		}
		busy = true
		if s.CancelRunning && !t.CancelAsked {
			cancel = append(cancel, Action{Kind: ActCancel, Target: i})
		}
	}
	if busy {
		return cancel
	}
	return []Action{{Kind: ActStopped}}
}

// planPaused ends the pause of a window. Every other pause is a person's to end.
func (s Snapshot) planPaused(now time.Time) []Action {
	if s.Pause.By != ByWindow {
		return nil
	}
	if open, _ := s.Spec.Windows.Opens(now); open {
		return []Action{{Kind: ActResume, By: ByWindow, Cause: "The window is open."}}
	}
	return nil
}

func (s Snapshot) planRunning(now time.Time) []Action {
	done := s.waveDone()
	// Where nothing is left to start, there is nothing to pause for.
	if a, broken := s.brokenRule(); broken && !(done && s.lastWave()) {
		return []Action{a}
	}
	if done {
		return s.planWaveEnd(now)
	}
	if open, next := s.Spec.Windows.Opens(now); !open && s.anyWaiting() {
		return []Action{{Kind: ActPause, By: ByWindow, Until: next, Cause: "Targets are started in the campaign's windows only."}}
	}
	return s.planStarts(now)
}

// brokenRule reports the rule that pauses the campaign now.
func (s Snapshot) brokenRule() (Action, bool) {
	pause := func(format string, args ...any) (Action, bool) {
		return Action{Kind: ActPause, By: ByRule, Cause: fmt.Sprintf(format, args...)}, true
	}
	stop := s.Spec.Stop
	recent := RateOf(s.Targets, stop, s.RuleSince, stop.Last)
	switch {
	case recent.Of >= stop.Sample && recent.Percent() > stop.Rate:
		return pause("%s, limit %g %%.", recent, stop.Rate)
	case recent.Of < stop.Sample && stop.First > 0 && recent.Failed >= stop.First:
		return pause("%d failures before %d runs had finished; %d pause it.", recent.Failed, stop.Sample, stop.First)
	}
	if a := AllowanceOf(s.Targets, s.Spec); a.Left() < 0 {
		return pause("%d runs failed; %d of them are accepted in all. Exclude some, or raise the tolerance: it is paused again otherwise.", a.Used, a.Tolerance)
	}
	if b := s.Spec.Limits.BudgetMicros; b > 0 && s.SpentMicros >= b && s.anyWaiting() {
		return pause("The budget is used. Raise it, or stop: it is paused again otherwise.")
	}
	return Action{}, false
}

// waveDone reports whether nothing of the wave, nor of those before, waits or goes on.
func (s Snapshot) waveDone() bool {
	return !slices.ContainsFunc(s.Targets, func(t Target) bool { return t.Wave <= s.Wave && !t.done() })
}

func (s Snapshot) planWaveEnd(now time.Time) []Action {
	if n := s.unsettled(); n > 0 {
		return []Action{{Kind: ActPause, By: ByInconclusive, Cause: fmt.Sprintf("%d of the wave ended without a result that says whether it worked.", n)}}
	}
	if s.lastWave() {
		return []Action{{Kind: ActComplete, Failures: slices.ContainsFunc(s.Targets, func(t Target) bool { return t.Stage == Ended && t.Outcome.Leftover() })}}
	}
	wave := s.Spec.Waves[s.Wave]
	// A promotion is bound to the version that the canary ran (ux.md 5.4, rule 4): another one asks a person.
	if wave.Promotion != ByTheRule || s.promotionBlocked() {
		return []Action{{Kind: ActAwait}}
	}
	if now.Before(s.waveEnded().Add(wave.Soak.Duration())) {
		return nil
	}
	of := RateOf(s.ofWave(s.Wave), s.Spec.Stop, time.Time{}, 0)
	if of.Of == 0 {
		return []Action{{Kind: ActAwait, Cause: "Nothing of the wave succeeded or failed, so no rule can promote it."}}
	}
	if of.Percent() > s.Spec.Stop.Rate {
		return []Action{{Kind: ActPause, By: ByRule, Cause: fmt.Sprintf("%s of the wave, limit %g %%.", of, s.Spec.Stop.Rate)}}
	}
	return []Action{{Kind: ActPromote, Cause: fmt.Sprintf("%s of the wave, limit %g %%.", of, s.Spec.Stop.Rate)}}
}

// anyWaiting reports whether the waves so far have something to start.
func (s Snapshot) anyWaiting() bool {
	return slices.ContainsFunc(s.Targets, func(t Target) bool { return t.Wave <= s.Wave && t.Stage == Waiting })
}

// unsettled counts the inconclusive targets up to the wave that no person accepted.
func (s Snapshot) unsettled() int {
	n := 0
	for _, t := range s.Targets {
		if t.Wave <= s.Wave && t.Stage == Ended && t.Outcome == Inconclusive && t.EndedAt.After(s.AcceptedAt) {
			n++
		}
	}
	return n
}

// waveEnded is when the last target of the waves so far ended; at least when the wave began.
func (s Snapshot) waveEnded() time.Time {
	last := s.WaveSince
	for _, t := range s.Targets {
		if t.Wave <= s.Wave && t.EndedAt.After(last) {
			last = t.EndedAt
		}
	}
	return last
}

func (s Snapshot) ofWave(wave int) []Target {
	return slices.DeleteFunc(slices.Clone(s.Targets), func(t Target) bool { return t.Wave != wave })
}

// owned is what one owner has of a campaign.
type owned struct {
	atWork, pulls, started int
}

// planStarts chooses what begins: owners take turns, those with least at work first, then those with least so far; within one owner
// the order of the targets holds.
func (s Snapshot) planStarts(now time.Time) []Action {
	owners, waiting := map[string]*owned{}, map[string][]int{}
	atWork, opened := 0, 0
	for i, t := range s.Targets {
		o := owners[t.Owner]
		if o == nil {
			o = &owned{}
			owners[t.Owner] = o
		}
		if t.SpecVersion > 0 {
			o.started++
		}
		if t.PullOpen {
			o.pulls++
		}
		if !t.OpenedAt.IsZero() && t.OpenedAt.After(now.Add(-time.Hour)) {
			opened++
		}
		switch {
		case t.atWork():
			atWork++
			o.atWork++
		case t.Stage == Waiting && t.Wave <= s.Wave:
			waiting[t.Owner] = append(waiting[t.Owner], i)
		}
	}
	room := min(s.Spec.concurrency(s.Wave)-atWork, AllowanceOf(s.Targets, s.Spec).Left()+1-s.mayFail(), maxStarts)
	if perHour := s.Spec.Limits.PullsPerHour; perHour > 0 {
		room = min(room, perHour-opened-atWork) // each that is at work may open one yet
	}
	names := make([]string, 0, len(waiting))
	for name := range waiting {
		names = append(names, name)
	}
	var starts []Action
	for len(starts) < room {
		next, found := s.nextOwner(names, owners, waiting)
		if !found {
			break
		}
		o := owners[next]
		starts = append(starts, Action{Kind: ActStart, Target: waiting[next][0]})
		waiting[next] = waiting[next][1:]
		o.atWork++
		o.started++
	}
	return starts
}

// mayFail counts the targets whose end may yet be a failure.
func (s Snapshot) mayFail() int {
	n, closed := 0, slices.Contains(s.Spec.Stop.Counts, Closed)
	for _, t := range s.Targets {
		if t.atWork() || closed && t.Stage == Open {
			n++
		}
	}
	return n
}

// nextOwner is whose turn it is among those with something to start and room for its pull request.
func (s Snapshot) nextOwner(names []string, owners map[string]*owned, waiting map[string][]int) (string, bool) {
	best, found := "", false
	for _, name := range names {
		o := owners[name]
		if len(waiting[name]) == 0 || s.Spec.Limits.OpenPerOwner > 0 && name != "" && o.pulls+o.atWork >= s.Spec.Limits.OpenPerOwner {
			continue
		}
		if !found || o.before(*owners[best], waiting[name][0], waiting[best][0]) {
			best, found = name, true
		}
	}
	return best, found
}

func (o owned) before(than owned, first, thanFirst int) bool {
	return cmp.Or(cmp.Compare(o.atWork, than.atWork), cmp.Compare(o.started, than.started), cmp.Compare(first, thanFirst)) < 0
}
