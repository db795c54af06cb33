package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// Note is one thing that was found or done: a code for programs, a sentence for people.
type Note struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Resumed is the answer to a resume: what was found, what was done about it, and what comes next.
type Resumed struct {
	State run.State `json:"state"`
	Found []Note    `json:"found"`
	// Done is empty where there was nothing to do.
	Done []Note `json:"done"`
	Next string `json:"next"`
	// Replayed says that this is a stored answer.
	Replayed bool `json:"-"`
}

// resumption collects the answer.
type resumption struct {
	s   *Store
	ref Ref
	Resumed
	row sqlc.LoadRunRow
	run run.Run
}

func (x *resumption) found(code, format string, a ...any) {
	x.Found = append(x.Found, Note{code, fmt.Sprintf(format, a...)})
}

func (x *resumption) did(code, format string, a ...any) {
	x.Done = append(x.Done, Note{code, fmt.Sprintf(format, a...)})
}

// Resume looks at a run that seems to stand still, says what it found, and does what is right: it ends a lease that ran
// out, makes a delayed item ready, lifts a quarantine, puts back what is missing. It never takes a run from a worker that
// holds it and never decides for a person (R-RCV-1). What is done changes the run by the same events as the loops do, so
// that a repeat does nothing twice; the audit says first that it was asked for.
func (s *Store) Resume(ctx context.Context, in Request, id uuid.UUID) (Resumed, error) {
	scope := "resume:" + id.String() + ":" + in.By.ID
	var out Resumed
	if in.Hash != nil {
		again, err := s.storedAnswer(ctx, s.pool, in.Tenant, scope, in.Key, in.Hash, &out)
		if out.Replayed = again; again || err != nil {
			return out, err
		}
	}
	x := &resumption{s: s, ref: Ref{in.Tenant, id}, Resumed: Resumed{Found: []Note{}, Done: []Note{}}}
	var err error
	if x.row, err = s.q.LoadRun(ctx, s.pool, in.Tenant, id); err != nil {
		return out, translate(err, "run")
	}
	if err := s.inTx(ctx, func(tx pgx.Tx) error { return s.audit(ctx, tx, in.Audit) }); err != nil {
		return out, err
	}
	if err := x.resume(ctx); err != nil {
		return out, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error { return s.storeAnswer(ctx, tx, in.Tenant, scope, in.Key, in.Hash, x.Resumed) })
	if keyTaken(err) {
		again, lerr := s.storedAnswer(ctx, s.pool, in.Tenant, scope, in.Key, in.Hash, &out)
		out.Replayed = again
		return out, lerr
	}
	return x.Resumed, translate(err, "run")
}

func (x *resumption) resume(ctx context.Context) error {
	var err error
	x.State = run.State(x.row.Run.State)
	if x.run, err = toRun(x.row.Run); err != nil {
		x.found("unreadable", "The run's record cannot be read: %v.", err)
		x.Next = "Nothing was changed. Somebody who looks after the server has to put the record right; resume the run afterwards."
		return nil
	}
	if err := x.history(ctx); err != nil {
		return err
	}
	if err := x.lift(ctx); err != nil {
		return err
	}
	switch r := x.run; {
	case r.State.Terminal():
		return x.ended(ctx)
	case r.State == run.WaitingForApproval && r.Gate != nil:
		x.found("waits_for_person", "It waits for a person at the %s gate %s.", r.Gate.Kind, typeid.Format(typeid.Gate, r.Gate.ID))
		x.Next = "There is nothing to resume: somebody has to decide."
		if r.Gate.Expired {
			x.Next = "There is nothing to resume: the request has expired. Ask again at the gate."
		}
		return nil
	case r.State == run.AwaitingVerification:
		x.found("waits_for_attestor", "It waits for an attestation.")
		x.Next = "There is nothing to resume: an attestor has to answer."
		return nil
	case r.Lease != nil:
		return x.leased(ctx)
	}
	return x.waiting(ctx)
}

// history says what is durable: where the next worker goes on from, and what has happened outside already.
func (x *resumption) history(ctx context.Context) error {
	r := x.run
	last, err := x.s.q.LastEventOfRun(ctx, x.s.pool, x.ref.Tenant, x.ref.Run)
	if err != nil {
		return fmt.Errorf("read the last event: %w", err)
	}
	x.found("durable_state", "The last durable state is %s, by event %d (%s) of %s.", r.State, last.Seq, last.Kind, last.At.UTC().Format(time.RFC3339))
	var kept []string
	if r.Plan != "" {
		kept = append(kept, fmt.Sprintf("plan revision %d", r.PlanRevision))
	}
	if r.Patch != nil {
		kept = append(kept, fmt.Sprintf("patch revision %d (%d files, +%d −%d)", r.Patch.Revision, r.Patch.Files, r.Patch.Added, r.Patch.Removed))
	}
	if r.Report != "" {
		kept = append(kept, "a report")
	}
	if r.Verification != "" {
		kept = append(kept, "a verification report of exactly this patch")
	}
	if len(kept) > 0 {
		x.found("durable_results", "Stored, and handed to whoever goes on: %s.", strings.Join(kept, ", "))
	}
	operations, err := x.s.Operations(ctx, x.ref)
	if err != nil {
		return err
	}
	for _, o := range operations {
		if o.State == "intended" {
			x.found("effect_intended", "%s %s was recorded and has not gone out.", o.Kind, o.Identity)
			continue
		}
		x.found("effect_"+o.State, "%s %s is %s; whoever goes on looks there before anything is repeated.", o.Kind, o.Identity, o.State)
	}
	repairs, err := x.s.Repairs(ctx, x.ref)
	if err != nil {
		return err
	}
	for _, p := range repairs {
		x.found("repaired", "%s at %s: %s.", p.Code, p.At.Format(time.RFC3339), p.Detail)
	}
	return nil
}

// lift releases the run from quarantine; the loops try it again at once.
func (x *resumption) lift(ctx context.Context) error {
	a, err := x.s.AsideOf(ctx, x.ref)
	if err != nil || a == nil {
		return err
	}
	x.found("set_aside", "%s The reason was: %s", a.Words(), a.Reason)
	n, err := x.s.q.ReleaseAside(ctx, x.s.pool, x.ref.Tenant, x.ref.Run)
	if err != nil {
		return fmt.Errorf("release a run: %w", err)
	}
	if n > 0 {
		x.did("released", "It is no longer set aside.")
	}
	return nil
}

func (x *resumption) ended(ctx context.Context) error {
	r := x.run
	x.found("ended", "It has ended as %s.", r.State)
	x.Next = "There is nothing to resume: an ended run stays as it is."
	if r.State == run.Succeeded {
		return nil
	}
	t, err := x.s.Task(ctx, x.ref.Tenant, r.Task)
	if err != nil {
		return err
	}
	if t.State == run.TaskReady {
		x.Next += fmt.Sprintf(" Its task can be run again: `signalbox task run %s`.", typeid.Format(typeid.Task, r.Task))
	} else {
		x.Next += fmt.Sprintf(" Its task is %s.", t.State)
	}
	return nil
}

// leased ends a lease that is over, and nothing else.
func (x *resumption) leased(ctx context.Context) error {
	l := ExpiredLease{Ref: x.ref, Lease: run.LeaseRef{ID: x.run.Lease.ID, Token: x.run.Lease.Token}, Phase: x.run.Lease.Phase, State: x.run.State,
		Cancelling: x.run.State == run.Cancelling}
	h, err := x.s.q.HolderOfRun(ctx, x.s.pool, x.ref.Tenant, x.ref.Run)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		x.found("lease_missing", "It names a lease that nobody can hold.")
	case err != nil:
		return fmt.Errorf("look who holds the run: %w", err)
	case !h.Expired:
		x.found("lease_active", "%s holds it for %s and was last heard %s ago.", h.Name, h.Phase, h.Now.Sub(h.HeartbeatAt).Round(time.Second))
		x.Next = "There is nothing to do: it is being worked on. If that worker is gone, its lease ends in " + h.ExpiresAt.Sub(h.Now).Round(time.Second).String() + " and the run goes on by itself."
		if x.run.State == run.Cancelling {
			x.Next = "There is nothing to do: it is being cancelled, at the latest when the cancel grace is over."
		}
		return nil
	default:
		x.found("lease_expired", "The lease of %s ran out %s ago.", h.Name, h.Now.Sub(h.ExpiresAt).Round(time.Second))
		over, err := x.s.outageOver(ctx, x.s.pool)
		if err != nil {
			return err
		}
		if over {
			x.found("after_outage", "The servers or the database were away; its worker is given a full lease time to come back.")
			x.Next = "Nothing was changed. The run goes on by itself, with its worker or the next one."
			return nil
		}
	}
	kind, err := x.s.Reap(ctx, l)
	switch {
	case err == nil:
		x.did("lease_ended", "The lease was ended (%s).", kind)
	case !Lost(err):
		return err
	}
	return x.again(ctx)
}

// again looks once more after a change, and goes on from there where the run waits.
func (x *resumption) again(ctx context.Context) error {
	var err error
	if x.row, err = x.s.q.LoadRun(ctx, x.s.pool, x.ref.Tenant, x.ref.Run); err != nil {
		return translate(err, "run")
	}
	if x.run, err = toRun(x.row.Run); err != nil {
		return err
	}
	x.State = x.run.State
	switch {
	case x.State.Terminal():
		return x.ended(ctx)
	case x.run.Queued != "":
		return x.waiting(ctx)
	}
	x.Next = fmt.Sprintf("The run is %s now.", x.State)
	return nil
}

// waiting makes the run's item ready, and says what else it waits for.
func (x *resumption) waiting(ctx context.Context) error {
	if x.run.State == run.Created {
		x.found("not_admitted", "Admission has put it off.")
		if _, err := x.s.Admit(ctx, x.ref); err != nil && !Lost(err) {
			return err
		}
		return x.afterAdmission(ctx)
	}
	if x.run.State == run.PRCreated {
		x.found("completion_missing", "The pull request exists and the run has not been completed.")
		return x.repair(ctx, RepairCompletionMissing)
	}
	i, err := x.s.q.ItemOfRun(ctx, x.s.pool, x.ref.Run)
	if err != nil {
		return fmt.Errorf("look for the run's item: %w", err)
	}
	switch {
	case i.Ready:
		x.found("item_ready", "Its %s work is ready for a worker.", x.run.Queued)
	case i.Delayed:
		x.found("item_delayed", "Its %s work was put off until %s.", x.run.Queued, i.Until.UTC().Format(time.RFC3339))
		n, err := x.s.q.HurryItem(ctx, x.s.pool, x.ref.Tenant, x.ref.Run)
		if err != nil {
			return fmt.Errorf("make a delayed item ready: %w", err)
		}
		if _, err := x.s.Deliver(ctx, deliverAtOnce); err != nil {
			return err
		}
		if n > 0 {
			x.did("item_made_ready", "It does not wait any longer.")
		}
	default:
		x.found("item_missing", "It waits for %s and has no item in the queue.", x.run.Queued)
		if err := x.repair(ctx, RepairItemMissing); err != nil {
			return err
		}
	}
	return x.reason(ctx)
}

// deliverAtOnce is how many due items go into the queue with the one that is wanted: those that were due before it go first.
const deliverAtOnce = 1000

func (x *resumption) repair(ctx context.Context, code RepairCode) error {
	done, err := x.s.Repair(ctx, Finding{Code: code, Ref: x.ref, Key: x.ref.Run, Mark: x.run.Version})
	if err != nil && !Lost(err) {
		return err
	}
	if done {
		x.did("repaired", "It was put right (%s).", code)
	}
	if code == RepairCompletionMissing {
		return x.again(ctx)
	}
	return nil
}

func (x *resumption) afterAdmission(ctx context.Context) error {
	before := x.run.Version
	row, err := x.s.q.LoadRun(ctx, x.s.pool, x.ref.Tenant, x.ref.Run)
	if err != nil {
		return translate(err, "run")
	}
	if row.Run.State == string(run.Created) {
		x.Next = "Admission was asked again and puts it off still; it is asked again by itself."
		return nil
	}
	if row.Run.Version != before {
		x.did("admitted", "Admission was asked again: it is %s.", row.Run.State)
	}
	return x.again(ctx)
}

// reason says by the rules of the claims themselves what the item waits for.
func (x *resumption) reason(ctx context.Context) error {
	w, err := x.s.Why(ctx, x.ref.Tenant, x.ref.Run)
	if err != nil {
		return err
	}
	switch {
	case w.Reason.Code != "":
		x.found("waits_"+w.Reason.Code, "%s", w.Reason.Words)
		x.Next = "It goes on with the next worker that may take it."
	case !w.Until.IsZero():
		x.Next = "It goes on at " + w.Until.Format(time.RFC3339) + "."
	default:
		x.Next = "It goes on with the next free worker."
	}
	if len(x.Done) == 0 {
		x.Next = "There was nothing to do. " + x.Next
	}
	return nil
}
