package db_test

import (
	"testing"

	"github.com/google/uuid"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// Who began to verify a run is found while the lease for it lasts and afterwards; of a run that nobody verified there is none, and
// of another tenant's neither.
func TestLastVerification(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for state, want := range map[run.State]bool{run.PatchReady: false, run.Verifying: true, run.WaitingForApproval: true} {
		at := w.at(t, state)
		e, ok, err := w.Store.LastVerification(t.Context(), at.Ref.Tenant, at.Ref.Run)
		if must(t, err); ok != want || ok && e.Kind != run.KindVerificationStarted {
			t.Errorf("%s: found %t, %+v", state, ok, e)
		}
		if _, ok, err = w.Store.LastVerification(t.Context(), uuid.New(), at.Ref.Run); err != nil || ok {
			t.Errorf("%s: another tenant finds %t, %v", state, ok, err)
		}
	}
}
