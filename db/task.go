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
	return s.taskTx(ctx, in, "tasks:"+in.By.ID, func(tx pgx.Tx, b *rings) (TaskAck, error) {
		m, rules, err := s.newTask(ctx, tx, in, spec)
		if err != nil {
			return TaskAck{}, err
		}
		ack := TaskAck{Task: m.row.ID}
		if spec.Draft {
			if err := m.apply(run.TaskEvent{Kind: run.TaskEvDrafted, By: in.By}, nil); err != nil {
				return TaskAck{}, err
			}
			return s.insertTask(ctx, tx, m, ack)
		}
		reasons, err := s.submit(ctx, tx, m, in, rules)
		if err != nil {
			return TaskAck{}, err
		}
		ack.Reasons = reasons
		if ack, err = s.insertTask(ctx, tx, m, ack); err != nil || m.task.State != run.TaskReady {
			return ack, err
		}
		return s.firstRun(ctx, tx, m, in, rules, ack, b)
	})
}

// insertTask stores the new row with the events so far.
func (s *Store) insertTask(ctx context.Context, tx pgx.Tx, m *taskMove, ack TaskAck) (TaskAck, error) {
	row, err := encode(m.row)
	if err != nil {
		return ack, err
	}
	if err := s.q.InsertTask(ctx, tx, row); err != nil {
		return ack, translate(err, "task")
	}
	if err := s.saveTaskEvents(ctx, tx, m); err != nil {
		return ack, err
	}
	m.events = nil
	ack.State, ack.Reason = m.task.State, m.row.ReasonWords
	return ack, nil
}

// firstRun makes the run in the transaction of the submission.
func (s *Store) firstRun(ctx context.Context, tx pgx.Tx, m *taskMove, in Request, rules policy.Rules, ack TaskAck, b *rings) (TaskAck, error) {
	id, err := s.startRun(ctx, tx, m, run.Actor{Kind: run.ControlPlane, ID: "signalbox"}, in.Roles, rules, b)
	if err != nil {
		return ack, err
	}
	ack.Run, ack.State = &id, m.task.State
	return ack, nil
}

func (s *Store) newTask(ctx context.Context, tx pgx.Tx, in Request, spec TaskSpec) (*taskMove, policy.Rules, error) {
	rules, err := s.rulesOf(ctx, tx, in.Tenant)
	if err != nil {
		return nil, rules, err
	}
	requester, err := uuid.Parse(in.By.ID)
	if err != nil {
		return nil, rules, fault.New(fault.Forbidden, "The task was not stored: only a person, or a token of a person, submits tasks.")
	}
	contract, err := encode(spec.Contract)
	if err != nil {
		return nil, rules, err
	}
	digest, err := spec.Contract.Digest()
	if err != nil {
		return nil, rules, err
	}
	kind := spec.Kind
	if kind == "" {
		kind = "ordinary"
	}
	row := sqlc.Task{ID: typeid.New(), TenantID: in.Tenant, RepositoryID: spec.Repository, Kind: kind, Title: spec.Title, Goal: spec.Goal,
		BaseRef: spec.BaseRef, Mode: string(spec.Contract.Mode), Risk: spec.Contract.Risk, Contract: contract, ContractDigest: digest,
		AgentProfile: spec.AgentProfile, ParentTaskID: spec.Parent, TemplateID: spec.Template, RequestedBy: requester, Priority: int16(spec.Priority),
		MaxRuns: int32(max(rules.Limits.MaxRuns, 1))}
	return newTaskMove(row), rules, nil
}

// submit takes the task through validation; policy accepts or refuses it before
// any work is done (R-ADM-4).
func (s *Store) submit(ctx context.Context, tx pgx.Tx, m *taskMove, in Request, rules policy.Rules) ([]string, error) {
	repo, err := s.q.Repository(ctx, tx, in.Tenant, m.row.RepositoryID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.New(fault.Invalid, "The task was not stored: there is no such repository.").WithField("repository_id")
	}
	if err != nil {
		return nil, fmt.Errorf("load repository: %w", err)
	}
	if err := verifiable(m.row, repo); err != nil {
		return nil, err
	}
	cp := run.Actor{Kind: run.ControlPlane, ID: "signalbox"}
	for _, ev := range []run.TaskEvent{{Kind: run.TaskEvSubmitted, By: in.By}, {Kind: run.TaskEvValidationStarted, By: cp}} {
		if err := m.apply(ev, nil); err != nil {
			return nil, refused(err, run.Run{})
		}
	}
	f := policy.Facts{Repository: repo.Name, Requester: in.By.ID, RequesterRoles: in.Roles, Risk: policy.Risk(m.row.Risk), Mode: policy.Mode(m.row.Mode)}
	d := policy.Admission(rules, f)
	if err := s.recordPolicy(ctx, tx, m.row, "submission", string(d.Verdict), d.PolicyVersion, d.Reasons, f); err != nil {
		return nil, err
	}
	by := run.Actor{Kind: run.Policy, ID: d.PolicyVersion}
	if d.Verdict == policy.Deny {
		m.row.ReasonWords = words(d.Reasons)
		return d.Reasons, m.apply(run.TaskEvent{Kind: run.TaskEvRefused, By: by, Reason: d.Code}, nil)
	}
	return d.Reasons, m.apply(run.TaskEvent{Kind: run.TaskEvAccepted, By: by}, nil)
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

func (s *Store) recordPolicy(ctx context.Context, tx pgx.Tx, t sqlc.Task, point, verdict, version string, reasons []string, f policy.Facts) error {
	inputs, err := encode(f)
	if err != nil {
		return err
	}
	raw, err := encode(sqlc.PolicyDecision{TenantID: t.TenantID, TaskID: &t.ID, Point: point, Version: version, Verdict: verdict,
		Reasons: nonNil(reasons), Inputs: inputs})
	if err != nil {
		return err
	}
	if err := s.q.InsertPolicyDecision(ctx, tx, raw); err != nil {
		return fmt.Errorf("record policy decision: %w", err)
	}
	return nil
}

// rings collects what to ring after the commit.
type rings struct{ changes []Change }

// taskTx runs a task request: stored answer first, then the work, the key and the
// audit, in one transaction.
func (s *Store) taskTx(ctx context.Context, in Request, scope string, do func(pgx.Tx, *rings) (TaskAck, error)) (TaskAck, error) {
	var ack TaskAck
	for range maxTries {
		var b rings
		err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
			b = rings{}
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
			if in.Audit != nil && in.Audit.ObjectID == "" {
				in.Audit.ObjectID = typeid.Format(typeid.Task, ack.Task)
			}
			return s.audit(ctx, tx, in.Audit)
		})
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

func (s *Store) storeAnswer(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, scope, key string, hash []byte, answer any) error {
	if hash == nil {
		return nil
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return s.q.InsertKey(ctx, tx, sqlc.InsertKeyParams{TenantID: tenant, Scope: scope, Key: key, RequestHash: hash, Status: 200, Answer: raw})
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
