package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// openBranch is the branch of the task's open pull request, or "". A new run of the task takes it over (D-29).
func (s *Store) openBranch(ctx context.Context, tx pgx.Tx, t sqlc.Task) (string, error) {
	pulls, err := s.q.PullsOfTask(ctx, tx, t.TenantID, t.ID)
	if err != nil {
		return "", fmt.Errorf("load the task's pull requests: %w", err)
	}
	for _, p := range pulls {
		if p.State != "MERGED" && p.State != "CLOSED" {
			return p.HeadBranch, nil
		}
	}
	return "", nil
}

// admitted is policy's answer about a CREATED run: what it did, and when to look again where the run was put off.
type admitted struct {
	steps []step
	due   *time.Time
}

// admit asks policy about a CREATED run and puts its answer into the write: enqueued, put off
// with a time to look again, or denied.
func (s *Store) admit(w *write, row sqlc.Run, r run.Run, rules policy.Rules, f policy.Facts, now time.Time, key string) (admitted, error) {
	d := policy.Admission(rules, f)
	var due *time.Time
	ev := run.Event{ID: key, At: micro(now), By: run.Actor{Kind: run.Scheduler, ID: "admission"}}
	switch d.Verdict {
	case policy.Admit:
		ev.Payload = run.EnqueuedEvent{PolicyVersion: d.PolicyVersion, Reasons: d.Reasons, Limits: run.LimitsOf(d.Limits, rules), Route: d.Route}
	case policy.Defer:
		if now.Sub(r.CreatedAt) > rules.Limits.MaxDefer.Std() {
			ev.Payload = run.TimeoutEvent{Code: run.CodeDeferTimeout}
			break
		}
		ev.Payload = run.DeferredEvent{Code: d.Code, Reasons: d.Reasons, RetryAfter: d.RetryAfter.Std(), PolicyVersion: d.PolicyVersion}
		due = new(now.Add(d.RetryAfter.Std()))
	default:
		ev.By = run.Actor{Kind: run.Policy, ID: d.PolicyVersion}
		ev.Payload = run.PolicyDeniedEvent{PolicyVersion: d.PolicyVersion, Code: run.CodePolicyDenied, Reasons: d.Reasons}
	}
	steps, err := reduceAll(r, ev)
	if err != nil {
		return admitted{}, err
	}
	if err := w.add(row, steps, s.timing, nil); err != nil {
		return admitted{}, err
	}
	return admitted{steps, due}, w.admitted(d, f)
}

// Admit looks again at a run that admission had put off, and reports whether it was put off once more.
func (s *Store) Admit(ctx context.Context, ref Ref) (putOff bool, err error) {
	var b rings
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		b, putOff = rings{}, false
		row, err := s.q.LockRun(ctx, tx, ref.Tenant, ref.Run)
		if err != nil {
			return err
		}
		r, err := toRun(row.Run)
		if err != nil {
			return err
		}
		if r.State != run.Created {
			return s.q.DropAdmission(ctx, tx, r.ID)
		}
		rules, err := s.rulesOf(ctx, tx, ref.Tenant)
		if err != nil {
			return err
		}
		f := run.Facts{Rules: rules}
		if _, err := s.contractFacts(ctx, tx, r, &f); err != nil {
			return err
		}
		requester, err := uuid.Parse(f.Policy.Requester)
		if err != nil {
			return fmt.Errorf("read the requester: %w", err)
		}
		g, err := s.heldGrounds(ctx, tx, rules, s.ask(r.Tenant, r.Repository, requester))
		if err != nil {
			return err
		}
		if err := s.admissionFacts(ctx, tx, r.Tenant, g, rules, &f.Policy); err != nil {
			return err
		}
		w := &write{}
		a, err := s.admit(w, row.Run, r, rules, f.Policy, g.Now, fmt.Sprintf("admission-%d", r.Version))
		if err != nil {
			return err
		}
		if err := s.writeAdmission(ctx, tx, w, r, a); err != nil {
			return err
		}
		b.changes, putOff = w.changes(), a.due != nil
		return s.followTask(ctx, tx, a.steps)
	})
	if err != nil {
		return false, translate(err, "run")
	}
	s.ring(b.changes...)
	return putOff, nil
}

// writeAdmission writes what admission decided anew about a run that it had put off.
func (s *Store) writeAdmission(ctx context.Context, tx pgx.Tx, w *write, r run.Run, a admitted) error {
	done, err := s.flush(ctx, tx, w)
	if err != nil {
		return fmt.Errorf("write admission: %w", err)
	}
	if !done[r.ID] {
		return errMoved
	}
	if a.due != nil {
		return s.q.PutAdmission(ctx, tx, r.ID, r.Tenant, *a.due)
	}
	return s.q.DropAdmission(ctx, tx, r.ID)
}

// SubmitTask submits a draft.
func (s *Store) SubmitTask(ctx context.Context, in Request, task uuid.UUID) (TaskAck, error) {
	return s.lockedTask(ctx, in, task, "submit", func(tx pgx.Tx, m *taskMove, rules policy.Rules, b *rings) (TaskAck, error) {
		g, err := s.heldGrounds(ctx, tx, rules, s.ask(m.row.TenantID, m.row.RepositoryID, m.row.RequestedBy))
		if err != nil {
			return TaskAck{}, err
		}
		sub := submission{move: m}
		ack := TaskAck{Task: task}
		if sub.decision, ack.Reasons, err = submit(m, in, rules, g.repo); err != nil {
			return TaskAck{}, err
		}
		ack.Reason = m.row.ReasonWords
		if m.task.State == run.TaskReady {
			id, err := s.startRun(ctx, tx, &sub, start{by: controlPlane(), asked: in.Roles, rules: rules, grounds: g})
			if err != nil {
				return TaskAck{}, err
			}
			ack.Run = &id
		}
		b.changes = sub.changes()
		return ack, s.send(ctx, tx, sub)
	})
}

// RunAgain makes a new run of a READY task. By a person it is "Run again"; by the
// control plane it needs the task's own consent.
func (s *Store) RunAgain(ctx context.Context, in Request, task uuid.UUID) (TaskAck, error) {
	return s.lockedTask(ctx, in, task, "run", func(tx pgx.Tx, m *taskMove, rules policy.Rules, b *rings) (TaskAck, error) {
		asked, err := s.q.Roles(ctx, tx, m.row.TenantID, m.row.RequestedBy)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return TaskAck{}, fmt.Errorf("load roles: %w", err)
		}
		g, err := s.heldGrounds(ctx, tx, rules, s.ask(m.row.TenantID, m.row.RepositoryID, m.row.RequestedBy))
		if err != nil {
			return TaskAck{}, err
		}
		branch, err := s.openBranch(ctx, tx, m.row)
		if err != nil {
			return TaskAck{}, err
		}
		sub := submission{move: m}
		id, err := s.startRun(ctx, tx, &sub, start{by: in.By, asked: roles(asked), rules: rules, grounds: g, branch: branch})
		if err != nil {
			return TaskAck{}, err
		}
		b.changes = sub.changes()
		return TaskAck{Task: task, State: m.task.State, Run: &id}, s.send(ctx, tx, sub)
	})
}

// CloseTask ends a READY task for good; CloseIdle does it for the clock.
func (s *Store) CloseTask(ctx context.Context, in Request, task uuid.UUID, reason string) (TaskAck, error) {
	kind := run.TaskEvClosed
	return s.lockedTask(ctx, in, task, "close", func(tx pgx.Tx, m *taskMove, _ policy.Rules, _ *rings) (TaskAck, error) {
		m.row.ReasonWords = reason
		if err := m.apply(run.TaskEvent{Kind: kind, By: in.By, Reason: string(kind)}, nil); err != nil {
			return TaskAck{}, refused(err, run.Run{})
		}
		return TaskAck{Task: task}, s.saveTask(ctx, tx, m)
	})
}

func (s *Store) lockedTask(ctx context.Context, in Request, task uuid.UUID, scope string,
	do func(pgx.Tx, *taskMove, policy.Rules, *rings) (TaskAck, error)) (TaskAck, error) {
	return s.taskTx(ctx, in, scope+":"+task.String(), func(tx pgx.Tx, b *rings) (TaskAck, error) {
		row, err := s.q.LockTask(ctx, tx, in.Tenant, task)
		if err != nil {
			return TaskAck{}, translate(err, "task")
		}
		rules, err := s.rulesOf(ctx, tx, in.Tenant)
		if err != nil {
			return TaskAck{}, err
		}
		m := newTaskMove(row)
		ack, err := do(tx, m, rules, b)
		ack.State = m.task.State
		return ack, err
	})
}

// CancelTask stores the wish to cancel, so that no new run starts, and cancels
// the active run in the same transaction, locking the run first. The task is
// CANCELLED when that run ends; at once without one.
func (s *Store) CancelTask(ctx context.Context, in Request, task uuid.UUID, reason string) (TaskAck, error) {
	return s.taskTx(ctx, in, "cancel:"+task.String(), func(tx pgx.Tx, b *rings) (TaskAck, error) {
		seen, err := s.q.Task(ctx, tx, in.Tenant, task)
		if err != nil {
			return TaskAck{}, translate(err, "task")
		}
		var locked *sqlc.LockRunRow
		if seen.ActiveRunID != nil {
			row, err := s.q.LockRun(ctx, tx, in.Tenant, *seen.ActiveRunID)
			if err != nil {
				return TaskAck{}, fmt.Errorf("lock the active run: %w", err)
			}
			locked = &row
		}
		row, err := s.q.LockTask(ctx, tx, in.Tenant, task)
		if err != nil {
			return TaskAck{}, translate(err, "task")
		}
		if value(row.ActiveRunID) != value(seen.ActiveRunID) {
			return TaskAck{}, errMoved
		}
		m := newTaskMove(row)
		if err := m.apply(run.TaskEvent{Kind: run.TaskEvCancelRequested, By: in.By, Reason: reason}, nil); err != nil {
			return TaskAck{}, refused(err, run.Run{})
		}
		if locked != nil {
			if err := s.cancelActive(ctx, tx, in, m, *locked, reason, b); err != nil {
				return TaskAck{}, err
			}
		}
		ack := TaskAck{Task: task, State: m.task.State, Run: seen.ActiveRunID}
		return ack, s.saveTask(ctx, tx, m)
	})
}

func (s *Store) cancelActive(ctx context.Context, tx pgx.Tx, in Request, m *taskMove, row sqlc.LockRunRow, reason string, b *rings) error {
	r, err := toRun(row.Run)
	if err != nil || r.State.Terminal() {
		return err
	}
	by := in.By
	if by.Kind != run.Human {
		by.Kind = run.ControlPlane
	}
	steps, err := reduceAll(r, run.Event{ID: "task-cancel-" + typeid.New().String(), By: by, At: micro(row.Now), Payload: run.CancelRequestedEvent{Reason: reason}})
	if err != nil {
		return refused(err, r)
	}
	w := &write{}
	if err := w.add(row.Run, steps, s.timing, nil); err != nil {
		return err
	}
	if _, err := s.flush(ctx, tx, w); err != nil {
		return fmt.Errorf("write cancel: %w", err)
	}
	b.changes = append(b.changes, w.changes()...)
	return m.follow(steps)
}

// pullMoved tells a task what became of its pull request.
func (s *Store) pullMoved(ctx context.Context, tx pgx.Tx, tenant, task uuid.UUID, kind run.TaskKind) error {
	row, err := s.q.LockTask(ctx, tx, tenant, task)
	if err != nil {
		return fmt.Errorf("lock task: %w", err)
	}
	m := newTaskMove(row)
	if !m.task.AwaitsMerge {
		return nil
	}
	if err := m.apply(run.TaskEvent{Kind: kind, By: run.Actor{Kind: run.GitIntegration, ID: "forge"}}, nil); err != nil {
		return err
	}
	return s.saveTask(ctx, tx, m)
}
