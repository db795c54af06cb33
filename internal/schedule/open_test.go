package schedule_test

import (
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"signalbox/internal/policy"
	"signalbox/internal/schedule"
)

// R-Q-6, R-Q-4: what OpenLanes and OpenGroups leave out can give nothing, and what OpenGroups keeps is held back by no limit:
// a worker that offers everything gets it.
func TestOpenIsWhatAssignGives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, i := anyState(t), anyItem(t, 1)
		if rapid.Bool().Draw(t, "paused") {
			s.Paused = []schedule.Pause{{Tenant: draw(t, "whose", i.Tenant, uuid.Nil, id('t', 77)), Queue: i.Queue}}
		}
		able := []schedule.Offer{{Worker: id('w', 77), Phases: []string{i.Phase}, Queues: []string{i.Queue}, Pools: []string{i.Pool}, Capabilities: i.Requires, Isolation: policy.IsolationContainer, Free: 1}}
		i.Requires = nil
		given := len(schedule.Assign(s, able, []schedule.Item{i})) == 1
		g := schedule.Group{Lane: i.Lane(), Repository: i.Repository, Risk: i.Risk, Provider: i.Provider, Pool: i.Pool}
		if open := len(schedule.OpenGroups(s, []schedule.Group{g})) == 1; open != given {
			t.Fatalf("the group is open: %t, and its item is given: %t", open, given)
		}
		if open := len(schedule.OpenLanes(s, able, []schedule.Lane{i.Lane()})) == 1; given && !open {
			t.Fatal("a lane whose item is given is closed")
		}
		able[0].Free = 0
		if len(schedule.OpenLanes(s, able, []schedule.Lane{i.Lane()})) != 0 {
			t.Fatal("a lane is open that nobody has room for")
		}
	})
}
