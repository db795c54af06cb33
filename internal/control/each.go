package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
)

// visitor goes through what is due, one item after the other. An item that cannot be handled, also by a panic, hides no other:
// it is logged and left alone for a while, twice as long each time. While it is handled the others wait, so what is done to an
// item must have an end. Losing a race is no failure. The zero value is ready; it belongs to one loop.
type visitor struct {
	pauses map[uuid.UUID]pause
	// aside are the runs that this loop set aside, on any replica, as of the present look; they are not tried.
	aside map[uuid.UUID]bool
	// giveUp sets one aside after too many failures; nil where the items are no runs.
	giveUp func(ctx context.Context, id uuid.UUID, failures int, why error) error
	// first is the pause after one failure; 0 means 1 s.
	first time.Duration
}

type pause struct {
	until    time.Time
	failures int
}

const maxPause = 5 * time.Minute

// maxFailures in a row set a run aside: with the pauses between them they span half a minute, longer than a lock or a
// deployment takes.
const maxFailures = 6

// eachRun is each over runs: one that fails again and again is set aside, for this loop on every replica, until a
// person releases it. What another loop set aside is tried: the one that cannot tell a run's time keeps nobody from ending
// its lease.
func eachRun[T any](ctx context.Context, s *db.Store, name string, v *visitor, log *slog.Logger, list func(context.Context, uuid.UUID, int) ([]T, error), key func(T) uuid.UUID, do func(context.Context, T) (bool, error)) (int, error) {
	if err := v.know(ctx, s, name, log); err != nil {
		return 0, err
	}
	return each(ctx, v, log, list, key, do)
}

// know learns which runs this loop set aside, and sets aside what fails too often from now on.
func (v *visitor) know(ctx context.Context, s *db.Store, name string, log *slog.Logger) (err error) {
	if v.aside, err = s.AsideRuns(ctx, name); err != nil {
		return err
	}
	v.giveUp = func(ctx context.Context, id uuid.UUID, failures int, why error) error {
		put, err := s.SetAside(ctx, id, name, failures, why)
		if put && log != nil {
			log.ErrorContext(ctx, "a run was set aside; others go on", "code", "RUN_SET_ASIDE", "run_id", id, "loop", name, "failures", failures, "error", why)
		}
		return err
	}
	return nil
}

// left are the items that are not tried now.
func (v *visitor) left() []uuid.UUID {
	out := make([]uuid.UUID, 0, len(v.aside)+len(v.pauses))
	for id := range v.aside {
		delete(v.pauses, id) // released, it is tried at once
		out = append(out, id)
	}
	for id, p := range v.pauses {
		if time.Now().Before(p.until) {
			out = append(out, id)
		}
	}
	return out
}

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
	if v.aside[id] {
		delete(v.pauses, id) // released, it is tried at once
		return false
	}
	if time.Now().Before(p.until) {
		return false
	}
	ok, err := safely(do)
	if err == nil || db.Lost(err) {
		delete(v.pauses, id)
		return ok && err == nil
	}
	if v.pauses == nil {
		v.pauses = map[uuid.UUID]pause{}
	}
	if db.Passing(err) {
		// It says nothing about the item; the loop's own look will fail, too, or the next try will not.
		if log != nil {
			log.WarnContext(ctx, "could not be handled just now", "id", id, "error", err)
		}
		return false
	}
	p.failures++
	wait := min(cmp.Or(v.first, time.Second)<<min(p.failures-1, 16), maxPause)
	p.until = time.Now().Add(wait)
	v.pauses[id] = p
	if log != nil {
		log.ErrorContext(ctx, "could not be handled; others go on", "id", id, "failures", p.failures, "pause", wait, "error", err)
	}
	if v.giveUp != nil && p.failures >= maxFailures {
		if err := v.giveUp(ctx, id, p.failures, err); err != nil && log != nil {
			log.ErrorContext(ctx, "could not be set aside", "id", id, "error", err)
		}
	}
	return false
}

// safely makes a panic an error of the item: the loop would end its look at it, every time, and the items behind it would never
// be reached.
func safely(do func() (bool, error)) (ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			ok, err = false, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
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
