package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// Boot is one start of a worker.
type Boot struct {
	Name         string
	Version      string
	Phases       []run.Phase
	Capabilities []string
	// Queues and Pools are those the worker serves; without queues, the default one.
	Queues, Pools []string
	Isolation     string
	Probes        []byte // JSON array
	MaxConcurrent int
	// Starting says that the worker still tries its sandbox and tools; it is given no work before it is ready.
	Starting bool
	// ID is the starting boot that is ready now; nil for a new one.
	ID uuid.UUID
}

// RegisterBoot makes a new identity for this start of the worker, or makes one that was starting ready. A starting boot
// that was given up meanwhile is a Conflict: the worker registers again.
func (s *Store) RegisterBoot(ctx context.Context, w WorkerID, b Boot) (uuid.UUID, error) {
	phases := []string{}
	for _, p := range b.Phases {
		phases = append(phases, string(p))
	}
	probes := b.Probes
	if len(probes) == 0 {
		probes = []byte("[]")
	}
	queues := b.Queues
	if len(queues) == 0 {
		queues = []string{policy.DefaultQueue}
	}
	state, id := "READY", b.ID
	if b.Starting {
		state = "STARTING"
	}
	if id == uuid.Nil {
		id = typeid.New()
	}
	row := sqlc.WorkerBoot{ID: id, WorkerID: w.ID, Name: b.Name, Version: b.Version, Phases: phases,
		Capabilities: nonNil(b.Capabilities), Isolation: b.Isolation, Probes: probes, MaxConcurrent: int32(b.MaxConcurrent), State: state, Queues: queues, Pools: nonNil(b.Pools)}
	raw, err := encode(row)
	if err != nil {
		return uuid.Nil, err
	}
	if b.ID != uuid.Nil {
		n, err := s.q.ReadyBoot(ctx, s.pool, raw)
		if err == nil && n == 0 {
			return uuid.Nil, fault.New(fault.Conflict, "The worker was not made ready: this boot is not one that is starting. Register again.").WithCode("unknown_boot")
		}
		return id, translate(wrap("make a boot ready", err), "worker")
	}
	if err := s.q.RegisterBoot(ctx, s.pool, raw); err != nil {
		return uuid.Nil, translate(fmt.Errorf("register boot: %w", err), "worker")
	}
	return row.ID, nil
}

// StopBoot says that the worker went in good order.
func (s *Store) StopBoot(ctx context.Context, w WorkerID, boot uuid.UUID) error {
	n, err := s.q.StopBoot(ctx, s.pool, boot, w.ID)
	if err != nil {
		return fmt.Errorf("stop boot: %w", err)
	}
	if n == 0 {
		return notFound("running boot of this worker")
	}
	return nil
}

// Holder proves a lease for writes that are not transitions.
type Holder struct {
	Ref    Ref
	Lease  run.LeaseRef
	Worker uuid.UUID
}

// guard holds the lease for the rest of the transaction and takes the batch's
// number; fresh is false for a batch that was stored before.
func (s *Store) guard(ctx context.Context, tx pgx.Tx, h Holder, kind string, sequence int64) (sqlc.GuardLeaseRow, error) {
	g, err := underLease(ctx, s, tx, func() (sqlc.GuardLeaseRow, error) {
		return s.q.GuardLease(ctx, tx, sqlc.GuardLeaseParams{LeaseID: h.Lease.ID, Token: h.Lease.Token, WorkerID: h.Worker, RunID: h.Ref.Run, Kind: kind, Sequence: sequence})
	})
	if errors.Is(err, pgx.ErrNoRows) || (err == nil && g.TenantID != h.Ref.Tenant) {
		return g, s.staleHolder(ctx, tx, h)
	}
	if err != nil {
		return g, fmt.Errorf("check lease: %w", err)
	}
	return g, nil
}

// staleHolder is the answer to a write under a lease that is gone, with the run's present state. A holder whose write came just
// after a cancel has its lease still: it hears of the cancel, and can say that it stopped.
func (s *Store) staleHolder(ctx context.Context, d sqlc.DBTX, h Holder) error {
	row, err := s.q.LoadRun(ctx, d, h.Ref.Tenant, h.Ref.Run)
	if err != nil {
		return translate(err, "run")
	}
	state := run.State(row.Run.State)
	if r, err := toRun(row.Run); err == nil && state == run.Cancelling && row.LeaseLive && r.Holds(&h.Lease) && r.Lease.Worker == h.Worker.String() {
		return refused(&run.IllegalError{State: state, Kind: "operation"}, r)
	}
	return refused(&run.StaleLeaseError{State: state, Token: h.Lease.Token}, run.Run{State: state})
}
