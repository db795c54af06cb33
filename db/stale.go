package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// StaleTask is a task that was left alone for longer than its tenant waits.
type StaleTask struct {
	TaskRef
	// Touched is when somebody last changed it.
	Touched time.Time
}

// StaleTasks lists tasks that nobody touched (idles) or whose pull request nobody merged (merges) for longer than their
// tenant waits. An error beside a list is about tenants whose rules cannot be read; the list holds the others' tasks.
func (s *Store) StaleTasks(ctx context.Context, limit int) (idles, merges []StaleTask, err error) {
	p, unreadable := s.patienceOfTenants(ctx)
	if unreadable != nil && p.tenants == nil {
		return nil, nil, unreadable
	}
	a, err := s.q.IdleTasks(ctx, s.pool, p.idle, p.tenants, int32(limit))
	if err != nil {
		return nil, nil, fmt.Errorf("list idle tasks: %w", err)
	}
	for _, r := range a {
		idles = append(idles, StaleTask{TaskRef{r.TenantID, r.ID}, r.UpdatedAt})
	}
	b, err := s.q.MergeWaits(ctx, s.pool, p.merge, p.tenants, int32(limit))
	if err != nil {
		return nil, nil, fmt.Errorf("list tasks that wait for a merge: %w", err)
	}
	for _, r := range b {
		merges = append(merges, StaleTask{TaskRef{r.TenantID, r.ID}, r.UpdatedAt})
	}
	return idles, merges, unreadable
}

// CloseIdle closes a task that nobody touched; one that was touched meanwhile is left as it is, which is a Conflict.
func (s *Store) CloseIdle(ctx context.Context, t StaleTask) error {
	return s.closeStale(ctx, t, run.TaskEvIdle, "task_idle", "Nobody asked for another run in time.")
}

// CloseUnmerged closes a task whose pull request nobody merged, likewise.
func (s *Store) CloseUnmerged(ctx context.Context, t StaleTask) error {
	return s.closeStale(ctx, t, run.TaskEvMergeWaitOver, "merge_wait", "The pull request was not merged in time.")
}

func (s *Store) closeStale(ctx context.Context, t StaleTask, kind run.TaskKind, by, words string) error {
	clock := run.Actor{Kind: run.Scheduler, ID: by}
	_, err := s.lockedTask(ctx, Request{Tenant: t.Tenant, By: clock}, t.Task, "close", func(tx pgx.Tx, m *taskMove, _ policy.Rules, _ *rings) (TaskAck, error) {
		if !m.row.UpdatedAt.Equal(t.Touched) {
			return TaskAck{}, fault.New(fault.Conflict, "Nothing was changed: the task was touched meanwhile.").WithCode("moved_on")
		}
		m.row.ReasonWords = words
		if err := m.apply(run.TaskEvent{Kind: kind, By: clock, Reason: string(kind)}, nil); err != nil {
			return TaskAck{}, refused(err, run.Run{})
		}
		return TaskAck{Task: t.Task}, s.saveTask(ctx, tx, m)
	})
	return err
}
