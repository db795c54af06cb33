package control

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
)

// visitor goes through what is due. An item that cannot be handled hides no other
// and slows no other down: it is logged and left alone for a while, twice as long
// each time. Losing a race is no failure. The zero value is ready; it belongs to
// one loop.
type visitor struct {
	pauses map[uuid.UUID]pause
}

type pause struct {
	until    time.Time
	failures int
}

const maxPause = 5 * time.Minute

// each visits pages of items by key until a page is not full, and returns how many
// were handled. Only a look that fails is an error.
func each[T any](ctx context.Context, v *visitor, log *slog.Logger, list func(context.Context, uuid.UUID, int) ([]T, error), key func(T) uuid.UUID, do func(context.Context, T) (bool, error)) (int, error) {
	done, after := 0, uuid.Nil
	for {
		items, err := list(ctx, after, batch)
		if err != nil {
			return done, err
		}
		for _, it := range items {
			if ctx.Err() != nil {
				return done, ctx.Err()
			}
			after = key(it)
			if v.try(ctx, log, after, func() (bool, error) { return do(ctx, it) }) {
				done++
			}
		}
		if len(items) < batch {
			return done, nil
		}
	}
}

// try handles one item, unless it is left alone, and reports whether it was.
func (v *visitor) try(ctx context.Context, log *slog.Logger, id uuid.UUID, do func() (bool, error)) bool {
	p := v.pauses[id]
	if time.Now().Before(p.until) {
		return false
	}
	ok, err := do()
	if err == nil || db.Lost(err) {
		delete(v.pauses, id)
		return ok && err == nil
	}
	if v.pauses == nil {
		v.pauses = map[uuid.UUID]pause{}
	}
	p.failures++
	wait := min(time.Second<<min(p.failures-1, 16), maxPause)
	p.until = time.Now().Add(wait)
	v.pauses[id] = p
	if log != nil {
		log.ErrorContext(ctx, "could not be handled; others go on", "id", id, "failures", p.failures, "pause", wait, "error", err)
	}
	return false
}

// sum runs independent looks: one that fails keeps none of the others from its own.
func sum(ctx context.Context, looks ...func(context.Context) (int, error)) (int, error) {
	done, errs := 0, []error(nil)
	for _, look := range looks {
		n, err := look(ctx)
		done, errs = done+n, append(errs, err)
	}
	return done, errors.Join(errs...)
}
