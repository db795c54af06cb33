package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// AskAgain reopens an expired gate as a new revision. newBase is the commit that
// the base moved to, or empty.
func (s *Store) AskAgain(ctx context.Context, in Request, by Decider, gate uuid.UUID, newBase string) (Ack, error) {
	return s.moveGate(ctx, in, by, gate, "ask_again", func(h held, rules policy.Rules) run.Payload {
		return run.ApprovalReopenedEvent{Gate: gate, NewBase: newBase, ExpiresAt: h.now.Add(rules.Limits.ApprovalTimeout.Std())}
	})
}

// Withdraw takes back an approval whose work nobody has begun. The approvals so
// far no longer count.
func (s *Store) Withdraw(ctx context.Context, in Request, by Decider, gate uuid.UUID, reason string) (Ack, error) {
	return s.moveGate(ctx, in, by, gate, withdrawn, func(h held, rules policy.Rules) run.Payload {
		return run.ApprovalWithdrawnEvent{Gate: gate, Reason: reason, ExpiresAt: h.now.Add(rules.Limits.ApprovalTimeout.Std())}
	})
}

// withdrawn is the verdict that voids the approvals before it.
const withdrawn = "withdraw"

func (s *Store) moveGate(ctx context.Context, in Request, by Decider, gate uuid.UUID, what string, event func(held, policy.Rules) run.Payload) (Ack, error) {
	scope := "gate-move:" + gate.String() + ":" + by.User.String()
	for range maxTries {
		var ack Ack
		var w *write
		err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
			w = nil
			again, err := s.storedAnswer(ctx, tx, in.Tenant, scope, in.Key, in.Hash, &ack)
			if err != nil || again {
				ack.Replayed = again
				return err
			}
			if ack, w, err = s.moveGateTx(ctx, tx, in, by, gate, what, event); err != nil {
				return err
			}
			if err := s.storeAnswer(ctx, tx, in.Tenant, scope, in.Key, in.Hash, ack); err != nil {
				return err
			}
			a := Audit{}
			if in.Audit != nil {
				a = *in.Audit
			}
			a.Tenant, a.By, a.Action, a.Result = in.Tenant, by.actor(), "gate."+what, "recorded"
			a.ObjectType, a.ObjectID = "gate", typeid.Format(typeid.Gate, gate)
			return s.audit(ctx, tx, &a)
		})
		if keyTaken(err) {
			continue
		}
		if err != nil && !ack.Replayed {
			if ok, lookErr := s.storedAnswer(ctx, s.pool, in.Tenant, scope, in.Key, in.Hash, &ack); ok && lookErr == nil {
				ack.Replayed = true
				return ack, nil
			}
		}
		if err == nil && w != nil {
			s.ring(w.changes()...)
		}
		return ack, translate(err, "gate")
	}
	return Ack{}, fault.New(fault.Conflict, "Nothing was changed: the same request is being carried out right now. Repeat it in a moment.")
}

func (s *Store) moveGateTx(ctx context.Context, tx pgx.Tx, in Request, by Decider, gate uuid.UUID, what string,
	event func(held, policy.Rules) run.Payload) (Ack, *write, error) {
	h, err := s.lockGate(ctx, tx, in.Tenant, gate)
	if err != nil {
		return Ack{}, nil, err
	}
	rules, err := s.rulesOf(ctx, tx, in.Tenant)
	if err != nil {
		return Ack{}, nil, err
	}
	if !by.Live {
		return Ack{}, nil, fault.New(fault.Forbidden, "Nothing was changed: only a person with a live login does this, never an API or worker token.")
	}
	if what == withdrawn {
		if err := s.mayWithdraw(ctx, tx, h); err != nil {
			return Ack{}, nil, err
		}
	}
	steps, err := reduceAll(h.run, run.Event{ID: what + "/" + gate.String() + "/" + by.User.String() + "/" + in.Key, By: by.actor(), At: h.now, Payload: event(h, rules)})
	if err != nil {
		return Ack{}, nil, refused(err, h.run)
	}
	if what == withdrawn {
		v := Verdict{Tenant: in.Tenant, Gate: gate, Revision: int(h.gate.Revision), Digest: h.gate.Digest, Verdict: withdrawn, By: by}
		if err := s.storeVerdict(ctx, tx, v, h, rules.Version, false); err != nil {
			return Ack{}, nil, err
		}
		if err := s.q.DropGateNotes(ctx, tx, in.Tenant, h.run.ID, &gate); err != nil {
			return Ack{}, nil, fmt.Errorf("take back the notes: %w", err)
		}
	}
	w := &write{}
	if err := w.add(h.row, steps, s.timing, nil); err != nil {
		return Ack{}, nil, err
	}
	if err := s.writeLocked(ctx, tx, Ref{in.Tenant, h.run.ID}, w, steps, nil); err != nil {
		return Ack{}, nil, err
	}
	after := steps[len(steps)-1].res.Run
	return Ack{Run: after.ID, State: after.State, Version: after.Version}, w, nil
}

// mayWithdraw refuses to take back what is not there any more, or what somebody works on already (A31).
func (s *Store) mayWithdraw(ctx context.Context, tx pgx.Tx, h held) error {
	none := fault.New(fault.Conflict, "Nothing was withdrawn: no approval stands at this gate.").WithCode("gate_closed").WithState(string(h.run.State))
	switch {
	case h.gate.State != string(run.GateSatisfied) || h.gate.ClosedAt == nil:
		return none
	case h.run.Dispatched != nil && h.run.Dispatched.ID == h.gate.ID && h.run.Lease == nil:
		return nil
	}
	at, err := s.q.FirstClaimAfter(ctx, tx, h.run.Tenant, h.run.ID, *h.gate.ClosedAt)
	switch {
	case err == nil:
		who := "a worker"
		if h.gate.Kind == string(run.GatePlan) {
			who = "the agent"
		}
		return fault.Newf(fault.Conflict, "Nothing was withdrawn: %s already started at %s.", who, at.UTC().Format("15:04:05 UTC")).
			WithCode("already_started").WithState(string(h.run.State))
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("look for the start of the work: %w", err)
	case h.run.State.Terminal():
		return fault.Newf(fault.Conflict, "Nothing was withdrawn: the run is already %s.", h.run.State).WithCode("run_ended").WithState(string(h.run.State))
	}
	return none
}
