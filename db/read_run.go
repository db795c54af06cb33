package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// AttemptInfo is one attempt of a run.
type AttemptInfo struct {
	ID        uuid.UUID
	No        int
	State     run.AttemptState
	Code      run.Code
	Worker    string
	StartedAt time.Time
	EndedAt   *time.Time
}

// Attempts lists a run's attempts in order.
func (s *Store) Attempts(ctx context.Context, tenant, id uuid.UUID) ([]AttemptInfo, error) {
	rows, err := s.q.PageAttempts(ctx, s.reads(tenant), tenant, id)
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	var all []AttemptInfo
	for _, r := range rows {
		all = append(all, AttemptInfo{r.ID, int(r.AttemptNo), run.AttemptState(r.State), run.Code(r.Code), r.WorkerName, r.StartedAt.UTC(), r.EndedAt})
	}
	return all, nil
}

// StepInfo is one granular action.
type StepInfo struct {
	ID, Lease        uuid.UUID
	AttemptNo        int
	Phase            run.Phase
	Call, Kind, Name string
	State            run.StepState
	Summary          string
	ExitCode         *int
	Duration         time.Duration
	StartedAt        time.Time
	FinishedAt       *time.Time
	Seq              int64
}

// Steps lists at most limit steps of a run after a position, in the order in which the server learned of them.
func (s *Store) Steps(ctx context.Context, tenant, id uuid.UUID, after int64, limit int32) ([]StepInfo, error) {
	rows, err := s.q.PageSteps(ctx, s.reads(tenant), tenant, id, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list steps: %w", err)
	}
	var all []StepInfo
	for _, r := range rows {
		all = append(all, toStep(sqlc.PageStepRow(r)))
	}
	return all, nil
}

// LastSteps lists the newest steps of a run, at most limit, in the order in which the server learned of them.
func (s *Store) LastSteps(ctx context.Context, tenant, id uuid.UUID, limit int32) ([]StepInfo, error) {
	rows, err := s.q.LastSteps(ctx, s.reads(tenant), tenant, id, limit)
	if err != nil {
		return nil, fmt.Errorf("list the last steps: %w", err)
	}
	all := make([]StepInfo, 0, len(rows))
	for _, r := range slices.Backward(rows) {
		all = append(all, toStep(sqlc.PageStepRow(r)))
	}
	return all, nil
}

// Step reads one step; fault.NotFound where the run has none of that id.
func (s *Store) Step(ctx context.Context, tenant, id, step uuid.UUID) (StepInfo, error) {
	r, err := s.q.PageStep(ctx, s.reads(tenant), tenant, id, step)
	if errors.Is(err, pgx.ErrNoRows) {
		return StepInfo{}, fault.New(fault.NotFound, "There is no such step here.")
	}
	if err != nil {
		return StepInfo{}, fmt.Errorf("read step: %w", err)
	}
	return toStep(r), nil
}

func toStep(r sqlc.PageStepRow) StepInfo {
	step := StepInfo{
		ID: r.ID, Lease: r.LeaseID, AttemptNo: int(r.AttemptNo), Phase: run.Phase(r.Phase), Call: r.CallID, Kind: r.Kind, Name: r.Name,
		State: run.StepState(r.State), Summary: r.Summary, Duration: time.Duration(value(r.DurationMs)) * time.Millisecond,
		StartedAt: r.StartedAt.UTC(), FinishedAt: r.FinishedAt, Seq: r.Seq,
	}
	if r.ExitCode != nil {
		step.ExitCode = new(int(*r.ExitCode))
	}
	return step
}

// ArtifactInfo is one stored artifact; Patch is set for those that the server parsed.
type ArtifactInfo struct {
	ID, Tenant, Run     uuid.UUID
	AttemptNo, Revision int
	Kind, Name, SHA256  string
	Size                int64
	BlobKey             string
	Late                bool
	CreatedAt           time.Time
	Patch               *PatchInfo
}

// PatchInfo is what the server found in a stored patch.
type PatchInfo struct {
	PatchID               string
	Files, Added, Removed int
	// Scan is clean, findings or not_scanned; Fault is why the patch could not be read, if so.
	Scan, Fault string
	Facts       json.RawMessage
}

// Artifacts lists a run's artifacts in the order in which they were stored.
func (s *Store) Artifacts(ctx context.Context, tenant, id uuid.UUID) ([]ArtifactInfo, error) {
	rows, err := s.q.PageArtifacts(ctx, s.reads(tenant), tenant, id)
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	var all []ArtifactInfo
	for _, r := range rows {
		all = append(all, toArtifact(sqlc.PageArtifactRow(r)))
	}
	return all, nil
}

// Artifact reads one artifact's description; fault.NotFound where the tenant has none of that id.
func (s *Store) Artifact(ctx context.Context, tenant, id uuid.UUID) (ArtifactInfo, error) {
	r, err := s.q.PageArtifact(ctx, s.reads(tenant), tenant, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return ArtifactInfo{}, fault.New(fault.NotFound, "There is no such artifact here.")
	}
	if err != nil {
		return ArtifactInfo{}, fmt.Errorf("read artifact: %w", err)
	}
	return toArtifact(r), nil
}

func toArtifact(r sqlc.PageArtifactRow) ArtifactInfo {
	a := ArtifactInfo{
		ID: r.ID, Tenant: r.TenantID, Run: r.RunID, AttemptNo: int(r.AttemptNo), Revision: int(r.Revision), Kind: r.Kind, Name: r.Name, SHA256: r.Sha256,
		Size: r.Size, BlobKey: r.BlobKey, Late: r.Late, CreatedAt: r.CreatedAt.UTC(),
	}
	if r.PatchID != nil {
		a.Patch = &PatchInfo{*r.PatchID, int(value(r.Files)), int(value(r.Added)), int(value(r.Removed)), value(r.Scan), value(r.Fault), r.Facts}
	}
	return a
}

// PullInfo is a pull request that we opened.
type PullInfo struct {
	ID, Repository, Task, Run     uuid.UUID
	Number                        int64
	State, URL, Title, Body       string
	Head, Base, HeadSHA, MergeSHA string
	RepositoryName, CloneURL      string
	ForgeKind, MergedBy           string
	CreatedAt, UpdatedAt          time.Time
}

// PullFilter narrows a list of pull requests; zero members do not.
type PullFilter struct {
	ID, Task, Run, Repository uuid.UUID
	Branch                    string
}

// Pulls lists pull requests, the newest first.
func (s *Store) Pulls(ctx context.Context, tenant uuid.UUID, f PullFilter) ([]PullInfo, error) {
	rows, err := s.q.PagePulls(ctx, s.reads(tenant), sqlc.PagePullsParams{
		TenantID: tenant, ID: pointer(f.ID), TaskID: pointer(f.Task), RunID: pointer(f.Run), RepositoryID: pointer(f.Repository), Branch: f.Branch,
	})
	if err != nil {
		return nil, fmt.Errorf("list pull requests: %w", err)
	}
	var all []PullInfo
	for _, r := range rows {
		all = append(all, PullInfo{
			ID: r.ID, Repository: r.RepositoryID, Task: r.TaskID, Run: r.RunID, Number: r.Number, State: r.State, URL: r.Url, Title: r.Title, Body: r.Body,
			Head: r.HeadBranch, Base: r.BaseBranch, HeadSHA: r.HeadSha, MergeSHA: r.MergeSha, RepositoryName: r.RepositoryName, CloneURL: r.CloneUrl,
			ForgeKind: r.ForgeKind, MergedBy: r.MergedByName, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
		})
	}
	return all, nil
}

// Pull reads one pull request; fault.NotFound where the tenant has none of that id.
func (s *Store) Pull(ctx context.Context, tenant, id uuid.UUID) (PullInfo, error) {
	all, err := s.Pulls(ctx, tenant, PullFilter{ID: id})
	if err == nil && len(all) == 0 {
		return PullInfo{}, fault.New(fault.NotFound, "There is no such pull request here.")
	}
	if err != nil {
		return PullInfo{}, err
	}
	return all[0], nil
}
