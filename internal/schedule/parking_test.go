package schedule_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"signalbox/internal/schedule"
)

// R-TEST-17: a pause is as long as the provider asked, doubles with each probe that fails, never lasts longer than the
// longest pause whatever was asked for, is made no longer by those who failed in the same wave, and never ends earlier
// than before.
func TestPauses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p schedule.Parking
		now := noon
		for range rapid.IntRange(1, 12).Draw(t, "failures") {
			asked := time.Duration(rapid.IntRange(0, 86400).Draw(t, "asked")) * time.Second
			dice := rapid.Float64Range(0, 1).Draw(t, "dice")
			began := now.Add(-time.Duration(rapid.IntRange(0, 600).Draw(t, "ago")) * time.Second)
			next := p.Again(now, began, asked, dice)
			wait := next.Until.Sub(now)
			if wait < min(asked, schedule.LongestPause) || wait < schedule.FirstPause {
				t.Fatalf("waits %s, asked for were %s", wait, asked)
			}
			if next.Until.Before(p.Until) {
				t.Fatalf("the pause ends %s earlier than it did", p.Until.Sub(next.Until))
			}
			if most := schedule.LongestPause * 12 / 10; wait > most && next.Until != p.Until {
				t.Fatalf("waits %s, want at most %s", wait, most)
			}
			same := p.Failures > 0 && began.Before(p.Until)
			if want := p.Failures + 1; (same && next.Failures != p.Failures) || (!same && next.Failures != want) {
				t.Fatalf("failure %d after %d, same wave %t", next.Failures, p.Failures, same)
			}
			p, now = next, now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "later"))*time.Second)
		}
	})
	first := schedule.Parking{}.Again(noon, noon, 0, 0)
	second := first.Again(first.Until, first.Until, 0, 0)
	if a, b := first.Until.Sub(noon), second.Until.Sub(first.Until); a != 30*time.Second || b != time.Minute {
		t.Errorf("pauses of %s and %s", a, b)
	}
}

// A pause that is over lets one run try, and says so to the others by provider and time.
func TestOneRunTriesFirst(t *testing.T) {
	t.Parallel()
	s := calm()
	s.Parked = map[string]schedule.Parking{"anthropic": {Until: noon.Add(-time.Second), Failures: 1}}
	a, b, other := item(1, 0, 1, 0, 2*time.Minute), item(2, 1, 2, 0, time.Minute), item(3, 0, 1, 0, time.Second)
	a.Provider, b.Provider, other.Provider = "anthropic", "anthropic", "openai"
	if got := order(schedule.Assign(s, []schedule.Offer{worker(5)}, sorted(a, b, other))); len(got) != 2 || got[0]+got[1] != 4 {
		t.Errorf("given: %v, want the first with the provider and the one with another", got)
	}
	if s.Parked["anthropic"].Probe != (schedule.Parking{}).Probe {
		t.Error("deciding changed the state it was given")
	}
	s.Parked["anthropic"] = schedule.Parking{Until: noon.Add(-time.Second), Failures: 1, Probe: a.Run}
	why := schedule.Why(s, []schedule.Offer{worker(5)}, b, 0)
	if why.Code != schedule.CodeProviderProbed || !strings.Contains(why.Words, "anthropic") || !strings.Contains(why.Words, "11:59:59 UTC") {
		t.Errorf("%+v", why)
	}
}
