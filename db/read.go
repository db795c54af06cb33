package db

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// Cursor is a place in a list that is ordered by time and id. The zero value is the list's beginning.
type Cursor struct {
	At time.Time
	ID uuid.UUID
}

// down is where a list that begins with the newest starts or goes on.
func (c Cursor) down() (time.Time, uuid.UUID) {
	if c.At.IsZero() {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), uuid.Max
	}
	return c.At, c.ID
}

// TaskFilter narrows a list of tasks; zero members do not.
type TaskFilter struct {
	State                   run.TaskState
	Repository, RequestedBy uuid.UUID
	Query                   string
	Before                  Cursor
	Limit                   int32
}

// TaskInfo is a task as lists and pages show it.
type TaskInfo struct {
	ID                           uuid.UUID
	Title, Goal, Kind            string
	Repository                   uuid.UUID
	RepositoryName, BaseRef      string
	Contract                     run.Contract
	ContractDigest, AgentProfile string
	Parent, RequestedBy          uuid.UUID
	Requester                    string
	State                        run.TaskState
	MaxRuns, RunsUsed            int
	ActiveRun                    uuid.UUID
	CancelRequested              bool
	Reason, ReasonWords          string
	CreatedAt, UpdatedAt         time.Time
	LastRun                      uuid.UUID
	LastRunState                 run.State
}

// Cursor is the task's place in a list.
func (t TaskInfo) Cursor() Cursor { return Cursor{t.CreatedAt, t.ID} }

// Tasks lists tasks, the newest first.
func (s *Store) Tasks(ctx context.Context, tenant uuid.UUID, f TaskFilter) ([]TaskInfo, error) {
	at, id := f.Before.down()
	ids, err := s.q.PageTasks(ctx, s.reads(tenant), sqlc.PageTasksParams{
		TenantID: tenant, State: string(f.State), RepositoryID: pointer(f.Repository), RequestedBy: pointer(f.RequestedBy), Query: f.Query,
		BeforeAt: at, BeforeID: id, Count: f.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return s.tasks(ctx, tenant, ids)
}

// Task reads one task; fault.NotFound where the tenant has none of that id.
func (s *Store) Task(ctx context.Context, tenant, id uuid.UUID) (TaskInfo, error) {
	all, err := s.tasks(ctx, tenant, []uuid.UUID{id})
	if err == nil && len(all) == 0 {
		return TaskInfo{}, fault.New(fault.NotFound, "There is no such task here.")
	}
	if err != nil {
		return TaskInfo{}, err
	}
	return all[0], nil
}

// tasks reads tasks by their ids, the newest first.
func (s *Store) tasks(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]TaskInfo, error) {
	rows, err := s.q.TasksOfPage(ctx, s.reads(tenant), ids, tenant)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	all := make([]TaskInfo, 0, len(rows))
	for _, r := range rows {
		t, err := taskInfo(r.Task, r.RepositoryName, r.Requester)
		if err != nil {
			return nil, err
		}
		t.LastRunState = run.State(r.LastRunState)
		if r.LastRunID != "" {
			if t.LastRun, err = uuid.Parse(r.LastRunID); err != nil {
				return nil, fmt.Errorf("list tasks: %w", err)
			}
		}
		all = append(all, t)
	}
	return all, nil
}

func taskInfo(t sqlc.Task, repository, requester string) (TaskInfo, error) {
	info := TaskInfo{
		ID: t.ID, Title: t.Title, Goal: t.Goal, Kind: t.Kind, Repository: t.RepositoryID, RepositoryName: repository, BaseRef: t.BaseRef,
		ContractDigest: t.ContractDigest, AgentProfile: t.AgentProfile, Parent: value(t.ParentTaskID), RequestedBy: t.RequestedBy, Requester: requester,
		State: run.TaskState(t.State), MaxRuns: int(t.MaxRuns), RunsUsed: int(t.RunsUsed), ActiveRun: value(t.ActiveRunID),
		CancelRequested: t.CancelRequested, Reason: t.Reason, ReasonWords: t.ReasonWords, CreatedAt: t.CreatedAt.UTC(), UpdatedAt: t.UpdatedAt.UTC(),
	}
	return info, decode(t.Contract, &info.Contract, "contract")
}

// AnyTask reports whether the tenant ever had a task.
func (s *Store) AnyTask(ctx context.Context, tenant uuid.UUID) (bool, error) {
	return s.q.AnyTask(ctx, s.reads(tenant), tenant)
}

// TaskEventInfo is one event of a task.
type TaskEventInfo struct {
	Seq      int64
	Kind     run.TaskKind
	By       run.Actor
	From, To run.TaskState
	Reason   string
	Run      uuid.UUID
	At       time.Time
}

// TaskEvents lists what happened to a task, in order.
func (s *Store) TaskEvents(ctx context.Context, tenant, task uuid.UUID) ([]TaskEventInfo, error) {
	rows, err := s.q.PageTaskEvents(ctx, s.reads(tenant), tenant, task)
	if err != nil {
		return nil, fmt.Errorf("list task events: %w", err)
	}
	var all []TaskEventInfo
	for _, r := range rows {
		all = append(all, TaskEventInfo{
			Seq: r.Seq, Kind: run.TaskKind(r.Kind), By: run.Actor{Kind: run.ActorKind(r.ActorKind), ID: r.ActorID, Name: r.ActorName},
			From: run.TaskState(r.FromState), To: run.TaskState(r.ToState), Reason: r.Reason, Run: value(r.RunID), At: r.At.UTC(),
		})
	}
	return all, nil
}

// RunFilter narrows a list of runs; zero members do not.
type RunFilter struct {
	State            run.State
	View             View
	Active           bool // has not ended
	Task, Repository uuid.UUID
	Query            string
	Before           Cursor
	Limit            int32
}

// RunInfo is a run with the facts beside it that lists and pages show.
type RunInfo struct {
	run.Run
	TaskTitle                     string
	RequestedBy                   uuid.UUID
	AgentProfile, AdapterVersion  string
	BaseRef, DefaultBranch        string
	RepositoryName                string
	BaseCommit, Branch, Isolation string
	StopSignal                    string
	UpdatedAt, StateSince         time.Time
	Active                        time.Duration
	// Holder says who works on it now; nil where no lease is active.
	Holder *LeaseHolder
}

// LeaseHolder is the worker behind an active lease.
type LeaseHolder struct {
	Worker, Isolation                  string
	AcquiredAt, HeartbeatAt, ExpiresAt time.Time
}

// Cursor is the run's place in a list.
func (r RunInfo) Cursor() Cursor { return Cursor{r.CreatedAt, r.ID} }

// Runs lists runs, the newest first.
func (s *Store) Runs(ctx context.Context, tenant uuid.UUID, f RunFilter) ([]RunInfo, error) {
	if f.View != "" {
		ids, err := s.among(ctx, tenant, f)
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		return s.runs(ctx, tenant, ids)
	}
	at, id := f.Before.down()
	ids, err := s.q.PageRuns(ctx, s.reads(tenant), sqlc.PageRunsParams{
		TenantID: tenant, State: string(f.State), TaskID: pointer(f.Task), RepositoryID: pointer(f.Repository), Query: f.Query,
		Active: f.Active, BeforeAt: at, BeforeID: id, Count: f.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return s.runs(ctx, tenant, ids)
}

// RunsByID reads runs by their ids, the newest first; what the tenant does not have is left out.
func (s *Store) RunsByID(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]RunInfo, error) {
	return s.runs(ctx, tenant, ids)
}

// RunsOfTask lists a task's runs, the newest first, at most limit.
func (s *Store) RunsOfTask(ctx context.Context, tenant, task uuid.UUID, limit int32) ([]RunInfo, error) {
	ids, err := s.q.RunsOfTask(ctx, s.reads(tenant), task, tenant, limit)
	if err != nil {
		return nil, fmt.Errorf("list runs of a task: %w", err)
	}
	return s.runs(ctx, tenant, ids)
}

// RunInfo reads one run; fault.NotFound where the tenant has none of that id.
func (s *Store) RunInfo(ctx context.Context, tenant, id uuid.UUID) (RunInfo, error) {
	all, err := s.runs(ctx, tenant, []uuid.UUID{id})
	if err == nil && len(all) == 0 {
		return RunInfo{}, fault.New(fault.NotFound, "There is no such run here.")
	}
	if err != nil {
		return RunInfo{}, err
	}
	return all[0], nil
}

// runs reads runs by their ids, the newest first.
func (s *Store) runs(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]RunInfo, error) {
	rows, err := s.q.RunsOfPage(ctx, s.reads(tenant), ids, tenant)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	all := make([]RunInfo, 0, len(rows))
	for _, row := range rows {
		info, err := runInfo(row.Run)
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		info.TaskTitle, info.RequestedBy, info.AgentProfile = row.TaskTitle, row.RequestedBy, cmp.Or(info.AgentProfile, row.TaskProfile)
		info.BaseRef, info.DefaultBranch, info.RepositoryName = row.BaseRef, row.DefaultBranch, row.RepositoryName
		if row.LeaseExpiresAt != nil {
			info.Holder = &LeaseHolder{row.WorkerName, row.WorkerIsolation, value(row.LeaseAcquiredAt).UTC(), value(row.LeaseHeartbeatAt).UTC(), row.LeaseExpiresAt.UTC()}
		}
		all = append(all, info)
	}
	return all, nil
}

// runInfo is what the run's own row says.
func runInfo(row sqlc.Run) (RunInfo, error) {
	r, err := toRun(row)
	return RunInfo{
		Run: r, AgentProfile: row.AgentProfile, AdapterVersion: row.AdapterVersion, BaseCommit: row.BaseCommit, Branch: row.Branch, Isolation: row.Isolation,
		StopSignal: row.StopSignal, UpdatedAt: row.UpdatedAt.UTC(), StateSince: row.StateSince.UTC(), Active: time.Duration(row.ActiveMs) * time.Millisecond,
	}, err
}

// AnyRun reports whether the tenant ever had a run.
func (s *Store) AnyRun(ctx context.Context, tenant uuid.UUID) (bool, error) {
	return s.q.AnyRun(ctx, s.reads(tenant), tenant)
}

// EventInfo is one event of a run's log as pages and API show it.
type EventInfo struct {
	Seq      int64
	Kind     run.Kind
	By       run.Actor
	From, To run.State
	Attempt  int
	At       time.Time
	// Payload is the event's content as JSON.
	Payload json.RawMessage
	// Canonical holds the exact bytes that the hash chain covers; empty where only the payload was read.
	Canonical []byte
	Hash      []byte
}

// Events lists at most limit events of a run after a sequence number, in order.
func (s *Store) Events(ctx context.Context, tenant, id uuid.UUID, after int64, limit int32) ([]EventInfo, error) {
	rows, err := s.q.RunEvents(ctx, s.reads(tenant), tenant, id, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	var all []EventInfo
	for _, r := range rows {
		all = append(all, eventInfo(r))
	}
	return all, nil
}

func eventInfo(r sqlc.RunEventsRow) EventInfo {
	return EventInfo{
		Seq: r.Seq, Kind: run.Kind(r.Kind), By: run.Actor{Kind: run.ActorKind(r.ActorKind), ID: r.ActorID, Name: r.ActorName},
		From: run.State(r.FromState), To: run.State(r.ToState), Attempt: int(r.AttemptNo), At: r.At.UTC(), Payload: r.Payload, Canonical: r.Body, Hash: r.Hash,
	}
}

// LastEvent reads the newest event of a kind; false where there is none.
func (s *Store) LastEvent(ctx context.Context, tenant, id uuid.UUID, kind run.Kind) (EventInfo, bool, error) {
	r, err := s.q.LastEvent(ctx, s.reads(tenant), tenant, id, string(kind))
	if errors.Is(err, pgx.ErrNoRows) {
		return EventInfo{}, false, nil
	}
	if err != nil {
		return EventInfo{}, false, fmt.Errorf("read last event: %w", err)
	}
	return EventInfo{
		Seq: r.Seq, Kind: kind, By: run.Actor{Kind: run.ActorKind(r.ActorKind), ID: r.ActorID, Name: r.ActorName}, From: run.State(r.FromState),
		To: run.State(r.ToState), Attempt: int(r.AttemptNo), At: r.At.UTC(), Payload: r.Payload,
	}, true, nil
}

// LastVerification reads the newest event by which a worker began to verify a run; false where none did. The log, which may be long,
// is looked through only where there is one.
func (s *Store) LastVerification(ctx context.Context, tenant, id uuid.UUID) (EventInfo, bool, error) {
	ever, err := s.q.WasVerified(ctx, s.reads(tenant), id, tenant)
	if err != nil {
		return EventInfo{}, false, fmt.Errorf("look for a verification: %w", err)
	}
	if !ever {
		return EventInfo{}, false, nil
	}
	return s.LastEvent(ctx, tenant, id, run.KindVerificationStarted)
}

// JudgeArtifact is the report of the newest verdict in the run's log, "" before there is one.
func (s *Store) JudgeArtifact(ctx context.Context, tenant, id uuid.UUID) (string, error) {
	a, err := s.q.JudgeArtifact(ctx, s.reads(tenant), tenant, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find the judge's report: %w", err)
	}
	return a, nil
}
