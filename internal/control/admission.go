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

// RunOnce returns how many runs were admitted, denied or made.
func (a *Admission) RunOnce(ctx context.Context) (int, error) {
	return sum(ctx,
		func(ctx context.Context) (int, error) {
			return eachRun(ctx, a.Store, "admission", &a.runs, a.Log, a.Store.DueAdmissions, func(r db.Ref) uuid.UUID { return r.Run }, func(ctx context.Context, r db.Ref) (bool, error) {
				return true, a.Store.Admit(ctx, r)
			})
		},
		func(ctx context.Context) (int, error) {
			return each(ctx, &a.tasks, a.Log, a.Store.TasksToRun, func(t db.TaskRef) uuid.UUID { return t.Task }, func(ctx context.Context, t db.TaskRef) (bool, error) {
				_, err := a.Store.RunAgain(ctx, db.Request{Tenant: t.Tenant, By: run.Actor{Kind: run.ControlPlane, ID: "signalbox"}}, t.Task)
				return true, err
			})
		})
}
