package schedule_test

import (
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"signalbox/internal/policy"
	"signalbox/internal/schedule"
)

// R-Q-6, R-Q-4: what OpenLanes and OpenItems leave out can give nothing, whoever made it, and what OpenItems keeps is given
// where it is alone.
func TestOpenIsWhatAssignGives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, offers, i := anyState(t), anyOffers(t), anyItem(t, 1)
		if rapid.Bool().Draw(t, "paused") {
			s.Paused = []schedule.Pause{{Tenant: draw(t, "whose", i.Tenant, uuid.Nil, id('t', 77)), Queue: i.Queue}}
		}
		given := len(schedule.Assign(s, offers, []schedule.Item{i})) == 1
		if open := len(schedule.OpenItems(s, offers, []schedule.Item{i})) == 1; open != given {
			t.Fatalf("the item is open: %t, and it is given: %t", open, given)
		}
		alike := i
		alike.Maker = uuid.Nil
		if given && len(schedule.OpenItems(s, offers, []schedule.Item{alike})) == 0 {
			t.Fatal("the group of an item that is given is left out")
		}
		if given && len(schedule.OpenLanes(s, offers, []schedule.Lane{i.Lane()})) == 0 {
			t.Fatal("a lane whose item is given is closed")
		}
		for n := range offers {
			offers[n].Free = 0
		}
		if len(schedule.OpenLanes(s, offers, []schedule.Lane{i.Lane()})) != 0 {
			t.Fatal("a lane is open that nobody has room for")
		}
	})
}

// R-Q-6: the limits of a model provider count and hold back what calls it, and no verification and no pull request.
func TestProviderLimitsHoldWhatCallsTheProvider(t *testing.T) {
	t.Parallel()
	rules := policy.Default()
	rules.Concurrency.Providers = map[string]int{"stoic": 1}
	s := schedule.State{Now: noon, Tenants: map[uuid.UUID]schedule.Tenant{id('t', 0): {Name: "t0", Rules: rules}}, Installation: policy.Default().Installation}
	offers := []schedule.Offer{{Worker: id('w', 0), Phases: []string{"execute", "verify", "publish"}, Isolation: policy.IsolationBwrap, Free: 9}}
	waits := func(phase string) []schedule.Item {
		return []schedule.Item{{Run: id('r', 1), Tenant: id('t', 0), User: id('u', 1), Phase: phase, Rank: noon, Since: noon, Route: policy.Route{Queue: "default", Provider: "stoic"}}}
	}
	for _, c := range []struct {
		held, waits string
		given       int
	}{
		{"execute", "execute", 0}, {"execute", "verify", 1}, {"execute", "publish", 1}, {"verify", "execute", 1}, {"publish", "execute", 1}, {"verify", "verify", 1},
	} {
		s.Held = []schedule.Held{{Phase: c.held, Tenant: id('t', 0), User: id('u', 1), Provider: "stoic", Count: 1}}
		if got := len(schedule.Assign(s, offers, waits(c.waits))); got != c.given {
			t.Errorf("while a lease to %s is held, %d items to %s are given, want %d", c.held, got, c.waits, c.given)
		}
	}
}
