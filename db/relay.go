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
		for _, o := range rows {
			e := Effect{o.ID, Ref{o.TenantID, o.RunID}, o.Seq, o.Topic, o.Payload, int(o.Attempts)}
			if err := s.relayOne(ctx, tx, o, e, maxTries, deliver); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}

func (s *Store) relayOne(ctx context.Context, tx pgx.Tx, o sqlc.Outbox, e Effect, maxTries int, deliver func(context.Context, Effect) error) error {
	// A savepoint of its own: an effect that cannot be stored is put off like one that cannot be delivered, and the
	// others of the batch stay delivered.
	derr := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		if err := attempt(ctx, e, deliver); err != nil {
			return err
		}
		err := s.q.InsertNotice(ctx, tx, sqlc.InsertNoticeParams{TenantID: o.TenantID, OutboxID: o.ID, RunID: o.RunID, Topic: o.Topic, Payload: o.Payload})
		if err != nil {
			return fmt.Errorf("store notice: %w", err)
		}
		return wrap("remove delivered effect", s.q.DeleteOutbox(ctx, tx, o.ID))
	})
	if derr == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.log.WarnContext(ctx, "effect not delivered", "run_id", o.RunID, "seq", o.Seq, "topic", o.Topic, "tries", e.Tries+1, "error", derr)
	delay := time.Duration(1<<min(e.Tries, 10)) * time.Second
	return wrap("put off effect", s.q.DelayOutbox(ctx, tx, fault.Sentence(derr), e.Tries+1 >= maxTries, delay.Seconds(), o.ID))
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
