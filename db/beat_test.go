package db_test

import (
	"testing"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-LEASE-3: a heartbeat that names the lease and another token extends nothing.
func TestHeartbeatsCarryTheirToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	l := w.at(t, run.Executing).Lease
	proof := l.Proof()
	proof.Token++
	pulses, _, err := w.Store.Extend(t.Context(), l.Worker.WorkerID, l.Worker.Boot, false, []db.Beat{{Run: l.Ref.Run, Lease: proof}})
	must(t, err)
	if len(pulses) != 1 || pulses[0].Signal != db.SignalLost {
		t.Errorf("answered %+v, want lost", pulses)
	}
}
