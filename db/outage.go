package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/db/internal/sqlc"
)

// Presence is whether and since when the control plane has been there: some server, and the database.
type Presence struct {
	// UpSince is when the last outage was over.
	UpSince time.Time
	// Holding says that nothing is taken from a worker yet, since a full lease time has not passed after an outage.
	Holding bool
	// Until is when that is over.
	Until time.Time
}

// Beat says that a server is there. All replicas share one record of it, by the database's clock. Silence of all of them
// for longer than patience, or another start of the database server, was an outage: workers could not prolong their
// leases, so every lease that is left is given a full lease time from now on, and nothing is reaped until it has passed.
// Whoever notices first settles it; a heartbeat that comes before the first beat does so too.
func (s *Store) Beat(ctx context.Context, patience time.Duration) (Presence, error) {
	p, err := s.beat(ctx, s.pool, patience.Seconds())
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.inTx(ctx, func(tx pgx.Tx) error {
			if err := s.settleOutage(ctx, tx, patience.Seconds()); err != nil {
				return err
			}
			p, err = s.beat(ctx, tx, patience.Seconds())
			return err
		})
	}
	if err != nil {
		return p, fmt.Errorf("say that the control plane is there: %w", err)
	}
	return p, nil
}

func (s *Store) beat(ctx context.Context, h sqlc.DBTX, patience float64) (Presence, error) {
	row, err := s.q.BeatControl(ctx, h, patience)
	return Presence{UpSince: row.UpSince, Holding: row.Holding, Until: row.HoldUntil}, err
}

// settleOutage gives every lease its time, once, whoever comes first: the record is locked before the leases are.
func (s *Store) settleOutage(ctx context.Context, tx pgx.Tx, patience float64) error {
	ttl := s.timing.LeaseTTL.Seconds()
	first, err := s.q.StartControl(ctx, tx, patience, ttl)
	if err != nil {
		return fmt.Errorf("record the first beat: %w", err)
	}
	row, err := s.q.LockControl(ctx, tx, patience)
	if err != nil {
		return fmt.Errorf("lock the record of beats: %w", err)
	}
	if first == 0 && !row.Away {
		return nil
	}
	if first == 0 {
		if err := s.q.EndOutage(ctx, tx, patience, ttl); err != nil {
			return fmt.Errorf("record the end of an outage: %w", err)
		}
	}
	n, err := s.q.ProlongLeases(ctx, tx, ttl)
	if err != nil {
		return fmt.Errorf("give leases their time after an outage: %w", err)
	}
	if first == 0 {
		s.log.LogAttrs(ctx, slog.LevelWarn, "the control plane was away; nothing is taken from workers for one lease time", slog.String("code", "OUTAGE_OVER"),
			slog.Duration("silent", time.Duration(row.SilentSeconds*float64(time.Second)).Round(time.Millisecond)), slog.Int64("leases", n), slog.Duration("hold", s.timing.LeaseTTL))
	}
	return nil
}

// outageOver settles an outage that nobody has noticed yet, and reports whether a lease that seemed to be over may go on
// because of one. It is asked only where a lease was found to be over, so the usual write pays nothing for it. h is the
// caller's transaction or the pool.
func (s *Store) outageOver(ctx context.Context, h sqlc.DBTX) (bool, error) {
	row, err := s.q.OutageUnsettled(ctx, h)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil // no server has ever said that it is there
	case err != nil:
		return false, fmt.Errorf("look for an outage: %w", err)
	case !row.Away:
		return row.Holding, nil
	}
	if tx, ok := h.(pgx.Tx); ok {
		return true, s.settleOutage(ctx, tx, row.Patience)
	}
	_, err = s.Beat(ctx, time.Duration(row.Patience*float64(time.Second)))
	return err == nil, err
}

// underLease asks for something that only a live lease gives, and once more where the lease ran out while nobody listened.
func underLease[T any](ctx context.Context, s *Store, h sqlc.DBTX, ask func() (T, error)) (T, error) {
	v, err := ask()
	if !errors.Is(err, pgx.ErrNoRows) {
		return v, err
	}
	switch over, oerr := s.outageOver(ctx, h); {
	case oerr != nil:
		// Not err with it: whoever reads that there was no row tells the worker that its lease is gone, which nobody knows.
		return v, oerr
	case !over:
		return v, err
	}
	return ask()
}

// disconnected reports that the database was not there, or went while it was asked.
func disconnected(err error) bool {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		// Connection trouble, too many of them, shutdown.
		return strings.HasPrefix(pe.Code, "08") || strings.HasPrefix(pe.Code, "53") || strings.HasPrefix(pe.Code, "57")
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}
