package db

import (
	"context"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// WorkerID is a worker as its credential makes it.
type WorkerID struct {
	ID     uuid.UUID
	Name   string
	Tenant *uuid.UUID // nil serves every tenant
	Phases []run.Phase
}

// ClaimRequest asks for work. The claim id makes a repeated request harmless.
type ClaimRequest struct {
	ClaimID string
	Worker  WorkerID
	Boot    uuid.UUID
	Phases  []run.Phase
	Max     int
	// waiting is set for every look but the first: the request itself is no longer a sign of life.
	waiting bool
}

// given is the answer to one claim.
type given struct {
	leases   []Claimed
	replayed bool
}

// Claimed is one lease that a claim gave.
type Claimed struct {
	Ref   Ref
	Lease run.Lease
	State run.State
	TTL   time.Duration
}

// Claim leases at most Max ready items to the worker: items, runs, policy as it is
// now, attempt, fencing token, lease and transition in one transaction, together
// with the claims of others that ask at the same time. An item whose run has moved
// on is dropped and gives no work (R-Q-1, R-Q-2).
func (s *Store) Claim(ctx context.Context, in ClaimRequest) (out []Claimed, replayed bool, err error) {
	g, err := s.commits.claims.Do(ctx, in)
	if err != nil {
		return nil, false, busy(err)
	}
	return g.leases, g.replayed, nil
}

// ClaimWait is Claim that waits for work: it looks at once, when an item gets ready
// in this process and it is this waiter's turn, and about once a second for what
// other replicas did. The bell is a hint; the look is the truth.
func (s *Store) ClaimWait(ctx context.Context, in ClaimRequest, wait time.Duration) ([]Claimed, bool, error) {
	got, again, err := s.claimWait(ctx, in, wait)
	if err == nil && !again {
		s.seen.claimed(len(got))
	}
	return got, again, err
}

func (s *Store) claimWait(ctx context.Context, in ClaimRequest, wait time.Duration) ([]Claimed, bool, error) {
	w := s.waiters.join(in.Phases)
	defer s.waiters.leave(w)
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	poll := time.NewTicker(time.Second + time.Duration(s.draw()*float64(500*time.Millisecond)))
	defer poll.Stop()
	for {
		got, again, err := s.Claim(ctx, in)
		if err != nil && ctx.Err() != nil {
			// It is not known whether something was given: the same claim id finds it.
			return nil, false, fault.Wrap(fault.Unavailable, err, "The question was broken off. Ask again with the same claim id.")
		}
		if err != nil || len(got) > 0 {
			return got, again, err
		}
		in.waiting = true
		// What this worker may not take may suit the next one.
		s.waiters.pass(w)
		select {
		case <-w.bell:
		case <-poll.C:
		case <-deadline.C:
			return nil, false, nil
		case <-ctx.Done():
			return nil, false, nil
		}
	}
}
