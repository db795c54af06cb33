package drive

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// Verdict is a person's verdict on the run's open gate exactly as it stands, under a fresh key.
func (w *World) Verdict(ctx context.Context, ref db.Ref, by Person, v policy.GateVerdict, text string) (db.Verdict, error) {
	info, err := w.Store.RunInfo(ctx, ref.Tenant, ref.Run)
	if err != nil {
		return db.Verdict{}, err
	}
	if info.Gate == nil {
		return db.Verdict{}, fmt.Errorf("run %s is %s and has no gate", ref.Run, info.State)
	}
	key := w.Key("decision")
	return db.Verdict{Tenant: ref.Tenant, Gate: info.Gate.ID, Revision: info.Gate.Revision, Digest: info.Gate.Digest, Verdict: v, Text: text,
		Key: key, Hash: Hash(key), By: by.Decider(), Audit: &db.Audit{Channel: "page"}}, nil
}

// Decide records a person's verdict on the run's open gate.
func (w *World) Decide(ctx context.Context, ref db.Ref, by Person, v policy.GateVerdict, text string) (db.VerdictAck, error) {
	d, err := w.Verdict(ctx, ref, by, v, text)
	if err != nil {
		return db.VerdictAck{}, err
	}
	return w.Store.Decide(ctx, d)
}

// Approve is Decide by the first approver.
func (w *World) Approve(ctx context.Context, ref db.Ref) error {
	_, err := w.Decide(ctx, ref, w.Approvers[0], policy.Approve, "")
	return err
}

// Request is a request of the person under a fresh key.
func (w *World) Request(by Person, what string) db.Request {
	key := w.Key(what)
	return db.Request{Tenant: w.Tenant, By: by.Actor(), Roles: by.Roles, Key: key, Hash: Hash(key)}
}

// AskAgain reopens an expired gate; newBase may be empty.
func (w *World) AskAgain(ctx context.Context, gate uuid.UUID, by Person, newBase string) (db.Ack, error) {
	return w.Store.AskAgain(ctx, w.Request(by, "ask"), by.Decider(), gate, newBase)
}

// Withdraw takes an approval back.
func (w *World) Withdraw(ctx context.Context, gate uuid.UUID, by Person) (db.Ack, error) {
	return w.Store.Withdraw(ctx, w.Request(by, "withdraw"), by.Decider(), gate, "Not yet.")
}

// Cancel asks for a stop of one run, as the requester.
func (w *World) Cancel(ctx context.Context, ref db.Ref) (db.Ack, error) {
	key := w.Key("cancel")
	return w.Store.Apply(ctx, ref, db.Intent{Key: key, Hash: Hash(key), By: w.Requester.Actor(), Payload: run.CancelRequestedEvent{Reason: "Not needed any more."},
		Audit: &db.Audit{Tenant: w.Tenant, By: w.Requester.Actor(), Channel: "page", Action: "run.cancel", ObjectType: "run", ObjectID: ref.Run.String(), Result: "recorded"}})
}

// Post applies an event that the server itself decides.
func (w *World) Post(ctx context.Context, ref db.Ref, by run.ActorKind, p run.Payload) (db.Ack, error) {
	return w.Store.Apply(ctx, ref, db.Intent{Key: w.Key(string(p.Kind())), By: run.Actor{Kind: by, ID: "drive"}, Payload: p})
}
