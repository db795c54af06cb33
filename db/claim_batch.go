package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/coalesce"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/schedule"
	"signalbox/internal/typeid"
)

// claimBatch is several claims in one transaction: who asks, what room each has, and what was given.
type claimBatch struct {
	s        *Store
	tx       pgx.Tx
	requests []ClaimRequest
	boots    map[uuid.UUID]sqlc.LockBootsRow
	answers  []coalesce.Result[given]
	offers   []schedule.Offer // of the request with the same index
	// waiting are lanes in which something waits: all of them, or one more than are looked at.
	waiting []sqlc.LanesRow
	// without are runs that are not given out now.
	without map[uuid.UUID]error
	state   schedule.State
	write   write
	steps   [][]step
}

// claimAll carries out claims together. Where that fails as a whole, each is carried out for itself.
func (s *Store) claimAll(ctx context.Context, requests []ClaimRequest) []coalesce.Result[given] {
	if len(requests) > 1 {
		if b, err := s.claimTogether(ctx, requests, nil); err == nil {
			return b.answers
		}
	}
	out := make([]coalesce.Result[given], len(requests))
	for i, r := range requests {
		out[i] = s.claimAlone(ctx, r)
	}
	return out
}

// claimTogether gives what it may in one transaction, and none of the runs that are left out. The batch comes back with an
// error, too: it says what was to be written.
func (s *Store) claimTogether(ctx context.Context, requests []ClaimRequest, without map[uuid.UUID]error) (*claimBatch, error) {
	var b *claimBatch
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		b = &claimBatch{s: s, tx: tx, requests: requests, without: without, answers: make([]coalesce.Result[given], len(requests)), offers: make([]schedule.Offer, len(requests))}
		if err := b.ask(ctx); err != nil {
			return err
		}
		return b.give(ctx)
	})
	if err == nil {
		s.ring(b.write.changes()...)
	}
	return b, err
}

// ask settles what needs no decision: boots that are over, claims that were answered before, and how much room each has.
func (b *claimBatch) ask(ctx context.Context) error {
	boots, claims := make([]uuid.UUID, len(b.requests)), make([]string, len(b.requests))
	for i, r := range b.requests {
		boots[i], claims[i] = r.Boot, r.ClaimID
	}
	var rows []sqlc.LockBootsRow
	var held []sqlc.LeasesOfBootsRow
	err := together(ctx, b.tx,
		func(h sqlc.DBTX) (err error) {
			rows, err = b.s.q.LockBoots(ctx, h, b.s.timing.LeaseTTL.Seconds(), boots)
			return wrap("lock boots", err)
		},
		func(h sqlc.DBTX) (err error) {
			held, err = b.s.q.LeasesOfBoots(ctx, h, claims, boots)
			return wrap("load what the boots hold", err)
		},
		func(h sqlc.DBTX) (err error) {
			b.waiting, err = b.s.q.Lanes(ctx, h, DefaultTenant, mostLanes+1)
			return wrap("look who waits", err)
		})
	if err != nil {
		return err
	}
	b.boots = make(map[uuid.UUID]sqlc.LockBootsRow, len(rows))
	for _, r := range rows {
		b.boots[r.WorkerBoot.ID] = r
	}
	room := map[uuid.UUID]int{}
	for id, r := range b.boots {
		room[id] = int(r.WorkerBoot.MaxConcurrent)
	}
	var given []sqlc.RunLease
	for _, h := range held {
		room[h.BootID] -= int(h.Held)
		var some []sqlc.RunLease
		if err := decode(h.Given, &some, "given"); err != nil {
			return err
		}
		given = append(given, some...)
	}
	for i, r := range b.requests {
		b.settle(i, r, given, room)
	}
	return b.states(ctx)
}

// states completes the answers that were given before by what became of their runs since.
func (b *claimBatch) states(ctx context.Context) error {
	var ids []uuid.UUID
	for _, a := range b.answers {
		for _, l := range a.Out.leases {
			ids = append(ids, l.Ref.Run)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := b.s.q.StatesOfRuns(ctx, b.tx, ids)
	if err != nil {
		return fmt.Errorf("load the states of claimed runs: %w", err)
	}
	state := make(map[uuid.UUID]run.State, len(rows))
	for _, r := range rows {
		state[r.ID] = run.State(r.State)
	}
	for _, a := range b.answers {
		for n, l := range a.Out.leases {
			a.Out.leases[n].State = state[l.Ref.Run]
		}
	}
	return nil
}

func (b *claimBatch) settle(i int, r ClaimRequest, given []sqlc.RunLease, room map[uuid.UUID]int) {
	row, ok := b.boots[r.Boot]
	boot := row.WorkerBoot
	if !ok || boot.WorkerID != r.Worker.ID {
		b.answers[i].Err = fault.New(fault.Conflict, "No work was given: this boot is not known. Register again.").WithCode("unknown_boot").WithStop()
		return
	}
	for _, l := range given {
		if l.ClaimID == r.ClaimID && l.BootID == r.Boot {
			b.answers[i].Out.leases = append(b.answers[i].Out.leases, Claimed{Ref: Ref{l.TenantID, l.RunID}, TTL: b.s.timing.LeaseTTL,
				Lease: run.Lease{ID: l.LeaseID, Token: l.FencingToken, Phase: run.Phase(l.Phase), Worker: l.WorkerID.String(), Boot: l.BootID.String()}})
		}
	}
	switch {
	case len(b.answers[i].Out.leases) > 0:
		b.answers[i].Out.replayed = true
	case boot.State == "STOPPED" || boot.State == "DEAD":
		b.answers[i].Err = fault.New(fault.Conflict, "No work was given: this boot is over. Register again.").WithCode("unknown_boot").WithStop()
	case r.waiting && !row.Heard:
		// A process that was stopped keeps its connection and its question open. Work given to it would only be lost.
	case boot.DrainRequested || boot.State == "DRAINING":
	default:
		free := max(min(r.Max, room[r.Boot]), 0)
		room[r.Boot] -= free // two questions of one boot share its room
		b.offers[i] = schedule.Offer{Worker: r.Worker.ID, Tenant: value(r.Worker.Tenant), Queues: boot.Queues, Pools: boot.Pools,
			Capabilities: boot.Capabilities, Isolation: policy.Isolation(boot.Isolation), Free: free}
		for _, p := range r.Phases {
			if slices.Contains(r.Worker.Phases, p) {
				b.offers[i].Phases = append(b.offers[i].Phases, string(p))
			}
		}
	}
}

// grant turns what was decided into leases: runs are locked with their items, in the order of their ids; each run is asked once
// more. An item that gives nothing is passed over from then on. A claim that goes on locks again, and then not in the order of all
// ids: nobody can wait for it in a circle, because it passes over what is locked and waits for no run and no item.
func (b *claimBatch) grant(ctx context.Context, grants []schedule.Grant, passed map[uuid.UUID]bool) error {
	ids := make([]uuid.UUID, len(grants))
	for i, g := range grants {
		ids[i] = g.Item.Run
		passed[g.Item.Run] = true
	}
	rows, err := b.s.q.LockItemsOfRuns(ctx, b.tx, ids)
	if err != nil {
		return fmt.Errorf("lock items and runs: %w", err)
	}
	for _, g := range grants {
		n := slices.IndexFunc(rows, func(r sqlc.LockItemsOfRunsRow) bool { return r.Run.ID == g.Item.Run })
		if n < 0 {
			continue // somebody took the item away meanwhile
		}
		if err := b.lease(ctx, g, rows[n]); err != nil {
			return err
		}
	}
	return nil
}

func (b *claimBatch) lease(ctx context.Context, g schedule.Grant, row sqlc.LockItemsOfRunsRow) error {
	r, err := toRun(row.Run)
	if err != nil {
		return b.s.poisoned(ctx, b.tx, g.Item.Run, err)
	}
	request := b.requests[g.Offer]
	ev, err := b.event(g, r, row)
	if err != nil {
		return b.s.poisoned(ctx, b.tx, g.Item.Run, err)
	}
	steps, err := reduceAll(r, ev)
	if err != nil {
		return b.s.staleItem(ctx, b.tx, r, g.Item.Phase)
	}
	c := &claimed{worker: request.Worker.ID, boot: request.Boot, user: g.Item.User, claimID: request.ClaimID, route: g.Item.Route, probe: b.probes(g.Item)}
	if err := b.write.add(row.Run, steps, b.s.timing, c); err != nil {
		return err
	}
	b.steps = append(b.steps, steps)
	if after := steps[len(steps)-1].res.Run; after.Lease != nil {
		a := &b.answers[g.Offer].Out
		a.leases = append(a.leases, Claimed{Ref{r.Tenant, r.ID}, *after.Lease, after.State, b.s.timing.LeaseTTL})
		b.offers[g.Offer].Free--
		if p, ok := b.state.Parked[g.Item.Provider]; ok && c.probe {
			p.Probe = r.ID
			b.state.Parked[g.Item.Provider] = p
		}
		b.state.Held = append(b.state.Held, schedule.Held{Phase: g.Item.Phase, Tenant: g.Item.Tenant, User: g.Item.User, Repository: g.Item.Repository, Risk: g.Item.Risk,
			Provider: g.Item.Provider, Pool: g.Item.Pool, Count: 1, Newest: b.state.Now})
	}
	return nil
}

// event asks today's policy: a run that is denied ends here, any other gets its lease.
func (b *claimBatch) event(g schedule.Grant, r run.Run, row sqlc.LockItemsOfRunsRow) (run.Event, error) {
	request, token := b.requests[g.Offer], row.Token
	f := run.Facts{Rules: b.state.Tenants[r.Tenant].Rules}
	if _, err := contractOf(sqlc.RunContractsRow{RunID: r.ID, Contract: row.Contract, RequestedBy: row.RequestedBy, AgentProfile: row.AgentProfile, Priority: row.Priority,
		Repository: row.Repository, Scope: row.Scope, Forbidden: row.Forbidden, Requires: row.Requires, Roles: row.Roles}, r, &f); err != nil {
		return run.Event{}, err
	}
	p := f.Policy
	p.Phase = g.Item.Phase
	now := micro(row.Now)
	if d := policy.Admission(f.Rules, p); d.Verdict == policy.Deny {
		return run.Event{ID: fmt.Sprintf("denied-%d", token), At: now, By: run.Actor{Kind: run.Policy, ID: d.PolicyVersion},
			Payload: run.PolicyDeniedEvent{PolicyVersion: d.PolicyVersion, Code: run.CodePolicyDenied, Reasons: d.Reasons}}, nil
	}
	boot := b.boots[request.Boot].WorkerBoot
	lease := run.Lease{ID: typeid.New(), Token: token, Phase: run.Phase(g.Item.Phase), Worker: request.Worker.ID.String(), Boot: request.Boot.String()}
	return run.Event{ID: fmt.Sprintf("claim-%s-%d", request.ClaimID, token), At: now, By: run.Actor{Kind: run.Worker, ID: request.Worker.ID.String(), Name: boot.Name},
		Payload: run.LeaseAcquiredEvent{Lease: lease, Attempt: typeid.New(), TTL: b.s.timing.LeaseTTL}}, nil
}

func (b *claimBatch) flush(ctx context.Context) error {
	if len(b.write.runs) == 0 {
		return nil
	}
	done, err := b.s.flush(ctx, b.tx, &b.write)
	if err != nil {
		return fmt.Errorf("write claims: %w", err)
	}
	if len(done) != len(b.write.runs) {
		return fmt.Errorf("a claimed run moved under its own lock")
	}
	for _, st := range b.steps {
		if err := b.s.followTask(ctx, b.tx, st); err != nil {
			return err
		}
	}
	return nil
}

// staleItem puts away an item whose run has moved on: the delivery does nothing.
// Where the run has waiting work of another phase, the row becomes its item.
func (s *Store) staleItem(ctx context.Context, tx pgx.Tx, r run.Run, phase string) error {
	if r.Queued != "" && string(r.Queued) != phase {
		return wrap("set the item's phase right", s.q.SetItemPhase(ctx, tx, r.ID, string(r.Queued)))
	}
	return wrap("drop stale item", s.q.DropItem(ctx, tx, r.ID))
}
