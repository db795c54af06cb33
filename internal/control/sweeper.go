package control

import (
	"context"

	"signalbox/db"
)

// Sweeper deletes what nobody asks for any more: answers to old requests and old boots of workers. History is not among it.
type Sweeper struct{ Store *db.Store }

// RunOnce returns how many rows were deleted; there may be more.
func (s *Sweeper) RunOnce(ctx context.Context) (int, error) {
	return sum(ctx,
		func(ctx context.Context) (int, error) { return s.Store.ForgetKeys(ctx, swept) },
		func(ctx context.Context) (int, error) { return s.Store.ForgetBoots(ctx, swept) })
}

// swept bounds what one look deletes: few enough that nobody waits for it, many enough to keep up with what is stored.
const swept = 1000
