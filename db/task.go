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

// TaskSpec is a request for work, checked by the caller for form.
type TaskSpec struct {
	Repository   uuid.UUID
	Title        string
	Goal         string
	BaseRef      string
	Contract     run.Contract
	AgentProfile string
	Parent       *uuid.UUID
	Template     *uuid.UUID
	// Campaign that the task is a target of.
	Campaign *uuid.UUID
	// Kind is ordinary, feedback or follow_up; empty means ordinary.
	Kind string
	// Priority orders the task's runs among others' of its tenant: -5 to 5.
	Priority int
	// Draft stores without submitting.
	Draft bool
}

// Request is who asks for something, under which key, and what is audited.
type Request struct {
	Tenant uuid.UUID
	By     run.Actor
	Roles  []policy.Role
	Key    string
	Hash   []byte
	Audit  *Audit
}

// TaskAck is the answer to a task request, stored with its key.
type TaskAck struct {
	Task  uuid.UUID     `json:"task"`
	State run.TaskState `json:"state"`
	// Run is the run that was made, if any.
	Run     *uuid.UUID `json:"run,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Reasons []string   `json:"reasons,omitempty"`
	// Replayed says that this is a stored answer.
	Replayed bool `json:"-"`
}

// CreateTask stores a task, checks it against policy and, where it is admitted,
// makes its first run: one transaction, one answer per key.
func (s *Store) CreateTask(ctx context.Context, in Request, spec TaskSpec) (TaskAck, error) {
	c := &creation{s: s, in: in, scope: "tasks:" + in.By.ID, spec: spec}
	return s.taskTries(ctx, in, c.scope, c.try)
}

// submit takes the task through validation; policy accepts or refuses it before
// any work is done (R-ADM-4). It decides and writes nothing.
func submit(m *taskMove, in Request, rules policy.Rules, repo *sqlc.Repository) (*sqlc.PolicyDecision, []string, error) {
	if repo == nil {
		return nil, nil, fault.New(fault.Invalid, "The task was not stored: there is no such repository.").WithField("repository_id")
	}
	if err := verifiable(m.row, *repo); err != nil {
		return nil, nil, err
	}
	cp := run.Actor{Kind: run.ControlPlane, ID: "signalbox"}
	for _, ev := range []run.TaskEvent{{Kind: run.TaskEvSubmitted, By: in.By}, {Kind: run.TaskEvValidationStarted, By: cp}} {
		if err := m.apply(ev, nil); err != nil {
			return nil, nil, refused(err, run.Run{})
		}
	}
	f := policy.Facts{Repository: repo.Name, Requester: in.By.ID, RequesterRoles: in.Roles, Risk: policy.Risk(m.row.Risk), Mode: policy.Mode(m.row.Mode)}
	d := policy.Admission(rules, f)
	inputs, err := encode(f)
	if err != nil {
		return nil, nil, err
	}
	decision := &sqlc.PolicyDecision{TenantID: m.row.TenantID, TaskID: &m.row.ID, Point: "submission", Version: d.PolicyVersion, Verdict: string(d.Verdict),
		Reasons: nonNil(d.Reasons), Inputs: inputs}
	by := run.Actor{Kind: run.Policy, ID: d.PolicyVersion}
	if d.Verdict == policy.Deny {
		m.row.ReasonWords = words(d.Reasons)
		return decision, d.Reasons, m.apply(run.TaskEvent{Kind: run.TaskEvRefused, By: by, Reason: d.Code}, nil)
	}
	return decision, d.Reasons, m.apply(run.TaskEvent{Kind: run.TaskEvAccepted, By: by}, nil)
}

// verifiable refuses a task whose change nothing could verify: found out only after the agent's work, it would have cost
// an attempt.
func verifiable(t sqlc.Task, repo sqlc.Repository) error {
	var contract run.Contract
	if err := decode(t.Contract, &contract, "contract"); err != nil {
		return err
	}
	var checks []run.Check
	if err := decode(repo.Verification, &checks, "verification"); err != nil {
		return err
	}
	if why := contract.Unverifiable(checks); why != "" {
		return fault.New(fault.Invalid, "The task was not submitted. "+why).WithField("verification").WithCode("task_contract_invalid")
	}
	return nil
}

// rings collects what to ring after the commit.
type rings struct{ changes []Change }

// taskTx runs a task request on locked rows: stored answer first, then the work, the key and the
// audit, in one transaction.
func (s *Store) taskTx(ctx context.Context, in Request, scope string, do func(pgx.Tx, *rings) (TaskAck, error)) (TaskAck, error) {
	return s.taskTries(ctx, in, scope, func(ctx context.Context) (ack TaskAck, b rings, err error) {
		err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
			ack, b = TaskAck{}, rings{}
			if in.Hash != nil {
				again, err := s.storedAnswer(ctx, tx, in.Tenant, scope, in.Key, in.Hash, &ack)
				if err != nil || again {
					ack.Replayed = again
					return err
				}
			}
			if ack, err = do(tx, &b); err != nil {
				return err
			}
			if err := s.storeAnswer(ctx, tx, in.Tenant, scope, in.Key, in.Hash, ack); err != nil {
				return err
			}
			return s.audit(ctx, tx, in.auditOf(ack.Task))
		})
		return ack, b, err
	})
}

// taskTries carries out a task request, once more where it lost a race, and rings after its commit.
func (s *Store) taskTries(ctx context.Context, in Request, scope string, try func(context.Context) (TaskAck, rings, error)) (TaskAck, error) {
	for range maxTries {
		ack, b, err := try(ctx)
		if keyTaken(err) || errors.Is(err, errMoved) {
			continue
		}
		if err != nil && in.Hash != nil {
			// The same request may have been carried out since the look at its key.
			if ok, lookErr := s.storedAnswer(ctx, s.pool, in.Tenant, scope, in.Key, in.Hash, &ack); ok && lookErr == nil {
				ack.Replayed = true
				return ack, nil
			}
		}
		if err == nil {
			s.ring(b.changes...)
		}
		return ack, translate(err, "task")
	}
	return TaskAck{}, fault.New(fault.Conflict, "Nothing was changed: the same request is being carried out right now. Repeat it in a moment.")
}

// auditOf is the request's audit line about the task. The request keeps its own, because another try may make another task.
func (in Request) auditOf(task uuid.UUID) *Audit {
	if in.Audit == nil || in.Audit.ObjectID != "" {
		return in.Audit
	}
	a := *in.Audit
	a.ObjectID = typeid.Format(typeid.Task, task)
	return &a
}

func (s *Store) storeAnswer(ctx context.Context, h sqlc.DBTX, tenant uuid.UUID, scope, key string, hash []byte, answer any) error {
	if hash == nil {
		return nil
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return s.q.InsertKey(ctx, h, sqlc.InsertKeyParams{TenantID: tenant, Scope: scope, Key: key, RequestHash: hash, Status: 200, Answer: raw})
}

func words(reasons []string) string {
	out := ""
	for i, r := range reasons {
		if i > 0 {
			out += " "
		}
		out += r
	}
	return out
}
