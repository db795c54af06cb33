package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// Operation is an intended external effect and what is known of it.
type Operation struct {
	ID         uuid.UUID
	Kind       string
	Identity   string
	State      string
	Outcome    string
	Parameters map[string]string
	Result     map[string]string
}

func operation(o sqlc.Operation) (Operation, error) {
	out := Operation{ID: o.ID, Kind: o.Kind, Identity: o.Identity, State: o.State, Outcome: o.Outcome}
	if err := decode(o.Parameters, &out.Parameters, "parameters"); err != nil {
		return out, err
	}
	return out, decode(o.Result, &out.Result, "result")
}

// Intend records an effect before it is dispatched (R-RCV-3). The same identity
// again is the same operation, now under this lease.
func (s *Store) Intend(ctx context.Context, h Holder, kind, identity string, parameters map[string]string) (Operation, error) {
	raw, err := jsonMap(parameters)
	if err != nil {
		return Operation{}, err
	}
	if err := s.Publishable(ctx, h); err != nil {
		return Operation{}, err
	}
	o, err := underLease(ctx, s, s.pool, func() (sqlc.Operation, error) {
		return s.q.IntendOperation(ctx, s.pool, sqlc.IntendOperationParams{LeaseID: h.Lease.ID, Token: h.Lease.Token, WorkerID: h.Worker,
			RunID: h.Ref.Run, ID: typeid.New(), Kind: kind, Identity: identity, Parameters: raw})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Operation{}, s.staleHolder(ctx, s.pool, h)
	}
	if err != nil {
		return Operation{}, translate(fmt.Errorf("record intent: %w", err), "operation")
	}
	return operation(o)
}

// Dispatch marks an effect as about to go out. It is refused where the run is
// being cancelled: nothing goes out after that. Policy is asked once more, as it
// is now; a run that it denies ends here.
func (s *Store) Dispatch(ctx context.Context, h Holder, identity string) (Operation, error) {
	if err := s.Publishable(ctx, h); err != nil {
		return Operation{}, err
	}
	if err := s.allowedStill(ctx, h); err != nil {
		return Operation{}, err
	}
	o, err := underLease(ctx, s, s.pool, func() (sqlc.Operation, error) {
		return s.q.DispatchOperation(ctx, s.pool, sqlc.DispatchOperationParams{LeaseID: h.Lease.ID, Token: h.Lease.Token, WorkerID: h.Worker,
			RunID: h.Ref.Run, Identity: identity})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Operation{}, s.staleHolder(ctx, s.pool, h)
	}
	if err != nil {
		return Operation{}, fmt.Errorf("record dispatch: %w", err)
	}
	return operation(o)
}

// allowedStill ends a run that policy does not allow any more.
func (s *Store) allowedStill(ctx context.Context, h Holder) error {
	row, err := s.q.LoadRun(ctx, s.pool, h.Ref.Tenant, h.Ref.Run)
	if err != nil {
		return translate(err, "run")
	}
	r, err := toRun(row.Run)
	if err != nil {
		return err
	}
	f := run.Facts{}
	if f.Rules, err = s.Rules(ctx, h.Ref.Tenant); err != nil {
		return err
	}
	if f.Rules, err = s.heldTo(ctx, s.pool, h.Ref.Tenant, r.PolicyVersion, f.Rules); err != nil {
		return err
	}
	sc, err := s.contractFacts(ctx, s.pool, r, &f)
	if err != nil {
		return err
	}
	if err := s.resultFacts(ctx, s.pool, r, sc, &f); err != nil {
		return err
	}
	d := policy.Admission(f.Rules, f.Policy)
	if d.Verdict != policy.Deny {
		return nil
	}
	_, err = s.Apply(ctx, h.Ref, Intent{Key: fmt.Sprintf("denied-effect-%d", h.Lease.Token), By: run.Actor{Kind: run.Policy, ID: d.PolicyVersion},
		Payload: run.PolicyDeniedEvent{PolicyVersion: d.PolicyVersion, Code: run.CodePolicyDenied, Reasons: d.Reasons}})
	if err != nil {
		return err
	}
	return fault.New(fault.Conflict, "Nothing went out: policy does not allow this run any more, and it has ended. Stop working on it.").WithCode("policy_denied").WithStop()
}

// Publishable holds that the run is PR_CREATING under this lease.
func (s *Store) Publishable(ctx context.Context, h Holder) error {
	row, err := s.q.LoadRun(ctx, s.pool, h.Ref.Tenant, h.Ref.Run)
	if err != nil {
		return translate(err, "run")
	}
	r, err := toRun(row.Run)
	if err != nil {
		return err
	}
	live := row.LeaseLive
	if !live && r.Holds(&h.Lease) {
		if live, err = s.outageOver(ctx, s.pool); err != nil {
			return err
		}
	}
	if !r.Holds(&h.Lease) || !live || r.Lease.Worker != h.Worker.String() {
		return refused(&run.StaleLeaseError{State: r.State, Token: h.Lease.Token}, r)
	}
	if r.State != run.PRCreating {
		return refused(&run.IllegalError{State: r.State, Kind: "operation"}, r)
	}
	return nil
}

// Observe records what the target says happened. It needs no live lease, since
// what happened outside is true even afterwards, but the lease that dispatched it.
func (s *Store) Observe(ctx context.Context, h Holder, identity, outcome string, result map[string]string) (Operation, error) {
	raw, err := jsonMap(result)
	if err != nil {
		return Operation{}, err
	}
	o, err := s.q.ObserveOperation(ctx, s.pool, sqlc.ObserveOperationParams{Outcome: outcome, Result: raw, TenantID: h.Ref.Tenant,
		RunID: h.Ref.Run, Identity: identity, Token: h.Lease.Token, LeaseID: h.Lease.ID, WorkerID: h.Worker})
	if errors.Is(err, pgx.ErrNoRows) {
		return Operation{}, s.staleHolder(ctx, s.pool, h)
	}
	if err != nil {
		return Operation{}, translate(fmt.Errorf("record observation: %w", err), "operation")
	}
	return operation(o)
}

// Operations lists a run's external effects in the order of their intents.
func (s *Store) Operations(ctx context.Context, ref Ref) ([]Operation, error) {
	rows, err := s.q.RunOperations(ctx, s.reads(ref.Tenant), ref.Tenant, ref.Run)
	if err != nil {
		return nil, fmt.Errorf("load operations: %w", err)
	}
	out := make([]Operation, 0, len(rows))
	for _, r := range rows {
		o, err := operation(r)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

func jsonMap(m map[string]string) (json.RawMessage, error) {
	if m == nil {
		m = map[string]string{}
	}
	return encode(m)
}

// NewPull is a pull request to be kept for the local forge.
type NewPull struct {
	Title, Body, HeadBranch, BaseBranch, HeadSHA string
	// URL is made from the pull's id by the caller.
	URL func(id string) string
}

// EnsurePull finds or makes the one pull request of the run's branch, under the
// publish lease. A second try finds the first one's (R-RCV-5).
func (s *Store) EnsurePull(ctx context.Context, h Holder, p NewPull) (id uuid.UUID, created bool, err error) {
	if err := s.Publishable(ctx, h); err != nil {
		return uuid.Nil, false, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		_, err := s.q.LiveLease(ctx, tx, sqlc.LiveLeaseParams{TenantID: h.Ref.Tenant, RunID: h.Ref.Run, LeaseID: h.Lease.ID, Token: h.Lease.Token, WorkerID: h.Worker})
		if errors.Is(err, pgx.ErrNoRows) {
			return s.staleHolder(ctx, tx, h)
		}
		if err != nil {
			return fmt.Errorf("hold the lease: %w", err)
		}
		row, err := s.q.LoadRun(ctx, tx, h.Ref.Tenant, h.Ref.Run)
		if err != nil {
			return err
		}
		repo, err := s.q.LockRepository(ctx, tx, h.Ref.Tenant, row.Run.RepositoryID)
		if err != nil {
			return fmt.Errorf("lock repository: %w", err)
		}
		found, err := s.q.PullByBranch(ctx, tx, h.Ref.Tenant, repo.ID, p.HeadBranch)
		switch {
		case err == nil && found.TaskID != row.Run.TaskID:
			return fault.New(fault.Conflict, "No pull request was made: the branch's pull request belongs to another task.").WithCode("foreign_branch")
		case err == nil:
			id, created = found.ID, false
			found.RunID, found.HeadSha, found.Title, found.Body = h.Ref.Run, p.HeadSHA, p.Title, p.Body
			raw, err := encode(found)
			if err != nil {
				return err
			}
			return wrap("update pull request", s.q.UpdatePull(ctx, tx, raw))
		case !errors.Is(err, pgx.ErrNoRows):
			return fmt.Errorf("look for the pull request: %w", err)
		}
		n, err := s.q.NextPullNumber(ctx, tx, repo.ID)
		if err != nil {
			return fmt.Errorf("number the pull request: %w", err)
		}
		id, created = typeid.New(), true
		raw, err := encode(sqlc.PullRequest{ID: id, TenantID: h.Ref.Tenant, RepositoryID: repo.ID, TaskID: row.Run.TaskID, RunID: h.Ref.Run, Number: int64(n),
			State: "OPEN", Url: p.URL(typeid.Format(typeid.Pull, id)), Title: p.Title, Body: p.Body, HeadBranch: p.HeadBranch,
			BaseBranch: p.BaseBranch, HeadSha: p.HeadSHA})
		if err != nil {
			return err
		}
		return wrap("insert pull request", s.q.InsertPull(ctx, tx, raw))
	})
	return id, created, translate(err, "run")
}

// MovePull records that a pull request was merged or closed and tells its task.
// The forge's part is done before: a repeat finds the same state and is no error.
func (s *Store) MovePull(ctx context.Context, in Request, pull uuid.UUID, state, mergeSHA string, by uuid.UUID) error {
	kind := run.TaskEvMerged
	if state == "CLOSED" {
		kind = run.TaskEvPRClosed
	}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		p, err := s.q.LockPull(ctx, tx, in.Tenant, pull)
		if err != nil {
			return err
		}
		if p.State == state {
			return nil
		}
		if p.State == "MERGED" || p.State == "CLOSED" {
			return fault.Newf(fault.Conflict, "Nothing was changed: the pull request is already %s.", p.State)
		}
		p.State, p.MergeSha, p.MergedBy = state, mergeSHA, pointer(by)
		raw, err := encode(p)
		if err != nil {
			return err
		}
		if err := s.q.UpdatePull(ctx, tx, raw); err != nil {
			return fmt.Errorf("update pull request: %w", err)
		}
		if err := s.pullMoved(ctx, tx, in.Tenant, p.TaskID, kind); err != nil {
			return err
		}
		return s.audit(ctx, tx, in.Audit)
	})
	return translate(err, "pull request")
}

// prFacts reads the pull request back from the row that the server holds: the
// worker's word about it is only a hint where to look.
func (s *Store) prFacts(ctx context.Context, h sqlc.DBTX, r run.Run, c run.PRReported, f *run.Facts) error {
	p, err := s.q.PullByBranch(ctx, h, r.Tenant, r.Repository, c.PR.Branch)
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.New(fault.Invalid, "Nothing was changed: the forge knows no pull request for this branch.").WithField("branch")
	}
	if err != nil {
		return fmt.Errorf("read the pull request: %w", err)
	}
	// A run takes over the branch of a run before it. What that one published is not what was approved here.
	if p.TaskID != r.Task || p.RunID != r.ID {
		return fault.New(fault.Conflict, "Nothing was changed: the branch's pull request belongs to another run. Publish this run's change first.").WithField("branch")
	}
	f.PR = &run.PullRequest{URL: p.Url, SHA: p.HeadSha, Branch: p.HeadBranch, Number: p.Number}
	return nil
}
