package web_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/web"
)

// moves makes a run's events from kind, state and minute of each.
func moves(rows ...any) (events []web.TimelineEvent) {
	from := ""
	for i := 0; i < len(rows); i += 3 {
		to := rows[i+1].(string)
		events = append(events, web.TimelineEvent{Seq: int64(i/3 + 1), Kind: rows[i].(string), From: from, To: to, At: now.Add(time.Duration(rows[i+2].(int)) * time.Minute)})
		from = to
	}
	return events
}

// R-UI-1: the run page says where the time went; waiting for a worker counts as the queue in every state.
func TestStretches(t *testing.T) {
	t.Parallel()
	journey := moves(
		"run_created", "CREATED", 0, "run_enqueued", "QUEUED", 1, "lease_acquired", "LEASED", 4, "worker_started", "PREPARING", 5,
		"sandbox_ready", "CONTEXT_BUILDING", 6, "context_ready", "PLANNING", 7, "plan_created", "EXECUTING", 8, "patch_created", "PATCH_READY", 16,
		"lease_acquired", "PATCH_READY", 18, "verification_started", "VERIFYING", 19, "verification_passed", "JUDGING", 24, "human_approval_required", "WAITING_FOR_APPROVAL", 25,
	)
	decided := append(journey, moves("approved", "PR_CREATING", 155, "lease_acquired", "PR_CREATING", 158, "pr_created", "PR_CREATED", 160, "completion_condition_met", "SUCCEEDED", 161)...)
	for name, tc := range map[string]struct {
		events []web.TimelineEvent
		at     int
		want   []web.Stretch
	}{
		"nothing yet": {nil, 5, nil},
		"just made":   {moves("run_created", "CREATED", 0), 0, []web.Stretch{{Kind: "queue", Now: true}}},
		"at the gate": {journey, 125, []web.Stretch{
			{Kind: "queue", Took: 6 * time.Minute}, {Kind: "agent", Took: 12 * time.Minute}, {Kind: "verify", Took: 7 * time.Minute}, {Kind: "people", Took: 100 * time.Minute, Now: true}}},
		"ended": {decided, 9999, []web.Stretch{
			{Kind: "queue", Took: 9 * time.Minute}, {Kind: "agent", Took: 12 * time.Minute}, {Kind: "verify", Took: 7 * time.Minute}, {Kind: "people", Took: 130 * time.Minute}, {Kind: "forge", Took: 3 * time.Minute}}},
		"the worker was lost": {moves("run_created", "CREATED", 0, "lease_acquired", "LEASED", 1, "worker_started", "EXECUTING", 2, "worker_lost", "EXECUTING", 5, "lease_acquired", "EXECUTING", 9), 10,
			[]web.Stretch{{Kind: "queue", Took: 5 * time.Minute}, {Kind: "agent", Took: 5 * time.Minute, Now: true}}},
		"stopping": {moves("run_created", "CREATED", 0, "lease_acquired", "LEASED", 1, "cancel_requested", "CANCELLING", 3), 4,
			[]web.Stretch{{Kind: "queue", Took: time.Minute}, {Kind: "agent", Took: 2 * time.Minute}, {Kind: "stop", Took: time.Minute, Now: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, web.Stretches(tc.events, now.Add(time.Duration(tc.at)*time.Minute))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var rect = regexp.MustCompile(`<rect class="span-[a-z]+" x="([0-9]+)" y="0" width="([0-9]+)"`)

// The bar is full and gapless, whatever the lengths, and a second beside a month is still to be seen.
func TestStretchBar(t *testing.T) {
	t.Parallel()
	v := sampleRun()
	v.Stretches = []web.Stretch{{Kind: "queue", Took: time.Second}, {Kind: "agent", Took: 2 * time.Second}, {Kind: "people", Took: 720 * time.Hour}, {Kind: "forge"}}
	x := 0
	for _, m := range rect.FindAllStringSubmatch(render(t, web.RunPanel(web.RunPanelData{Run: v, Now: now}, nil)), -1) {
		at, width := got(strconv.Atoi(m[1]))(t), got(strconv.Atoi(m[2]))(t)
		if at != x || width < 6 {
			t.Errorf("a piece at %d of width %d where %d was reached", at, width, x)
		}
		x += width
	}
	if x != 1000 {
		t.Errorf("the bar ends at %d", x)
	}
}

func got[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
