package control

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
)

// Reconciler looks for what should never be: a run that waits without an item, an item of a run that has ended, a lease
// that nobody holds. It acts only on what was the same at two looks some seconds apart, so that it never gets in the way
// of a change that is under way; what it did stands on record under a reason code, and in the log.
type Reconciler struct {
	Store *db.Store
	// Settle is how long a finding must have been the same; 0 means 5 s.
	Settle time.Duration
	Log    *slog.Logger

	seen   map[db.Finding]time.Time
	things visitor
}

const settle = 5 * time.Second

// RunOnce returns how many things were put right.
func (r *Reconciler) RunOnce(ctx context.Context) (int, error) {
	wait := r.Settle
	if wait == 0 {
		wait = settle
	}
	before := r.seen
	r.seen = make(map[db.Finding]time.Time)
	looks := make([]func(context.Context) (int, error), 0, 8)
	for _, list := range r.Store.Findings() {
		looks = append(looks, func(ctx context.Context) (int, error) {
			return each(ctx, &r.things, r.Log, list, func(f db.Finding) uuid.UUID { return f.Key }, func(ctx context.Context, f db.Finding) (bool, error) {
				first, known := before[f]
				if !known {
					first = time.Now()
				}
				r.seen[f] = first
				if !known || time.Since(first) < wait {
					return false, nil
				}
				return r.repair(ctx, f)
			})
		})
	}
	return sum(ctx, looks...)
}

func (r *Reconciler) repair(ctx context.Context, f db.Finding) (bool, error) {
	done, err := r.Store.Repair(ctx, f)
	if done {
		delete(r.seen, f)
	}
	if done && err == nil && r.Log != nil {
		r.Log.WarnContext(ctx, "something was wrong and was put right", "code", string(f.Code), "tenant_id", f.Ref.Tenant, "run_id", f.Ref.Run, "key", f.Key)
	}
	return done, err
}
