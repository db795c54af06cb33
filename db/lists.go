package db

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
)

// CountMost is up to where lists are counted; a count of more than this is CountMost + 1 and means "more".
const CountMost = 1000

// View is a saved question about runs that no single state answers. The zero value asks nothing.
type View string

// The views.
const (
	// ViewWaiting are runs with a gate that somebody has to decide, or that expired undecided.
	ViewWaiting View = "waiting"
	// ViewRunning are runs that a worker holds and answers for.
	ViewRunning View = "running"
	// ViewFailed are runs that failed since midnight UTC.
	ViewFailed View = "failed"
	// ViewStuck are runs whose worker sent no heartbeat for so long that its lease is over.
	ViewStuck View = "stuck"
)

// Views lists every view in the order in which pages show them.
func Views() []View { return []View{ViewWaiting, ViewRunning, ViewFailed, ViewStuck} }

// inView returns the runs of a view, at most CountMost + 1.
func (s *Store) inView(ctx context.Context, tenant uuid.UUID, v View) (ids []uuid.UUID, err error) {
	switch v {
	case ViewWaiting:
		ids, err = s.q.WaitingForPeople(ctx, s.reads(tenant), tenant, CountMost+1)
	case ViewRunning:
		ids, err = s.q.WorkedOn(ctx, s.reads(tenant), tenant, false, CountMost+1)
	case ViewFailed:
		ids, err = s.q.FailedToday(ctx, s.reads(tenant), tenant, CountMost+1)
	case ViewStuck:
		ids, err = s.q.WorkedOn(ctx, s.reads(tenant), tenant, true, CountMost+1)
	}
	if err != nil {
		return nil, fmt.Errorf("list runs of the view %q: %w", v, err)
	}
	return ids, nil
}

// among lists the ids of a view's runs that the filter lets pass, the newest first.
func (s *Store) among(ctx context.Context, tenant uuid.UUID, f RunFilter) ([]uuid.UUID, error) {
	ids, err := s.inView(ctx, tenant, f.View)
	if err != nil {
		return nil, err
	}
	at, id := f.Before.down()
	return s.q.RunsAmong(ctx, s.reads(tenant), sqlc.RunsAmongParams{
		TenantID: tenant, Ids: ids, State: string(f.State), TaskID: pointer(f.Task), RepositoryID: pointer(f.Repository), Query: f.Query,
		Active: f.Active, BeforeAt: at, BeforeID: id, Count: f.Limit,
	})
}

// CountRuns counts what Runs would list on all its pages, up to CountMost.
func (s *Store) CountRuns(ctx context.Context, tenant uuid.UUID, f RunFilter) (int, error) {
	if f.View != "" {
		f.Before, f.Limit = Cursor{}, CountMost+1
		ids, err := s.among(ctx, tenant, f)
		if err != nil {
			return 0, fmt.Errorf("count runs: %w", err)
		}
		return len(ids), nil
	}
	n, err := s.q.CountRuns(ctx, s.reads(tenant), sqlc.CountRunsParams{
		TenantID: tenant, State: string(f.State), TaskID: pointer(f.Task), RepositoryID: pointer(f.Repository), Query: f.Query, Most: CountMost + 1,
	})
	if err != nil {
		return 0, fmt.Errorf("count runs: %w", err)
	}
	return int(n), nil
}

// CountTasks counts what Tasks would list on all its pages, up to CountMost.
func (s *Store) CountTasks(ctx context.Context, tenant uuid.UUID, f TaskFilter) (int, error) {
	n, err := s.q.CountTasks(ctx, s.reads(tenant), sqlc.CountTasksParams{
		TenantID: tenant, State: string(f.State), RepositoryID: pointer(f.Repository), RequestedBy: pointer(f.RequestedBy), Query: f.Query, Most: CountMost + 1,
	})
	if err != nil {
		return 0, fmt.Errorf("count tasks: %w", err)
	}
	return int(n), nil
}
