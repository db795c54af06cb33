package db

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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

// Simulating makes the store believe that a draft is being tried for the tenant, until the function is called.
func (s *Store) Simulating(tenant uuid.UUID) (over func()) {
	s.simulating.Store(tenant, true)
	return func() { s.simulating.Delete(tenant) }
}

// Together asks questions as the product does: see together.
func Together(ctx context.Context, pool *pgxpool.Pool, questions ...func(sqlc.DBTX) error) error {
	return together(ctx, pool, questions...)
}

// Plans says of the statements that the store's only connections, one as each role, have prepared how often each was used with a
// kept plan and how often it was planned anew, by the name of its query.
func (s *Store) Plans(ctx context.Context) (kept, anew map[string]int64, err error) {
	kept, anew = map[string]int64{}, map[string]int64{}
	for _, pool := range []*pgxpool.Pool{s.pool, s.app} {
		rows, err := pool.Query(ctx, `SELECT coalesce(substring(statement from '-- name: (\w+)'), ''), generic_plans, custom_plans FROM pg_prepared_statements`)
		if err != nil {
			return nil, nil, err
		}
		var name string
		var k, a int64
		if _, err = pgx.ForEachRow(rows, []any{&name, &k, &a}, func() error {
			kept[name] += k
			anew[name] += a
			return nil
		}); err != nil {
			return nil, nil, err
		}
	}
	return kept, anew, nil
}
