package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Measures are what a list of runs is read against.
type Measures struct {
	// Usual is by repository how long its runs are active, and how many runs that stands on.
	Usual map[uuid.UUID]UsualRun
	// Cost is by run; a run without calls of a model has none.
	Cost map[uuid.UUID]Money
}

// UsualRun is the middle of a repository's runs that succeeded.
type UsualRun struct {
	Active time.Duration
	Runs   int
}

// ActiveAt is how long the run was active until then: from its admission on, without the time it waited for people.
func (r RunInfo) ActiveAt(now time.Time) time.Duration {
	if !counts(r.State) {
		return r.Active
	}
	return r.Active + max(now.Sub(r.StateSince), 0)
}

// MeasuresOf reads what the runs are compared with and what each cost.
func (s *Store) MeasuresOf(ctx context.Context, tenant uuid.UUID, runs []RunInfo) (Measures, error) {
	m := Measures{Usual: map[uuid.UUID]UsualRun{}, Cost: map[uuid.UUID]Money{}}
	if len(runs) == 0 {
		return m, nil
	}
	var ids, repositories []uuid.UUID
	for _, r := range runs {
		ids = append(ids, r.ID)
		if _, ok := m.Usual[r.Repository]; !ok {
			m.Usual[r.Repository] = UsualRun{}
			repositories = append(repositories, r.Repository)
		}
	}
	usual, err := s.q.UsualRuns(ctx, s.reads(tenant), tenant, repositories)
	if err != nil {
		return m, fmt.Errorf("look at the repositories' usual runs: %w", err)
	}
	for _, u := range usual {
		m.Usual[u.RepositoryID] = UsualRun{time.Duration(u.MiddleMs * float64(time.Millisecond)), int(u.Runs)}
	}
	costs, err := s.q.CostsOfRuns(ctx, s.reads(tenant), ids, tenant)
	if err != nil {
		return m, fmt.Errorf("sum up what the runs cost: %w", err)
	}
	for _, c := range costs {
		m.Cost[c.RunID] = Money{Reported: c.Reported, Estimated: c.Estimated, UnknownCalls: c.UnknownCalls}
	}
	return m, nil
}
