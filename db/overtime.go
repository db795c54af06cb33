package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/fault"
	"signalbox/internal/policy"
)

// Overtime is something that took time, beside the time it may take.
type Overtime struct {
	Ref Ref
	// Version is the run's, and Lease the one that holds it; each is set where it has to be the same still at the end.
	Version int64
	Lease   uuid.UUID
	// Key tells things of a list apart: the run, or the step.
	Key   uuid.UUID
	Took  time.Duration
	Limit time.Duration
	// Fails is what the run's limits say of its time-out.
	Fails bool
	// Broken is set where the limits cannot be read; the others can.
	Broken error
}

// SandboxOvertime lists runs under a lease with the time of sandboxes or, where that is nearer its end, of verifiers.
func (s *Store) SandboxOvertime(ctx context.Context, after uuid.UUID, limit int) ([]Overtime, error) {
	rows, err := s.q.LeaseTimes(ctx, s.pool, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list the time of leases: %w", err)
	}
	out := make([]Overtime, 0, len(rows))
	for _, r := range rows {
		l, err := knownLimits.parse(r.Limits)
		o := Overtime{Ref: Ref{r.TenantID, r.RunID}, Lease: r.LeaseID, Key: r.RunID, Broken: err}
		o.Took, o.Limit = seconds(r.SandboxSeconds), l.SandboxTime.Std()
		if v := seconds(r.VerifierSeconds); l.VerifierTime > 0 && (o.Limit == 0 || l.VerifierTime.Std()-v < o.Limit-o.Took) {
			o.Took, o.Limit = v, l.VerifierTime.Std()
		}
		out = append(out, o)
	}
	return out, nil
}

// RunningSteps lists steps that run, with the time that a step may take.
func (s *Store) RunningSteps(ctx context.Context, after uuid.UUID, limit int) ([]Overtime, error) {
	rows, err := s.q.RunningSteps(ctx, s.pool, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list running steps: %w", err)
	}
	out := make([]Overtime, 0, len(rows))
	for _, r := range rows {
		l, err := knownLimits.parse(r.Limits)
		out = append(out, Overtime{Ref: Ref{r.TenantID, r.RunID}, Key: r.ID, Took: r.Now.Sub(r.StartedAt), Limit: l.StepTimeout.Std(), Broken: err})
	}
	return out, nil
}

// TimeOutStep ends a step that took too long; what the worker says of it later changes nothing. One that has ended
// meanwhile, or was ended by another replica, is a Conflict.
func (s *Store) TimeOutStep(ctx context.Context, o Overtime) error {
	words := fmt.Sprintf("The step took longer than %s.", policy.Duration(o.Limit))
	n, err := s.q.TimeOutStep(ctx, s.pool, words, o.Ref.Tenant, o.Key)
	if err != nil {
		return fmt.Errorf("time out a step: %w", err)
	}
	if n == 0 {
		return fault.New(fault.Conflict, "Nothing was changed: the step has ended.").WithCode("not_running")
	}
	s.ring(Change{Tenant: o.Ref.Tenant, Run: o.Ref.Run})
	return nil
}

// WaitingRuns lists runs whose work waits for a worker or for its time, with how long they have been active.
func (s *Store) WaitingRuns(ctx context.Context, after uuid.UUID, limit int) ([]Overtime, error) {
	rows, err := s.q.WaitingRuns(ctx, s.pool, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list waiting runs: %w", err)
	}
	out := make([]Overtime, 0, len(rows))
	for _, r := range rows {
		l, err := knownLimits.parse(r.Limits)
		out = append(out, Overtime{Ref: Ref{r.TenantID, r.ID}, Version: r.Version, Key: r.ID, Took: time.Duration(r.ActiveMs)*time.Millisecond + r.Now.Sub(r.StateSince),
			Limit: l.RunTimeout.Std(), Fails: l.RunTimeoutFails, Broken: err})
	}
	return out, nil
}
