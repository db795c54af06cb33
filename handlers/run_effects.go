package handlers

import (
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	"signalbox/db"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

const (
	// maxEffects is how many effects outside a page shows, the newest ones; the evidence of the run has all.
	maxEffects = 50
	// maxModelRows is how many sums by model and source a page shows.
	maxModelRows = 60
)

// effects are a run's effects outside, the newest first.
func (s *server) effects(ctx context.Context, info db.RunInfo) (all []web.EffectView, err error) {
	list, err := s.store.LatestOperations(ctx, db.Ref{Tenant: info.Tenant, Run: info.ID}, maxEffects)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		all = append(all, web.EffectView{Kind: e.Kind, Identity: e.Identity, State: e.State, Outcome: e.Outcome, Parameters: e.Parameters, Error: e.Result["error"],
			Intended: e.Intended, Dispatched: ended(e.Dispatched), Observed: ended(e.Observed)})
	}
	return all, nil
}

// models are what each model cost the run; more reports whether there are others.
func (s *server) models(ctx context.Context, info db.RunInfo) (all []web.ModelUse, more bool, err error) {
	rows, err := s.store.ModelCosts(ctx, db.Ref{Tenant: info.Tenant, Run: info.ID}, maxModelRows+1)
	if err != nil {
		return nil, false, err
	}
	for _, m := range rows[:min(len(rows), maxModelRows)] {
		if len(all) == 0 || all[len(all)-1].Model != m.Model {
			all = append(all, web.ModelUse{Model: m.Model})
		}
		last := &all[len(all)-1]
		last.Lines = append(last.Lines, web.ModelLine{Source: m.Source, TokensIn: m.TokensIn, TokensOut: m.TokensOut, Calls: m.Calls, Cost: s.currency.Of(m.Micros), Unpriced: m.UnknownCalls})
	}
	return all, len(rows) > maxModelRows, nil
}

// toolSteps adds the steps that began between two places of the log to its events. Steps are no events of the log, so the times
// of the events around them say which belong there.
func (s *server) toolSteps(r *http.Request, info db.RunInfo, after, upto int64, data *web.TimelineData) error {
	since, until := info.CreatedAt, time.Unix(math.MaxInt32, 0)
	for seq, at := range map[int64]*time.Time{after: &since, upto: &until} {
		if seq == 0 || seq >= info.Version {
			continue
		}
		next, err := s.store.Events(r.Context(), info.Tenant, info.ID, seq, 1)
		if err != nil {
			return err
		}
		if len(next) > 0 {
			*at = next[0].At
		}
	}
	steps, err := s.store.StepsWithin(r.Context(), info.Tenant, info.ID, since, until, timelineWindow+1)
	if err != nil {
		return err
	}
	if len(steps) > timelineWindow {
		steps = steps[:timelineWindow]
		data.Note = "More steps ran in this part of the log than are shown; all logs of the run hold the others."
	}
	for _, step := range steps {
		data.Events = append(data.Events, stepEvent(step))
	}
	slices.SortStableFunc(data.Events, func(a, b web.TimelineEvent) int { return a.At.Compare(b.At) })
	return nil
}

// stepEvent is a step as a fact beside the log.
func stepEvent(step db.StepInfo) web.TimelineEvent {
	id := typeid.Format(typeid.Step, step.ID)
	ev := web.TimelineEvent{FactID: id[len(id)-6:], Kind: "step_started", At: step.StartedAt, ActorKind: string(run.Worker), Attempt: step.AttemptNo,
		Data: map[string]any{"name": step.Name, "state": string(step.State), "summary": step.Summary, "duration_ms": float64(step.Duration.Milliseconds())}}
	if step.Phase == run.PhaseVerify {
		ev.ActorKind = string(run.Verifier)
	}
	if step.FinishedAt != nil {
		ev.Kind, ev.At = "step_finished", step.FinishedAt.UTC()
	}
	if step.ExitCode != nil {
		ev.Data["exit_code"] = float64(*step.ExitCode)
	}
	return ev
}
