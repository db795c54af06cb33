package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
)

// TimedOperation is an intended external effect with the server's times of what happened to it; nil: not yet.
type TimedOperation struct {
	Operation
	Intended             time.Time
	Dispatched, Observed *time.Time
}

// LatestOperations lists at most limit external effects of a run, the newest first.
func (s *Store) LatestOperations(ctx context.Context, ref Ref, limit int32) ([]TimedOperation, error) {
	rows, err := s.q.LatestOperations(ctx, s.reads(ref.Tenant), ref.Tenant, ref.Run, limit)
	if err != nil {
		return nil, fmt.Errorf("list the newest operations: %w", err)
	}
	out := make([]TimedOperation, 0, len(rows))
	for _, r := range rows {
		o, err := operation(r)
		if err != nil {
			return nil, err
		}
		out = append(out, TimedOperation{o, r.IntendedAt.UTC(), r.DispatchedAt, r.ObservedAt})
	}
	return out, nil
}

// ModelCost is what one model cost a run, as far as its numbers come from one source.
type ModelCost struct {
	Model                      string // as the worker named it, or empty
	Source                     string // reported, estimated or unknown
	TokensIn, TokensOut, Calls int64
	Micros, UnknownCalls       int64 // in money, and of how many calls nobody knows it
}

// ModelCosts sums up a run's usage by model and source, the dearest model first, at most limit rows.
func (s *Store) ModelCosts(ctx context.Context, ref Ref, limit int32) ([]ModelCost, error) {
	rows, err := s.q.RunModels(ctx, s.reads(ref.Tenant), ref.Tenant, ref.Run, limit)
	if err != nil {
		return nil, fmt.Errorf("sum up the models: %w", err)
	}
	out := make([]ModelCost, 0, len(rows))
	for _, r := range rows {
		m := ModelCost{Model: r.Model, Source: r.Source, TokensIn: r.InputTokens, TokensOut: r.OutputTokens, Calls: r.ProviderCalls, Micros: r.CostMicros}
		if r.Source == costUnknown {
			m.UnknownCalls = r.UnknownCalls
		}
		out = append(out, m)
	}
	return out, nil
}

// StepsWithin lists at most limit steps of a run that began at or after one instant and before another.
func (s *Store) StepsWithin(ctx context.Context, tenant, id uuid.UUID, since, until time.Time, limit int32) ([]StepInfo, error) {
	rows, err := s.q.StepsWithin(ctx, s.reads(tenant), sqlc.StepsWithinParams{TenantID: tenant, RunID: id, Since: since, Until: until, Count: limit})
	if err != nil {
		return nil, fmt.Errorf("list the steps of a time: %w", err)
	}
	var all []StepInfo
	for _, r := range rows {
		all = append(all, toStep(sqlc.PageStepRow(r)))
	}
	return all, nil
}
