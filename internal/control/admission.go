package control

import (
	"context"
	"fmt"

	"signalbox/db"
	"signalbox/internal/run"
)

// Admission looks again at runs that were put off, and makes the next run of
// tasks whose last one failed in a way that may be tried again.
type Admission struct{ Store *db.Store }

// RunOnce returns how many runs were admitted, denied or made.
func (a *Admission) RunOnce(ctx context.Context) (int, error) {
	refs, err := a.Store.DueAdmissions(ctx, batch)
	if err != nil {
		return 0, err
	}
	done := 0
	var first error
	for _, ref := range refs {
		if err := a.Store.Admit(ctx, ref); err != nil {
			if !db.Lost(err) && first == nil {
				first = fmt.Errorf("admit run %s: %w", ref.Run, err)
			}
			continue
		}
		done++
	}
	tasks, err := a.Store.TasksToRun(ctx, batch)
	if err != nil {
		return done, err
	}
	for _, t := range tasks {
		_, err := a.Store.RunAgain(ctx, db.Request{Tenant: t.Tenant, By: run.Actor{Kind: run.ControlPlane, ID: "signalbox"}}, t.Task)
		switch {
		case err == nil:
			done++
		case !db.Lost(err) && first == nil:
			first = fmt.Errorf("run task %s again: %w", t.Task, err)
		}
	}
	return done, first
}
