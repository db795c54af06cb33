package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
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

// IdleTasks lists tasks that nobody touched for longer than their tenant waits, after the given task.
func (s *Store) IdleTasks(ctx context.Context, p Patience, after uuid.UUID, limit int) ([]StaleTask, error) {
	rows, err := s.q.IdleTasks(ctx, s.pool, p.idle, p.tenants, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list idle tasks: %w", err)
	}
	out := make([]StaleTask, 0, len(rows))
	for _, r := range rows {
		out = append(out, StaleTask{TaskRef{r.TenantID, r.ID}, r.UpdatedAt})
	}
	return out, nil
}

// UnmergedTasks lists tasks whose pull request nobody merged for longer than their tenant waits, after the given task.
func (s *Store) UnmergedTasks(ctx context.Context, p Patience, after uuid.UUID, limit int) ([]StaleTask, error) {
	rows, err := s.q.MergeWaits(ctx, s.pool, p.merge, p.tenants, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list tasks that wait for a merge: %w", err)
	}
	out := make([]StaleTask, 0, len(rows))
	for _, r := range rows {
		out = append(out, StaleTask{TaskRef{r.TenantID, r.ID}, r.UpdatedAt})
	}
	return out, nil
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
