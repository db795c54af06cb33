// Package audit looks at what is recorded about runs and finds what must never be there: work that was lost or done
// twice, moves that the table does not know, gaps, tokens out of order, two leases at once, events under a lease that
// is over, more leases than a limit allows at any moment, and processes that nobody looks after.
//
// It owns its own reading of events and ended leases and shares no query with the product. It refuses to look at what
// the product keeps besides them, but for the stored row that a log must end in.
package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/run"
)

// Event is one recorded event with its place.
type Event struct {
	Run      uuid.UUID
	Seq      int64
	ID       string
	Kind     string
	From, To string
	At       time.Time
	Schema   int16
	Payload  []byte
	Body     []byte
	Hash     []byte
}

// Ended is how a lease ended.
type Ended struct {
	Lease    uuid.UUID
	Run      uuid.UUID
	Token    int64
	Acquired time.Time
	At       time.Time
}

// Row is what is stored about a run now.
type Row struct {
	Run                        uuid.UUID
	State                      string
	Version                    int64
	Attempt                    int
	Head                       []byte
	Tenant, Repository, Person uuid.UUID
	Risk                       string
	// Asked is who wrote or submitted the task, by the task's own log; for what a token sent, the person behind it.
	Asked []string
}

// Log is everything that an audit looks at.
type Log struct {
	Rows   []Row
	Events []Event // by run and place
	Ended  []Ended
	// Said are the lines of the audit log about gates, in its order; Policies all versions that were in force.
	Said     []Said
	Policies []Policy
}

// Querier is a connection, a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Read reads a database as somebody who sees every tenant.
func Read(ctx context.Context, q Querier) (Log, error) {
	var l Log
	var err error
	if l.Rows, err = collect[Row](ctx, q, `SELECT r.id, r.state, r.version, r.attempt_no, r.head_hash, r.tenant_id, r.repository_id, t.requested_by, r.risk,
			ARRAY(SELECT e.actor_id FROM task_events e WHERE e.task_id = t.id AND e.kind IN ('task_drafted', 'task_submitted') ORDER BY e.seq)
		FROM runs r JOIN tasks t ON t.id = r.task_id ORDER BY r.id`); err != nil {
		return l, fmt.Errorf("read runs: %w", err)
	}
	if l.Events, err = collect[Event](ctx, q, `SELECT run_id, seq, event_id, kind, from_state, to_state, at, schema, convert_to(payload::text, 'UTF8'), body, hash
		FROM run_events ORDER BY run_id, seq, id`); err != nil {
		return l, fmt.Errorf("read events: %w", err)
	}
	if l.Ended, err = collect[Ended](ctx, q, `SELECT lease_id, run_id, fencing_token, acquired_at, ended_at FROM ended_leases ORDER BY run_id, fencing_token`); err != nil {
		return l, fmt.Errorf("read ended leases: %w", err)
	}
	if l.Said, err = collect[Said](ctx, q, `SELECT object_id, actor_id, action, result, coalesce(detail ->> 'digest', ''), ARRAY(SELECT jsonb_array_elements_text(coalesce(detail -> 'roles', '[]'))), at
		FROM audit_log WHERE object_type = 'gate' AND action LIKE 'gate.%' ORDER BY tenant_id, seq`); err != nil {
		return l, fmt.Errorf("read the audit log: %w", err)
	}
	if l.Policies, err = collect[Policy](ctx, q, `SELECT tenant_id, version, document, created_at FROM policies ORDER BY created_at`); err != nil {
		return l, fmt.Errorf("read policies: %w", err)
	}
	return l, nil
}

func collect[T any](ctx context.Context, q Querier, sql string) ([]T, error) {
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// history is a run's events as they were recorded, and as they read.
type history struct {
	row    Row
	events []Event
	read   []run.Event // as many as could be read
	route  run.EnqueuedEvent
}
