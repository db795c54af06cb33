package control_test

import (
	"testing"
	"time"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-ADM-5, R-TEN-1: a tenant with many runs that are put off again and again is looked at a share
// at a time: the one run of another tenant, due after all of them, is admitted in the same look. The share goes round, so that
// every run of the tenant is looked at.
func TestRunsThatArePutOffSlowNobodyElseDown(t *testing.T) {
	t.Parallel()
	const share, rounds = 20, 3
	w := newWorld(t, drive.Options{Policy: incident})
	other := &world{World: drive.New(t, w.db, drive.Options{Store: w.Store, Tenant: "other", Policy: incident}), db: w.db}
	for range share * rounds {
		got(w.Run(t.Context(), drive.Ordinary()))(t)
	}
	ref := got(other.Run(t.Context(), drive.Ordinary()))(t)
	must(t, other.SetPolicy(t.Context(), "schema: 1\nversion: calm\n"))
	w.pass(t, 2*time.Minute)

	look := w.admission()
	for n := 1; n <= rounds; n++ {
		want := 0
		if n == 1 {
			want = 1
		}
		once(t, look, want)
		other.is(t, ref, run.Queued)
		if seen := w.count(t, `SELECT count(*) FROM run_events WHERE kind = 'run_deferred' AND tenant_id = $1`, w.Tenant) - share*rounds; seen != int64(n*share) {
			t.Errorf("after %d looks %d runs of the tenant were looked at, want %d", n, seen, n*share)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM (SELECT 1 FROM run_events WHERE kind = 'run_deferred' AND tenant_id = $1 GROUP BY run_id HAVING count(*) = 2) x`, w.Tenant); n != share*rounds {
		t.Errorf("%d of %d runs were looked at once", n, share*rounds)
	}

	// With room again, all of them begin in one look.
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: calm\n"))
	w.pass(t, 2*time.Minute)
	once(t, look, share*rounds)
}
