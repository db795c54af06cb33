package drive

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/run"
)

// Lapse makes the run's lease run out by the database's clock.
func (w *World) Lapse(ctx context.Context, ref db.Ref) error {
	return w.one(ctx, `UPDATE run_leases SET expires_at = clock_timestamp() - interval '1 second' WHERE run_id = $1`, ref.Run)
}

// Due makes the run's delayed item, or its put-off admission, due and delivers it.
func (w *World) Due(ctx context.Context, ref db.Ref) error {
	tag, err := w.Owner.Exec(ctx, `UPDATE run_delayed SET available_at = clock_timestamp() WHERE run_id = $1`, ref.Run)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	_, err = w.Store.Deliver(ctx, 1000)
	return err
}

// GateDue makes the gate's time run out.
func (w *World) GateDue(ctx context.Context, gate uuid.UUID) error {
	return w.one(ctx, `UPDATE gates SET expires_at = clock_timestamp() - interval '1 second' WHERE id = $1`, gate)
}

// AttestationDue makes the time of the run's requested attestation run out.
func (w *World) AttestationDue(ctx context.Context, ref db.Ref) error {
	return w.one(ctx, `UPDATE attestations SET expires_at = clock_timestamp() - interval '1 second' WHERE run_id = $1 AND state = 'requested'`, ref.Run)
}

func (w *World) one(ctx context.Context, statement string, args ...any) error {
	tag, err := w.Owner.Exec(ctx, statement, args...)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%d rows instead of one: %s", tag.RowsAffected(), statement)
	}
	return err
}

// Reap lets the run's lease run out and ends it as the reaper does.
func (w *World) Reap(ctx context.Context, ref db.Ref) (run.Kind, error) {
	info, err := w.Store.RunInfo(ctx, ref.Tenant, ref.Run)
	if err != nil {
		return "", err
	}
	if info.Lease == nil {
		return "", fmt.Errorf("run %s is %s and has no lease", ref.Run, info.State)
	}
	if err := w.Lapse(ctx, ref); err != nil {
		return "", err
	}
	return w.Store.Reap(ctx, db.ExpiredLease{Ref: ref, Lease: run.LeaseRef{ID: info.Lease.ID, Token: info.Lease.Token}, Phase: info.Lease.Phase, State: info.State})
}
