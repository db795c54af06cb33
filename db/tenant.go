package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// asTenant is a handle whose every statement is asked as signalbox_app, of one tenant: it sees no other tenant's rows, whatever
// the statement says. The tenant is set by a statement before it, in the same transaction and the same round trip.
type asTenant struct {
	s      *Store
	tenant uuid.UUID
	writes bool
}

// reads is the handle for what pages and API show of the tenant. It is read-only.
func (s *Store) reads(tenant uuid.UUID) asTenant { return asTenant{s: s, tenant: tenant} }

// writes is the handle for what the app itself keeps of the tenant: drafts, viewed files, saved views, hints put away.
func (s *Store) writes(tenant uuid.UUID) asTenant {
	return asTenant{s: s, tenant: tenant, writes: true}
}

// errNoApp is no fault of who asks: this Store was opened for work on all tenants only.
var errNoApp = errors.New("nothing was read: this store was opened without the address of signalbox_app")

// SendBatch implements sender. Statements that travel together are one transaction, as nothing among them begins or ends one.
func (a asTenant) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if a.s.app == nil {
		return pgx.FailedBatchResults(b, errNoApp)
	}
	results, err := a.begun(ctx, b)
	if err != nil && !a.writes && ctx.Err() == nil && lost(err) {
		// The database has restarted, and the other idle connections are as dead. What reads can be asked again.
		a.s.app.Reset()
		results, err = a.begun(ctx, b)
	}
	if err != nil {
		return pgx.FailedBatchResults(b, fmt.Errorf("set the tenant: %w", err))
	}
	return results
}

// begun sends the statements and waits until the first, which sets the tenant, is done. It sends copies: what was sent once belongs
// to its connection.
func (a asTenant) begun(ctx context.Context, b *pgx.Batch) (pgx.BatchResults, error) {
	all := &notes{}
	first := a.s.q.ReadAsTenant
	if a.writes {
		first = a.s.q.WriteAsTenant
	}
	if err := first(ctx, all, a.tenant.String()); !errors.Is(err, errNoted) {
		return nil, err
	}
	for _, q := range b.QueuedQueries {
		all.Queue(q.SQL, q.Arguments...).Fn = q.Fn
	}
	results := a.s.app.SendBatch(ctx, &all.Batch)
	if _, err := results.Exec(); err != nil {
		_ = results.Close() // it says the same again
		return nil, err
	}
	return results, nil
}

// lost reports that the connection went away: nothing came, or the word that the database is stopping.
func lost(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || strings.HasPrefix(e.Code, "57P0")
}

func (a asTenant) ask(ctx context.Context, text string, args []any) pgx.BatchResults {
	b := &pgx.Batch{}
	b.Queue(text, args...)
	return a.SendBatch(ctx, b)
}

// Exec implements sqlc.DBTX.
func (a asTenant) Exec(ctx context.Context, text string, args ...any) (pgconn.CommandTag, error) {
	results := a.ask(ctx, text, args)
	tag, err := results.Exec()
	if cerr := results.Close(); err == nil {
		err = cerr
	}
	return tag, err
}

// Query implements sqlc.DBTX.
func (a asTenant) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	results := a.ask(ctx, text, args)
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return nil, err
	}
	return &lastRows{rows, results, nil}, nil
}

// QueryRow implements sqlc.DBTX.
func (a asTenant) QueryRow(ctx context.Context, text string, args ...any) pgx.Row {
	return lastRow{a.ask(ctx, text, args)}
}

// lastRows give the connection back when they are read or closed.
type lastRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error
}

// Close implements pgx.Rows.
func (r *lastRows) Close() {
	r.Rows.Close()
	if err := r.results.Close(); r.err == nil {
		r.err = err
	}
}

// Next implements pgx.Rows.
func (r *lastRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Err implements pgx.Rows.
func (r *lastRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

type lastRow struct{ results pgx.BatchResults }

// Scan implements pgx.Row.
func (r lastRow) Scan(to ...any) error {
	err := r.results.QueryRow().Scan(to...)
	if cerr := r.results.Close(); err == nil {
		err = cerr
	}
	return err
}

// readTx runs do in one read-only transaction of signalbox_app, of one tenant. How it begins stands here and not in queries/: sqlc
// knows no BEGIN, and setting the tenant in a statement of its own would cost a round trip. The tenant is a UUID and cannot hold
// anything else.
func (s *Store) readTx(ctx context.Context, tenant uuid.UUID, do func(tx pgx.Tx) error) error {
	if s.app == nil {
		return errNoApp
	}
	return s.patiently(ctx, func() error {
		return tryTx(ctx, s.app, pgx.TxOptions{BeginQuery: fmt.Sprintf("begin read only; set local app.tenant = '%s'", tenant)}, do)
	})
}

// checkApp refuses an address that leads to a role which would see every tenant.
func (s *Store) checkApp(ctx context.Context, app *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	role, err := s.q.AppRole(ctx, app)
	switch {
	case err != nil:
		return fmt.Errorf("ask for the role of pages: %w", err)
	case !role.Held:
		return fmt.Errorf("pages would be read as the database role %s, to which row-level security of tenants does not apply; the address of the app leads to signalbox_app", role.Name)
	}
	return nil
}
