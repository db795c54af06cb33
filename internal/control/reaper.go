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

	leases visitor
}

// RunOnce returns how many leases were ended.
func (r *Reaper) RunOnce(ctx context.Context) (int, error) {
	late := func(ctx context.Context, after uuid.UUID, limit int) ([]db.ExpiredLease, error) {
		return r.Store.DisobedientLeases(ctx, after, limit, r.StopGrace)
	}
	return sum(ctx,
		func(ctx context.Context) (int, error) { return r.end(ctx, r.Store.ExpiredLeases) },
		func(ctx context.Context) (int, error) { return r.end(ctx, late) },
		func(ctx context.Context) (int, error) {
			_, err := r.Store.BuryBoots(ctx, r.Silent)
			return 0, err
		})
}

func (r *Reaper) end(ctx context.Context, list func(context.Context, uuid.UUID, int) ([]db.ExpiredLease, error)) (int, error) {
	return each(ctx, &r.leases, r.Log, list, func(l db.ExpiredLease) uuid.UUID { return l.Ref.Run }, func(ctx context.Context, l db.ExpiredLease) (bool, error) {
		kind, err := r.Store.Reap(ctx, l)
		if err == nil && r.Log != nil {
			r.Log.InfoContext(ctx, "lease ended", "run_id", l.Ref.Run, "lease_id", l.Lease.ID, "fencing_token", l.Lease.Token, "event", kind)
		}
		return true, err
	})
}
