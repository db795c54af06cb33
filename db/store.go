package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/money"
	"signalbox/internal/policy"
	"signalbox/internal/secret"
)

// DefaultTenant is the tenant that the first migration seeds.
var DefaultTenant = uuid.MustParse("01920000-0000-7000-8000-000000000001")

// LocalForge is the built-in forge of the default tenant.
var LocalForge = uuid.MustParse("01920000-0000-7000-8000-000000000002")

// Options say how to open a Store. Zero values have working defaults.
type Options struct {
	// URL connects as signalbox_engine.
	URL string
	// AppURL connects as signalbox_app, as which everything is read that pages and API show of a tenant. Without it such reads fail.
	AppURL string
	// MaxConns bounds the engine's connections; 0 means 8. The app has half as many, at least one.
	MaxConns int32
	// Timing holds the lease arithmetic; zero fields mean D-14's defaults.
	Timing Timing
	// Observer hears what is to be counted; its zero value hears nothing.
	Observer Observer
	// Keys seal what is stored and shown to nobody; without one it is not stored.
	Keys secret.Ring
	// Currency names amounts in the words of decisions; empty means USD.
	Currency money.Currency
	Log      *slog.Logger
}

// Timing is the server's lease arithmetic. All of it is measured by the
// database's clock.
type Timing struct {
	LeaseTTL    time.Duration
	Heartbeat   time.Duration
	CancelGrace time.Duration
	// Aging is how long waiting counts as one priority; 0 means 10 min.
	Aging time.Duration
	// BackoffScale multiplies retry delays; tests use a small one. 0 means 1.
	BackoffScale float64
}

func (t Timing) withDefaults() Timing {
	if t.LeaseTTL == 0 {
		t.LeaseTTL = 30 * time.Second
	}
	if t.Heartbeat == 0 {
		t.Heartbeat = 5 * time.Second
	}
	if t.CancelGrace == 0 {
		t.CancelGrace = 10 * time.Second
	}
	if t.Aging == 0 {
		t.Aging = 10 * time.Minute
	}
	if t.BackoffScale == 0 {
		t.BackoffScale = 1
	}
	return t
}

// Store is the database. Its methods are safe for concurrent use.
type Store struct {
	// pool is the engine's, which sees all tenants. What may be read over it is listed in tenancy_test.go, with the reason.
	pool *pgxpool.Pool
	// app sees nothing before a tenant is set: see reads and writes. It is nil where Open got no address of it.
	app     *pgxpool.Pool
	q       *sqlc.Queries
	keys    secret.Ring
	timing  Timing
	money   money.Currency
	log     *slog.Logger
	rules   policyCache
	bell    bell
	commits commits
	waiters waiters
	seen    Observer
	draw    func() float64
}

// Open connects and checks that the schema is there. It applies no migration.
func Open(ctx context.Context, o Options) (*Store, error) {
	most := o.MaxConns
	if most <= 0 {
		most = 8
	}
	pool, err := openPool(ctx, o.URL, most)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, keys: o.Keys, q: sqlc.New(), timing: o.Timing.withDefaults(), money: cmp.Or(o.Currency, money.USD), log: o.Log, seen: o.Observer, draw: rand.Float64}
	s.rules.log = o.Log
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if _, err := s.q.Tenant(ctx, pool, DefaultTenant); err != nil {
		pool.Close()
		return nil, fmt.Errorf("look at the schema (has `signalbox migrate` run?): %w", err)
	}
	if err := s.openApp(ctx, o.AppURL, max(most/2, 1)); err != nil {
		pool.Close()
		return nil, err
	}
	s.openCommits()
	return s, nil
}

func openPool(ctx context.Context, url string, most int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read database address: %w", err)
	}
	cfg.MaxConns = most
	cfg.ConnConfig.RuntimeParams["application_name"] = "signalbox"
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = "30000"
	cfg.ConnConfig.RuntimeParams["lock_timeout"] = "5000"
	cfg.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "15000"
	// Plans are made once for each connection, often while the tables are still small, and kept while they grow. A scan of
	// a whole table that was right then would be run for every transition until the statistics are renewed.
	cfg.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	// Compiling a plan costs more than any of these statements.
	cfg.ConnConfig.RuntimeParams["jit"] = "off"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	return pool, nil
}

// openApp connects as the role of pages and refuses any that would see every tenant.
func (s *Store) openApp(ctx context.Context, url string, most int32) error {
	if url == "" {
		return nil
	}
	app, err := openPool(ctx, url, most)
	if err != nil {
		return err
	}
	if err := s.checkApp(ctx, app); err != nil {
		app.Close()
		return err
	}
	s.app = app
	return nil
}

// Close carries out what was accepted, then ends all connections.
func (s *Store) Close() {
	s.commits.close()
	s.pool.Close()
	if s.app != nil {
		s.app.Close()
	}
}

// Timing returns the lease arithmetic that this Store uses.
func (s *Store) Timing() Timing { return s.timing }

// Ping reports whether the database answers, to either role.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil || s.app == nil {
		return err
	}
	return s.app.Ping(ctx)
}

// Now returns the database's clock, the only one that leases know.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.q.Now(ctx, s.pool) }

// inTx runs do in one READ COMMITTED transaction. A deadlock, a serialisation
// failure or a lock that was not had in time is tried again, at most three times in all.
func (s *Store) inTx(ctx context.Context, do func(tx pgx.Tx) error) error {
	return s.patiently(ctx, func() error { return tryTx(ctx, s.pool, pgx.TxOptions{}, do) })
}

// patiently tries a transaction again, at most three times in all, where it ended by what may be over the next time.
func (s *Store) patiently(ctx context.Context, try func() error) error {
	var err error
	for n := range 3 {
		if n > 0 {
			if werr := wait(ctx, time.Duration(float64(n)*s.draw()*float64(20*time.Millisecond))); werr != nil {
				return werr
			}
		}
		err = try()
		if !transient(err) {
			return err
		}
	}
	return err
}

func tryTx(ctx context.Context, pool *pgxpool.Pool, o pgx.TxOptions, do func(tx pgx.Tx) error) (err error) {
	tx, err := pool.BeginTx(ctx, o)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	// After a commit it does nothing. It is done after a panic, too: others survive that, and need the connection and what is locked.
	defer func() {
		// The caller's context may be the reason, so the rollback has its own.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(rctx)
	}()
	if err = do(tx); err != nil {
		return err
	}
	if err = tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// transient reports an error after which the same transaction may succeed.
func transient(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pe.Code == "40001" || pe.Code == "40P01" || pe.Code == "55P03")
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mostParsed is how many policies are kept parsed: what is in force for each tenant, and what its runs were admitted under.
const mostParsed = 512

// policyCache keeps parsed policies by document, which never change.
type policyCache struct {
	log    *slog.Logger
	mu     sync.Mutex
	parsed map[string]policy.Rules
}

func (c *policyCache) parse(document string) (policy.Rules, error) {
	c.mu.Lock()
	r, ok := c.parsed[document]
	c.mu.Unlock()
	if ok {
		return r, nil
	}
	r, err := policy.Parse([]byte(document))
	if err != nil {
		// Who asked sent nothing wrong: a worker that hears so would give its work up.
		return policy.Rules{}, fault.Wrap(fault.Unavailable, fmt.Errorf("read the policy in force: %w", err),
			"Nothing was changed: the policy in force cannot be read. An administrator puts a new version in force, then try again.").WithCode("policy_unreadable")
	}
	if zone := r.Budget.TimeZone; zone != "" && !zoneKnown(zone) && c.log != nil {
		c.log.Warn("a stored policy names a time zone that does not exist; its days are those of UTC until a new version names another",
			slog.String("code", "POLICY_TIME_ZONE_UNKNOWN"), slog.String("policy_version", r.Version), slog.String("time_zone", zone))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil || len(c.parsed) > mostParsed {
		c.parsed = map[string]policy.Rules{}
	}
	c.parsed[document] = r
	return r, nil
}

// rulesOf returns the policy in force for the tenant.
func (s *Store) rulesOf(ctx context.Context, h sqlc.DBTX, tenant uuid.UUID) (policy.Rules, error) {
	doc, err := s.q.PolicyInForce(ctx, h, tenant)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return policy.Rules{}, fmt.Errorf("load the policy in force: %w", err)
	}
	return s.rulesIn(doc)
}

// rulesIn returns the rules of a policy document; without one, which is the empty text, the defaults hold.
func (s *Store) rulesIn(document string) (policy.Rules, error) {
	if document == "" {
		return policy.Default(), nil
	}
	return s.rules.parse(document)
}

// Rules returns the policy in force for the tenant.
func (s *Store) Rules(ctx context.Context, tenant uuid.UUID) (policy.Rules, error) {
	doc, err := s.commits.rules.Do(ctx, tenant)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return policy.Rules{}, fmt.Errorf("load the policy in force: there is no tenant %s", tenant)
	case err != nil:
		return policy.Rules{}, busy(err)
	}
	return s.rulesIn(doc)
}
