package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/patch"
	"signalbox/internal/run"
)

// RunClocks watch the time-outs of start, attempt and run. Each has its own
// outcome; a worker is told first and has a grace to store what it has.
type RunClocks struct {
	Store     *db.Store
	StopGrace time.Duration
	Log       *slog.Logger

	runs visitor
}

// RunOnce returns how many clocks ran out.
func (c *RunClocks) RunOnce(ctx context.Context) (int, error) {
	return eachRun(ctx, c.Store, "run clock", &c.runs, c.Log, c.Store.ActiveRuns, func(a db.ActiveRun) uuid.UUID { return a.Ref.Run }, c.active)
}

func (c *RunClocks) active(ctx context.Context, a db.ActiveRun) (bool, error) {
	if a.Broken != nil {
		return false, a.Broken
	}
	event := c.overdue(a)
	if event == nil {
		return false, nil
	}
	// A worker that never started has nothing to store and is not waited for.
	if a.Stop == "" && a.State != run.Leased {
		return false, c.Store.SignalStop(ctx, a.Ref, a.Lease.ID, "timeout")
	}
	if a.State != run.Leased && a.StopFor < c.StopGrace {
		return false, nil
	}
	in := db.Intent{Key: fmt.Sprintf("clock-%s-%d", event.Kind(), a.Lease.Token), By: run.Actor{Kind: run.Scheduler, ID: "run clock"}, Seen: a.Version, Payload: event}
	if event.Kind() == run.KindAttemptFailed {
		// The next worker's lease is not ended for the time of this one.
		in.Lease = &a.Lease
	}
	_, err := c.Store.Apply(ctx, a.Ref, in)
	return true, err
}

// overdue says which clock of an active run is over, the widest first.
func (c *RunClocks) overdue(a db.ActiveRun) run.Payload {
	l := a.Limits
	switch {
	case over(a.Active, l.RunTimeout.Std()):
		return run.RunTimeoutEvent{Fail: l.RunTimeoutFails}
	case a.State == run.Leased && over(a.OfLease, l.StartTimeout.Std()):
		return run.AttemptFailedEvent{Code: run.CodeStartTimeout, Summary: "The worker took the run and did not start in time.", Jitter: rand.Float64()}
	case over(a.OfAttempt, l.AttemptTimeout.Std()) && a.State.Phase() == run.PhaseExecute:
		return run.AttemptFailedEvent{Code: run.CodeAttemptTimeout, Summary: fmt.Sprintf("The attempt took longer than %s.", l.AttemptTimeout), Jitter: rand.Float64()}
	}
	return nil
}

func over(d, limit time.Duration) bool { return limit > 0 && d > limit }

// QueueClock ends runs that nobody took from the queue in time, and those that wait although their own time is over.
type QueueClock struct {
	Store *db.Store
	Log   *slog.Logger

	items, runs visitor
}

// RunOnce returns how many runs ended.
func (c *QueueClock) RunOnce(ctx context.Context) (int, error) {
	return sum(ctx,
		func(ctx context.Context) (int, error) {
			return eachRun(ctx, c.Store, "queue clock", &c.items, c.Log, c.Store.OldItems, func(i db.OldItem) uuid.UUID { return i.Ref.Run }, func(ctx context.Context, i db.OldItem) (bool, error) {
				if i.Broken != nil || !over(i.Waited, i.Timeout) {
					return false, i.Broken
				}
				_, err := c.Store.Apply(ctx, i.Ref, db.Intent{Key: "queue-timeout-" + uuid.NewString(), By: run.Actor{Kind: run.Scheduler, ID: "queue clock"},
					Seen: i.Version, Payload: run.TimeoutEvent{Code: run.CodeQueueTimeout, Why: c.why(ctx, i.Ref)}})
				return true, err
			})
		},
		func(ctx context.Context) (int, error) {
			return overtime(ctx, &c.runs, c.Log, c.Store.WaitingRuns, func(ctx context.Context, o db.Overtime) error {
				_, err := c.Store.Apply(ctx, o.Ref, db.Intent{Key: "run-timeout-" + uuid.NewString(), By: run.Actor{Kind: run.Scheduler, ID: "run clock"},
					Seen: o.Version, Payload: run.RunTimeoutEvent{Fail: o.Fails}})
				return err
			})
		})
}

// why is what the run waited for, in words that its history keeps. A look that fails keeps no run waiting longer.
func (c *QueueClock) why(ctx context.Context, ref db.Ref) string {
	wait, err := c.Store.Why(ctx, ref.Tenant, ref.Run)
	if err != nil {
		if c.Log != nil {
			c.Log.WarnContext(ctx, "why a run waited too long is not known", "run_id", ref.Run, "error", err)
		}
		return ""
	}
	return oneLine(wait.Reason.Words, maxWhy)
}

// maxWhy bounds, in bytes, what an event keeps of why nobody took a run.
const maxWhy = 600

// oneLine makes text that may hold names and reasons of anybody fit for a sentence: one line, nothing hidden, at most so
// many bytes and a mark where it was cut.
func oneLine(text string, most int) string {
	shown, _ := patch.Reveal(strings.Join(strings.Fields(text), " "))
	if len(shown) <= most {
		return shown
	}
	for most > 0 && !utf8.RuneStart(shown[most]) {
		most--
	}
	return shown[:most] + "…"
}

// UseClocks end what takes longer than it may while its lease goes on: steps, sandboxes and verifiers.
type UseClocks struct {
	Store *db.Store
	Log   *slog.Logger

	steps, sandboxes visitor
}

// RunOnce returns how many steps ended and how many workers were told to stop.
func (c *UseClocks) RunOnce(ctx context.Context) (int, error) {
	return sum(ctx,
		func(ctx context.Context) (int, error) {
			return overtime(ctx, &c.steps, c.Log, c.Store.RunningSteps, c.Store.TimeOutStep)
		},
		func(ctx context.Context) (int, error) {
			return overtime(ctx, &c.sandboxes, c.Log, c.Store.SandboxOvertime, func(ctx context.Context, o db.Overtime) error {
				return c.Store.SignalStop(ctx, o.Ref, o.Lease, "budget")
			})
		})
}

// overtime visits what is listed and ends what took longer than it may.
func overtime(ctx context.Context, v *visitor, log *slog.Logger, list func(context.Context, uuid.UUID, int) ([]db.Overtime, error), end func(context.Context, db.Overtime) error) (int, error) {
	return each(ctx, v, log, list, func(o db.Overtime) uuid.UUID { return o.Key }, func(ctx context.Context, o db.Overtime) (bool, error) {
		if o.Broken != nil || !over(o.Took, o.Limit) {
			return false, o.Broken
		}
		return true, end(ctx, o)
	})
}

// GateClocks expire gates that nobody decided and attestations that nobody gave.
type GateClocks struct {
	Store *db.Store
	Log   *slog.Logger

	gates, attestations visitor
}

// RunOnce returns how many expired.
func (c *GateClocks) RunOnce(ctx context.Context) (int, error) {
	return sum(ctx,
		func(ctx context.Context) (int, error) {
			return each(ctx, &c.gates, c.Log, c.Store.DueGates, func(d db.DueGate) uuid.UUID { return d.Gate }, func(ctx context.Context, d db.DueGate) (bool, error) {
				return true, c.Store.ExpireGate(ctx, d)
			})
		},
		func(ctx context.Context) (int, error) {
			return each(ctx, &c.attestations, c.Log, c.Store.DueAttestations, func(r db.Ref) uuid.UUID { return r.Run }, func(ctx context.Context, r db.Ref) (bool, error) {
				return true, c.Store.ExpireAttestation(ctx, r)
			})
		})
}

// TaskClocks close tasks that nobody touched, or whose pull request nobody merged.
type TaskClocks struct {
	Store *db.Store
	Log   *slog.Logger

	idle, unmerged visitor
}

// RunOnce returns how many were closed.
func (c *TaskClocks) RunOnce(ctx context.Context) (int, error) {
	// An error may stand beside the patience of the others: tenants whose rules can be read are served.
	p, unreadable := c.Store.Patience(ctx)
	n, err := sum(ctx,
		func(ctx context.Context) (int, error) {
			return c.close(ctx, &c.idle, p, c.Store.IdleTasks, c.Store.CloseIdle)
		},
		func(ctx context.Context) (int, error) {
			return c.close(ctx, &c.unmerged, p, c.Store.UnmergedTasks, c.Store.CloseUnmerged)
		})
	return n, errors.Join(unreadable, err)
}

func (c *TaskClocks) close(ctx context.Context, v *visitor, p db.Patience, list func(context.Context, db.Patience, uuid.UUID, int) ([]db.StaleTask, error), end func(context.Context, db.StaleTask) error) (int, error) {
	page := func(ctx context.Context, after uuid.UUID, limit int) ([]db.StaleTask, error) {
		return list(ctx, p, after, limit)
	}
	return each(ctx, v, c.Log, page, func(t db.StaleTask) uuid.UUID { return t.Task }, func(ctx context.Context, t db.StaleTask) (bool, error) {
		return true, end(ctx, t)
	})
}
