package db_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

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

// R-LEASE-3: where it cannot be learned whether an outage ended a lease, nobody is told that the lease is gone: a worker that
// hears so throws its work away.
func TestNoLeaseIsCalledGoneUnlooked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	l := w.at(t, run.PRCreating).Lease
	h := db.Holder{Ref: l.Ref, Lease: l.Proof(), Worker: l.Worker.ID}
	must(t, w.Lapse(t.Context(), l.Ref))
	writes := map[string]func() error{
		"an intent": func() error {
			_, err := w.Store.Intend(t.Context(), h, "push", "push x", nil)
			return err
		},
		"steps": func() error {
			_, err := w.Store.Append(t.Context(), h, db.Batch{Sequence: 1, Steps: []db.Step{}})
			return err
		},
		"an artifact": func() error {
			_, err := w.Store.PutArtifact(t.Context(), h, db.NewArtifact{Kind: "context", Name: "x", SHA256: strings.Repeat("0", 64), BlobKey: "x"})
			return err
		},
		"a transition": func() error {
			_, err := l.Do(t.Context(), run.PRReported{PR: run.PullRequest{Branch: "x"}})
			return err
		},
	}
	if _, err := w.Owner.Exec(t.Context(), `ALTER TABLE control_heartbeat RENAME TO control_heartbeat_away`); err != nil {
		t.Fatal(err)
	}
	for name, write := range writes {
		if pe, ok := errors.AsType[*pgconn.PgError](write()); !ok || pe.Code != "42P01" {
			t.Errorf("%s: %v, want the error of the look for an outage and nothing else", name, write())
		}
	}
}
