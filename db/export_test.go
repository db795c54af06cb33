package db

import (
	"context"
	"errors"
	"reflect"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
)

// Sentences are the constraints that have a sentence for people, with its kind and text.
func Sentences() map[string]fault.Error {
	out := map[string]fault.Error{}
	for name, s := range sentences() {
		out[name] = fault.Error{Kind: s.kind, Sentence: s.text}
	}
	return out
}

// WaitingWrites is how many transitions wait for their batch.
func (s *Store) WaitingWrites() int { return s.commits.writes.Waiting() }

// Together asks questions as the product does: see together.
func Together(ctx context.Context, pool *pgxpool.Pool, questions ...func(sqlc.DBTX) error) error {
	return together(ctx, pool, questions...)
}

// Plans says of the statements that the store's only connections, one as each role, have prepared how often each was used with a
// kept plan and how often it was planned anew, by the name of its query.
func (s *Store) Plans(ctx context.Context) (kept, anew map[string]int64, err error) {
	kept, anew = map[string]int64{}, map[string]int64{}
	for _, pool := range []*pgxpool.Pool{s.pool, s.app} {
		rows, err := pool.Query(ctx, `SELECT coalesce(substring(statement from '-- name: (\w+)'), ''), generic_plans, custom_plans FROM pg_prepared_statements`)
		if err != nil {
			return nil, nil, err
		}
		var name string
		var k, a int64
		if _, err = pgx.ForEachRow(rows, []any{&name, &k, &a}, func() error {
			kept[name] += k
			anew[name] += a
			return nil
		}); err != nil {
			return nil, nil, err
		}
	}
	return kept, anew, nil
}

// Asked is what a query answered.
type Asked struct {
	Answer any
	Err    error
}

// AskInTenant asks a generated query by its name as pages do, in a tenant that may be another than its arguments name.
func AskInTenant(ctx context.Context, s *Store, tenant uuid.UUID, name string, arguments func([]reflect.Type) []reflect.Value) Asked {
	query := reflect.ValueOf(s.q).MethodByName(name)
	var kinds []reflect.Type
	for i := 2; i < query.Type().NumIn(); i++ {
		kinds = append(kinds, query.Type().In(i))
	}
	out := query.Call(append([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(s.reads(tenant))}, arguments(kinds)...))
	err, _ := out[1].Interface().(error)
	if errors.Is(err, pgx.ErrNoRows) {
		return Asked{}
	}
	return Asked{out[0].Interface(), err}
}

// ExecInTenant asks any statement as pages do.
func (s *Store) ExecInTenant(ctx context.Context, tenant uuid.UUID, writes bool, text string, args ...any) error {
	h := s.reads(tenant)
	if writes {
		h = s.writes(tenant)
	}
	_, err := h.Exec(ctx, text, args...)
	return err
}

// CountInTenant reads one number as pages do.
func (s *Store) CountInTenant(ctx context.Context, tenant uuid.UUID, text string, args ...any) (n int64, err error) {
	return n, s.reads(tenant).QueryRow(ctx, text, args...).Scan(&n)
}

// KeptTenants are those that the app's connections still have when nobody uses them, and how many connections there are.
func (s *Store) KeptTenants(ctx context.Context) (kept []string, connections int, err error) {
	for _, c := range s.app.AcquireAllIdle(ctx) {
		defer c.Release()
		connections++
		var tenant string
		if err := c.QueryRow(ctx, `SELECT coalesce(current_setting('app.tenant', true), '')`).Scan(&tenant); err != nil {
			return nil, 0, err
		}
		if tenant != "" {
			kept = append(kept, tenant)
		}
	}
	return kept, connections, nil
}

// SQLState is the code by which Postgres refused, empty where it did not.
func SQLState(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.Code
	}
	return ""
}
