package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/run"
)

// lastFailure loads the failure before for the commands that may be a repeat of it.
func (s *Store) lastFailure(ctx context.Context, h sqlc.DBTX, r run.Run, c run.Command) (run.Code, error) {
	switch c := c.(type) {
	case run.AttemptHasFailed:
		if !c.Code.Deterministic() {
			return "", nil
		}
	case run.PlanSubmitted, run.PatchSubmitted, run.ReportSubmitted, run.NoChangeSubmitted:
	default:
		return "", nil
	}
	code, err := s.q.LastFailure(ctx, h, r.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("load the failure before: %w", err)
	}
	return run.Code(code), nil
}
