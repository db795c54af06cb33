package db

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// Ref names a run within its tenant. The tenant comes from the principal.
type Ref struct {
	Tenant, Run uuid.UUID
}

// Intent is what somebody asks of a run: a lease holder's Command, which Decide
// turns into an event, or a Payload that control plane, scheduler or a person's
// decision has settled already. Exactly one of the two is set.
type Intent struct {
	// Key makes a repeat harmless: the same key with the same Hash gets the first
	// answer. It also names the event.
	Key string
	// Hash is the SHA-256 of the request; nil for the server's own intents.
	Hash []byte
	By   run.Actor
	// Lease and Worker prove the holder, for commands. Worker is the credential.
	Lease  *run.LeaseRef
	Worker uuid.UUID

	// Seen is the run's version that the sender decided on; a run that has moved since then is left as it is, which is a
	// Conflict. 0 means that it does not matter.
	Seen int64

	Command run.Command
	Payload run.Payload
	// Audit is written in the same transaction, for the actions of people.
	Audit *Audit
	// repair records, in the same transaction, what the event puts right.
	repair *repair
}

// Ack is the answer to an intent, stored with its key.
type Ack struct {
	Run     uuid.UUID `json:"run"`
	State   run.State `json:"state"`
	Version int64     `json:"version"`
	// Leased says whether the sender's lease goes on.
	Leased bool `json:"leased"`
	// Cancelling says that a stop was asked for.
	Cancelling bool `json:"cancelling"`
	// Replayed says that this is a stored answer.
	Replayed bool `json:"-"`
}

const maxTries = 3

// Apply is the one door: it loads the run, decides, reduces, and writes state,
// event, queue, lease, gate, attempt, outbox and key as one transaction that is
// guarded by the run's version, together with whoever writes at the same time;
// what it means for the task is part of it. A losing racer decides again on the
// new truth; so does one whose task moved meanwhile. A change that is audited is made
// under the run's and the task's row locks, and so is the last try of every other one:
// however many move the run at that moment, a worker's last word is heard. A repeat
// gets the first answer: the statement refuses a key that was used, so only a refusal
// is worth looking the key up.
func (s *Store) Apply(ctx context.Context, ref Ref, in Intent) (Ack, error) {
	taken := false
	for try := range maxTries {
		ack, err := Ack{}, errNeedsLocks
		if try < maxTries-1 {
			ack, err = s.applyOptimistic(ctx, ref, in, try > 0)
		}
		if errors.Is(err, errNeedsLocks) {
			ack, err = s.applyLocked(ctx, ref, in)
		}
		switch {
		case keyTaken(err):
			taken = true
			continue
		case errors.Is(err, errMoved), transient(err) && try < maxTries-1:
			continue
		case try == 0 && staleLease(err):
			// A lease that ran out while nobody listened goes on. Every other one is refused as it was.
			over, oerr := s.outageOver(ctx, s.pool)
			if over && oerr == nil {
				continue
			}
			if oerr != nil {
				err = oerr // nobody knows that the lease is gone
			}
		}
		return s.orReplayed(ctx, ref, in, ack, err)
	}
	if taken && in.Hash == nil {
		// The server said it before: the event is in the log already.
		return Ack{}, fault.New(fault.Conflict, "Nothing was changed: this was recorded before.").WithCode("recorded_before")
	}
	return Ack{}, fault.New(fault.Unavailable, "Nothing was changed: the run moved on several times meanwhile. Send the same request again.").WithCode("contended")
}

// orReplayed answers a refusal by the stored answer where the same request was
// carried out before. A key that was used with other content says so.
func (s *Store) orReplayed(ctx context.Context, ref Ref, in Intent, ack Ack, err error) (Ack, error) {
	if err == nil {
		return ack, nil
	}
	again, ok, lookErr := s.replayed(ctx, s.pool, ref, in)
	switch {
	case ok && lookErr == nil:
		return again, nil
	case fault.KindOf(lookErr) == fault.Invalid:
		return ack, lookErr
	}
	return ack, translate(err, "run")
}

var (
	errNeedsLocks = errors.New("the change needs row locks")
	errMoved      = errors.New("the run moved on")
)

// keyTaken reports that a concurrent request with the same key won.
func keyTaken(err error) bool {
	c := constraint(err)
	return c == "idempotency_keys_pk" || c == "run_events_run_event_id_key"
}

func staleLease(err error) bool {
	_, ok := errors.AsType[*run.StaleLeaseError](err)
	return ok
}

func (s *Store) applyOptimistic(ctx context.Context, ref Ref, in Intent, look bool) (Ack, error) {
	if look {
		if ack, ok, err := s.replayed(ctx, s.pool, ref, in); ok || err != nil {
			return ack, err
		}
	}
	row, err := s.loadRun(ctx, ref)
	if err != nil {
		return Ack{}, err
	}
	steps, ack, err := s.decide(ctx, s.pool, row.Run, row.LeaseLive, row.Now, in)
	if err != nil {
		return Ack{}, err
	}
	if in.Audit != nil || in.repair != nil {
		return Ack{}, errNeedsLocks
	}
	w, err := s.writeOf(ref, row.Run, steps, ack, in)
	if err != nil {
		return Ack{}, err
	}
	if err := s.taskOf(ctx, w, steps); err != nil {
		return Ack{}, err
	}
	done, err := s.commit(ctx, w)
	if taskMoved(err) {
		return Ack{}, errMoved
	}
	if err != nil {
		return Ack{}, fmt.Errorf("write transition: %w", err)
	}
	if !done {
		return Ack{}, errMoved
	}
	s.ring(w.changes()...)
	return ack, nil
}

func (s *Store) applyLocked(ctx context.Context, ref Ref, in Intent) (ack Ack, err error) {
	var w *write
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		var again bool
		if ack, again, err = s.replayed(ctx, tx, ref, in); again || err != nil {
			return err
		}
		row, err := s.q.LockRun(ctx, tx, ref.Tenant, ref.Run)
		if err != nil {
			return err
		}
		var steps []step
		if steps, ack, err = s.decide(ctx, tx, row.Run, row.LeaseLive, row.Now, in); err != nil {
			return err
		}
		if w, err = s.writeOf(ref, row.Run, steps, ack, in); err != nil {
			return err
		}
		if err := s.writeLocked(ctx, tx, ref, w, steps, in.Audit); err != nil || in.repair == nil {
			return err
		}
		return s.recordRepair(ctx, tx, in.repair.Finding, in.repair.words(ack))
	})
	if err != nil {
		return Ack{}, err
	}
	if w != nil {
		s.ring(w.changes()...)
	}
	return ack, nil
}

// writeLocked writes under the run's row lock: the transition, then the task,
// then the audit, in lock order.
func (s *Store) writeLocked(ctx context.Context, tx pgx.Tx, ref Ref, w *write, steps []step, audit *Audit) error {
	done, err := s.flush(ctx, tx, w)
	if err != nil {
		return fmt.Errorf("write transition: %w", err)
	}
	if !done[ref.Run] {
		return fmt.Errorf("run %s moved under its own lock", ref.Run)
	}
	if err := s.followTask(ctx, tx, steps); err != nil {
		return err
	}
	return s.audit(ctx, tx, audit)
}

func (s *Store) writeOf(ref Ref, row sqlc.Run, steps []step, ack Ack, in Intent) (*write, error) {
	w := &write{}
	if err := w.add(row, steps, s.timing, nil); err != nil {
		return nil, err
	}
	if in.Hash != nil {
		answer, err := json.Marshal(ack)
		if err != nil {
			return nil, fmt.Errorf("encode answer: %w", err)
		}
		w.keys = append(w.keys, keyRow{ref.Run, sqlc.IdempotencyKey{TenantID: ref.Tenant, Scope: in.scope(ref.Run), Key: in.Key,
			RequestHash: in.Hash, Status: 200, Answer: answer}})
	}
	return w, nil
}

// sender is whose key it is: two senders never share one.
func (in Intent) sender() string {
	if in.Command != nil {
		return in.Worker.String()
	}
	return in.By.ID
}

// scope is where the key counts: the run and its sender.
func (in Intent) scope(id uuid.UUID) string { return "run:" + id.String() + ":" + in.sender() }

// eventID names the event. A key of a request is told apart from the server's own
// names, so that nobody can take one of those in advance.
func (in Intent) eventID() string {
	if in.Hash == nil {
		return in.Key
	}
	return in.sender() + "/" + in.Key
}

// replayed answers a key that was used before.
func (s *Store) replayed(ctx context.Context, h sqlc.DBTX, ref Ref, in Intent) (Ack, bool, error) {
	if in.Hash == nil {
		return Ack{}, false, nil
	}
	var ack Ack
	ok, err := s.storedAnswer(ctx, h, ref.Tenant, in.scope(ref.Run), in.Key, in.Hash, &ack)
	ack.Replayed = ok
	return ack, ok, err
}

// storedAnswer reads the answer of a key into to. A key that was used with other
// content is refused.
func (s *Store) storedAnswer(ctx context.Context, h sqlc.DBTX, tenant uuid.UUID, scope, key string, hash []byte, to any) (bool, error) {
	k, err := s.q.FindKey(ctx, h, tenant, scope, key)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up idempotency key: %w", err)
	}
	err = answerOf(k.RequestHash, k.Answer, hash, to)
	return err == nil, err
}

// answerOf reads the answer that a key is stored with into to. A key that was used with other content is refused.
func answerOf(stored []byte, answer json.RawMessage, hash []byte, to any) error {
	if !bytes.Equal(stored, hash) {
		return fault.New(fault.Invalid, "Nothing was changed: this Idempotency-Key was used before with other content. Use a new key for a new request.").WithCode("key_reused")
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return fmt.Errorf("read stored answer: %w", err)
	}
	return nil
}

// decide turns the intent into events and reduces them, follow-ups included. It
// reads and never writes.
func (s *Store) decide(ctx context.Context, h sqlc.DBTX, row sqlc.Run, live bool, now time.Time, in Intent) ([]step, Ack, error) {
	r, err := toRun(row)
	if err != nil {
		return nil, Ack{}, err
	}
	if in.Seen != 0 && in.Seen != r.Version {
		return nil, Ack{}, fault.New(fault.Conflict, "Nothing was changed: the run has moved on. Look again.").WithCode("moved_on").WithState(string(r.State))
	}
	payload, by := in.Payload, in.By
	var cause *run.Cause
	if in.Command != nil {
		if payload, err = s.decideCommand(ctx, h, r, row, live, now, in); err != nil {
			return nil, Ack{}, refused(err, r)
		}
		spec, _ := run.SpecOf(in.Command.Name())
		by.Kind = run.ActorFor(r.State, payload.Kind(), spec.Actor)
		cause = &run.Cause{Command: in.Command.Name(), Lease: &in.Lease.ID}
	}
	steps, err := reduceAll(r, run.Event{ID: in.eventID(), By: by, At: micro(now), Cause: cause, Lease: in.Lease, Payload: payload})
	if err != nil {
		return nil, Ack{}, refused(err, r)
	}
	after := steps[len(steps)-1].res.Run
	return steps, Ack{Run: after.ID, State: after.State, Version: after.Version,
		Leased: in.Lease != nil && after.Holds(in.Lease), Cancelling: after.State == run.Cancelling}, nil
}

// reduceAll applies the event and those that follow from it at once.
func reduceAll(r run.Run, ev run.Event) ([]step, error) {
	res, err := run.Reduce(r, ev)
	if err != nil {
		return nil, err
	}
	steps := []step{{r, ev, res}}
	for n, p := range res.Follow {
		before := steps[len(steps)-1].res.Run
		next := run.Event{ID: fmt.Sprintf("%s/%d", ev.ID, n+2), At: ev.At, Cause: ev.Cause, Payload: p,
			By: run.Actor{Kind: run.ActorFor(before.State, p.Kind(), run.ControlPlane), ID: "signalbox"}}
		res, err := run.Reduce(before, next)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step{before, next, res})
	}
	return steps, nil
}

// decideCommand checks who speaks and loads what Decide needs.
func (s *Store) decideCommand(ctx context.Context, h sqlc.DBTX, r run.Run, row sqlc.Run, live bool, now time.Time, in Intent) (run.Payload, error) {
	if in.Lease == nil {
		return nil, &run.StaleLeaseError{State: r.State}
	}
	// Expired by the database's clock is lost, even before the reaper has come.
	if !r.Holds(in.Lease) || !live || r.Lease.Worker != in.Worker.String() {
		return nil, &run.StaleLeaseError{State: r.State, Token: in.Lease.Token}
	}
	spec, ok := run.SpecOf(in.Command.Name())
	if !ok || !slices.Contains(spec.Phases, r.Lease.Phase) {
		return nil, &run.ActorError{State: r.State, Kind: run.Kind(in.Command.Name()), Actor: run.Worker}
	}
	f, err := s.facts(ctx, h, r, row, now, in)
	if err != nil {
		return nil, err
	}
	return run.Decide(r, in.Command, f)
}
