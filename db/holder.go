package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The credential of a worker that serves every tenant names none. Where it may do something follows from the leases that
// were given to it, and from nothing that it says; what it holds no lease of does not exist for it (fault.NotFound).

// TenantOfLease is the tenant of the run whose lease the worker has or had: a late report and a repeated request belong
// there, too.
func (s *Store) TenantOfLease(ctx context.Context, worker, run, lease uuid.UUID) (uuid.UUID, error) {
	tenant, err := s.q.TenantOfLease(ctx, s.pool, lease, run, worker)
	return tenantHeld(tenant, err, "run")
}

// TenantOfRun is the tenant of a run of which the worker has or had a lease.
func (s *Store) TenantOfRun(ctx context.Context, worker, run uuid.UUID) (uuid.UUID, error) {
	tenant, err := s.q.TenantOfRun(ctx, s.pool, run, worker)
	return tenantHeld(tenant, err, "run")
}

// TenantOfArtifact is the tenant of an artifact of a run whose lease the worker holds.
func (s *Store) TenantOfArtifact(ctx context.Context, worker, artifact uuid.UUID) (uuid.UUID, error) {
	tenant, err := s.q.TenantOfArtifact(ctx, s.pool, artifact, worker)
	return tenantHeld(tenant, err, "artifact")
}

// TenantOfRepository is the tenant of a repository on a run of which the worker holds a lease.
func (s *Store) TenantOfRepository(ctx context.Context, worker, repository uuid.UUID) (uuid.UUID, error) {
	tenant, err := s.q.TenantOfRepository(ctx, s.pool, repository, worker)
	return tenantHeld(tenant, err, "repository")
}

// TenantOfPull is the tenant of a pull request in a repository on a run of which the worker holds a lease.
func (s *Store) TenantOfPull(ctx context.Context, worker, pull uuid.UUID) (uuid.UUID, error) {
	tenant, err := s.q.TenantOfPull(ctx, s.pool, pull, worker)
	return tenantHeld(tenant, err, "pull request")
}

func tenantHeld(tenant uuid.UUID, err error, what string) (uuid.UUID, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, notFound(what)
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("look for the worker's tenant: %w", busy(err))
	}
	return tenant, nil
}
