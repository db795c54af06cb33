package control

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
)

// Reaper ends leases whose time is over by the database's clock, and leases of
// workers that were told to stop and did not. It marks silent workers dead.
type Reaper struct {
	Store     *db.Store
	StopGrace time.Duration
	Silent    time.Duration
	Log       *slog.Logger
}

// RunOnce returns how many leases were ended.
func (r *Reaper) RunOnce(ctx context.Context) (int, error) {
	key := func(l db.ExpiredLease) uuid.UUID { return l.Ref.Run }
	reap := func(ctx context.Context, l db.ExpiredLease) (bool, error) {
		kind, err := r.Store.Reap(ctx, l)
		if err != nil {
			return false, err
		}
		r.Log.Info("lease ended", "run_id", l.Ref.Run, "lease_id", l.Lease.ID, "fencing_token", l.Lease.Token, "event", kind)
		return true, nil
	}
	n, err := each(ctx, r.Store.ExpiredLeases, key, reap)
	if err != nil {
		return n, err
	}
	late := func(ctx context.Context, after uuid.UUID, limit int) ([]db.ExpiredLease, error) {
		return r.Store.DisobedientLeases(ctx, after, limit, r.StopGrace)
	}
	m, err := each(ctx, late, key, reap)
	if err != nil {
		return n + m, err
	}
	_, err = r.Store.BuryBoots(ctx, r.Silent)
	return n + m, err
}
