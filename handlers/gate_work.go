package handlers

import (
	"net/http"
	"time"

	"signalbox/internal/run"
	"signalbox/web"
)

// maxGateSteps is how many steps a budget gate shows: what the run was at when it had to stop.
const maxGateSteps = 5

// gateWork is what stands where other gates have their content: at a budget gate what the run has used its limit for, at a
// reconcile gate what was sent, and when.
func (s *server) gateWork(r *http.Request, g gate, now time.Time) (w web.GateWork, err error) {
	ctx := r.Context()
	switch g.info.Kind {
	case run.GateReconcile:
		w.Effects, err = s.effects(ctx, g.run)
		return w, err
	case run.GateBudget:
	default:
		return w, nil
	}
	events, err := s.moves(ctx, g.run)
	if err != nil {
		return w, err
	}
	w.Stretches = web.Stretches(events, now)
	if w.Steps, err = s.lastSteps(ctx, g.run, maxGateSteps); err != nil {
		return w, err
	}
	if w.Attempts, err = s.attempts(ctx, g.run); err != nil {
		return w, err
	}
	w.Models, w.MoreModels, err = s.models(ctx, g.run)
	return w, err
}
