package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// Token is an API token or a person's login from the command line, without its secret.
type Token struct {
	ID, Tenant, User uuid.UUID
	TenantName       string
	// Login marks an sbp_ token: a person who may decide. All others never do.
	Login           bool
	Name            string
	UserName, Email string
	Roles           []policy.Role
	Scopes          []string
	// AuthTime is when the person last proved who they are; zero for API tokens.
	AuthTime             time.Time
	CreatedAt, ExpiresAt time.Time
	LastUsedAt           *time.Time
	RevokedAt            *time.Time
}

// TokenByHash reads the live token under a hash, with the roles that its person has now; fault.NotFound otherwise.
func (s *Store) TokenByHash(ctx context.Context, hash []byte) (Token, error) {
	r, err := s.q.GetToken(ctx, s.pool, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return Token{}, fault.New(fault.NotFound, "There is no such token.")
	}
	if err != nil {
		return Token{}, fmt.Errorf("read token: %w", err)
	}
	if r.Stale {
		if err := s.q.TouchToken(ctx, s.pool, r.ID); err != nil {
			return Token{}, fmt.Errorf("touch token: %w", err)
		}
	}
	t := Token{
		ID: r.ID, User: r.UserID, TenantName: r.TenantName, Login: r.Kind == "login", UserName: r.UserName, Email: r.Email,
		Roles: toRoles(r.Roles), Scopes: r.Scopes, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
	}
	t.Tenant, t.AuthTime = value(r.TenantID), value(r.AuthTime)
	return t, nil
}

// CreateToken stores a token under the hash of secret. Who may make it is the caller's business; what a person asked
// for goes through IssueToken.
func (s *Store) CreateToken(ctx context.Context, t Token, secret string) (Token, error) {
	return s.createToken(ctx, s.pool, t, secret)
}

func (s *Store) createToken(ctx context.Context, h sqlc.DBTX, t Token, secret string) (Token, error) {
	t.ID = typeid.New()
	kind := "api"
	if t.Login {
		kind = "login"
	}
	if t.Scopes == nil {
		t.Scopes = []string{}
	}
	at, err := s.q.InsertToken(ctx, h, sqlc.InsertTokenParams{
		ID: t.ID, TenantID: &t.Tenant, UserID: t.User, Kind: kind, Name: t.Name, Hash: HashToken(secret), Scopes: t.Scopes, AuthTime: pointer(t.AuthTime), ExpiresAt: t.ExpiresAt,
	})
	if err != nil {
		return Token{}, fmt.Errorf("create token: %w", err)
	}
	t.CreatedAt = at
	return t, nil
}

// Tokens lists a person's tokens and logins, newest first, also those that have ended.
func (s *Store) Tokens(ctx context.Context, tenant, user uuid.UUID) ([]Token, error) {
	rows, err := s.q.ListTokens(ctx, s.reads(tenant), &tenant, user)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	var all []Token
	for _, r := range rows {
		all = append(all, Token{
			ID: r.ID, Tenant: tenant, User: user, Login: r.Kind == "login", Name: r.Name, Scopes: r.Scopes,
			CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, LastUsedAt: r.LastUsedAt, RevokedAt: r.RevokedAt,
		})
	}
	return all, nil
}

// RevokeToken ends a person's own token; fault.NotFound for one that is not theirs.
func (s *Store) RevokeToken(ctx context.Context, tenant, user, id uuid.UUID) error {
	return s.revokeToken(ctx, s.pool, tenant, user, id)
}

func (s *Store) revokeToken(ctx context.Context, h sqlc.DBTX, tenant, user, id uuid.UUID) error {
	n, err := s.q.RevokeToken(ctx, h, &tenant, user, id)
	if err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	if n == 0 {
		return fault.New(fault.NotFound, "Nothing was revoked: you have no such token.")
	}
	return nil
}

// WorkerCredential is a worker's identity without its secret (D-22).
type WorkerCredential struct {
	ID, Tenant uuid.UUID
	TenantName string
	Name       string
	Phases     []run.Phase
	CreatedAt  time.Time
	LastUsedAt *time.Time
	RevokedAt  *time.Time
}

// WorkerByHash reads the live credential under a hash; fault.NotFound otherwise.
func (s *Store) WorkerByHash(ctx context.Context, hash []byte) (WorkerCredential, error) {
	r, err := s.commits.workers.Do(ctx, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return WorkerCredential{}, fault.New(fault.NotFound, "There is no such credential.")
	}
	if err != nil {
		return WorkerCredential{}, fmt.Errorf("read worker credential: %w", busy(err))
	}
	if r.Stale {
		if err := s.q.TouchWorkerCredential(ctx, s.pool, r.ID); err != nil {
			return WorkerCredential{}, fmt.Errorf("touch worker credential: %w", err)
		}
	}
	c := WorkerCredential{ID: r.ID, TenantName: r.TenantName, Name: r.Name, Phases: toPhases(r.Phases)}
	c.Tenant = value(r.TenantID)
	return c, nil
}

func toPhases(names []string) []run.Phase {
	var phases []run.Phase
	for _, n := range names {
		phases = append(phases, run.Phase(n))
	}
	return phases
}

// CreateWorkerCredential stores a credential under the hash of secret; what a person asked for goes through
// IssueWorkerCredential.
func (s *Store) CreateWorkerCredential(ctx context.Context, c WorkerCredential, secret string) (WorkerCredential, error) {
	return s.createWorkerCredential(ctx, s.pool, c, secret)
}

func (s *Store) createWorkerCredential(ctx context.Context, h sqlc.DBTX, c WorkerCredential, secret string) (WorkerCredential, error) {
	c.ID = typeid.New()
	var phases []string
	for _, p := range c.Phases {
		phases = append(phases, string(p))
	}
	at, err := s.q.InsertWorkerCredential(ctx, h, sqlc.InsertWorkerCredentialParams{
		ID: c.ID, TenantID: pointer(c.Tenant), Name: c.Name, Hash: HashToken(secret), Phases: phases,
	})
	if err != nil {
		return WorkerCredential{}, fmt.Errorf("create worker credential: %w", err)
	}
	c.CreatedAt = at
	return c, nil
}

// WorkerCredentials lists a tenant's credentials, newest first, also revoked ones.
func (s *Store) WorkerCredentials(ctx context.Context, tenant uuid.UUID) ([]WorkerCredential, error) {
	rows, err := s.q.ListWorkerCredentials(ctx, s.reads(tenant), &tenant)
	if err != nil {
		return nil, fmt.Errorf("list worker credentials: %w", err)
	}
	var all []WorkerCredential
	for _, r := range rows {
		all = append(all, WorkerCredential{
			ID: r.ID, Tenant: tenant, Name: r.Name, Phases: toPhases(r.Phases), CreatedAt: r.CreatedAt, LastUsedAt: r.LastUsedAt, RevokedAt: r.RevokedAt,
		})
	}
	return all, nil
}

// RevokeWorkerCredential ends a credential; its leases end when they expire.
func (s *Store) RevokeWorkerCredential(ctx context.Context, tenant, id uuid.UUID) error {
	return s.revokeWorkerCredential(ctx, s.pool, tenant, id)
}

func (s *Store) revokeWorkerCredential(ctx context.Context, h sqlc.DBTX, tenant, id uuid.UUID) error {
	n, err := s.q.RevokeWorkerCredential(ctx, h, &tenant, id)
	if err != nil {
		return fmt.Errorf("revoke worker credential: %w", err)
	}
	if n == 0 {
		return fault.New(fault.NotFound, "Nothing was revoked: there is no such credential.")
	}
	return nil
}
