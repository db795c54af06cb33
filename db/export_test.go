package db

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
)

// Sentences are the constraints that have a sentence for people, with its kind and text.
func Sentences() map[string]fault.Error {
	out := map[string]fault.Error{}
	for name, s := range sentences() {
		out[name] = fault.Error{Kind: s.kind, Sentence: s.text}
	}
	return out
}

// WaitingWrites is how many transitions wait for their batch.
func (s *Store) WaitingWrites() int { return s.commits.writes.Waiting() }

// Together asks questions as the product does: see together.
func Together(ctx context.Context, pool *pgxpool.Pool, questions ...func(sqlc.DBTX) error) error {
	return together(ctx, pool, questions...)
}
