package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/policy"
	"signalbox/internal/schedule"
)

// Wait is why nobody works on a run that has work to do.
type Wait struct {
	// Until is set while the run is put off after a failure.
	Until time.Time
	// Reason is why its item has not been given out; its code is empty where there is no item.
	Reason schedule.Reason
}

// Why says truthfully why a run waits for a worker, decided by the same rules by which claims are (R-Q-7).
func (s *Store) Why(ctx context.Context, tenant, id uuid.UUID) (Wait, error) {
	until, err := s.q.RunWaits(ctx, s.reads(tenant), tenant, id)
	if err == nil {
		return Wait{Until: until.UTC()}, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return Wait{}, fmt.Errorf("look at the delays: %w", err)
	}
	row, err := s.q.WaitingItem(ctx, s.reads(tenant), tenant, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return s.asideWait(ctx, Ref{tenant, id})
	}
	if err != nil {
		return Wait{}, fmt.Errorf("look at the queue: %w", err)
	}
	state, offers, err := s.waitingFor(ctx, tenant)
	if err != nil {
		return Wait{}, err
	}
	item := itemOf(sqlc.HeadsOfLanesRow{RunID: row.RunID, TenantID: row.TenantID, Phase: row.Phase, RepositoryID: row.RepositoryID, UserID: row.UserID, Queue: row.Queue,
		Risk: row.Risk, Provider: row.Provider, Pool: row.Pool, Priority: row.Priority, VisibleAt: row.VisibleAt, Requires: row.Requires, Rank: row.Rank, Maker: row.Maker})
	return Wait{Reason: schedule.Why(state, offers, item, int(row.Ahead))}, nil
}

// asideWait is why a run without an item waits. One that has an item is given out, whichever loop set it aside.
func (s *Store) asideWait(ctx context.Context, ref Ref) (Wait, error) {
	aside, err := s.AsideOf(ctx, ref)
	if err != nil || aside == nil {
		return Wait{}, err
	}
	return Wait{Reason: schedule.Reason{Code: "set_aside", Words: aside.Words()}}, nil
}

// waitingFor is what the tenant's waiting work waits for: rules, leases and pauses, and the workers that live.
func (s *Store) waitingFor(ctx context.Context, tenant uuid.UUID) (schedule.State, []schedule.Offer, error) {
	facts, err := s.scheduleFacts(ctx, s.pool, []uuid.UUID{tenant})
	if err != nil {
		return schedule.State{}, nil, err
	}
	state, err := s.scheduleState(ctx, facts)
	if err != nil {
		return state, nil, err
	}
	if state.Paused, err = s.pauses(ctx, tenant); err != nil {
		return state, nil, err
	}
	live, err := s.q.LiveOffers(ctx, s.pool, tenant, s.timing.LeaseTTL.Seconds())
	if err != nil {
		return state, nil, fmt.Errorf("look at the workers: %w", err)
	}
	offers := make([]schedule.Offer, 0, len(live))
	for _, w := range live {
		offers = append(offers, offerOf(w))
	}
	return state, offers, nil
}

func offerOf(w sqlc.LiveOffersRow) schedule.Offer {
	phases := slices.DeleteFunc(w.Phases, func(p string) bool { return !slices.Contains(w.Allowed, p) })
	return schedule.Offer{Worker: w.WorkerID, Tenant: value(w.TenantID), Phases: phases, Queues: w.Queues, Pools: w.Pools, Capabilities: w.Capabilities,
		Isolation: policy.Isolation(w.Isolation), Free: int(w.Free)}
}
