package db_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/policy"
)

// R-FAIL-5: the clock of the queue is told of what waited longer than its run allows, in every way that policy writes a time,
// and of what it has to judge itself; of what is in time it is told nothing.
func TestOldItemsAreOverTheirTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ref := got(w.Run(t.Context(), drive.Ordinary()))(t)
	listed := func(limit any, waited time.Duration) bool {
		t.Helper()
		_, err := w.Owner.Exec(t.Context(), `UPDATE runs SET limits = CASE WHEN $1::text IS NULL THEN limits - 'queue_timeout' ELSE limits || jsonb_build_object('queue_timeout', $1::text) END`, limit)
		must(t, err)
		_, err = w.Owner.Exec(t.Context(), `UPDATE run_queue SET visible_at = clock_timestamp() - make_interval(secs => $1)`, waited.Seconds())
		must(t, err)
		items := got(w.Store.OldItems(t.Context(), uuid.Nil, 10))(t)
		if len(items) > 1 || len(items) == 1 && items[0].Ref != ref {
			t.Fatalf("%+v", items)
		}
		return len(items) == 1
	}
	for _, d := range []time.Duration{time.Second, 90 * time.Second, 30 * time.Minute, time.Hour, 90 * time.Minute, time.Hour + time.Second, 24 * time.Hour, 36 * time.Hour, 30 * 24 * time.Hour} {
		limit := policy.Duration(d).String()
		if listed(limit, d-d/10) {
			t.Errorf("listed before %s", limit)
		}
		if !listed(limit, d+d/10) {
			t.Errorf("not listed after %s", limit)
		}
	}
	for _, odd := range []any{"500ms", "soon", "", "9999999999h", nil} {
		if !listed(odd, 2*time.Second) || listed(odd, 0) {
			t.Errorf("limit %v: it is the caller's to judge, after a second", odd)
		}
	}
}
