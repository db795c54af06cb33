package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// creation is one request for a new task. What it stands on is read in one statement, everything is decided in memory, and all
// that follows is written in one round trip, as one transaction.
type creation struct {
	s     *Store
	in    Request
	scope string
	spec  TaskSpec
	ack   TaskAck
	b     rings
}

// handle is a pool or a transaction.
type handle interface {
	sqlc.DBTX
	sender
}

// errOneAtATime says that policy bounds a count: the admission must be decided and committed before the tenant's next one counts.
var errOneAtATime = errors.New("one admission of the tenant decides at a time")

func (c *creation) try(ctx context.Context) (TaskAck, rings, error) {
	err := c.s.patiently(ctx, func() error {
		g, err := c.s.grounds(ctx, c.s.pool, c.ask())
		if err != nil {
			return err
		}
		rules, err := c.s.rulesIn(g.Document)
		if err != nil {
			return err
		}
		err = c.create(ctx, c.s.pool, g, rules, !bounded(rules))
		if !errors.Is(err, errOneAtATime) {
			return err
		}
		return tryTx(ctx, c.s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
			g, err := c.s.heldGrounds(ctx, tx, rules, c.ask())
			if err != nil {
				return err
			}
			return c.create(ctx, tx, g, rules, true)
		})
	})
	return c.ack, c.b, err
}

func (c *creation) ask() sqlc.AdmissionGroundsParams {
	// Who is no person is refused below; here such a name stands for nobody.
	requester, _ := uuid.Parse(c.in.By.ID)
	ask := c.s.ask(c.in.Tenant, c.spec.Repository, requester)
	ask.Scope, ask.Key = c.scope, c.in.Key
	return ask
}

// create answers a key that was used before; otherwise it makes the task, and where the task is READY its first run. counted says
// that the counts of the grounds hold until the commit, as far as policy asks.
func (c *creation) create(ctx context.Context, h handle, g grounds, rules policy.Rules, counted bool) error {
	c.ack, c.b = TaskAck{}, rings{}
	if c.in.Hash != nil && g.stored != nil {
		err := answerOf(g.stored.RequestHash, g.stored.Answer, c.in.Hash, &c.ack)
		c.ack.Replayed = err == nil
		return err
	}
	m, err := newTask(c.in, c.spec, rules, micro(g.Now))
	if err != nil {
		return err
	}
	sub := submission{move: m, made: true}
	c.ack.Task = m.row.ID
	if c.spec.Draft {
		err = m.apply(run.TaskEvent{Kind: run.TaskEvDrafted, By: c.in.By}, nil)
	} else {
		sub.decision, c.ack.Reasons, err = submit(m, c.in, rules, g.repo)
	}
	if err != nil {
		return err
	}
	c.ack.Reason = m.row.ReasonWords
	if m.task.State == run.TaskReady {
		if !counted {
			return errOneAtATime
		}
		id, err := c.s.startRun(ctx, h, &sub, start{by: controlPlane(), asked: c.in.Roles, rules: rules, grounds: g})
		if err != nil {
			return err
		}
		c.ack.Run = &id
	}
	c.ack.State = m.task.State
	c.b.changes = sub.changes()
	return c.write(ctx, h, sub)
}

// write sends the submission with its key and its audit line.
func (c *creation) write(ctx context.Context, h handle, sub submission) error {
	p := &pipeline{}
	if err := c.s.submissionStatements(ctx, p, sub); err != nil {
		return err
	}
	if err := c.s.storeAnswer(ctx, p, c.in.Tenant, c.scope, c.in.Key, c.in.Hash, c.ack); err != nil {
		return err
	}
	if err := c.s.audit(ctx, p, c.in.auditOf(c.ack.Task)); err != nil {
		return err
	}
	return wrap("write submission", h.SendBatch(ctx, &p.Batch).Close())
}

// newTask is the task as it was asked for, before anything happened to it.
func newTask(in Request, spec TaskSpec, rules policy.Rules, now time.Time) (*taskMove, error) {
	requester, err := uuid.Parse(in.By.ID)
	if err != nil {
		return nil, fault.New(fault.Forbidden, "The task was not stored: only a person, or a token of a person, submits tasks.")
	}
	contract, err := encode(spec.Contract)
	if err != nil {
		return nil, err
	}
	digest, err := spec.Contract.Digest()
	if err != nil {
		return nil, err
	}
	kind := spec.Kind
	if kind == "" {
		kind = "ordinary"
	}
	return newTaskMove(sqlc.Task{ID: typeid.New(), TenantID: in.Tenant, RepositoryID: spec.Repository, Kind: kind, Title: spec.Title, Goal: spec.Goal,
		BaseRef: spec.BaseRef, Mode: string(spec.Contract.Mode), Risk: spec.Contract.Risk, Contract: contract, ContractDigest: digest,
		AgentProfile: spec.AgentProfile, ParentTaskID: spec.Parent, TemplateID: spec.Template, CampaignID: spec.Campaign, RequestedBy: requester, Priority: int16(spec.Priority),
		MaxRuns: int32(max(rules.Limits.MaxRuns, 1)), CreatedAt: now, UpdatedAt: now}), nil
}

// submission is what a request for work puts into the database.
type submission struct {
	move     *taskMove
	made     bool                 // the task itself is new
	decision *sqlc.PolicyDecision // about the task
	run      *write               // the new run's, with the events of its creation and its admission
	due      *time.Time           // when to look again at the run, where admission put it off
}

func (b submission) changes() []Change {
	if b.run == nil {
		return nil
	}
	return b.run.changes()
}

// send writes the submission in one round trip of the transaction.
func (s *Store) send(ctx context.Context, tx pgx.Tx, sub submission) error {
	p := &pipeline{}
	if err := s.submissionStatements(ctx, p, sub); err != nil {
		return err
	}
	return wrap("write submission", tx.SendBatch(ctx, &p.Batch).Close())
}

// submissionStatements queues the submission: the task, which is new or locked, then its run, then what belongs to the run.
func (s *Store) submissionStatements(ctx context.Context, p *pipeline, sub submission) error {
	m := sub.move
	put := func(rows any, send func(context.Context, sqlc.DBTX, json.RawMessage) error) error {
		raw, err := encode(rows)
		if err != nil {
			return err
		}
		return send(ctx, p, raw)
	}
	task := s.q.UpdateTask
	if sub.made {
		task = s.q.InsertTask
	}
	if err := errors.Join(put(m.row, task), put(m.events, s.q.InsertTaskEvents)); err != nil {
		return err
	}
	if sub.decision != nil {
		if err := put(sub.decision, s.q.InsertPolicyDecision); err != nil {
			return err
		}
	}
	if sub.run == nil {
		return nil
	}
	r := sub.run.runs[0]
	if err := errors.Join(put(r, s.q.InsertRun), put(sub.run.events, s.q.InsertRunEvents), s.writeParts(ctx, p, sub.run)); err != nil {
		return err
	}
	if sub.due != nil {
		return s.q.PutAdmission(ctx, p, r.ID, r.TenantID, *sub.due)
	}
	return nil
}

// start says how a run is made: by whom, with which roles its task was asked for, under which rules and on which grounds, and on
// which branch, where it takes one over.
type start struct {
	by      run.Actor
	asked   []policy.Role
	rules   policy.Rules
	grounds grounds
	branch  string
}

// startRun makes a run of a READY task and admits it at once where policy says so. It adds both to the submission and writes nothing.
func (s *Store) startRun(ctx context.Context, h sqlc.DBTX, sub *submission, o start) (uuid.UUID, error) {
	id, m, now := typeid.New(), sub.move, o.grounds.Now
	if err := m.apply(run.TaskEvent{Kind: run.TaskEvRunCreated, By: o.by}, &id); err != nil {
		return id, refused(err, run.Run{})
	}
	m.row.ActiveRunID = &id
	steps, err := reduceAll(run.Run{}, run.Event{ID: "created", By: controlPlane(), At: micro(now),
		Payload: run.CreatedEvent{Run: id, Tenant: m.row.TenantID, Task: m.row.ID, Repository: m.row.RepositoryID,
			Mode: run.Mode(m.row.Mode), Risk: m.row.Risk}})
	if err != nil {
		return id, err
	}
	row, first, err := firstRow(m.row, steps[0], o.branch)
	if err != nil {
		return id, err
	}
	f, err := s.startFacts(ctx, h, m.row, steps[0].res.Run, o)
	if err != nil {
		return id, err
	}
	w := &write{events: []sqlc.RunEvent{first}}
	a, err := s.admit(w, row, steps[0].res.Run, o.rules, f, now, "admission-1")
	if err != nil {
		return id, err
	}
	if made := &w.runs[0]; made.Limits == nil {
		made.Limits = row.Limits // a new row has no limits to keep
	}
	sub.run, sub.due = w, a.due
	return id, m.follow(a.steps)
}

// startFacts is what policy asks about a new run; the roles are those with which its task was asked for.
func (s *Store) startFacts(ctx context.Context, h sqlc.DBTX, t sqlc.Task, r run.Run, o start) (policy.Facts, error) {
	repo := o.grounds.repo
	if repo == nil {
		return policy.Facts{}, fmt.Errorf("task %s has no repository", t.ID)
	}
	f := run.Facts{Rules: o.rules}
	if _, err := contractOf(sqlc.RunContractsRow{RunID: r.ID, Contract: t.Contract, RequestedBy: t.RequestedBy, AgentProfile: t.AgentProfile, Priority: t.Priority,
		Repository: repo.Name, Scope: repo.Scope, Forbidden: repo.Forbidden, Requires: repo.Requires}, r, &f); err != nil {
		return f.Policy, err
	}
	f.Policy.RequesterRoles = o.asked
	return f.Policy, s.admissionFacts(ctx, h, r.Tenant, o.grounds, o.rules, &f.Policy)
}

// firstRow is the run as its first event left it, with that event's row. Its branch is deterministic (D-29): the one that it
// takes over, else the branch is named after the task and this run.
func firstRow(t sqlc.Task, created step, branch string) (sqlc.Run, sqlc.RunEvent, error) {
	r := created.res.Run
	ev, hash, err := eventRow(created, nil)
	if err != nil {
		return sqlc.Run{}, ev, err
	}
	if branch == "" {
		branch = "agent/" + typeid.Format(typeid.Task, t.ID) + "/" + typeid.Format(typeid.Run, r.ID)
	}
	row, err := ownRun(sqlc.Run{HeadHash: hash, UpdatedAt: r.CreatedAt, StateSince: r.CreatedAt, AgentProfile: t.AgentProfile, Branch: branch}, r)
	if err != nil {
		return row, ev, err
	}
	row.Limits, err = encode(r.Limits)
	return row, ev, err
}

func controlPlane() run.Actor { return run.Actor{Kind: run.ControlPlane, ID: "signalbox"} }
