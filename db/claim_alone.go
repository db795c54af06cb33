package db

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/internal/coalesce"
)

// mostBroken is how many runs one claim leaves out because their lease could not be written.
const mostBroken = 8

// claimAlone carries out one claim. Where what it would give cannot be written, it gives one run at a time and leaves out
// those that fail, so that one broken record does not hold up the work of everybody. Such a run is set aside as soon as
// another could be given: only then it is the run that is to blame, and not the database.
func (s *Store) claimAlone(ctx context.Context, r ClaimRequest) coalesce.Result[given] {
	broken := map[uuid.UUID]error{}
	for {
		b, err := s.claimTogether(ctx, []ClaimRequest{r}, broken)
		switch {
		case err == nil && len(broken) == 0:
			return b.answers[0]
		case err == nil:
			return s.blame(ctx, b.answers[0], broken)
		case !ofOneRow(err) || b == nil || len(b.write.runs) == 0 || len(broken) == mostBroken:
			return coalesce.Result[given]{Err: err}
		case len(b.write.runs) == 1:
			broken[b.write.runs[0].ID] = err
		}
		r.Max = 1
	}
}

// ofOneRow reports whether an error may be the fault of what was written, and not of the database or of the program.
func ofOneRow(err error) bool {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(pe.Code, "22") || strings.HasPrefix(pe.Code, "23")
	}
	return !Passing(err)
}

// blame sets aside what could not be given, if something else could.
func (s *Store) blame(ctx context.Context, out coalesce.Result[given], broken map[uuid.UUID]error) coalesce.Result[given] {
	for id, why := range broken {
		if len(out.Out.leases) == 0 {
			return coalesce.Result[given]{Err: fmt.Errorf("give out run %s: %w", id, why)}
		}
		if err := s.inTx(ctx, func(tx pgx.Tx) error { return s.aside(ctx, tx, id, why) }); err != nil {
			s.log.ErrorContext(ctx, "a run that cannot be given out could not be set aside", "run_id", id, "error", err)
		}
	}
	return out
}
