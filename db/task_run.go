package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// startRun makes a run of a READY task and admits it at once where policy says
// so. The task's row is locked or new; it is saved here.
func (s *Store) startRun(ctx context.Context, tx pgx.Tx, m *taskMove, by run.Actor, asked []policy.Role, rules policy.Rules, b *rings) (uuid.UUID, error) {
	id := typeid.New()
	now, err := s.q.Now(ctx, tx)
	if err != nil {
		return id, err
	}
	if err := m.apply(run.TaskEvent{Kind: run.TaskEvRunCreated, By: by}, &id); err != nil {
		return id, refused(err, run.Run{})
	}
	m.row.ActiveRunID = &id
	steps, err := reduceAll(run.Run{}, run.Event{ID: "created", By: run.Actor{Kind: run.ControlPlane, ID: "signalbox"}, At: micro(now),
		Payload: run.CreatedEvent{Run: id, Tenant: m.row.TenantID, Task: m.row.ID, Repository: m.row.RepositoryID,
			Mode: run.Mode(m.row.Mode), Risk: m.row.Risk}})
	if err != nil {
		return id, err
	}
	row, err := s.insertRun(ctx, tx, m, steps)
	if err != nil {
		return id, err
	}
	f := run.Facts{Rules: rules}
	if _, err := s.contractFacts(ctx, tx, steps[0].res.Run, &f); err != nil {
		return id, err
	}
	f.Policy.RequesterRoles = asked
	w := &write{}
	admitted, err := s.admit(ctx, tx, w, row, steps[0].res.Run, rules, f.Policy, "admission-1")
	if err != nil {
		return id, err
	}
	if err := m.follow(admitted); err != nil {
		return id, err
	}
	if err := s.saveTask(ctx, tx, m); err != nil {
		return id, err
	}
	b.changes = append(b.changes, w.changes()...)
	return id, nil
}

// insertRun stores the run as its first event left it, with its branch.
func (s *Store) insertRun(ctx context.Context, tx pgx.Tx, m *taskMove, steps []step) (sqlc.Run, error) {
	r := steps[0].res.Run
	ev, hash, err := eventRow(steps[0], nil)
	if err != nil {
		return sqlc.Run{}, err
	}
	row, err := ownRun(sqlc.Run{HeadHash: hash, UpdatedAt: r.CreatedAt, StateSince: r.CreatedAt, AgentProfile: m.row.AgentProfile}, r)
	if err != nil {
		return row, err
	}
	if row.Branch, err = s.branchOf(ctx, tx, m.row, r.ID); err != nil {
		return row, err
	}
	raw, err := encode(row)
	if err != nil {
		return row, err
	}
	if err := s.q.InsertRun(ctx, tx, raw); err != nil {
		return row, fmt.Errorf("insert run: %w", err)
	}
	events, err := encode([]sqlc.RunEvent{ev})
	if err != nil {
		return row, err
	}
	if err := s.q.InsertRunEvents(ctx, tx, events); err != nil {
		return row, fmt.Errorf("insert first event: %w", err)
	}
	return row, nil
}

// branchOf is deterministic (D-29): a new run of a task with a pull request takes
// that branch over, else the branch is named after the task and this run.
func (s *Store) branchOf(ctx context.Context, tx pgx.Tx, t sqlc.Task, id uuid.UUID) (string, error) {
	pulls, err := s.q.PullsOfTask(ctx, tx, t.TenantID, t.ID)
	if err != nil {
		return "", fmt.Errorf("load the task's pull requests: %w", err)
	}
	for _, p := range pulls {
		if p.State != "MERGED" && p.State != "CLOSED" {
			return p.HeadBranch, nil
		}
	}
	return "agent/" + typeid.Format(typeid.Task, t.ID) + "/" + typeid.Format(typeid.Run, id), nil
}

// admit asks policy about a CREATED run and writes its answer: enqueued, put off
// with a time to look again, or denied.
func (s *Store) admit(ctx context.Context, tx pgx.Tx, w *write, row sqlc.Run, r run.Run, rules policy.Rules, f policy.Facts, key string) ([]step, error) {
	now, err := s.q.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	requester, err := uuid.Parse(f.Requester)
	if err != nil {
		return nil, fmt.Errorf("read the requester: %w", err)
	}
	if err := s.admissionFacts(ctx, tx, r.Tenant, requester, now, rules, &f); err != nil {
		return nil, err
	}
	d := policy.Admission(rules, f)
	ev := run.Event{ID: key, At: micro(now), By: run.Actor{Kind: run.Scheduler, ID: "admission"}}
	switch d.Verdict {
	case policy.Admit:
		ev.Payload = run.EnqueuedEvent{PolicyVersion: d.PolicyVersion, Reasons: d.Reasons, Limits: run.LimitsOf(d.Limits, rules), Route: d.Route}
	case policy.Defer:
		ev.Payload = run.DeferredEvent{Code: d.Code, Reasons: d.Reasons, RetryAfter: d.RetryAfter.Std(), PolicyVersion: d.PolicyVersion}
		if now.Sub(r.CreatedAt) > rules.Limits.MaxDefer.Std() {
			ev.Payload = run.TimeoutEvent{Code: run.CodeDeferTimeout}
		}
	default:
		ev.By = run.Actor{Kind: run.Policy, ID: d.PolicyVersion}
		ev.Payload = run.PolicyDeniedEvent{PolicyVersion: d.PolicyVersion, Code: run.CodePolicyDenied, Reasons: d.Reasons}
	}
	steps, err := reduceAll(r, ev)
	if err != nil {
		return nil, err
	}
	if err := w.add(row, steps, s.timing, nil); err != nil {
		return nil, err
	}
	if err := w.admitted(d, f); err != nil {
		return nil, err
	}
	done, err := s.flush(ctx, tx, w)
	if err != nil {
		return nil, fmt.Errorf("write admission: %w", err)
	}
	if !done[r.ID] {
		return nil, errMoved
	}
	if p, ok := ev.Payload.(run.DeferredEvent); ok {
		return steps, s.q.PutAdmission(ctx, tx, r.ID, r.Tenant, now.Add(p.RetryAfter))
	}
	return steps, s.q.DropAdmission(ctx, tx, r.ID)
}

// Admit looks again at a run that admission had put off.
func (s *Store) Admit(ctx context.Context, ref Ref) error {
	var b rings
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		b = rings{}
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
		w := &write{}
		steps, err := s.admit(ctx, tx, w, row.Run, r, rules, f.Policy, fmt.Sprintf("admission-%d", r.Version))
		if err != nil {
			return err
		}
		b.changes = w.changes()
		return s.followTask(ctx, tx, steps)
	})
	if err == nil {
		s.ring(b.changes...)
	}
	return translate(err, "run")
}

// SubmitTask submits a draft.
func (s *Store) SubmitTask(ctx context.Context, in Request, task uuid.UUID) (TaskAck, error) {
	return s.lockedTask(ctx, in, task, "submit", func(tx pgx.Tx, m *taskMove, rules policy.Rules, b *rings) (TaskAck, error) {
		reasons, err := s.submit(ctx, tx, m, in, rules)
		if err != nil {
			return TaskAck{}, err
		}
		ack := TaskAck{Task: task, Reasons: reasons, Reason: m.row.ReasonWords}
		if m.task.State == run.TaskReady {
			return s.firstRun(ctx, tx, m, in, rules, ack, b)
		}
		return ack, s.saveTask(ctx, tx, m)
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
		id, err := s.startRun(ctx, tx, m, in.By, roles(asked), rules, b)
		return TaskAck{Task: task, State: m.task.State, Run: &id}, err
	})
}

// CloseTask ends a READY task for good; IdleTask does it for the clock.
func (s *Store) CloseTask(ctx context.Context, in Request, task uuid.UUID, reason string) (TaskAck, error) {
	kind := run.TaskEvClosed
	switch {
	case in.By.Kind == run.Scheduler && in.By.ID == "merge_wait":
		kind = run.TaskEvMergeWaitOver
	case in.By.Kind == run.Scheduler:
		kind = run.TaskEvIdle
	}
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
