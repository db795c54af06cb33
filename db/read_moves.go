package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/run"
)

// MoveInfo is one event of a run's log without what it carries.
type MoveInfo struct {
	Seq      int64
	Kind     run.Kind
	From, To run.State
	At       time.Time
}

// Moves lists the events of a run up to a version, in order: all of them, or of a log that is longer than most the first and
// the last half of that many. What is left out shows as a jump of the numbers.
func (s *Store) Moves(ctx context.Context, tenant, id uuid.UUID, version, most int64) ([]MoveInfo, error) {
	q := sqlc.RunMovesParams{TenantID: tenant, RunID: id, Head: version, Tail: version, Version: version}
	if version > most {
		q.Head, q.Tail = most/2, version-most/2
	}
	rows, err := s.q.RunMoves(ctx, s.reads(tenant), q)
	if err != nil {
		return nil, fmt.Errorf("list moves: %w", err)
	}
	all := make([]MoveInfo, 0, len(rows))
	for _, r := range rows {
		all = append(all, MoveInfo{r.Seq, run.Kind(r.Kind), run.State(r.FromState), run.State(r.ToState), r.At.UTC()})
	}
	return all, nil
}

// EventsOf lists at most limit events of a run that are of one of the kinds or by one of the actors, after a sequence number
// and up to another, in order.
func (s *Store) EventsOf(ctx context.Context, tenant, id uuid.UUID, kinds []run.Kind, actors []run.ActorKind, after, upto int64, limit int32) ([]EventInfo, error) {
	q := sqlc.RunEventsOfParams{TenantID: tenant, RunID: id, After: after, Upto: upto, Count: limit, Kinds: []string{}, Actors: []string{}}
	for _, k := range kinds {
		q.Kinds = append(q.Kinds, string(k))
	}
	for _, a := range actors {
		q.Actors = append(q.Actors, string(a))
	}
	rows, err := s.q.RunEventsOf(ctx, s.reads(tenant), q)
	if err != nil {
		return nil, fmt.Errorf("list events of some kinds: %w", err)
	}
	var all []EventInfo
	for _, r := range rows {
		all = append(all, eventInfo(sqlc.RunEventsRow(r)))
	}
	return all, nil
}
