package schedule_test

import (
	"strings"
	"testing"

	"signalbox/internal/schedule"
)

// R-Q-9: the least of the known bounds binds and is named; what is not known binds nothing; more workers are advised only
// where they would help, and no more than the next bound allows.
func TestAdvise(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		plant   schedule.Plant
		binds   string
		runs    int
		workers int
		says    string
	}{
		{"nobody there", schedule.Plant{Waiting: 3}, "sandbox slots", 0, 0, "No worker is live and 3 runs wait."},
		{"nobody there, nothing to do", schedule.Plant{}, "sandbox slots", 0, 0, "nothing waits"},
		{"enough", schedule.Plant{Workers: 2, Slots: 8, Busy: 3}, "sandbox slots", 8, 0, "3 of 8 are busy, so no more workers are needed now"},
		{"slots bind, nothing else known", schedule.Plant{Workers: 2, Slots: 8, Busy: 8, Waiting: 5}, "sandbox slots", 8, 0, "nothing else is known to bind"},
		{"slots bind, then the model", schedule.Plant{Workers: 2, Slots: 8, Busy: 8, Waiting: 5, Model: new(20)}, "sandbox slots", 8, 5, "up to 5 in all; then model quota binds"},
		{"the model binds", schedule.Plant{Workers: 2, Slots: 8, Busy: 4, Waiting: 5, Model: new(4), Database: new(900)}, "model quota", 4, 1, "More workers would not help: model quota binds first"},
		{"policy binds", schedule.Plant{Workers: 4, Slots: 16, Busy: 6, Waiting: 1, Model: new(10), Policy: new(6)}, "policy", 6, 2, "More workers would not help"},
		{"the database binds", schedule.Plant{Workers: 100, Slots: 5000, Busy: 900, Waiting: 50, Database: new(900)}, "database", 900, 18, "database binds first"},
		{"checks bind and grow with workers", schedule.Plant{Workers: 4, Slots: 16, Busy: 16, Waiting: 9, Checks: new(4), Database: new(900)}, "checks", 4, 225, "up to 225 in all"},
		{"the money is spent", schedule.Plant{Workers: 2, Slots: 8, Waiting: 2, Budget: new(0)}, "budget", 0, 0, "0 runs fit at once, bound by budget"},
		{"room, and it waits for another reason", schedule.Plant{Workers: 2, Slots: 8, Busy: 1, Waiting: 2}, "sandbox slots", 8, 0, "2 runs wait although 7 slots are free"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := schedule.Advise(tc.plant)
			if a.Binds != tc.binds || a.Runs != tc.runs || a.Workers != tc.workers || !strings.Contains(a.Words, tc.says) {
				t.Errorf("%d runs, %q binds, %d workers: %q", a.Runs, a.Binds, a.Workers, a.Words)
			}
			if len(a.Bounds) != 6 {
				t.Errorf("%d bounds", len(a.Bounds))
			}
			for _, b := range a.Bounds {
				if b.Known && b.Runs < a.Runs {
					t.Errorf("%s allows %d, fewer than the %d that are said to fit", b.Name, b.Runs, a.Runs)
				}
			}
		})
	}
}

// A paused queue gives out nothing, to nobody of whom the pause is, and the reason names who paused it, when and why.
func TestPausedQueue(t *testing.T) {
	t.Parallel()
	i := item(1, 0, 1, 0, 0)
	for _, tc := range []struct {
		name string
		p    schedule.Pause
		held bool
	}{
		{"own", schedule.Pause{Tenant: i.Tenant, Queue: "default"}, true},
		{"everybody's", schedule.Pause{Queue: "default"}, true},
		{"another queue", schedule.Pause{Tenant: i.Tenant, Queue: "slow"}, false},
		{"another tenant", schedule.Pause{Tenant: id('t', 1), Queue: "default"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := calm()
			tc.p.By, tc.p.At, tc.p.Reason = "Ana", noon, "the registry is down."
			s.Paused = []schedule.Pause{tc.p}
			if got := len(schedule.Assign(s, []schedule.Offer{worker(1)}, []schedule.Item{i})) == 0; got != tc.held {
				t.Errorf("held back: %v", got)
			}
			why := schedule.Why(s, []schedule.Offer{worker(1)}, i, 0)
			if held := why.Code == schedule.CodeQueuePaused; held != tc.held {
				t.Errorf("reason %+v", why)
			}
			if want := "Queue default was paused by Ana at 2026-11-29 12:00 UTC: the registry is down."; tc.held && !strings.HasPrefix(why.Words, want) {
				t.Errorf("%q", why.Words)
			}
			if n := schedule.HeldBack(s, []schedule.Item{i})[schedule.CodeQueuePaused]; (n == 1) != tc.held {
				t.Errorf("%d counted", n)
			}
		})
	}
}
