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
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
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

// Claimed is one lease that a claim gave.
type Claimed struct {
	Ref   Ref
	Lease run.Lease
	State run.State
	TTL   time.Duration
}

// Claim leases at most Max ready items to the worker: items, runs, policy as it
// is now, attempt, fencing token, lease and transition in one transaction. An
// item whose run has moved on is dropped and gives no work (R-Q-1, R-Q-2).
func (s *Store) Claim(ctx context.Context, in ClaimRequest) (out []Claimed, replayed bool, err error) {
	var w *write
	err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
		out, replayed, w = nil, false, nil
		row, err := s.q.LockBoot(ctx, tx, s.timing.LeaseTTL.Seconds(), in.Boot, in.Worker.ID)
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.Conflict, "No work was given: this boot is not known. Register again.").WithCode("unknown_boot").WithStop()
		}
		if err != nil {
			return fmt.Errorf("lock boot: %w", err)
		}
		if out, err = s.claimedBefore(ctx, tx, in); err != nil || len(out) > 0 {
			replayed = len(out) > 0
			return err
		}
		boot := row.WorkerBoot
		if boot.State == "STOPPED" || boot.State == "DEAD" {
			return fault.New(fault.Conflict, "No work was given: this boot is over. Register again.").WithCode("unknown_boot").WithStop()
		}
		// A process that was stopped keeps its connection and its question open. Work given to it would only be lost.
		if in.waiting && !row.Heard {
			return nil
		}
		if boot.DrainRequested || boot.State == "DRAINING" {
			return nil
		}
		held, err := s.q.LeasesOfBoot(ctx, tx, in.Boot)
		if err != nil {
			return fmt.Errorf("count leases: %w", err)
		}
		out, w, err = s.claim(ctx, tx, in, boot, min(in.Max, int(boot.MaxConcurrent)-int(held)))
		return err
	})
	if err != nil {
		return nil, false, err
	}
	if w != nil {
		s.ring(w.changes()...)
	}
	return out, replayed, nil
}

func (s *Store) claimedBefore(ctx context.Context, tx pgx.Tx, in ClaimRequest) ([]Claimed, error) {
	ls, err := s.q.LeasesOfClaim(ctx, tx, in.ClaimID, in.Worker.ID)
	if err != nil {
		return nil, fmt.Errorf("look up the claim: %w", err)
	}
	out := make([]Claimed, 0, len(ls))
	for _, x := range ls {
		l := x.RunLease
		out = append(out, Claimed{Ref: Ref{l.TenantID, l.RunID}, State: run.State(x.State), TTL: s.timing.LeaseTTL, Lease: run.Lease{ID: l.LeaseID,
			Token: l.FencingToken, Phase: run.Phase(l.Phase), Worker: l.WorkerID.String(), Boot: l.BootID.String()}})
	}
	return out, nil
}

// claim picks items until max are leased or none is left that this worker may
// take. What it may not take stays for another one.
func (s *Store) claim(ctx context.Context, tx pgx.Tx, in ClaimRequest, boot sqlc.WorkerBoot, most int) ([]Claimed, *write, error) {
	phases := make([]string, 0, len(in.Phases))
	for _, p := range in.Phases {
		if slices.Contains(in.Worker.Phases, p) {
			phases = append(phases, string(p))
		}
	}
	w := &write{}
	var out []Claimed
	var steps [][]step
	passed := []uuid.UUID{}
	// What this worker may not take is passed over in growing steps, so that a long row of it costs few looks; looking
	// no further than maxPassed bounds how many items one claim holds locked.
	for wide := 1; len(out) < most && len(passed) < maxPassed; wide *= 4 {
		items, err := s.q.PickItems(ctx, tx, phases, in.Worker.Tenant, passed, int32((most-len(out))*wide))
		if err != nil {
			return nil, nil, fmt.Errorf("pick items: %w", err)
		}
		if len(items) == 0 {
			break
		}
		for _, i := range items {
			passed = append(passed, i.RunID)
		}
		got, st, err := s.claimItems(ctx, tx, in, boot, items, most-len(out), w)
		if err != nil {
			return nil, nil, err
		}
		out, steps = append(out, got...), append(steps, st...)
	}
	if len(w.runs) == 0 {
		return nil, nil, nil
	}
	done, err := s.flush(ctx, tx, w)
	if err != nil {
		return nil, nil, fmt.Errorf("write claim: %w", err)
	}
	if len(done) != len(w.runs) {
		return nil, nil, fmt.Errorf("a claimed run moved under its own lock")
	}
	for _, st := range steps {
		if err := s.followTask(ctx, tx, st); err != nil {
			return nil, nil, err
		}
	}
	return out, w, nil
}

// maxPassed is how many items a claim looks at in all.
const maxPassed = 2000

// claimItems locks the runs of the items in id order and leases, oldest item
// first, those that reducer and policy allow, at most the given number.
func (s *Store) claimItems(ctx context.Context, tx pgx.Tx, in ClaimRequest, boot sqlc.WorkerBoot, items []sqlc.PickItemsRow, most int, w *write) ([]Claimed, [][]step, error) {
	ids := make([]uuid.UUID, 0, len(items))
	for _, i := range items {
		ids = append(ids, i.RunID)
	}
	rows, err := s.q.LockRuns(ctx, tx, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("lock runs: %w", err)
	}
	locked := make(map[uuid.UUID]sqlc.LockRunsRow, len(rows))
	for _, row := range rows {
		locked[row.Run.ID] = row
	}
	tokens, err := s.q.NextTokens(ctx, tx, int32(len(items)))
	if err != nil {
		return nil, nil, fmt.Errorf("take fencing tokens: %w", err)
	}
	var out []Claimed
	var all [][]step
	for n, item := range items {
		if len(out) == most {
			break
		}
		row, ok := locked[item.RunID]
		if !ok {
			return nil, nil, fmt.Errorf("the item of run %s has no run", item.RunID)
		}
		ev, ok, err := s.claimEvent(ctx, tx, in, boot, item, row, tokens[n])
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			continue
		}
		r, err := toRun(row.Run)
		if err != nil {
			return nil, nil, err
		}
		steps, err := reduceAll(r, ev)
		if err != nil {
			if err := s.staleItem(ctx, tx, r, item); err != nil {
				return nil, nil, err
			}
			continue
		}
		if err := w.add(row.Run, steps, s.timing.BackoffScale, &claimed{in.Worker.ID, in.Boot, item.UserID, in.ClaimID, ""}); err != nil {
			return nil, nil, err
		}
		all = append(all, steps)
		after := steps[len(steps)-1].res.Run
		if after.Lease != nil {
			out = append(out, Claimed{Ref{r.Tenant, r.ID}, *after.Lease, after.State, s.timing.LeaseTTL})
		}
	}
	return out, all, nil
}

// staleItem puts away an item whose run has moved on: the delivery does nothing.
// Where the run has waiting work of another phase, the row becomes its item.
func (s *Store) staleItem(ctx context.Context, tx pgx.Tx, r run.Run, item sqlc.PickItemsRow) error {
	if r.Queued != "" && string(r.Queued) != item.Phase {
		return wrap("set the item's phase right", s.q.SetItemPhase(ctx, tx, r.ID, string(r.Queued)))
	}
	return wrap("drop stale item", s.q.DropItem(ctx, tx, r.ID))
}

// claimEvent asks today's policy: a denied run ends here, one that this worker
// may not take stays in the queue.
func (s *Store) claimEvent(ctx context.Context, tx pgx.Tx, in ClaimRequest, boot sqlc.WorkerBoot, item sqlc.PickItemsRow, row sqlc.LockRunsRow, token int64) (run.Event, bool, error) {
	r, err := toRun(row.Run)
	if err != nil {
		return run.Event{}, false, err
	}
	rules, err := s.rulesOf(ctx, tx, r.Tenant)
	if err != nil {
		return run.Event{}, false, err
	}
	f := run.Facts{Rules: rules}
	if _, err := s.contractFacts(ctx, tx, r, &f); err != nil {
		return run.Event{}, false, err
	}
	p := f.Policy
	p.Phase, p.Isolation = item.Phase, policy.Isolation(boot.Isolation)
	if item.Phase == string(run.PhaseVerify) && r.Attempt != uuid.Nil {
		maker, err := s.q.ResultMaker(ctx, tx, r.ID)
		if err != nil {
			return run.Event{}, false, fmt.Errorf("load who made the result: %w", err)
		}
		p.SameWorker = maker == in.Worker.ID
	}
	now := micro(row.Now)
	if d := policy.Admission(rules, p); d.Verdict == policy.Deny {
		return run.Event{ID: fmt.Sprintf("denied-%d", token), At: now, By: run.Actor{Kind: run.Policy, ID: d.PolicyVersion},
			Payload: run.PolicyDeniedEvent{PolicyVersion: d.PolicyVersion, Code: run.CodePolicyDenied, Reasons: d.Reasons}}, true, nil
	}
	if !policy.Claim(rules, p).Allowed {
		return run.Event{}, false, nil
	}
	lease := run.Lease{ID: typeid.New(), Token: token, Phase: run.Phase(item.Phase), Worker: in.Worker.ID.String(), Boot: in.Boot.String()}
	return run.Event{ID: fmt.Sprintf("claim-%s-%d", in.ClaimID, token), At: now, By: run.Actor{Kind: run.Worker, ID: in.Worker.ID.String(), Name: boot.Name},
		Payload: run.LeaseAcquiredEvent{Lease: lease, Attempt: typeid.New(), TTL: s.timing.LeaseTTL}}, true, nil
}

// ClaimWait is Claim that waits for work: it looks at once, whenever an item of
// its phases gets ready in this process, and once a second for what other
// replicas did. The bell is a hint; the look is the truth.
func (s *Store) ClaimWait(ctx context.Context, in ClaimRequest, wait time.Duration) ([]Claimed, bool, error) {
	bell := make(chan struct{}, 1)
	stop := s.Watch(func(c Change) {
		if c.Ready == "" {
			return
		}
		select {
		case bell <- struct{}{}:
		default:
		}
	})
	defer stop()
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	poll := time.NewTicker(time.Second)
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
		select {
		case <-bell:
		case <-poll.C:
		case <-deadline.C:
			return nil, false, nil
		case <-ctx.Done():
			return nil, false, nil
		}
	}
}
