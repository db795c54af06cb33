package db

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/db/internal/sqlc"
)

// together asks several questions in one round trip, in their order; each sees what was committed when it begins, as if it
// had been sent alone. A question calls one generated query. It is called twice: first to learn the text and the arguments, when its
// handle answers with an error, and then to read the answer.
func together(ctx context.Context, h sender, questions ...func(sqlc.DBTX) error) error {
	var asked notes
	for _, q := range questions {
		if err := q(&asked); err != nil && !errors.Is(err, errNoted) {
			return err
		}
	}
	results := h.SendBatch(ctx, &asked.Batch)
	for _, q := range questions {
		if err := q(replies{results}); err != nil {
			_ = results.Close() // it says the same again
			return err
		}
	}
	return results.Close()
}

var errNoted = errors.New("the question was noted and not asked yet")

// notes is a handle that notes statements and answers none.
type notes struct{ pgx.Batch }

// Exec implements sqlc.DBTX.
func (n *notes) Exec(_ context.Context, text string, args ...any) (pgconn.CommandTag, error) {
	n.Queue(text, args...)
	return pgconn.CommandTag{}, errNoted
}

// Query implements sqlc.DBTX.
func (n *notes) Query(_ context.Context, text string, args ...any) (pgx.Rows, error) {
	n.Queue(text, args...)
	return nil, errNoted
}

// QueryRow implements sqlc.DBTX.
func (n *notes) QueryRow(_ context.Context, text string, args ...any) pgx.Row {
	n.Queue(text, args...)
	return notedRow{}
}

type notedRow struct{}

// Scan implements pgx.Row.
func (notedRow) Scan(...any) error { return errNoted }

// replies is a handle that reads the answers to noted statements, in their order.
type replies struct{ results pgx.BatchResults }

// Exec implements sqlc.DBTX.
func (r replies) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return r.results.Exec()
}

// Query implements sqlc.DBTX.
func (r replies) Query(context.Context, string, ...any) (pgx.Rows, error) { return r.results.Query() }

// QueryRow implements sqlc.DBTX.
func (r replies) QueryRow(context.Context, string, ...any) pgx.Row { return r.results.QueryRow() }
