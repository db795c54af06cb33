package campaign_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"signalbox/internal/campaign"
	"signalbox/internal/run"
)

var fleetSeeds = flag.Int("fleet.seeds", 0, "how many seeds with 10,000 targets TestFleet runs; 0: 2, and 200 with 300 targets")

// world is a fleet as the control plane would see it: its store refuses what was planned from an older version, actions get lost
// when their planner dies, clocks jump, and people do what people do.
type world struct {
	t       *testing.T
	seed    uint64
	dice    *rand.Rand
	now     time.Time
	c       campaign.Campaign
	targets []campaign.Target
	version int // of the campaign's row: every event is a new one
	spent   int64
	// starts and allowed count, of each target, its starts and how often it may be started.
	starts, allowed []int
	ends            []time.Time // when the task of a target at work moves next
	stopped         bool        // a stop was asked for
	steady          bool        // nobody excluded or retried anything, and tolerance is a number
	stale           *stalePlan
	began           int
	promotions      int
}

type stalePlan struct {
	version int
	actions []campaign.Action
}

var (
	plane = run.Actor{Kind: run.ControlPlane, ID: "control"}
	ana   = run.Actor{Kind: run.Human, ID: "ana"}
	ben   = run.Actor{Kind: run.Human, ID: "ben"}
)

func newWorld(t *testing.T, targets int, seed uint64) *world {
	t.Helper()
	w := &world{t: t, seed: seed, dice: rand.New(rand.NewPCG(seed, uint64(targets))), now: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), steady: true}
	spec := campaign.Default()
	spec.Name, spec.Goal = "fleet", "Do {{thing}}"
	pick := func(n ...int) int { return n[w.dice.IntN(len(n))] }
	spec.Limits.Concurrency = pick(1, 5, 20, 100) * max(1, targets/300)
	spec.Limits.Tolerance = campaign.Amount(fmt.Sprint(pick(0, 3, 20, targets)))
	if w.dice.IntN(3) == 0 {
		spec.Limits.Tolerance, w.steady = "10%", false
	}
	spec.Limits.OpenPerOwner, spec.Limits.PullsPerHour = pick(0, 0, 10, 40), pick(0, 0, 30, 500)*max(1, targets/300)
	spec.Limits.BudgetMicros = int64(pick(0, 0, targets*2)) * 1000
	spec.Stop = campaign.Stop{Rate: float64(pick(5, 15, 100)), Last: pick(10, 50), Sample: pick(1, 5), First: pick(0, 1, 3)}
	if w.dice.IntN(4) == 0 {
		spec.Stop.Counts = []campaign.Outcome{campaign.Rejected, campaign.Infra}
	}
	if w.dice.IntN(2) == 0 {
		for i := range spec.Waves {
			spec.Waves[i].Promotion, spec.Waves[i].Soak = campaign.ByTheRule, "30m"
		}
	}
	if w.dice.IntN(4) == 0 {
		spec.Windows = campaign.Windows{Zone: "Europe/Zurich", Open: []campaign.Window{{Days: []string{"mon", "tue", "wed", "thu", "fri"}, From: "08:00", To: "18:00"}}}
	}
	if w.dice.IntN(3) == 0 {
		spec.Completes = campaign.WhenMerged
	}
	candidates := make([]campaign.Candidate, targets)
	for i := range candidates {
		candidates[i] = campaign.Candidate{Repository: fmt.Sprintf("org/repo-%05d", i), Owner: fmt.Sprintf("team-%d", w.dice.IntN(1+targets/20)),
			Language: []string{"go", "java", "python", "rust"}[w.dice.IntN(4)], Size: w.dice.Int64N(1000)}
	}
	waves, err := campaign.Assign(candidates, spec.Waves)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range candidates {
		w.targets = append(w.targets, campaign.Target{Repository: c.Repository, Owner: c.Owner, Wave: waves[i], Stage: campaign.Waiting})
		w.starts, w.allowed, w.ends = append(w.starts, 0), append(w.allowed, 1), append(w.ends, time.Time{})
	}
	w.must(campaign.Event{Kind: campaign.Created, By: ana, Spec: &spec})
	w.must(campaign.Event{Kind: campaign.WasPreviewed, By: ana})
	w.must(campaign.Event{Kind: campaign.LaunchRequested, By: ana, Targets: targets})
	if targets > campaign.SecondPerson {
		if _, err := campaign.Reduce(w.c, campaign.Event{Kind: campaign.Launched, By: ana, Targets: targets}); err == nil {
			t.Fatal("one person alone launched a large campaign")
		}
	}
	w.must(campaign.Event{Kind: campaign.Launched, By: ben, Targets: targets})
	return w
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d, %d targets, %s, wave %d: %s", w.seed, len(w.targets), w.c.State, w.c.Wave, fmt.Sprintf(format, args...))
}

// try is the one door: an event that the table holds is a new version.
func (w *world) try(ev campaign.Event) bool {
	ev.At = w.now
	next, err := campaign.Reduce(w.c, ev)
	if err != nil {
		return false
	}
	w.c, w.version = next, w.version+1
	return true
}

func (w *world) must(ev campaign.Event) {
	w.t.Helper()
	if !w.try(ev) {
		w.fail("%s was refused", ev.Kind)
	}
}

func (w *world) snapshot() campaign.Snapshot {
	return campaign.Snapshot{Campaign: w.c, Targets: w.targets, SpentMicros: w.spent}
}

// take applies actions that were planned from a version; where the row moved since, its door is shut.
func (w *world) take(version int, actions []campaign.Action) {
	for _, a := range actions {
		if version != w.version || w.dice.IntN(200) == 0 { // or its planner dies here
			return
		}
		w.apply(a)
		version++
		if version != w.version {
			w.fail("%v was refused though nothing moved", a)
		}
	}
}

func (w *world) apply(a campaign.Action) {
	ev := campaign.Event{By: plane}
	switch a.Kind {
	case campaign.ActStart:
		w.start(a.Target)
		ev.Kind = campaign.TargetStarted
	case campaign.ActCancel:
		t := &w.targets[a.Target]
		if t.CancelAsked || w.c.State != campaign.Stopping {
			w.fail("target %d is cancelled for no reason", a.Target)
		}
		t.CancelAsked = true
		ev.Kind = campaign.TargetMoved
	case campaign.ActPause:
		if a.Cause == "" {
			w.fail("a pause without a cause")
		}
		ev.Kind, ev.Pause = campaign.WasPaused, campaign.Pause{By: a.By, Cause: a.Cause, Until: a.Until}
	case campaign.ActResume:
		if w.c.Pause.By != campaign.ByWindow {
			w.fail("the control plane ends the pause of a %s", w.c.Pause.By)
		}
		ev.Kind = campaign.Resumed
	case campaign.ActAwait:
		w.settled("awaits promotion")
		ev.Kind = campaign.PromotionAsked
	case campaign.ActPromote:
		w.settled("is promoted by rule")
		w.promotions++
		ev.Kind = campaign.Promoted
	case campaign.ActComplete:
		w.settled("completes")
		if slices.ContainsFunc(w.targets, func(t campaign.Target) bool { return t.Stage != campaign.Ended && t.Stage != campaign.Excluded }) {
			w.fail("it completes though targets are left")
		}
		ev.Kind, ev.Failures = campaign.WasCompleted, a.Failures
	case campaign.ActStopped:
		if w.atWork() > 0 {
			w.fail("it is stopped though %d are at work", w.atWork())
		}
		ev.Kind = campaign.WasStopped
	}
	w.must(ev)
}

// start checks every rule that bounds a start, then starts.
func (w *world) start(i int) {
	t := &w.targets[i]
	type owned struct{ atWork, pulls int }
	owners, waits := map[string]owned{}, map[string]bool{}
	for _, t := range w.targets {
		o := owners[t.Owner]
		if t.Stage == campaign.Active || t.Stage == campaign.Held {
			o.atWork++
		}
		if t.PullOpen {
			o.pulls++
		}
		owners[t.Owner] = o
		if t.Stage == campaign.Waiting && t.Wave <= w.c.Wave {
			waits[t.Owner] = true
		}
	}
	limits, mine := w.c.Spec.Limits, owners[t.Owner]
	room := func(o owned) bool { return limits.OpenPerOwner == 0 || o.pulls+o.atWork < limits.OpenPerOwner }
	switch {
	case w.c.State != campaign.Running:
		w.fail("%s starts something", w.c.State)
	case w.stopped:
		w.fail("it starts something after a stop")
	case t.Stage != campaign.Waiting || t.Wave > w.c.Wave:
		w.fail("target %d, %s of wave %d, is started", i, t.Stage, t.Wave)
	case !room(mine):
		w.fail("%s gets more than %d pull requests", t.Owner, limits.OpenPerOwner)
	}
	if w.starts[i]++; w.starts[i] > w.allowed[i] {
		w.fail("target %d is started %d times", i, w.starts[i])
	}
	if open, _ := w.c.Spec.Windows.Opens(w.now); !open {
		w.fail("something starts outside of the windows, at %s", w.now)
	}
	t.Stage, t.SpecVersion, t.StartedAt, t.OpenedAt, t.EndedAt, t.Outcome, t.CancelAsked = campaign.Active, w.c.ProvenVersion, w.now, time.Time{}, time.Time{}, "", false
	w.ends[i] = w.now.Add(time.Duration(1+w.dice.IntN(120)) * time.Minute)
	w.began++
	a := campaign.AllowanceOf(w.targets, w.c.Spec)
	if n := w.atWork(); n > limits.Concurrency || n > a.Left()+1 {
		w.fail("%d are at work; %d are allowed, %d failures are left", n, limits.Concurrency, a.Left())
	}
	opened := w.atWork()
	for _, t := range w.targets {
		if !t.OpenedAt.IsZero() && t.OpenedAt.After(w.now.Add(-time.Hour)) {
			opened++
		}
	}
	if limits.PullsPerHour > 0 && opened > limits.PullsPerHour {
		w.fail("%d pull requests may open within an hour, %d are allowed", opened, limits.PullsPerHour)
	}
	for name := range waits {
		if o := owners[name]; o.atWork < mine.atWork && room(o) {
			w.fail("%s with %d at work goes before %s with %d", t.Owner, mine.atWork, name, o.atWork)
		}
	}
}

// settled checks that nothing of the waves so far goes on, and that nothing inconclusive was passed over.
func (w *world) settled(what string) {
	for i, t := range w.targets {
		if t.Wave > w.c.Wave {
			continue
		}
		if t.Stage != campaign.Ended && t.Stage != campaign.Excluded {
			w.fail("it %s though target %d is %s", what, i, t.Stage)
		}
		if t.Stage == campaign.Ended && t.Outcome == campaign.Inconclusive && t.EndedAt.After(w.c.AcceptedAt) {
			w.fail("it %s though target %d is inconclusive", what, i)
		}
	}
}

func (w *world) atWork() int {
	n := 0
	for _, t := range w.targets {
		if t.Stage == campaign.Active || t.Stage == campaign.Held {
			n++
		}
	}
	return n
}

// live moves what is at work, as tasks, people and forges do.
func (w *world) live(rot float64) {
	for i := range w.targets {
		t := &w.targets[i]
		switch {
		case t.Stage == campaign.Open && w.dice.IntN(4) == 0:
			w.end(i, campaign.Merged)
			if w.dice.IntN(10) == 0 {
				t.Outcome = campaign.Closed
			}
		case t.PullOpen && w.dice.IntN(6) == 0:
			t.PullOpen = false
		case t.Stage != campaign.Active && t.Stage != campaign.Held || w.now.Before(w.ends[i]):
		case t.CancelAsked:
			w.end(i, campaign.Cancelled)
		case t.Stage == campaign.Active && w.dice.IntN(3) == 0:
			t.Stage, w.ends[i] = campaign.Held, w.now.Add(time.Duration(w.dice.IntN(300))*time.Minute)
		default:
			w.spent += 1000
			w.end(i, w.outcome(rot))
		}
	}
}

func (w *world) outcome(rot float64) campaign.Outcome {
	switch p := w.dice.Float64(); {
	case p < rot:
		return campaign.Failed
	case p < rot+0.02:
		return []campaign.Outcome{campaign.Infra, campaign.Rejected, campaign.NoChange, campaign.Cancelled, campaign.Inconclusive}[w.dice.IntN(5)]
	default:
		return campaign.Delivered
	}
}

func (w *world) end(i int, o campaign.Outcome) {
	t := &w.targets[i]
	if o == campaign.Delivered {
		t.OpenedAt, t.PullOpen = w.now, true
		if w.c.Spec.Completes == campaign.WhenMerged {
			t.Stage = campaign.Open
			return
		}
	} else {
		t.PullOpen = false
	}
	t.Stage, t.Outcome, t.EndedAt = campaign.Ended, o, w.now
	w.version++ // target_moved
	if a := campaign.AllowanceOf(w.targets, w.c.Spec); w.steady && a.Left() < -1 {
		w.fail("%d failures of %d accepted ones", a.Used, a.Tolerance)
	}
}

// people do what people do; a patient one ends every pause.
func (w *world) people() {
	switch {
	case w.c.State == campaign.AwaitingPromotion:
		w.settled("awaits promotion")
		if !w.try(campaign.Event{Kind: campaign.Promoted, By: ana}) {
			if w.c.ProvenVersion == w.c.SpecVersion {
				w.fail("a promotion was refused")
			}
			w.must(campaign.Event{Kind: campaign.VersionAccepted, By: ana, Reason: "small"})
		}
	case w.c.State == campaign.Paused && w.c.Pause.By != campaign.ByWindow && w.dice.IntN(4) == 0:
		if campaign.AllowanceOf(w.targets, w.c.Spec).Left() < 0 || w.dice.IntN(2) == 0 {
			w.exclude()
		}
		if b := w.c.Spec.Limits.BudgetMicros; b > 0 && w.spent >= b {
			spec := w.c.Spec
			spec.Limits.BudgetMicros = w.spent * 2
			w.must(campaign.Event{Kind: campaign.SpecChanged, By: ana, Spec: &spec})
		}
		w.must(campaign.Event{Kind: campaign.Resumed, By: ana})
	case w.dice.IntN(100) == 0 && w.c.State == campaign.Running:
		w.must(campaign.Event{Kind: campaign.WasPaused, By: ana, Pause: campaign.Pause{By: campaign.ByPerson, Cause: "lunch"}})
	case w.dice.IntN(150) == 0 && w.c.State == campaign.Running:
		spec := w.c.Spec
		spec.Goal += "!"
		w.must(campaign.Event{Kind: campaign.SpecChanged, By: ana, Spec: &spec})
	case w.dice.IntN(100) == 0:
		w.retry()
	case w.dice.IntN(10*len(w.targets)) == 0:
		w.stopped = w.try(campaign.Event{Kind: campaign.StopRequested, By: ana, CancelRunning: w.dice.IntN(2) == 0})
	}
}

func (w *world) exclude() {
	w.steady = false
	for i := range w.targets {
		if t := &w.targets[i]; t.Stage == campaign.Ended && t.Outcome == campaign.Failed {
			w.must(campaign.Event{Kind: campaign.TargetExcluded, By: ana, Reason: "known"})
			t.Stage = campaign.Excluded
		}
	}
}

func (w *world) retry() {
	for i := range w.targets {
		if t := &w.targets[i]; t.Stage == campaign.Ended && t.Outcome.Leftover() && t.Wave <= w.c.Wave {
			if w.try(campaign.Event{Kind: campaign.TargetRetried, By: ana}) {
				w.steady = false
				w.allowed[i]++
				t.Stage, t.Outcome, t.EndedAt = campaign.Waiting, "", time.Time{}
			}
			return
		}
	}
}

// run goes on until the campaign is over, and reports whether it was within the time it was given.
func (w *world) run() {
	rot := []float64{0, 0.03, 0.2, 0.6}[w.dice.IntN(4)]
	for pass := 0; !w.c.State.Terminal(); pass++ {
		if pass > 60_000 {
			w.fail("it does not end: %d at work, paused by %q: %s", w.atWork(), w.c.Pause.By, w.c.Pause.Cause)
		}
		if pass == 20_000 {
			rot = 0
		}
		plan, version := campaign.Plan(w.snapshot(), w.now), w.version
		if w.dice.IntN(10) == 0 {
			if again := campaign.Plan(w.snapshot(), w.now); !slices.Equal(plan, again) {
				w.fail("the same snapshot gives two plans: %v and %v", plan, again)
			}
		}
		// Another replica may hold an older plan, and comes first.
		if w.stale != nil && w.dice.IntN(3) == 0 {
			w.take(w.stale.version, w.stale.actions)
			w.stale = nil
		}
		if w.dice.IntN(5) == 0 {
			w.stale = &stalePlan{version, plan}
		}
		before := w.c
		w.take(version, plan)
		if before.State == campaign.Paused && w.c.State == campaign.Running && before.Pause.By != campaign.ByWindow {
			w.fail("a pause by %s ended by itself", before.Pause.By)
		}
		switch w.dice.IntN(50) {
		case 0:
			w.now = w.now.Add(-time.Duration(w.dice.IntN(90)) * time.Minute)
		case 1:
			w.now = w.now.Add(time.Duration(w.dice.IntN(48)) * time.Hour)
		default:
			w.now = w.now.Add(time.Duration(w.dice.IntN(30)) * time.Minute)
		}
		w.live(rot)
		w.people()
	}
	if w.c.State == campaign.CompletedWithFailures != slices.ContainsFunc(w.targets, func(t campaign.Target) bool {
		return t.Stage == campaign.Ended && t.Outcome.Leftover()
	}) && w.c.State != campaign.Stopped {
		w.fail("what is left over and the end do not fit")
	}
}

// ux.md 5.4: whatever fails, crashes or jumps, no rule is broken: never more at work than allowed, never past the tolerance, no target
// twice, nothing starts while paused or after a stop, a stop beats a promotion, what is inconclusive pauses, owners take turns; and
// every campaign ends.
func TestFleet(t *testing.T) {
	t.Parallel()
	sizes := []struct{ targets, seeds int }{{300, 200}, {10_000, 2}}
	if *fleetSeeds > 0 {
		sizes = []struct{ targets, seeds int }{{10_000, *fleetSeeds}}
	}
	if testing.Short() {
		sizes = []struct{ targets, seeds int }{{300, 20}}
	}
	for _, size := range sizes {
		t.Run(fmt.Sprint(size.targets), func(t *testing.T) {
			t.Parallel()
			began, ends := 0, map[campaign.State]int{}
			for seed := range uint64(size.seeds) {
				w := newWorld(t, size.targets, seed)
				w.run()
				began += w.began
				ends[w.c.State]++
			}
			t.Logf("%d campaigns, %d starts: %v", size.seeds, began, ends)
		})
	}
}
