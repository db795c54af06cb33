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
	rows, err := s.q.RunMoves(ctx, s.pool, q)
	if err != nil {
		return nil, fmt.Errorf("list moves: %w", err)
	}
	all := make([]MoveInfo, 0, len(rows))
	for _, r := range rows {
		all = append(all, MoveInfo{r.Seq, run.Kind(r.Kind), run.State(r.FromState), run.State(r.ToState), r.At.UTC()})
	}
	return all, nil
}
