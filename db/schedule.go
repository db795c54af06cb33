package db

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/policy"
	"signalbox/internal/schedule"
)

// scheduleFacts asks for what a decision about waiting work of some tenants needs to know. The default tenant's policy holds the
// rules over all.
func (s *Store) scheduleFacts(ctx context.Context, h sqlc.DBTX, tenants []uuid.UUID) (sqlc.ScheduleFactsRow, error) {
	facts, err := s.q.ScheduleFacts(ctx, h, append(slices.Clone(tenants), DefaultTenant))
	return facts, wrap("load what the decision needs", err)
}

// scheduleState reads the facts.
func (s *Store) scheduleState(ctx context.Context, facts sqlc.ScheduleFactsRow) (schedule.State, error) {
	out := schedule.State{Now: facts.Now, Aging: s.timing.Aging, Tenants: map[uuid.UUID]schedule.Tenant{}, Parked: map[string]schedule.Parking{}}
	var held []heldRow
	var known []tenantRow
	if err := errors.Join(decode(facts.Held, &held, "held"), decode(facts.Tenants, &known, "tenants"), decode(facts.Pauses, &out.Parked, "pauses")); err != nil {
		return out, err
	}
	for _, h := range held {
		out.Held = append(out.Held, schedule.Held{Phase: h.Phase, Tenant: h.TenantID, User: h.UserID, Repository: h.RepositoryID, Risk: policy.Risk(h.Risk),
			Provider: h.Provider, Pool: h.Pool, Count: h.Held, Newest: h.Newest})
	}
	for _, t := range known {
		rules := policy.Default()
		if t.Document != "" {
			var err error
			if rules, err = s.rules.parse(t.Document); err != nil {
				// Its work waits and says why; the others' goes on.
				s.log.ErrorContext(ctx, "a tenant's policy cannot be read", "tenant", t.Name, "error", err)
				continue
			}
		}
		out.Tenants[t.ID] = schedule.Tenant{Name: t.Name, Rules: rules}
	}
	out.Installation = out.Tenants[DefaultTenant].Rules.Installation
	return out, nil
}

// heldRow and tenantRow are the rows of the query ScheduleFacts.
type heldRow struct {
	Phase        string    `json:"phase"`
	TenantID     uuid.UUID `json:"tenant_id"`
	UserID       uuid.UUID `json:"user_id"`
	RepositoryID uuid.UUID `json:"repository_id"`
	Risk         string    `json:"risk"`
	Provider     string    `json:"provider"`
	Pool         string    `json:"pool"`
	Held         int       `json:"held"`
	Newest       time.Time `json:"newest"`
}

type tenantRow struct {
	ID       uuid.UUID `json:"id"`
	Name     string    `json:"name"`
	Document string    `json:"document"`
}
