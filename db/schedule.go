package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/policy"
	"signalbox/internal/schedule"
)

// scheduleState is what a decision about waiting work needs to know, for the items of some tenants.
func (s *Store) scheduleState(ctx context.Context, h sqlc.DBTX, tenants []uuid.UUID) (schedule.State, error) {
	out := schedule.State{Aging: s.timing.Aging, Tenants: map[uuid.UUID]schedule.Tenant{}, Parked: map[string]time.Time{}}
	var err error
	if out.Now, err = s.q.Now(ctx, h); err != nil {
		return out, err
	}
	counts, err := s.q.LeaseCounts(ctx, h)
	if err != nil {
		return out, fmt.Errorf("count leases: %w", err)
	}
	for _, c := range counts {
		out.Held = append(out.Held, schedule.Held{Tenant: c.TenantID, User: c.UserID, Repository: c.RepositoryID, Risk: policy.Risk(c.Risk),
			Provider: c.Provider, Pool: c.Pool, Count: int(c.Held), Newest: c.Newest})
	}
	names, err := s.q.TenantNames(ctx, h, tenants)
	if err != nil {
		return out, fmt.Errorf("load tenants: %w", err)
	}
	for _, t := range names {
		rules, err := s.rulesOf(ctx, h, t.ID)
		if err != nil {
			return out, err
		}
		out.Tenants[t.ID] = schedule.Tenant{Name: t.Name, Rules: rules}
	}
	overall, err := s.rulesOf(ctx, h, DefaultTenant)
	if err != nil {
		return out, err
	}
	out.Installation = overall.Installation
	pauses, err := s.q.ProviderPauses(ctx, h)
	if err != nil {
		return out, fmt.Errorf("load pauses: %w", err)
	}
	for _, p := range pauses {
		out.Parked[p.Provider] = p.Until
	}
	return out, nil
}
