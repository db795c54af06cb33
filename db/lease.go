package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
}

// RegisterBoot makes a new identity for this start of the worker.
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
	row := sqlc.WorkerBoot{ID: typeid.New(), WorkerID: w.ID, Name: b.Name, Version: b.Version, Phases: phases,
		Capabilities: nonNil(b.Capabilities), Isolation: b.Isolation, Probes: probes, MaxConcurrent: int32(b.MaxConcurrent), State: "READY", Queues: queues, Pools: nonNil(b.Pools)}
	raw, err := encode(row)
	if err != nil {
		return uuid.Nil, err
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

// Signal is what a worker must know about one of its leases.
type Signal string

// Signals of a heartbeat's answer (R-LEASE-4).
const (
	SignalAlive   Signal = "alive"
	SignalLost    Signal = "lost"
	SignalCancel  Signal = "cancel_requested"
	SignalBudget  Signal = "stop_budget"
	SignalTimeout Signal = "stop_timeout"
	SignalDrain   Signal = "drain"
)

// Beat is one lease that a worker believes it holds.
type Beat struct {
	Run   uuid.UUID
	Lease run.LeaseRef
}

// Pulse answers one Beat.
type Pulse struct {
	Beat
	Signal    Signal
	ExpiresIn time.Duration
}

// Extend prolongs the leases that are active, unexpired and held by this worker
// with this token, in one statement, and answers each with its signal. Drain says
// that the worker should take no new work.
func (s *Store) Extend(ctx context.Context, w WorkerID, boot uuid.UUID, draining bool, beats []Beat) (out []Pulse, drain bool, err error) {
	state := "READY"
	if draining {
		state = "DRAINING"
	}
	t, err := s.q.TouchBoot(ctx, s.pool, state, boot, w.ID)
	if errors.Is(err, pgx.ErrNoRows) || (err == nil && (t.State == "STOPPED" || t.State == "DEAD")) {
		return nil, false, fault.New(fault.Conflict, "No lease was extended: this boot is over. Register again.").WithCode("unknown_boot").WithStop()
	}
	if err != nil {
		return nil, false, fmt.Errorf("touch boot: %w", err)
	}
	rows := make([]sqlc.RunLease, 0, len(beats))
	for _, b := range beats {
		rows = append(rows, sqlc.RunLease{RunID: b.Run, LeaseID: b.Lease.ID, FencingToken: b.Lease.Token})
	}
	// Heartbeats of one boot at once take their leases in one order, whatever order the worker names them in.
	slices.SortFunc(rows, func(a, b sqlc.RunLease) int { return bytes.Compare(a.LeaseID[:], b.LeaseID[:]) })
	raw, err := encode(rows)
	if err != nil {
		return nil, false, err
	}
	var alive []sqlc.ExtendLeasesRow
	// The plan may still choose another order than that; the loser of a deadlock says it again.
	for range maxTries {
		alive, err = s.q.ExtendLeases(ctx, s.pool, sqlc.ExtendLeasesParams{TtlSeconds: s.timing.LeaseTTL.Seconds(), Beats: raw, WorkerID: w.ID,
			BootID: boot, GraceSeconds: s.timing.CancelGrace.Seconds()})
		if !transient(err) {
			break
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("extend leases: %w", err)
	}
	by := make(map[uuid.UUID]sqlc.ExtendLeasesRow, len(alive))
	for _, a := range alive {
		by[a.LeaseID] = a
	}
	for _, b := range beats {
		p := Pulse{Beat: b, Signal: SignalLost}
		if a, ok := by[b.Lease.ID]; ok {
			p.Signal, p.ExpiresIn = signalOf(a, t.DrainRequested), s.timing.LeaseTTL
		}
		out = append(out, p)
	}
	return out, t.DrainRequested, nil
}

func signalOf(a sqlc.ExtendLeasesRow, drain bool) Signal {
	switch {
	case a.State == string(run.Cancelling):
		return SignalCancel
	case a.StopSignal == "budget":
		return SignalBudget
	case a.StopSignal == "timeout":
		return SignalTimeout
	case a.StopSignal == "drain" || drain:
		return SignalDrain
	}
	return SignalAlive
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
	g, err := s.q.GuardLease(ctx, tx, sqlc.GuardLeaseParams{LeaseID: h.Lease.ID, Token: h.Lease.Token, WorkerID: h.Worker, RunID: h.Ref.Run, Kind: kind, Sequence: sequence})
	if errors.Is(err, pgx.ErrNoRows) || (err == nil && g.TenantID != h.Ref.Tenant) {
		return g, s.staleHolder(ctx, h)
	}
	if err != nil {
		return g, fmt.Errorf("check lease: %w", err)
	}
	return g, nil
}

// staleHolder is the answer to a write under a lease that is gone, with the
// run's present state where it may be told.
func (s *Store) staleHolder(ctx context.Context, h Holder) error {
	row, err := s.q.LoadRun(ctx, s.pool, h.Ref.Tenant, h.Ref.Run)
	if err != nil {
		return translate(err, "run")
	}
	return refused(&run.StaleLeaseError{State: run.State(row.Run.State), Token: h.Lease.Token}, run.Run{State: run.State(row.Run.State)})
}
