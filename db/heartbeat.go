package db

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/coalesce"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

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
	// Stopping says that the worker heard of a cancel and is stopping.
	Stopping bool
}

// Pulse answers one Beat.
type Pulse struct {
	Beat
	Signal    Signal
	ExpiresIn time.Duration
}

// sign is one heartbeat of a boot, with the leases that it believes it holds.
type sign struct {
	worker, boot uuid.UUID
	draining     bool
	beats        []Beat
}

// vital is the answer to a sign.
type vital struct {
	pulses []Pulse
	drain  bool
}

// Extend prolongs the leases that are active, unexpired and held by this worker with this token, together with those of
// others whose heartbeats come at the same time, and answers each with its signal. Drain says that the worker should take
// no new work.
func (s *Store) Extend(ctx context.Context, w WorkerID, boot uuid.UUID, draining bool, beats []Beat) (out []Pulse, drain bool, err error) {
	v, err := s.commits.signs.Do(ctx, sign{w.ID, boot, draining, beats})
	return v.pulses, v.drain, busy(err)
}

// extendAll answers many heartbeats with two statements.
func (s *Store) extendAll(ctx context.Context, signs []sign) []coalesce.Result[vital] {
	out := make([]coalesce.Result[vital], len(signs))
	boots, alive, err := s.heard(ctx, signs)
	for i, g := range signs {
		boot, known := boots[g.boot]
		switch {
		case err != nil:
			out[i].Err = err
			continue
		case !known || boot.State == "STOPPED" || boot.State == "DEAD":
			out[i].Err = fault.New(fault.Conflict, "No lease was extended: this boot is over. Register again.").WithCode("unknown_boot").WithStop()
			continue
		}
		v := vital{drain: boot.DrainRequested}
		for _, b := range g.beats {
			p := Pulse{Beat: b, Signal: SignalLost}
			if a, ok := alive[b.Lease.ID]; ok && a.BootID == g.boot {
				p.Signal, p.ExpiresIn = signalOf(a, boot.DrainRequested), s.timing.LeaseTTL
			}
			v.pulses = append(v.pulses, p)
		}
		out[i].Out = v
	}
	return out
}

func (s *Store) heard(ctx context.Context, signs []sign) (map[uuid.UUID]sqlc.TouchBootsRow, map[uuid.UUID]sqlc.ExtendLeasesRow, error) {
	var boots []sqlc.WorkerBoot
	var leases []sqlc.RunLease
	for _, g := range signs {
		state := "READY"
		if g.draining {
			state = "DRAINING"
		}
		boots = append(boots, sqlc.WorkerBoot{ID: g.boot, WorkerID: g.worker, State: state})
	}
	// Rows are taken in one order, whatever order the workers name them in; the plan may still choose another, and the
	// loser of a deadlock between two replicas says it again.
	slices.SortFunc(boots, func(a, b sqlc.WorkerBoot) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	var touched []sqlc.TouchBootsRow
	err := s.again(func() (err error) {
		raw, err := encode(boots)
		if err == nil {
			touched, err = s.q.TouchBoots(ctx, s.pool, raw)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("touch boots: %w", err)
	}
	known := make(map[uuid.UUID]sqlc.TouchBootsRow, len(touched))
	for _, t := range touched {
		known[t.ID] = t
	}
	for _, g := range signs {
		// Who is over extends nothing.
		if t, ok := known[g.boot]; !ok || t.State == "STOPPED" || t.State == "DEAD" {
			continue
		}
		for _, b := range g.beats {
			l := sqlc.RunLease{RunID: b.Run, LeaseID: b.Lease.ID, FencingToken: b.Lease.Token, WorkerID: g.worker, BootID: g.boot}
			if b.Stopping {
				l.StoppingAt = new(time.Time) // the database has the clock
			}
			leases = append(leases, l)
		}
	}
	if len(leases) == 0 {
		return known, nil, nil
	}
	slices.SortFunc(leases, func(a, b sqlc.RunLease) int { return bytes.Compare(a.LeaseID[:], b.LeaseID[:]) })
	extended, err := s.extendOnce(ctx, leases)
	if err == nil && len(extended) < len(leases) {
		// What ran out while nobody listened goes on, also where the worker speaks before any loop has looked.
		var over bool
		if over, err = s.outageOver(ctx, s.pool); over {
			extended, err = s.extendOnce(ctx, leases)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("extend leases: %w", err)
	}
	alive := make(map[uuid.UUID]sqlc.ExtendLeasesRow, len(extended))
	for _, e := range extended {
		alive[e.LeaseID] = e
		if e.State == string(run.Cancelling) {
			// Whoever looks at the run sees that its worker was told.
			s.ring(Change{Tenant: e.TenantID, Run: e.RunID})
		}
	}
	return known, alive, nil
}

func (s *Store) extendOnce(ctx context.Context, leases []sqlc.RunLease) (extended []sqlc.ExtendLeasesRow, err error) {
	err = s.again(func() error {
		raw, err := encode(leases)
		if err == nil {
			extended, err = s.q.ExtendLeases(ctx, s.pool, s.timing.LeaseTTL.Seconds(), s.timing.CancelGrace.Seconds(), raw)
		}
		return err
	})
	return extended, err
}

// again tries a statement, up to maxTries times in all while it ends in what may be over the next time, such as a deadlock.
func (s *Store) again(do func() error) (err error) {
	for range maxTries {
		if err = do(); !transient(err) {
			return err
		}
	}
	return err
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
