package control

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
)

// Reaper ends leases whose time is over by the database's clock, and leases of
// workers that were told to stop and did not. It marks silent workers dead. After
// an outage of the servers or the database it takes nothing from anybody until a
// full lease time has passed: a worker that nobody listened to is not a lost one.
type Reaper struct {
	Store     *db.Store
	StopGrace time.Duration
	Silent    time.Duration
	// Patience is what silence of all servers counts as an outage; 0 means half the lease time, in which a live worker
	// cannot lose its lease.
	Patience time.Duration
	// Pause is how long a lease that could not be ended is left alone, twice as long each time; 0 means 1 s.
	Pause time.Duration
	Log   *slog.Logger

	leases, late visitor
}

// RunOnce returns how many leases were ended.
func (r *Reaper) RunOnce(ctx context.Context) (int, error) {
	r.leases.first, r.late.first = r.Pause, r.Pause
	there, err := r.Store.Beat(ctx, cmp.Or(r.Patience, r.Store.Timing().LeaseTTL/2))
	if err != nil || there.Holding {
		return 0, err
	}
	late := func(ctx context.Context, after uuid.UUID, limit int) ([]db.ExpiredLease, error) {
		return r.Store.DisobedientLeases(ctx, after, limit, r.StopGrace)
	}
	return sum(ctx,
		func(ctx context.Context) (int, error) {
			return eachRun(ctx, r.Store, "reaper", &r.leases, r.Log, r.Store.ExpiredLeases, runOfLease, r.end)
		},
		// A stop that somebody asked for is carried out whatever was set aside; what fails waits longer each time.
		func(ctx context.Context) (int, error) { return each(ctx, &r.late, r.Log, late, runOfLease, r.end) },
		func(ctx context.Context) (int, error) {
			return 0, r.bury(ctx)
		})
}

// bury marks workers dead. They are no run's, so the log is where it stands.
func (r *Reaper) bury(ctx context.Context) error {
	dead, err := r.Store.BuryBoots(ctx, r.Silent)
	for _, b := range dead {
		if r.Log != nil {
			r.Log.WarnContext(ctx, "a worker was silent for too long and is dead", "code", "WORKER_SILENT", "boot_id", b)
		}
	}
	return err
}

func runOfLease(l db.ExpiredLease) uuid.UUID { return l.Ref.Run }

func (r *Reaper) end(ctx context.Context, l db.ExpiredLease) (bool, error) {
	kind, err := r.Store.Reap(ctx, l)
	if err == nil && r.Log != nil {
		r.Log.InfoContext(ctx, "lease ended", "run_id", l.Ref.Run, "lease_id", l.Lease.ID, "fencing_token", l.Lease.Token, "event", kind)
	}
	return true, err
}

// Presence says that this server is there, apart from the reaper, whose looks may take long.
type Presence struct {
	Store    *db.Store
	Patience time.Duration
}

// RunOnce has never more to do at once.
func (p *Presence) RunOnce(ctx context.Context) (int, error) {
	_, err := p.Store.Beat(ctx, p.Patience)
	return 0, err
}
