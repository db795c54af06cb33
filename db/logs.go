package db

import (
	"context"
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

// LogKey names one log: what a lease printed for one call. Without a call it is what the phase printed as a whole.
type LogKey struct {
	Tenant, Run, Lease uuid.UUID
	Call               string
}

// LogInfo says where a log stands.
type LogInfo struct {
	LogKey
	Attempt int
	Phase   run.Phase
	// Live says that the lease is held, so that more may come.
	Live bool
	// Ends counts the lines that have ended; Open says that one more has begun.
	Ends, Bytes int64
	Open        bool
	// Began and Last are when the first and the newest output was stored; zero where nothing was printed. Began is known
	// in a list only.
	Began, Last time.Time
	// Step is the step whose output it is, in a list; zero where it is a phase's.
	Step      uuid.UUID
	StepName  string
	StepState run.StepState
}

// Lines counts all lines, with the one that has not ended.
func (i LogInfo) Lines() int64 {
	if i.Open {
		return i.Ends + 1
	}
	return i.Ends
}

// Log says where one log stands; fault.NotFound where the run never had such a lease. A log in which nothing was printed has no bytes.
func (s *Store) Log(ctx context.Context, key LogKey) (LogInfo, error) {
	r, err := s.q.PageLog(ctx, s.reads(key.Tenant), key.Tenant, key.Run, key.Lease, key.Call)
	if errors.Is(err, pgx.ErrNoRows) {
		return LogInfo{}, fault.New(fault.NotFound, "There is no such log here.")
	}
	if err != nil {
		return LogInfo{}, fmt.Errorf("read log: %w", err)
	}
	info := LogInfo{LogKey: key, Attempt: int(r.AttemptNo), Phase: run.Phase(r.Phase), Live: r.Live, Ends: r.LineEnd, Bytes: r.ByteEnd, Open: open(r.Last)}
	if r.ByteEnd > 0 {
		info.Last = r.At.UTC()
	}
	return info, nil
}

// open reports whether a log that ends with a byte is within a line.
func open(last []byte) bool { return len(last) > 0 && last[0] != '\n' }

// LogList lists the newest logs of a run in which something was printed, at most limit, in the order in which they began.
func (s *Store) LogList(ctx context.Context, tenant, id uuid.UUID, limit int32) ([]LogInfo, error) {
	rows, err := s.q.PageLogList(ctx, s.reads(tenant), tenant, id, limit)
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	var all []LogInfo
	for _, r := range slices.Backward(rows) {
		all = append(all, LogInfo{
			LogKey: LogKey{tenant, id, r.LeaseID, r.CallID}, Attempt: int(r.AttemptNo), Phase: run.Phase(r.Phase), Live: r.Live, Ends: r.LineEnd, Bytes: r.ByteEnd,
			Open: open(r.Last), Began: r.Began.UTC(), Last: r.At.UTC(), Step: value(r.StepID), StepName: r.StepName, StepState: run.StepState(r.StepState),
		})
	}
	return all, nil
}

// LogPlace is a place in a log: behind chunk ID, which ends in line Line. Before the first chunk that ends in line n or later
// is {n, 0}; the zero value is the beginning.
type LogPlace struct{ Line, ID int64 }

// LogPart is a chunk of one log. Ends counts line ends up to its own end, Lines those within it.
type LogPart struct {
	ID, Ends int64
	Lines    int
	Data     []byte
	At       time.Time
}

// LogParts reads at most limit chunks of a log behind a place, in order; each holds at most 64 KiB.
func (s *Store) LogParts(ctx context.Context, key LogKey, after LogPlace, limit int32) ([]LogPart, error) {
	rows, err := s.q.PageLogChunks(ctx, s.reads(key.Tenant), sqlc.PageLogChunksParams{
		TenantID: key.Tenant, RunID: key.Run, LeaseID: key.Lease, CallID: key.Call, LineEnd: after.Line, ID: after.ID, Count: limit,
	})
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	parts := make([]LogPart, 0, len(rows))
	for _, r := range rows {
		parts = append(parts, LogPart{r.ID, r.LineEnd, int(r.Lines), r.Data, r.At.UTC()})
	}
	return parts, nil
}

// LogChunk is stored output.
type LogChunk struct {
	ID           int64
	AttemptNo    int
	Stream, Call string
	Data         []byte
	At           time.Time
}

// Logs lists at most limit chunks of a run's output after a position, in the order in which they were stored. With a lease
// in the key they are those of one log.
func (s *Store) Logs(ctx context.Context, key LogKey, after int64, limit int32) ([]LogChunk, error) {
	rows, err := s.q.PageLogs(ctx, s.reads(key.Tenant), sqlc.PageLogsParams{
		TenantID: key.Tenant, RunID: key.Run, After: after, LeaseID: pointer(key.Lease), CallID: key.Call, Count: limit,
	})
	if err != nil {
		return nil, fmt.Errorf("read logs: %w", err)
	}
	var all []LogChunk
	for _, r := range rows {
		all = append(all, LogChunk{r.ID, int(r.AttemptNo), r.Stream, r.CallID, r.Data, r.At.UTC()})
	}
	return all, nil
}
