package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/run"
	"signalbox/internal/schedule"
)

// pauseRow leaves a provider alone for everybody; it is kept only with the run's transition.
type pauseRow struct {
	RunID    uuid.UUID `json:"run_id"`
	Provider string    `json:"provider"`
	Until    time.Time `json:"until"`
	Failures int       `json:"failures"`
	Reason   string    `json:"reason"`
}

// probeRow is the run that tries a provider first, or that got through.
type probeRow struct {
	RunID    uuid.UUID `json:"run_id"`
	Provider string    `json:"provider"`
}

// pause writes what an event means for the provider of the run: it asked for a pause, or the run that tried first has
// got as far as nobody gets without an answer.
func (w *write) pause(s step, t Timing) {
	switch p := s.ev.Payload.(type) {
	case run.AttemptFailedEvent:
		if p.Pause != nil && p.Pause.Provider != "" {
			d := time.Duration(float64(p.Pause.For) * t.BackoffScale)
			w.pauses = append(w.pauses, pauseRow{s.res.Run.ID, p.Pause.Provider, s.ev.At.Add(d), p.Pause.Failures, p.Summary})
		}
	case run.PlanCreatedEvent, run.PlanApprovalRequiredEvent, run.PatchCreatedEvent, run.ReportCreatedEvent, run.NoChangeReportedEvent:
		if s.res.Run.Route.Provider != "" {
			w.probed = append(w.probed, probeRow{s.res.Run.ID, s.res.Run.Route.Provider})
		}
	}
}

// pauseFacts counts what a rate limit means: the pause of the provider that the run's route names, longer where the
// run was the one that tried first.
func (s *Store) pauseFacts(ctx context.Context, h sqlc.DBTX, r run.Run, c run.AttemptHasFailed, f *run.Facts) error {
	if c.Code != run.CodeProviderRateLimit || r.Route.Provider == "" || r.State.Phase() != run.PhaseExecute {
		return nil
	}
	row, err := s.q.PauseOf(ctx, h, r.Route.Provider, r.ID)
	if err != nil {
		return fmt.Errorf("load the provider's pause: %w", err)
	}
	before := schedule.Parking{Failures: int(row.Failures)}
	if row.Failures > 0 {
		before.Until = row.Until
	}
	next := before.Again(f.Minted.Now, row.AcquiredAt, c.RetryAfter, f.Minted.Draw)
	f.Pause = &run.ProviderPause{Provider: r.Route.Provider, For: next.Until.Sub(f.Minted.Now), Failures: next.Failures}
	return nil
}

// probes reports whether the item's run is the one that tries its provider first.
func (b *claimBatch) probes(i schedule.Item) bool {
	_, paused := b.state.Parked[i.Provider]
	return paused && i.Phase == string(run.PhaseExecute)
}
