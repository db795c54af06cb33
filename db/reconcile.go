package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// RepairCode names what the reconciler found wrong.
type RepairCode string

// What is looked for. What the schema makes impossible is not among them: a state that needs work with neither lease
// nor item, an ended run that says it has one.
const (
	RepairItemMissing       RepairCode = "ITEM_MISSING"
	RepairLeaseMissing      RepairCode = "LEASE_MISSING"
	RepairCompletionMissing RepairCode = "COMPLETION_MISSING"
	RepairAdmissionMissing  RepairCode = "ADMISSION_MISSING"
	RepairAttemptsSpent     RepairCode = "ATTEMPTS_PAST_MAXIMUM"
	RepairItemOfEnded       RepairCode = "ITEM_OF_ENDED_RUN"
	RepairItemOfOther       RepairCode = "ITEM_OF_OTHER_PHASE"
	RepairDelayOfEnded      RepairCode = "DELAY_OF_ENDED_RUN"
	RepairDelayOfOther      RepairCode = "DELAY_OF_OTHER_PHASE"
	RepairItemTwice         RepairCode = "ITEM_TWICE"
	RepairLeaseOfNobody     RepairCode = "LEASE_OF_NOBODY"
	RepairAttemptOpen       RepairCode = "ATTEMPT_LEFT_OPEN"
	RepairSandboxLeft       RepairCode = "SANDBOX_LEFT"
	RepairTaskWithoutRun    RepairCode = "TASK_WITHOUT_RUN"
	RepairGateLeft          RepairCode = "GATE_LEFT_OPEN"
)

// Finding is something that looks wrong.
type Finding struct {
	Code RepairCode
	// Ref is the run; its Run is nil for a task.
	Ref Ref
	// Key is what the list is ordered by: the run itself, or its attempt, sandbox, gate or task.
	Key uuid.UUID
	// Mark changes when the thing moves on: the same finding with another mark is another one.
	Mark int64
}

// FindingList reads a page of findings after a key.
type FindingList func(ctx context.Context, after uuid.UUID, limit int) ([]Finding, error)

// Findings are all lists, in the order in which they are looked through.
func (s *Store) Findings() []FindingList {
	return []FindingList{
		findings(s, s.q.WrongItems, func(r sqlc.WrongItemsRow) Finding {
			return Finding{RepairCode(r.Code), Ref{r.TenantID, r.RunID}, r.RunID, r.Version}
		}),
		findings(s, s.q.WrongLeases, func(r sqlc.WrongLeasesRow) Finding {
			return Finding{RepairLeaseOfNobody, Ref{r.TenantID, r.RunID}, r.RunID, r.FencingToken}
		}),
		findings(s, s.q.WrongRuns, func(r sqlc.WrongRunsRow) Finding {
			return Finding{RepairCode(r.Code), Ref{r.TenantID, r.ID}, r.ID, r.Version}
		}),
		findings(s, s.q.WrongAttempts, func(r sqlc.WrongAttemptsRow) Finding {
			return Finding{RepairAttemptOpen, Ref{r.TenantID, r.RunID}, r.ID, r.Version}
		}),
		findings(s, s.q.WrongSandboxes, func(r sqlc.WrongSandboxesRow) Finding {
			return Finding{RepairSandboxLeft, Ref{r.TenantID, r.RunID}, r.LeaseID, 0}
		}),
		findings(s, s.q.WrongGates, func(r sqlc.WrongGatesRow) Finding {
			return Finding{RepairGateLeft, Ref{r.TenantID, r.RunID}, r.ID, r.Version}
		}),
		findings(s, s.q.WrongTasks, func(r sqlc.WrongTasksRow) Finding {
			return Finding{RepairTaskWithoutRun, Ref{r.TenantID, uuid.Nil}, r.ID, r.Version}
		}),
	}
}

func findings[R any](s *Store, list func(context.Context, sqlc.DBTX, uuid.UUID, int32) ([]R, error), of func(R) Finding) FindingList {
	return func(ctx context.Context, after uuid.UUID, limit int) ([]Finding, error) {
		rows, err := list(ctx, s.pool, after, int32(limit))
		if err != nil {
			return nil, fmt.Errorf("look for what is wrong: %w", err)
		}
		out := make([]Finding, 0, len(rows))
		for _, r := range rows {
			out = append(out, of(r))
		}
		return out, nil
	}
}

// Repair puts one finding right, if it still is what it was, and records that. Where the run itself changes it changes by
// an event, through the one door; everything else is put right under the run's row lock. It reports whether it did.
func (s *Store) Repair(ctx context.Context, f Finding) (bool, error) {
	switch f.Code {
	case RepairLeaseMissing:
		return s.repairByEvent(ctx, f, s.loseLease)
	case RepairCompletionMissing:
		return s.repairByEvent(ctx, f, s.complete)
	case RepairAttemptsSpent:
		return s.repairByEvent(ctx, f, s.denyAttempts)
	case RepairTaskWithoutRun:
		return s.repairTask(ctx, f)
	}
	return s.repairRows(ctx, f)
}

// repairRows puts right what stands around a run that itself is as it should be.
func (s *Store) repairRows(ctx context.Context, f Finding) (done bool, err error) {
	var ready []Change
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		done, ready = false, nil
		row, err := s.q.LockRun(ctx, tx, f.Ref.Tenant, f.Ref.Run)
		if err != nil {
			return err
		}
		n, detail := int64(0), ""
		switch f.Code {
		case RepairItemMissing:
			if row.Run.Queued == nil || row.Run.Version != f.Mark {
				return nil
			}
			n, err = s.putItem(ctx, tx, row)
			detail = "the item of phase " + *row.Run.Queued + " was put back"
			ready = []Change{{Tenant: f.Ref.Tenant, Run: f.Ref.Run, Ready: run.Phase(*row.Run.Queued)}}
		case RepairAdmissionMissing:
			if row.Run.State != string(run.Created) || row.Run.Version != f.Mark {
				return nil
			}
			n, err = s.q.PutMissingAdmission(ctx, tx, f.Ref.Run, f.Ref.Tenant)
			detail = "admission looks at it now"
		case RepairItemOfEnded, RepairItemOfOther:
			n, err = s.q.DropWrongItem(ctx, tx, f.Ref.Run)
			detail = "the item was removed; the run is " + row.Run.State
		case RepairDelayOfEnded, RepairDelayOfOther, RepairItemTwice:
			n, err = s.q.DropWrongDelay(ctx, tx, f.Ref.Run)
			detail = "the delayed item was removed; the run is " + row.Run.State
		case RepairLeaseOfNobody:
			n, err = s.q.DropWrongLease(ctx, tx, f.Ref.Run)
			detail = "the lease was revoked; the run is " + row.Run.State
		case RepairAttemptOpen:
			n, err = s.q.CloseWrongAttempt(ctx, tx, f.Key)
			detail = "the attempt was closed; the run is " + row.Run.State
		case RepairSandboxLeft:
			n, err = s.q.CloseWrongSandbox(ctx, tx, f.Key)
			detail = "the sandbox of a lease that is over counts as failed"
		case RepairGateLeft:
			n, err = s.q.CloseWrongGate(ctx, tx, f.Key)
			detail = "the gate was cancelled; the run is " + row.Run.State
		default:
			return fmt.Errorf("no repair is known for %s", f.Code)
		}
		if err != nil || n == 0 {
			return err
		}
		done = true
		return s.recordRepair(ctx, tx, f, detail)
	})
	if err == nil && done {
		s.ring(ready...)
	}
	return done && err == nil, translate(err, "run")
}

// putItem gives a waiting run the item that it says it has.
func (s *Store) putItem(ctx context.Context, tx pgx.Tx, row sqlc.LockRunRow) (int64, error) {
	r, err := toRun(row.Run)
	if err != nil {
		return 0, err
	}
	w := write{ready: map[uuid.UUID]run.Phase{}}
	w.enqueue(r, run.Enqueue{Phase: r.Queued}, micro(row.Now), s.timing)
	item, err := encode(w.queued[0])
	if err != nil {
		return 0, err
	}
	return s.q.PutItem(ctx, tx, item)
}

func (s *Store) recordRepair(ctx context.Context, h sqlc.DBTX, f Finding, detail string) error {
	p := sqlc.InsertRepairParams{ID: typeid.New(), TenantID: f.Ref.Tenant, Code: string(f.Code), Detail: detail}
	if f.Ref.Run != uuid.Nil {
		p.RunID = &f.Ref.Run
	} else {
		p.TaskID = &f.Key
	}
	if err := s.q.InsertRepair(ctx, h, p); err != nil {
		return fmt.Errorf("record the repair: %w", err)
	}
	return nil
}

// repair is the record of a finding that an event puts right; it is written in the event's own transaction.
type repair struct {
	Finding
	words func(Ack) string
}

// repairByEvent lets the run change as its reducer says, and records the repair together with the event.
func (s *Store) repairByEvent(ctx context.Context, f Finding, by func(context.Context, Finding, run.Run, time.Time) (bool, error)) (bool, error) {
	row, err := s.q.LoadRun(ctx, s.pool, f.Ref.Tenant, f.Ref.Run)
	if err != nil {
		return false, translate(err, "run")
	}
	r, err := toRun(row.Run)
	if err != nil || r.Version != f.Mark {
		return false, err
	}
	return by(ctx, f, r, row.Now)
}

// loseLease ends a lease that the run believes in and nobody can hold.
func (s *Store) loseLease(ctx context.Context, f Finding, r run.Run, _ time.Time) (bool, error) {
	if r.Lease == nil {
		return false, nil
	}
	_, err := s.reap(ctx, ExpiredLease{Ref: f.Ref, Lease: run.LeaseRef{ID: r.Lease.ID, Token: r.Lease.Token}, Phase: r.Lease.Phase, State: r.State,
		Cancelling: r.State == run.Cancelling}, &f)
	return err == nil, err
}

// complete says what follows from a pull request that exists.
func (s *Store) complete(ctx context.Context, f Finding, r run.Run, now time.Time) (bool, error) {
	rules, err := s.rulesFor(ctx, s.pool, r)
	if err != nil {
		return false, err
	}
	facts := run.Facts{Rules: rules}
	contract, err := s.contractFacts(ctx, s.pool, r, &facts)
	if err != nil {
		return false, err
	}
	if err := s.resultFacts(ctx, s.pool, r, contract, &facts); err != nil {
		return false, err
	}
	in := Intent{Key: fmt.Sprintf("reconcile-complete-%d", r.Version), By: run.Actor{Kind: run.ControlPlane, ID: reconciler}, Payload: run.CompletionConditionMetEvent{},
		repair: &repair{f, func(a Ack) string { return "the run went on to " + string(a.State) }}}
	if attest, why := policy.Attest(facts.Rules, facts.Policy); attest {
		in.By.Kind = run.Policy
		in.Payload = run.AttestationRequiredEvent{Policy: run.PolicyWords{Version: rules.Version, Reasons: []string{why}},
			ExpiresAt: micro(now).Add(rules.Limits.AttestationTimeout.Std())}
	}
	_, err = s.Apply(ctx, f.Ref, in)
	return err == nil, err
}

// denyAttempts ends a run that waits for an attempt more than it may have.
func (s *Store) denyAttempts(ctx context.Context, f Finding, r run.Run, _ time.Time) (bool, error) {
	if r.State != run.Queued || r.AttemptsLeft() {
		return false, nil
	}
	words := fmt.Sprintf("The run waited for another attempt after %d of %d.", r.AttemptsUsed(), r.Limits.MaxAttempts)
	_, err := s.Apply(ctx, f.Ref, Intent{Key: fmt.Sprintf("reconcile-attempts-%d", r.Version), By: run.Actor{Kind: run.Policy, ID: reconciler},
		Payload: run.PolicyDeniedEvent{PolicyVersion: r.PolicyVersion, Code: run.CodePolicyDenied, Reasons: []string{words}},
		repair:  &repair{f, func(Ack) string { return words }}})
	return err == nil, err
}

// reconciler is who did it, in events.
const reconciler = "reconciler"

// repairTask tells a busy task what became of its run, or which one it is.
func (s *Store) repairTask(ctx context.Context, f Finding) (done bool, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		done = false
		latest, err := s.q.LatestRunOfTask(ctx, tx, f.Ref.Tenant, f.Key)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("task %s is busy and has never had a run", f.Key)
		}
		if err != nil {
			return err
		}
		// A run's lock comes before its task's.
		row, err := s.q.LockRun(ctx, tx, f.Ref.Tenant, latest.ID)
		if err != nil {
			return err
		}
		r, err := toRun(row.Run)
		if err != nil {
			return err
		}
		t, err := s.q.LockTask(ctx, tx, f.Ref.Tenant, f.Key)
		if err != nil {
			return err
		}
		m := newTaskMove(t)
		busy := m.task.State == run.TaskRunning || m.task.State == run.TaskWaiting
		if t.Version != f.Mark || !busy || m.task.AwaitsMerge {
			return nil
		}
		m.task.Active = true
		m.row.ActiveRunID = &r.ID
		ev, detail := run.TaskEvent{Kind: run.TaskEvRunGoesOn}, "its open run was found again"
		switch {
		case r.State.Terminal():
			ev, detail = run.TaskEvent{Kind: run.TaskEvRunEnded, Run: &r}, "its run had ended as "+string(r.State)
		case parked(r.State):
			ev.Kind = run.TaskEvRunWaits
		}
		ev.By = run.Actor{Kind: run.ControlPlane, ID: reconciler}
		if err := m.apply(ev, &r.ID); err != nil {
			return err
		}
		if err := s.saveTask(ctx, tx, m); err != nil {
			return err
		}
		done = true
		return s.recordRepair(ctx, tx, f, detail)
	})
	return done && err == nil, translate(err, "task")
}

// Repaired is one repair on record.
type Repaired struct {
	Code   RepairCode
	Detail string
	At     time.Time
}

// Repairs lists what was put right around a run, newest first.
func (s *Store) Repairs(ctx context.Context, ref Ref) ([]Repaired, error) {
	rows, err := s.q.RepairsOfRun(ctx, s.reads(ref.Tenant), ref.Tenant, &ref.Run)
	if err != nil {
		return nil, fmt.Errorf("list repairs: %w", err)
	}
	out := make([]Repaired, 0, len(rows))
	for _, r := range rows {
		out = append(out, Repaired{RepairCode(r.Code), r.Detail, r.At.UTC()})
	}
	return out, nil
}

// RepairCounts says how often each code stands on record, over all tenants.
func (s *Store) RepairCounts(ctx context.Context) (map[RepairCode]int64, error) {
	rows, err := s.q.CountRepairs(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("count repairs: %w", err)
	}
	out := make(map[RepairCode]int64, len(rows))
	for _, r := range rows {
		out[RepairCode(r.Code)] = r.N
	}
	return out, nil
}
