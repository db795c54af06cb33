package db_test

import (
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-FAIL-2: who takes a run and gives it back at once gets it again at once only the first time; each further time it waits
// twice as long, by the log alone, until it gets further. Nothing of it is charged to the run.
func TestRunThatIsGivenBackWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Timing: db.Timing{BackoffScale: 1}})
	ctx := t.Context()
	at := w.at(t, run.Queued)
	waits := func(l *drive.Lease, end run.Command, want time.Duration) {
		t.Helper()
		must(t, l.All(ctx, end))
		ready := w.count(t, `SELECT count(*) FROM run_queue WHERE run_id = $1`, at.Ref.Run)
		if want == 0 {
			if ready != 1 {
				t.Errorf("it is not ready at once")
			}
			return
		}
		// Both instants are of the database: the event's and the one at which it is due.
		ms := w.count(t, `SELECT round(extract(epoch FROM d.available_at - e.at) * 1000)::bigint FROM run_delayed d JOIN run_events e ON e.run_id = d.run_id
			WHERE d.run_id = $1 ORDER BY e.seq DESC LIMIT 1`, at.Ref.Run)
		if ready != 0 || ms != want.Milliseconds() {
			t.Errorf("it waits %d ms (ready: %d), want %s", ms, ready, want)
		}
		must(t, w.Due(ctx, at.Ref))
	}
	drain := run.Release{Reason: "drain"}
	take := func(n int) *drive.Lease { return got(w.ClaimRun(ctx, w.Workers[n], at.Ref))(t) }
	waits(take(0), drain, 0)
	waits(take(0), drain, time.Second)
	l := take(0)
	must(t, l.Prepare(ctx)) // a sandbox and a context are nothing that is kept
	waits(l, run.Stopped{Why: run.StopDrain}, 2*time.Second)
	l = take(0)
	must(t, l.Prepare(ctx))
	got(l.Plan(ctx, "Only one file."))(t)
	got(l.HandIn(ctx, drive.Diff("a.go", "done")))(t)
	waits(take(1), drain, 0)
	waits(take(1), drain, time.Second)
	if i := w.info(t, at.Ref); i.State != run.PatchReady || i.AttemptsUsed() != 1 || i.Released != 3 || i.VerifyRedeliveries != 0 {
		t.Errorf("%s, %d attempts used, %d released, %d redeliveries", i.State, i.AttemptsUsed(), i.Released, i.VerifyRedeliveries)
	}
	for range 12 { // beyond what is counted nothing changes
		must(t, take(1).All(ctx, drain))
		must(t, w.Due(ctx, at.Ref))
	}
	waits(take(1), drain, run.LongestReleaseDelay)
	w.replays(t)
}
