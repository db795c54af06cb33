package campaign_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/internal/campaign"
	"signalbox/internal/run"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// fleet is a running campaign of n targets in its last wave, of which some ended.
func fleet(n int, ended ...campaign.Outcome) campaign.Snapshot {
	s := campaign.Snapshot{Campaign: campaign.Campaign{State: campaign.Running, Spec: campaign.Default(), SpecVersion: 1, ProvenVersion: 1, WaveSince: at.Add(-time.Hour)}}
	s.Spec.Waves = []campaign.Wave{{Kind: campaign.Full}}
	for i := range n {
		t := campaign.Target{Repository: string(rune('a' + i)), Stage: campaign.Waiting}
		if i < len(ended) {
			t.Stage, t.Outcome, t.EndedAt = campaign.Ended, ended[i], at.Add(time.Duration(i-100)*time.Second)
		}
		s.Targets = append(s.Targets, t)
	}
	return s
}

func only(t *testing.T, s campaign.Snapshot) campaign.Action {
	t.Helper()
	plan := campaign.Plan(s, at)
	if len(plan) != 1 {
		t.Fatalf("the plan is %v, want one action", plan)
	}
	return plan[0]
}

// ux.md 5.4, rules 1 and 2: what counts, from which sample on, and what the sentence says.
func TestStopRule(t *testing.T) {
	t.Parallel()
	f, d := campaign.Failed, campaign.Delivered
	for name, tc := range map[string]struct {
		ended []campaign.Outcome
		set   func(*campaign.Snapshot)
		want  string // cause of the pause; empty: it goes on
	}{
		"within the rate":          {[]campaign.Outcome{d, d, d, d, d, d, d, d, f}, nil, ""},
		"above the rate":           {[]campaign.Outcome{f, d, d, d, d}, nil, "1 of 5 finished runs failed (20 %), limit 15 %."},
		"no sample yet":            {[]campaign.Outcome{f, f, d}, nil, ""},
		"absolute before a sample": {[]campaign.Outcome{f, f, f}, nil, "3 failures before 5 runs had finished; 3 pause it."},
		"others do not count":      {[]campaign.Outcome{campaign.Infra, campaign.Rejected, campaign.NoChange, campaign.Cancelled, campaign.Closed, campaign.Inconclusive, d}, nil, ""},
		"unless configured": {[]campaign.Outcome{campaign.Rejected, d, d, d, d},
			func(s *campaign.Snapshot) { s.Spec.Stop.Counts = []campaign.Outcome{campaign.Rejected} }, "1 of 5 finished runs failed (20 %), limit 15 %."},
		"only the last": {[]campaign.Outcome{f, d, d, d, d, d}, func(s *campaign.Snapshot) { s.Spec.Stop.Last = 5 }, ""},
		"only since a person resumed": {[]campaign.Outcome{f, f, f}, func(s *campaign.Snapshot) {
			s.RuleSince, s.Spec.Limits.Tolerance = at, "9"
		}, ""},
		"past the tolerance": {[]campaign.Outcome{f, f, d, d, d, d, d, d, d, d, d, d, d, d}, func(s *campaign.Snapshot) { s.Spec.Limits.Tolerance = "1" }, "2 runs failed; 1 of them are accepted in all. Exclude some, or raise the tolerance: it is paused again otherwise."},
		"over the budget":    {[]campaign.Outcome{d}, func(s *campaign.Snapshot) { s.Spec.Limits.BudgetMicros, s.SpentMicros = 10, 10 }, "The budget is used. Raise it, or stop: it is paused again otherwise."},
	} {
		s := fleet(20, tc.ended...)
		if tc.set != nil {
			tc.set(&s)
		}
		plan := campaign.Plan(s, at)
		if tc.want == "" {
			if len(plan) == 0 || plan[0].Kind != campaign.ActStart {
				t.Errorf("%s: %v", name, plan)
			}
			continue
		}
		if len(plan) != 1 || plan[0].Kind != campaign.ActPause || plan[0].By != campaign.ByRule || plan[0].Cause != tc.want {
			t.Errorf("%s: %v, want %q", name, plan, tc.want)
		}
	}
	if n, why := campaign.AtOnce(fleet(50, f, f).Targets, campaign.Default(), 0); n != 4 || why != "4 at a time because 2 of 5 allowed failures are used" {
		t.Errorf("%d at once: %q", n, why)
	}
}

// At the end of a wave: what is inconclusive asks, a rule promotes after the soak and within its limit, a hand is waited for, and a
// version that was not proven waits for a person whatever the rule.
func TestWaveEnd(t *testing.T) {
	t.Parallel()
	d := campaign.Delivered
	ended := func(set func(*campaign.Snapshot), outcomes ...campaign.Outcome) campaign.Snapshot {
		s := fleet(len(outcomes), outcomes...)
		s.Spec.Waves = []campaign.Wave{{Kind: campaign.Canary, Size: "1", Promotion: campaign.ByTheRule, Soak: "1m"}, {Kind: campaign.Full}}
		s.Targets = append(s.Targets, campaign.Target{Repository: "later", Wave: 1, Stage: campaign.Waiting})
		set(&s)
		return s
	}
	as := func(*campaign.Snapshot) {}
	if a := only(t, ended(as, d, d, d)); a.Kind != campaign.ActPromote {
		t.Errorf("%v", a)
	}
	if plan := campaign.Plan(ended(func(s *campaign.Snapshot) { s.Targets[0].EndedAt = at.Add(-time.Second) }, d, d), at); len(plan) != 0 {
		t.Errorf("before the soak is over: %v", plan)
	}
	if a := only(t, ended(as, d, campaign.Inconclusive)); a.Kind != campaign.ActPause || a.By != campaign.ByInconclusive {
		t.Errorf("%v", a)
	}
	if a := only(t, ended(func(s *campaign.Snapshot) { s.AcceptedAt = at }, d, campaign.Inconclusive)); a.Kind != campaign.ActPromote {
		t.Errorf("accepted: %v", a)
	}
	if a := only(t, ended(as, d, campaign.Failed)); a.Kind != campaign.ActPause || !strings.Contains(a.Cause, "1 of 2 finished runs failed (50 %) of the wave") && !strings.Contains(a.Cause, "accepted in all") {
		t.Errorf("a canary that failed: %v", a)
	}
	if a := only(t, ended(as, campaign.NoChange)); a.Kind != campaign.ActAwait {
		t.Errorf("nothing to judge by: %v", a)
	}
	if a := only(t, ended(func(s *campaign.Snapshot) { s.Spec.Waves[0].Promotion = campaign.ByHand }, d)); a.Kind != campaign.ActAwait {
		t.Errorf("by hand: %v", a)
	}
	if a := only(t, ended(func(s *campaign.Snapshot) { s.SpecVersion = 2 }, d)); a.Kind != campaign.ActAwait {
		t.Errorf("not the proven version: %v", a)
	}
	if a := only(t, fleet(2, d, campaign.Failed)); a.Kind != campaign.ActComplete || !a.Failures {
		t.Errorf("%v", a)
	}
	if a := only(t, fleet(2, d, campaign.NoChange)); a.Kind != campaign.ActComplete || a.Failures {
		t.Errorf("%v", a)
	}
}

// Windows are by the wall of their zone, past midnight and past a change of the clocks; only the pause of a window ends by itself.
func TestWindows(t *testing.T) {
	t.Parallel()
	w := campaign.Windows{Zone: "Europe/Zurich", Open: []campaign.Window{{Days: []string{"mon", "fri"}, From: "22:00", To: "02:00"}}}
	for text, want := range map[string]string{ // in UTC
		"2026-11-30T20:59:00Z": "2026-11-30T21:00:00Z", "2026-11-30T21:00:00Z": "", "2026-12-01T00:59:00Z": "", "2026-12-01T01:00:00Z": "2026-12-04T21:00:00Z",
		"2026-03-28T12:00:00Z": "2026-03-30T20:00:00Z", // summer time began on Sunday
	} {
		now, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		open, next := w.Opens(now)
		got := ""
		if !open {
			got = next.Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("at %s it is next open at %q, want %q", text, got, want)
		}
	}
	s := fleet(3)
	s.Spec.Windows = w
	if a := only(t, s); a.Kind != campaign.ActPause || a.By != campaign.ByWindow || !a.Until.Equal(at.Add(9*time.Hour)) {
		t.Errorf("outside of the windows: %v", a)
	}
	s.State, s.ResumeTo, s.Pause = campaign.Paused, campaign.Running, campaign.Pause{By: campaign.ByWindow}
	if plan := campaign.Plan(s, at.Add(10*time.Hour)); len(plan) != 1 || plan[0].Kind != campaign.ActResume {
		t.Errorf("in the window: %v", plan)
	}
}

// Every pair of a state and an event that the table does not hold is refused and changes nothing, and so is what the table's notes
// forbid.
func TestReduce(t *testing.T) {
	t.Parallel()
	spec := campaign.Default()
	for _, from := range append(campaign.States(), campaign.NoCampaign) {
		for _, kind := range []run.ActorKind{run.Human, run.ControlPlane, run.Worker, run.AgentRuntime, run.Policy} {
			for _, row := range campaign.Transitions() {
				c := campaign.Campaign{State: from, Spec: spec, SpecVersion: 1, ProvenVersion: 1, ResumeTo: campaign.Running, Pause: campaign.Pause{By: campaign.ByWindow}}
				ev := campaign.Event{Kind: row.Event, By: run.Actor{Kind: kind, ID: "x"}, At: at, Spec: &spec, Targets: 3, Reason: "x", Pause: campaign.Pause{By: campaign.ByPerson}}
				if kind != run.Human {
					ev.Pause.By = campaign.ByRule
				}
				next, err := campaign.Reduce(c, ev)
				var legal []campaign.State
				for _, other := range campaign.Transitions() {
					if other.Event == row.Event && slices.Contains(other.From, from) && slices.Contains(other.By, kind) {
						legal = append(legal, other.To...)
					}
				}
				switch {
				case err != nil && next.State != from:
					t.Errorf("%s in %q by %s was refused and led to %s", row.Event, from, kind, next.State)
				case err != nil && len(legal) > 0:
					t.Errorf("%s in %q by %s: %v", row.Event, from, kind, err)
				case err == nil && len(legal) == 0:
					t.Errorf("%s in %q by %s was accepted", row.Event, from, kind)
				case err == nil && !slices.Contains(legal, next.State) && (!slices.Contains(legal, campaign.Unchanged) || next.State != from):
					t.Errorf("%s in %q by %s led to %s, the table says %v", row.Event, from, kind, next.State, legal)
				}
			}
		}
	}
	refused := func(what string, c campaign.Campaign, ev campaign.Event) {
		t.Helper()
		if next, err := campaign.Reduce(c, ev); err == nil {
			t.Errorf("%s was accepted: %+v", what, next)
		}
	}
	waves := campaign.Campaign{State: campaign.AwaitingPromotion, Spec: spec, SpecVersion: 2, ProvenVersion: 1}
	refused("the promotion of a version that was not proven", waves, campaign.Event{Kind: campaign.Promoted, By: ana})
	refused("a version without proof and without a reason", waves, campaign.Event{Kind: campaign.VersionAccepted, By: ana, Reason: " "})
	paused := campaign.Campaign{State: campaign.Paused, Spec: spec, Pause: campaign.Pause{By: campaign.ByRule}, ResumeTo: campaign.Running}
	refused("the control plane's end of a rule's pause", paused, campaign.Event{Kind: campaign.Resumed, By: plane})
	refused("a second pause", paused, campaign.Event{Kind: campaign.WasPaused, By: ana, Pause: campaign.Pause{By: campaign.ByPerson}})
	running := campaign.Campaign{State: campaign.Running, Spec: spec, SpecVersion: 1, ProvenVersion: 1}
	refused("a person's pause in a rule's name", running, campaign.Event{Kind: campaign.WasPaused, By: ana, Pause: campaign.Pause{By: campaign.ByRule}})
	other := spec
	other.Targets.Match = []string{"org/*"}
	refused("other targets after the launch", running, campaign.Event{Kind: campaign.SpecChanged, By: ana, Spec: &other})
	ready := campaign.Campaign{State: campaign.Previewed, Spec: spec, SpecVersion: 1, LaunchBy: "ana"}
	refused("the launch of nothing", ready, campaign.Event{Kind: campaign.Launched, By: ben})
	refused("a launch by who asked for it", ready, campaign.Event{Kind: campaign.Launched, By: ana, Targets: 26})
	if _, err := campaign.Reduce(ready, campaign.Event{Kind: campaign.Launched, By: ben, Targets: 26}); err != nil {
		t.Error(err)
	}
}

// ux.md 5.4, rule 4: limits hold at once; another instruction is a version that the canary has not proven.
func TestSpecVersions(t *testing.T) {
	t.Parallel()
	c := campaign.Campaign{State: campaign.Running, Spec: campaign.Default(), SpecVersion: 1, ProvenVersion: 1}
	limits, goal := c.Spec, c.Spec
	limits.Limits.Concurrency = 3
	goal.Goal = "Something else"
	c, err := campaign.Reduce(c, campaign.Event{Kind: campaign.SpecChanged, By: ana, Spec: &limits})
	if err != nil || c.SpecVersion != 2 || c.ProvenVersion != 2 || c.State != campaign.Running {
		t.Fatalf("other limits: %+v, %v", c, err)
	}
	c, err = campaign.Reduce(c, campaign.Event{Kind: campaign.SpecChanged, By: ana, Spec: &goal})
	if err != nil || c.SpecVersion != 3 || c.ProvenVersion != 2 {
		t.Fatalf("another goal: %+v, %v", c, err)
	}
	c, err = campaign.Reduce(c, campaign.Event{Kind: campaign.SpecChanged, By: ana, Spec: &limits})
	if err != nil || c.ProvenVersion != 2 || c.SpecVersion != 4 {
		t.Fatalf("other limits of a version that is not proven: %+v, %v", c, err)
	}
	c, err = campaign.Reduce(c, campaign.Event{Kind: campaign.CanaryRerun, By: ana, At: at})
	if err != nil || c.ProvenVersion != 4 || c.Wave != 0 || c.State != campaign.Running {
		t.Fatalf("the canary again: %+v, %v", c, err)
	}
}
