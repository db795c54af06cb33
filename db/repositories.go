package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// ForgeInfo is a place where repositories live.
type ForgeInfo struct {
	ID                  uuid.UUID
	Name, Kind, BaseURL string
}

// Forges lists the tenant's forges by name.
func (s *Store) Forges(ctx context.Context, tenant uuid.UUID) ([]ForgeInfo, error) {
	rows, err := s.q.PageForges(ctx, s.reads(tenant), tenant)
	if err != nil {
		return nil, fmt.Errorf("list forges: %w", err)
	}
	var all []ForgeInfo
	for _, r := range rows {
		all = append(all, ForgeInfo{r.ID, r.Name, r.Kind, r.BaseUrl})
	}
	return all, nil
}

// RepositoryInfo is a registered repository.
type RepositoryInfo struct {
	ID, Forge            uuid.UUID
	ForgeKind, ForgeName string
	Name, CloneURL       string
	DefaultBranch        string
	Verification         []run.Check
	Scope, Forbidden     []string
	Requires             []string // capabilities that its workers must offer
	CreatedAt            time.Time
	Tasks                int64
	// Preflight is what was found at CheckedAt; the zero time: nobody looked yet.
	Preflight []Found
	CheckedAt time.Time
}

// Repositories lists at most limit repositories whose name follows after, by name.
func (s *Store) Repositories(ctx context.Context, tenant uuid.UUID, after string, limit int32) ([]RepositoryInfo, error) {
	return s.repositories(ctx, tenant, after, nil, limit)
}

// Repository reads one repository; fault.NotFound where the tenant has none of that id.
func (s *Store) Repository(ctx context.Context, tenant, id uuid.UUID) (RepositoryInfo, error) {
	all, err := s.repositories(ctx, tenant, "", &id, 1)
	if err == nil && len(all) == 0 {
		return RepositoryInfo{}, fault.New(fault.NotFound, "There is no such repository here.")
	}
	if err != nil {
		return RepositoryInfo{}, err
	}
	return all[0], nil
}

func (s *Store) repositories(ctx context.Context, tenant uuid.UUID, after string, id *uuid.UUID, limit int32) ([]RepositoryInfo, error) {
	rows, err := s.q.PageRepositories(ctx, s.reads(tenant), tenant, after, id, limit)
	if err != nil {
		return nil, fmt.Errorf("list repositories: %w", err)
	}
	var all []RepositoryInfo
	for _, r := range rows {
		info, err := repositoryInfo(r.Repository, r.ForgeKind, r.ForgeName)
		if err != nil {
			return nil, err
		}
		info.Tasks = r.Tasks
		all = append(all, info)
	}
	return all, nil
}

func repositoryInfo(r sqlc.Repository, forgeKind, forgeName string) (RepositoryInfo, error) {
	info := RepositoryInfo{
		ID: r.ID, Forge: r.ForgeID, ForgeKind: forgeKind, ForgeName: forgeName, Name: r.Name, CloneURL: r.CloneUrl,
		DefaultBranch: r.DefaultBranch, Scope: r.Scope, Forbidden: r.Forbidden, CreatedAt: r.CreatedAt.UTC(),
	}
	if r.PreflightAt != nil {
		info.CheckedAt = r.PreflightAt.UTC()
	}
	return info, errors.Join(decode(r.Verification, &info.Verification, "verification"), decode(r.Preflight, &info.Preflight, "preflight"))
}

// CreateRepository registers a repository. A name that is taken is fault.Conflict, an unknown forge fault.Invalid.
// What a person asked for goes through RegisterRepository.
func (s *Store) CreateRepository(ctx context.Context, tenant, by uuid.UUID, r RepositoryInfo) (RepositoryInfo, error) {
	id, err := s.insertRepository(ctx, s.pool, tenant, by, r)
	if err != nil {
		return RepositoryInfo{}, err
	}
	return s.Repository(ctx, tenant, id)
}

func (s *Store) insertRepository(ctx context.Context, h sqlc.DBTX, tenant, by uuid.UUID, r RepositoryInfo) (uuid.UUID, error) {
	id := typeid.New()
	if r.Verification == nil {
		r.Verification = []run.Check{}
	}
	checks, err := encode(r.Verification)
	if err != nil {
		return id, err
	}
	_, err = s.q.InsertRepository(ctx, h, sqlc.InsertRepositoryParams{
		ID: id, TenantID: tenant, ForgeID: r.Forge, Name: r.Name, CloneUrl: r.CloneURL, DefaultBranch: r.DefaultBranch,
		Verification: checks, Scope: filled(r.Scope), Forbidden: filled(r.Forbidden), Requires: filled(r.Requires), CreatedBy: pointer(by),
	})
	switch constraint(err) {
	case "repositories_name_key":
		return id, fault.Newf(fault.Conflict, "Nothing was registered: there is a repository named %q already.", r.Name).WithField("name").WithCode("name_taken")
	case "repositories_forge_fk":
		return id, fault.New(fault.Invalid, "Nothing was registered: there is no such forge here.").WithField("forge_id")
	}
	if err != nil {
		return id, fmt.Errorf("create repository: %w", err)
	}
	return id, nil
}

// filled is the list, or an empty one for none: the columns have no NULL.
func filled(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// WorkerInfo is the newest boot of a worker's credential.
type WorkerInfo struct {
	ID, Boot               uuid.UUID
	Credential, Name       string
	Version, State         string
	Phases                 []run.Phase
	Isolation              string
	MaxConcurrent          int
	Leases                 int64
	Run                    uuid.UUID
	HeartbeatAt, StartedAt time.Time
	Revoked                bool
}

// Workers lists the workers that may work for the tenant, with the leases that each holds of the tenant's runs.
func (s *Store) Workers(ctx context.Context, tenant uuid.UUID) ([]WorkerInfo, error) {
	rows, err := s.q.PageWorkers(ctx, s.reads(tenant), tenant)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	var all []WorkerInfo
	for _, r := range rows {
		w := WorkerInfo{
			ID: r.ID, Boot: r.BootID, Credential: r.CredentialName, Name: r.Name, Version: r.Version, State: r.State, Phases: toPhases(r.Phases),
			Isolation: r.Isolation, MaxConcurrent: int(r.MaxConcurrent), Leases: r.Leases, HeartbeatAt: r.HeartbeatAt.UTC(), StartedAt: r.StartedAt.UTC(),
			Revoked: r.RevokedAt != nil,
		}
		if r.RunID != "" {
			if w.Run, err = uuid.Parse(r.RunID); err != nil {
				return nil, fmt.Errorf("list workers: %w", err)
			}
		}
		all = append(all, w)
	}
	return all, nil
}

// QueueDepth counts the tenant's READY items and says since when the oldest waits; zero where none does.
func (s *Store) QueueDepth(ctx context.Context, tenant uuid.UUID) (int64, time.Time, error) {
	r, err := s.q.QueueDepth(ctx, s.reads(tenant), tenant)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("look at the queue: %w", err)
	}
	if r.Depth == 0 {
		return 0, time.Time{}, nil
	}
	return r.Depth, r.Oldest.UTC(), nil
}
