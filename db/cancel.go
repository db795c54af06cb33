package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// CancelSteps are the two steps of a cancellation that lie between the request and the end. A zero time means that the step
// was not seen: a worker may stop before it says that it is stopping.
type CancelSteps struct {
	Told, Stopping time.Time
}

// CancelSteps reads what the worker that held the run last was told and said.
func (s *Store) CancelSteps(ctx context.Context, tenant, id uuid.UUID) (CancelSteps, error) {
	r, err := s.q.CancelSteps(ctx, s.reads(tenant), tenant, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return CancelSteps{}, nil
	}
	if err != nil {
		return CancelSteps{}, fmt.Errorf("read the steps of a cancel: %w", err)
	}
	return CancelSteps{Told: value(r.CancelToldAt).UTC(), Stopping: value(r.StoppingAt).UTC()}, nil
}

// CancelEnd is the latest instant at which a run that is being cancelled ends, whatever its worker does: after the grace its lease
// is no longer extended, so that it runs out even where nobody takes it away.
func (s *Store) CancelEnd(asked time.Time) time.Time {
	return asked.Add(s.timing.CancelGrace + s.timing.LeaseTTL)
}

// ForceStop ends a run that is being cancelled without waiting for its worker: the lease is revoked, and whatever the worker still
// sends is late evidence. in.By is the person; in.Payload is set here. A run in any other state is a Conflict.
func (s *Store) ForceStop(ctx context.Context, ref Ref, in Intent) (Ack, error) {
	row, err := s.q.LoadRun(ctx, s.pool, ref.Tenant, ref.Run)
	if err != nil {
		return Ack{}, translate(err, "run")
	}
	r, err := toRun(row.Run)
	if err != nil {
		return Ack{}, err
	}
	if r.State != run.Cancelling {
		if ack, ok, err := s.replayed(ctx, s.pool, ref, in); ok || err != nil {
			return ack, err
		}
		return Ack{}, fault.Newf(fault.Conflict, "Nothing was stopped: the run is %s, and only one that is being cancelled can be stopped by force.", r.State).WithState(string(r.State))
	}
	f := run.Facts{Minted: run.Minted{Now: micro(row.Now)}}
	known, err := s.factsOf(ctx, s.pool, r, &f)
	if err != nil {
		return Ack{}, err
	}
	in.Payload = run.CancelConfirmedEvent{Forced: true, Unresolved: known.Unresolved}
	return s.Apply(ctx, ref, in)
}

// Waste is what a run still used up after somebody had asked to cancel it, as far as its workers reported.
type Waste struct {
	CostMicros, Tokens int64
}

// CancelWaste measures a run's use after the instant at which a cancel was asked for.
func (s *Store) CancelWaste(ctx context.Context, ref Ref, asked time.Time) (Waste, error) {
	r, err := s.q.CancelWaste(ctx, s.reads(ref.Tenant), ref.Tenant, ref.Run, asked)
	if err != nil {
		return Waste{}, fmt.Errorf("measure a cancel: %w", err)
	}
	return Waste{r.CostMicros, r.Tokens}, nil
}
