package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/run"
)

// taskMove collects what happens to one task in a transaction.
type taskMove struct {
	row    sqlc.Task
	task   run.Task
	events []sqlc.TaskEvent
}

func newTaskMove(row sqlc.Task) *taskMove {
	return &taskMove{row: row, task: run.Task{State: run.TaskState(row.State), Mode: run.Mode(row.Mode), MaxRuns: int(row.MaxRuns),
		RunsUsed: int(row.RunsUsed), Active: row.ActiveRunID != nil, CancelRequested: row.CancelRequested,
		AwaitsMerge: row.AwaitsMerge, Auto: row.AutoRun, Reason: row.Reason}}
}

// apply reduces one task event and remembers its row.
func (m *taskMove) apply(ev run.TaskEvent, runID *uuid.UUID) error {
	next, err := run.ReduceTask(m.task, ev)
	if err != nil {
		return err
	}
	m.row.Version++
	m.events = append(m.events, sqlc.TaskEvent{TenantID: m.row.TenantID, TaskID: m.row.ID, Seq: m.row.Version, Kind: string(ev.Kind),
		ActorKind: string(ev.By.Kind), ActorID: ev.By.ID, ActorName: ev.By.Name, FromState: string(m.task.State),
		ToState: string(next.State), Reason: ev.Reason, RunID: runID})
	m.task = next
	m.row.State, m.row.RunsUsed, m.row.CancelRequested = string(next.State), int32(next.RunsUsed), next.CancelRequested
	m.row.AwaitsMerge, m.row.AutoRun, m.row.Reason = next.AwaitsMerge, next.Auto, next.Reason
	if !next.Active {
		m.row.ActiveRunID = nil
	}
	return nil
}

func (s *Store) saveTask(ctx context.Context, tx pgx.Tx, m *taskMove) error {
	if len(m.events) == 0 {
		return nil
	}
	row, err := encode(m.row)
	if err != nil {
		return err
	}
	if err := s.q.UpdateTask(ctx, tx, row); err != nil {
		return fmt.Errorf("update task: %w", err)
	}
	return s.saveTaskEvents(ctx, tx, m)
}

func (s *Store) saveTaskEvents(ctx context.Context, tx pgx.Tx, m *taskMove) error {
	events, err := encode(m.events)
	if err != nil {
		return err
	}
	if err := s.q.InsertTaskEvents(ctx, tx, events); err != nil {
		return fmt.Errorf("write task events: %w", err)
	}
	return nil
}

// touchesTask reports whether the task's state follows from the steps.
func touchesTask(steps []step) bool {
	for _, x := range steps {
		if len(taskEvents(x)) > 0 {
			return true
		}
	}
	return false
}

// taskEvents says what a step of the run means for its task.
func taskEvents(x step) []run.TaskEvent {
	cp := run.Actor{Kind: run.ControlPlane, ID: "signalbox"}
	after := x.res.Run
	was, is := parked(x.before.State), parked(after.State)
	switch {
	case after.State.Terminal():
		return []run.TaskEvent{{Kind: run.TaskEvRunEnded, By: cp, Run: &after}}
	case is && !was:
		return []run.TaskEvent{{Kind: run.TaskEvRunWaits, By: cp}}
	case was && !is:
		return []run.TaskEvent{{Kind: run.TaskEvRunGoesOn, By: cp}}
	}
	return nil
}

func parked(s run.State) bool { return s == run.WaitingForApproval || s == run.AwaitingVerification }

// followTask moves the task as the run's steps ask, under the task's row lock.
func (s *Store) followTask(ctx context.Context, tx pgx.Tx, steps []step) error {
	if !touchesTask(steps) {
		return nil
	}
	r := steps[0].res.Run
	row, err := s.q.LockTask(ctx, tx, r.Tenant, r.Task)
	if err != nil {
		return fmt.Errorf("lock task: %w", err)
	}
	m := newTaskMove(row)
	if err := m.follow(steps); err != nil {
		return err
	}
	return s.saveTask(ctx, tx, m)
}

// taskOf puts into the write what the run's steps mean for its task, as the task is now.
func (s *Store) taskOf(ctx context.Context, w *write, steps []step) error {
	if !touchesTask(steps) {
		return nil
	}
	r := steps[0].res.Run
	row, err := s.commits.tasks.Do(ctx, r.Task)
	if err == nil && row.TenantID != r.Tenant {
		err = pgx.ErrNoRows
	}
	if err != nil {
		return busy(err)
	}
	before := taskBefore{row.ID, row.TenantID, row.Version, r.ID}
	m := newTaskMove(row)
	if err := m.follow(steps); err != nil {
		// The run was read before its task: somebody who ended the run in between has moved the task already.
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	if len(m.events) == 0 {
		return nil
	}
	// What the statement does not write is not sent.
	m.row.Goal, m.row.Contract = "", nil
	w.tasks, w.taskBefores, w.taskEvents = append(w.tasks, m.row), append(w.taskBefores, before), append(w.taskEvents, m.events...)
	return nil
}

// taskMoved reports that a write failed because a task had moved on; see WriteTasks.
func taskMoved(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == "22012"
}

func (m *taskMove) follow(steps []step) error {
	for _, x := range steps {
		for _, ev := range taskEvents(x) {
			if err := m.apply(ev, &x.res.Run.ID); err != nil {
				return fmt.Errorf("task of run %s: %w", x.res.Run.ID, err)
			}
		}
	}
	return nil
}
