package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/run"
	"signalbox/internal/schedule"
)

const (
	// requestsOfRun is how many statements a second one run under a lease is taken to cost: heartbeats are shared, steps,
	// logs and usage come in batches about once a second. An assumption, not a measurement.
	requestsOfRun = 1.2
	// shareOfPool is how much of the connections an estimate may count on: the rest is for people.
	shareOfPool = 0.5
)

// Advise measures what bounds the tenant's work now and compares it (R-Q-9). The queues and boots are the tenant's, as just read.
func (s *Store) Advise(ctx context.Context, tenant uuid.UUID, queues []QueueInfo, boots []BootInfo) (schedule.Advice, error) {
	state, _, err := s.waitingFor(ctx, tenant)
	if err != nil {
		return schedule.Advice{}, err
	}
	p := schedule.Plant{Model: modelQuota(state, tenant), Policy: ownLimit(state, tenant), Checks: new(0)}
	for _, b := range boots {
		if b.State != "READY" || b.Draining || b.Revoked || state.Now.Sub(b.Heartbeat) > s.timing.LeaseTTL {
			continue
		}
		for _, phase := range b.Phases {
			switch phase {
			case run.PhaseExecute:
				p.Workers++
				p.Slots += b.MaxConcurrent
				p.Busy += b.Held
			case run.PhaseVerify:
				*p.Checks += b.MaxConcurrent
			}
		}
	}
	for _, q := range queues {
		if q.Pause == nil {
			p.Waiting += q.Depth
		}
	}
	if p.Database, err = s.databaseRuns(ctx); err != nil {
		return schedule.Advice{}, err
	}
	return schedule.Advise(p), nil
}

// databaseRuns estimates for how many runs at once this process's connections suffice, from the fastest of three small
// answers: the fastest, because a pause of this machine is no fault of the database's.
func (s *Store) databaseRuns(ctx context.Context) (*int, error) {
	fastest := time.Hour
	for range 3 {
		began := time.Now()
		if err := s.pool.Ping(ctx); err != nil {
			return nil, fmt.Errorf("measure the database: %w", err)
		}
		fastest = min(fastest, time.Since(began))
	}
	// A commit waits for the disk: about four times a look.
	each := max(4*fastest, time.Millisecond)
	return new(int(float64(s.pool.Config().MaxConns) * shareOfPool / each.Seconds() / requestsOfRun)), nil
}

// modelQuota adds up for how many runs that execute the limits of the providers leave room, those that do included; nil where none
// has a limit. They bind no other phase. A provider that asked to slow down has none to give.
func modelQuota(s schedule.State, tenant uuid.UUID) *int {
	own, all := s.Tenants[tenant].Rules.Concurrency.Providers, s.Installation.Concurrency.Providers
	limits := map[string]int{}
	for _, of := range []map[string]int{own, all} {
		for name, n := range of {
			if have, ok := limits[name]; n > 0 && (!ok || n < have) {
				limits[name] = n
			}
		}
	}
	if len(limits) == 0 {
		return nil
	}
	sum := 0
	for name, n := range limits {
		if !s.Parked[name].Until.After(s.Now) {
			sum += n
		}
	}
	return &sum
}

// ownLimit is the least of what tenant and installation allow at once; nil where neither has a limit.
func ownLimit(s schedule.State, tenant uuid.UUID) *int {
	t := s.Tenants[tenant]
	least := 0
	for _, n := range []int{t.Rules.Concurrency.Tenant, s.Installation.Tenants[t.Name].Max, s.Installation.Concurrency.Tenant} {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	if least == 0 {
		return nil
	}
	return &least
}
