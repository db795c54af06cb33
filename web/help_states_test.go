package web

import (
	"slices"
	"strings"
	"testing"

	"signalbox/internal/run"
	"signalbox/web/ui"
)

// The page about states knows each state of the run's table, says something of its own about it, and shows exactly the ways out that
// the table has: of those that end a run there is none.
func TestStatesPageFollowsTheTable(t *testing.T) {
	t.Parallel()
	said := map[string]run.State{}
	all := statesHelp()
	if len(all) != len(run.States()) {
		t.Fatalf("%d of %d states are shown", len(all), len(run.States()))
	}
	for i, s := range run.States() {
		h := all[i]
		if before, twice := said[h.Says]; h.State != string(s) || h.Says == "" || twice {
			t.Errorf("%s is shown as %s and says %q, as %s does", s, h.State, h.Says, before)
		}
		said[h.Says] = s
		var want []string
		for _, to := range run.States() {
			if to != s && slices.ContainsFunc(run.Transitions(), func(x run.Transition) bool { return slices.Contains(x.From, s) && slices.Contains(x.To, to) }) {
				want = append(want, ui.RunStatus(string(to)).Word)
			}
		}
		var got []string
		for _, w := range h.Ways {
			got = append(got, w.To.Word)
			if w.By == "" || strings.Contains(w.By, "_") {
				t.Errorf("%s → %s is decided by %q", s, w.To.Word, w.By)
			}
		}
		if !slices.Equal(got, want) || s.Terminal() != (len(got) == 0) {
			t.Errorf("%s leads to %v, want %v", s, got, want)
		}
	}
}
