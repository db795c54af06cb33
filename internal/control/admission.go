package control

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/run"
)

// Admission looks again at runs that were put off, and makes the next run of
// tasks whose last one failed in a way that may be tried again.
type Admission struct {
	Store *db.Store
	Log   *slog.Logger

	runs, tasks visitor
}

// share is how many of a tenant's runs one look puts off once more. The rest of them wait for the next look, so that a tenant
// with ten thousand costs the others no more than one with twenty.
const share = 20

// RunOnce returns how many runs were admitted, denied or made. A run that is put off once more is none of them: the loop pauses
// before it looks again.
func (a *Admission) RunOnce(ctx context.Context) (int, error) {
	return sum(ctx,
		a.lookAgain,
		func(ctx context.Context) (int, error) {
			return each(ctx, &a.tasks, a.Log, a.Store.TasksToRun, func(t db.TaskRef) uuid.UUID { return t.Task }, func(ctx context.Context, t db.TaskRef) (bool, error) {
				_, err := a.Store.RunAgain(ctx, db.Request{Tenant: t.Tenant, By: run.Actor{Kind: run.ControlPlane, ID: "signalbox"}}, t.Task)
				return true, err
			})
		})
}

// lookAgain goes round the tenants, a page at a time. Each page is a look of its own, so that a run that has come due
// meanwhile is in the next, however many another tenant has.
func (a *Admission) lookAgain(ctx context.Context) (int, error) {
	if err := a.runs.know(ctx, a.Store, "admission", a.Log); err != nil {
		return 0, err
	}
	done, skip, full, off := 0, a.runs.left(), []uuid.UUID{}, map[uuid.UUID]int{}
	for {
		due, err := a.Store.DueAdmissions(ctx, skip, full, share, batch)
		if err != nil || len(due) == 0 {
			return done, err
		}
		for _, r := range due {
			if ctx.Err() != nil {
				return done, ctx.Err()
			}
			if off[r.Tenant] == share {
				continue
			}
			var putOff bool
			ok := a.runs.try(ctx, a.Log, r.Run, func() (_ bool, err error) {
				putOff, err = a.Store.Admit(ctx, r)
				return true, err
			})
			switch {
			case !ok:
				skip = append(skip, r.Run) // it is still due, and hides none behind it
			case !putOff:
				done++
			default:
				if off[r.Tenant]++; off[r.Tenant] == share {
					full = append(full, r.Tenant)
				}
			}
		}
	}
}
