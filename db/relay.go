package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
)

// Effect is one outbox row to deliver.
type Effect struct {
	ID      int64
	Ref     Ref
	Seq     int64
	Topic   string
	Payload []byte
	Tries   int
}

// Relay delivers up to limit effects, oldest first, those of one run in the
// order of their events. Each is locked while deliver runs and gone when deliver
// succeeded; a failure is tried again later and holds back what follows in its
// run; after maxTries it stays as a dead letter that people can see. At least
// once: deliver must bear a repeat. Delivery into the product's own notices is
// part of the transaction and exact.
func (s *Store) Relay(ctx context.Context, limit, maxTries int, deliver func(context.Context, Effect) error) (int, error) {
	done := 0
	for done < limit {
		n, err := s.relayHeads(ctx, limit-done, maxTries, deliver)
		if done += n; err != nil || n == 0 {
			return done, err
		}
	}
	return done, nil
}

// relayHeads delivers the first waiting effect of each run.
func (s *Store) relayHeads(ctx context.Context, limit, maxTries int, deliver func(context.Context, Effect) error) (int, error) {
	n := 0
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		n = 0
		rows, err := s.q.TakeOutbox(ctx, tx, int32(limit))
		if err != nil {
			return fmt.Errorf("take effects: %w", err)
		}
		n = len(rows)
		return s.relayAll(ctx, tx, rows, maxTries, deliver)
	})
	return n, err
}

// relayAll delivers each effect and stores all that were delivered at once. Where they cannot be stored together, each is
// stored for itself: an effect that cannot be stored is put off like one that cannot be delivered, and the others of the
// batch stay delivered.
func (s *Store) relayAll(ctx context.Context, tx pgx.Tx, rows []sqlc.Outbox, maxTries int, deliver func(context.Context, Effect) error) error {
	var delivered []sqlc.Outbox
	for _, o := range rows {
		err := attempt(ctx, Effect{o.ID, Ref{o.TenantID, o.RunID}, o.Seq, o.Topic, o.Payload, int(o.Attempts)}, deliver)
		if err == nil {
			delivered = append(delivered, o)
		} else if err := s.putOff(ctx, tx, o, maxTries, err); err != nil {
			return err
		}
	}
	if s.notice(ctx, tx, delivered) == nil {
		return nil
	}
	for i, o := range delivered {
		if err := s.notice(ctx, tx, delivered[i:i+1]); err != nil {
			if err := s.putOff(ctx, tx, o, maxTries, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// notice stores what was delivered, under a savepoint.
func (s *Store) notice(ctx context.Context, tx pgx.Tx, rows []sqlc.Outbox) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]int64, len(rows))
	for i, o := range rows {
		ids[i] = o.ID
	}
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return wrap("store notice", s.q.TurnIntoNotices(ctx, tx, ids)) })
}

// putOff keeps why an effect failed and when it is tried again.
func (s *Store) putOff(ctx context.Context, tx pgx.Tx, o sqlc.Outbox, maxTries int, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	tries := int(o.Attempts) + 1
	s.log.WarnContext(ctx, "effect not delivered", "run_id", o.RunID, "seq", o.Seq, "topic", o.Topic, "tries", tries, "error", err)
	delay := time.Duration(1<<min(tries-1, 10)) * time.Second
	return wrap("put off effect", s.q.DelayOutbox(ctx, tx, fault.Sentence(err), tries >= maxTries, delay.Seconds(), o.ID))
}

// attempt makes a delivery that panics one that failed: it would come first again
// and again, and nothing after it would ever be delivered.
func attempt(ctx context.Context, e Effect, deliver func(context.Context, Effect) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("delivery panicked: %v", p)
		}
	}()
	return deliver(ctx, e)
}
