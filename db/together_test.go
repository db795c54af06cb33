package db_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox/db"
	"signalbox/db/internal/sqlc"
	"signalbox/internal/dbtest"
)

// Questions that travel together are answered in their order; what fails says which one it was, and spoils neither the connection nor
// the question before.
func TestQuestionsTogether(t *testing.T) {
	t.Parallel()
	pool := got(pgxpool.New(t.Context(), dbtest.New(t).EngineURL))(t)
	t.Cleanup(pool.Close)
	ctx := t.Context()
	var first, last int
	ask := func(into *int, text string) func(sqlc.DBTX) error {
		return func(h sqlc.DBTX) error { return h.QueryRow(ctx, text).Scan(into) }
	}
	must(t, db.Together(ctx, pool, ask(&first, `SELECT 1`), func(h sqlc.DBTX) error {
		_, err := h.Exec(ctx, `SELECT 2`)
		return err
	}, ask(&last, `SELECT 3`)))
	if first != 1 || last != 3 {
		t.Fatalf("the answers are %d and %d", first, last)
	}
	first, last = 0, 0
	err := db.Together(ctx, pool, ask(&first, `SELECT 4`), ask(&last, `SELECT 1/0`), ask(&last, `SELECT 6`))
	var failed *pgconn.PgError
	if !errors.As(err, &failed) || failed.Code != "22012" || first != 4 || last != 0 {
		t.Fatalf("a question that cannot be answered: %v, answers %d and %d", err, first, last)
	}
	must(t, db.Together(ctx, pool, ask(&last, `SELECT 7`)))
	if last != 7 {
		t.Fatalf("the next question is answered with %d", last)
	}
}
