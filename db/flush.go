package db

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/db/internal/sqlc"
)

// sender is a pool or a transaction.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// pipeline queues what the generated code would execute, so that several statements
// travel in one round trip. Outside of a transaction they are one.
type pipeline struct{ pgx.Batch }

var errPipeline = errors.New("a pipeline answers when it is sent")

// Exec implements sqlc.DBTX.
func (p *pipeline) Exec(_ context.Context, text string, args ...any) (pgconn.CommandTag, error) {
	p.Queue(text, args...)
	return pgconn.CommandTag{}, nil
}

// Query implements sqlc.DBTX and is never of use.
func (*pipeline) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errPipeline }

// QueryRow implements sqlc.DBTX and is never of use.
func (*pipeline) QueryRow(context.Context, string, ...any) pgx.Row { return noRow{} }

type noRow struct{}

// Scan implements pgx.Row.
func (noRow) Scan(...any) error { return errPipeline }

// flush sends the write as one transaction (or as part of that of h) in one round
// trip and returns the runs that were written; a run that is missing had moved on
// and has nothing written for it. Parts without rows are not sent: an ordinary
// transition writes three tables of twenty.
func (s *Store) flush(ctx context.Context, h sender, w *write) (map[uuid.UUID]bool, error) {
	p, err := s.statements(ctx, w)
	if err != nil {
		return nil, err
	}
	results := h.SendBatch(ctx, &p.Batch)
	done, err := written(results, p.Len())
	// What fails at the end of the transaction is told at the end of the results.
	if cerr := results.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	return done, nil
}

// rowsOf is one statement with its rows.
type rowsOf struct {
	count int
	rows  any
	send  func(context.Context, sqlc.DBTX, json.RawMessage) error
}

func (s *Store) statements(ctx context.Context, w *write) (*pipeline, error) {
	p := &pipeline{}
	if err := s.writeRuns(ctx, p, w); err != nil {
		return nil, err
	}
	if err := s.writeParts(ctx, p, w); err != nil {
		return nil, err
	}
	return p, s.writeTasks(ctx, p, w)
}

// writeParts queues what belongs to the runs, which the same transaction wrote before.
func (s *Store) writeParts(ctx context.Context, p *pipeline, w *write) error {
	for _, part := range []rowsOf{
		{len(w.dequeued), w.dequeued, s.q.WriteDequeued}, {len(w.dequeued), w.dequeued, s.q.WriteUndelayed},
		{len(w.queued), w.queued, s.q.WriteReady}, {len(w.delayed), w.delayed, s.q.WriteDelayed},
		{len(w.endedLeases), w.endedLeases, s.q.WriteEndedLeases}, {len(w.leases), w.leases, s.q.WriteLeases},
		{len(w.sandboxes), w.sandboxes, s.q.WriteSandboxes},
		{len(w.attempts), w.attempts, s.q.WriteAttempts}, {len(w.endedAttempts), w.endedAttempts, s.q.WriteEndedAttempts},
		{len(w.gates), w.gates, s.q.WriteGates}, {len(w.movedGates), w.movedGates, s.q.WriteMovedGates},
		{len(w.gateRevisions), w.gateRevisions, s.q.WriteGateRevisions}, {len(w.feedback), w.feedback, s.q.WriteFeedback},
		{len(w.attestations), w.attestations, s.q.WriteAttestations}, {len(w.movedAttestations), w.movedAttestations, s.q.WriteMovedAttestations},
		{len(w.policyDecisions), w.policyDecisions, s.q.WritePolicyDecisions}, {len(w.outbox), w.outbox, s.q.WriteOutbox},
		{len(w.pauses), w.pauses, s.q.WritePauses}, {len(w.probes), w.probes, s.q.WriteProbes}, {len(w.probed), w.probed, s.q.WriteProbed},
	} {
		if part.count == 0 {
			continue
		}
		raw, err := encode(part.rows)
		if err != nil {
			return err
		}
		if err := part.send(ctx, p, raw); err != nil {
			return err
		}
	}
	return nil
}

// writeTasks comes last, in lock order.
func (s *Store) writeTasks(ctx context.Context, p *pipeline, w *write) error {
	if len(w.tasks) == 0 {
		return nil
	}
	var raw [3]json.RawMessage
	for i, rows := range []any{w.taskBefores, w.tasks, w.taskEvents} {
		var err error
		if raw[i], err = encode(rows); err != nil {
			return err
		}
	}
	return s.q.WriteTasks(ctx, p, raw[0], raw[1], raw[2])
}

func (s *Store) writeRuns(ctx context.Context, p *pipeline, w *write) error {
	var raw [4]json.RawMessage
	for i, rows := range []any{w.runs, w.befores, w.events, nonNil(w.keys)} {
		var err error
		if raw[i], err = encode(rows); err != nil {
			return err
		}
	}
	return s.q.WriteRuns(ctx, p, raw[0], raw[1], raw[2], raw[3])
}

// written reads the answer of the guarded update, then that all other statements were carried out.
func written(results pgx.BatchResults, statements int) (map[uuid.UUID]bool, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, err
	}
	done := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		done[id] = true
	}
	for range statements - 1 {
		if _, err := results.Exec(); err != nil {
			return nil, err
		}
	}
	return done, nil
}
