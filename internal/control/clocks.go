package control

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/run"
)

// RunClocks watch the time-outs of start, attempt, run and queue. Each has its own
// outcome; a worker is told first and has a grace to store what it has.
type RunClocks struct {
	Store     *db.Store
	StopGrace time.Duration
}

// RunOnce returns how many clocks ran out.
func (c *RunClocks) RunOnce(ctx context.Context) (int, error) {
	n, err := each(ctx, c.Store.ActiveRuns, func(a db.ActiveRun) uuid.UUID { return a.Ref.Run }, c.active)
	if err != nil {
		return n, err
	}
	old := func(ctx context.Context, after uuid.UUID, limit int) ([]db.OldItem, error) {
		return c.Store.OldItems(ctx, after, limit, time.Second)
	}
	m, err := each(ctx, old, func(i db.OldItem) uuid.UUID { return i.Ref.Run }, c.queued)
	return n + m, err
}

func (c *RunClocks) active(ctx context.Context, a db.ActiveRun) (bool, error) {
	event := c.overdue(a)
	if event == nil {
		return false, nil
	}
	// A worker that never started has nothing to store and is not waited for.
	if a.Stop == "" && a.State != run.Leased {
		return false, c.Store.SignalStop(ctx, a.Ref, "timeout")
	}
	if a.State != run.Leased && a.StopFor < c.StopGrace {
		return false, nil
	}
	_, err := c.Store.Apply(ctx, a.Ref, db.Intent{Key: fmt.Sprintf("clock-%s-%d", event.Kind(), a.Lease.Token),
		By: run.Actor{Kind: run.Scheduler, ID: "run clock"}, Payload: event})
	return err == nil, err
}

// overdue says which clock of an active run is over, the widest first.
func (c *RunClocks) overdue(a db.ActiveRun) run.Payload {
	l := a.Limits
	switch {
	case over(a.Active, l.RunTimeout.Std()):
		return run.RunTimeoutEvent{Fail: l.RunTimeoutFails}
	case a.State == run.Leased && over(a.OfLease, l.StartTimeout.Std()):
		return run.AttemptFailedEvent{Code: run.CodeStartTimeout, Summary: "The worker took the run and did not start in time."}
	case over(a.OfAttempt, l.AttemptTimeout.Std()) && a.State.Phase() == run.PhaseExecute:
		return run.AttemptFailedEvent{Code: run.CodeAttemptTimeout, Summary: fmt.Sprintf("The attempt took longer than %s.", l.AttemptTimeout)}
	}
	return nil
}

func (c *RunClocks) queued(ctx context.Context, i db.OldItem) (bool, error) {
	if !over(i.Waited, i.Timeout) {
		return false, nil
	}
	_, err := c.Store.Apply(ctx, i.Ref, db.Intent{Key: "queue-timeout-" + uuid.NewString(), By: run.Actor{Kind: run.Scheduler, ID: "queue clock"},
		Payload: run.TimeoutEvent{Code: run.CodeQueueTimeout}})
	return err == nil, err
}

func over(d, limit time.Duration) bool { return limit > 0 && d > limit }

// GateClocks expire gates that nobody decided and attestations that nobody gave.
type GateClocks struct{ Store *db.Store }

// RunOnce returns how many expired.
func (c *GateClocks) RunOnce(ctx context.Context) (int, error) {
	rules, err := c.Store.Rules(ctx, db.DefaultTenant)
	if err != nil {
		return 0, err
	}
	due := func(ctx context.Context, after uuid.UUID, limit int) ([]db.DueGate, error) {
		return c.Store.DueGates(ctx, after, limit, rules.Limits.MaxPark.Std())
	}
	n, err := each(ctx, due, func(d db.DueGate) uuid.UUID { return d.Gate }, func(ctx context.Context, d db.DueGate) (bool, error) {
		err := c.Store.ExpireGate(ctx, d)
		return err == nil, err
	})
	if err != nil {
		return n, err
	}
	m, err := each(ctx, c.Store.DueAttestations, func(r db.Ref) uuid.UUID { return r.Run }, func(ctx context.Context, r db.Ref) (bool, error) {
		err := c.Store.ExpireAttestation(ctx, r)
		return err == nil, err
	})
	return n + m, err
}

// TaskClocks close tasks that nobody touched, or whose pull request nobody merged.
type TaskClocks struct{ Store *db.Store }

// RunOnce returns how many were closed.
func (c *TaskClocks) RunOnce(ctx context.Context) (int, error) {
	rules, err := c.Store.Rules(ctx, db.DefaultTenant)
	if err != nil {
		return 0, err
	}
	idle, merge, err := c.Store.StaleTasks(ctx, batch, rules.Limits.TaskIdle.Std(), rules.Limits.MergeWait.Std())
	if err != nil {
		return 0, err
	}
	done := 0
	var first error
	for _, group := range []struct {
		tasks []db.TaskRef
		by    string
		why   string
	}{{idle, "task_idle", "Nobody asked for another run in time."}, {merge, "merge_wait", "The pull request was not merged in time."}} {
		for _, t := range group.tasks {
			_, err := c.Store.CloseTask(ctx, db.Request{Tenant: t.Tenant, By: run.Actor{Kind: run.Scheduler, ID: group.by}}, t.Task, group.why)
			switch {
			case err == nil:
				done++
			case !db.Lost(err) && first == nil:
				first = fmt.Errorf("close task %s: %w", t.Task, err)
			}
		}
	}
	return done, first
}
