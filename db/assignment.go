package db

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// Assignment is everything that the holder of a lease needs for its phase.
type Assignment struct {
	// Unreadable is why there is nothing else; nil otherwise.
	Unreadable error

	Run        RunInfo
	Task       TaskInfo
	Repository RepositoryInfo
	Rules      policy.Rules
	Screening  patch.Screening
	// Checks is the fixed command set with its digest: the repository's own commands, then the contract's.
	Checks       []run.Check
	ChecksDigest string
	PlanGate     bool
	Plan         *AssignedPlan
	Feedback     []Feedback
	Operations   []Operation
	Session      uuid.UUID
	Verification uuid.UUID
	Report       uuid.UUID
	Approvals    []DecisionInfo
	SameWorker   bool
}

// AssignedPlan is the plan in force.
type AssignedPlan struct {
	Artifact uuid.UUID
	Digest   string
	Approved bool
}

// Feedback is something that the agent must hear, oldest first. It belongs to the run and not to an attempt.
type Feedback struct {
	Source, Text, Author, Artifact string
	Gate                           uuid.UUID
	Revision                       int
	At                             time.Time
}

// Assignments reads what the holders of several leases need, in the order of refs. The worker is the credential that holds
// them all. A run whose record cannot be read says so in its own assignment: the others of the claim are none the worse.
func (s *Store) Assignments(ctx context.Context, refs []Ref, worker uuid.UUID) ([]Assignment, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	ids, tenants := make([]uuid.UUID, len(refs)), make([]uuid.UUID, len(refs))
	for i, r := range refs {
		ids[i], tenants[i] = r.Run, r.Tenant
	}
	var rows []sqlc.AssignedRow
	var policies []sqlc.PoliciesOfRow
	err := together(ctx, s.pool,
		func(h sqlc.DBTX) (err error) {
			rows, err = s.q.Assigned(ctx, h, ids)
			return wrap("read assignments", err)
		},
		func(h sqlc.DBTX) (err error) {
			policies, err = s.q.PoliciesOf(ctx, h, tenants)
			return wrap("load the policies in force", err)
		})
	if err != nil {
		return nil, err
	}
	document := make(map[uuid.UUID]string, len(policies))
	for _, p := range policies {
		document[p.TenantID] = p.Document
	}
	by := make(map[Ref]sqlc.AssignedRow, len(rows))
	for _, r := range rows {
		by[Ref{r.Run.TenantID, r.Run.ID}] = r
	}
	out := make([]Assignment, len(refs))
	for i, ref := range refs {
		row, ok := by[ref]
		if !ok {
			return nil, fault.New(fault.NotFound, "There is no such run here.")
		}
		rules, err := s.rulesIn(document[ref.Tenant])
		if err == nil {
			out[i], err = toAssignment(row, rules)
		}
		if err != nil {
			out[i] = Assignment{Unreadable: err}
			continue
		}
		// Before anything was handed in there is no maker.
		out[i].SameWorker = row.Maker == worker
	}
	return out, nil
}

func toAssignment(row sqlc.AssignedRow, rules policy.Rules) (Assignment, error) {
	a := Assignment{Rules: rules, Verification: row.VerificationID, Report: row.ReportID, Session: row.SessionID}
	r, err := toRun(row.Run)
	if err != nil {
		return a, err
	}
	a.Rules.Execution = rules.Execution.Held(r.Route.Of(string(run.PhaseVerify)))
	if a.Run, err = runInfo(row.Run); err != nil {
		return a, fmt.Errorf("read assignments: %w", err)
	}
	if a.Task, err = taskInfo(row.Task, row.Repository.Name, row.Requester); err != nil {
		return a, err
	}
	if a.Repository, err = repositoryInfo(row.Repository, row.ForgeKind, row.ForgeName); err != nil {
		return a, err
	}
	a.Run.TaskTitle, a.Run.RequestedBy, a.Run.AgentProfile = a.Task.Title, a.Task.RequestedBy, cmp.Or(a.Run.AgentProfile, a.Task.AgentProfile)
	a.Run.BaseRef, a.Run.DefaultBranch, a.Run.RepositoryName = a.Task.BaseRef, a.Repository.DefaultBranch, a.Repository.Name
	a.Screening = screen(rules, a.Task.Contract, a.Repository.Scope, a.Repository.Forbidden)
	if a.Checks, a.ChecksDigest, err = commandSet(a.Repository.Verification, a.Task.Contract.Verification); err != nil {
		return a, err
	}
	a.PlanGate = policy.Plan(rules, policy.Facts{Risk: policy.Risk(a.Run.Risk), PlanGateAsked: a.Task.Contract.PlanGate}).Gate
	if row.PlanID != uuid.Nil {
		digest := cmp.Or(a.Run.ApprovedPlan, a.Run.Plan)
		a.Plan = &AssignedPlan{row.PlanID, digest, digest == a.Run.ApprovedPlan}
	}
	return a, a.history(row)
}

// history reads what happened to the run before: what its agent must hear, effects, and who approved the patch.
func (a *Assignment) history(row sqlc.AssignedRow) error {
	var feedback []sqlc.Feedback
	if err := decode(row.Feedback, &feedback, "feedback"); err != nil {
		return err
	}
	for _, f := range feedback {
		a.Feedback = append(a.Feedback, Feedback{Source: f.Source, Text: f.Text, Author: f.Author, Artifact: f.ArtifactID, Gate: value(f.GateID), Revision: int(value(f.Revision)), At: f.At.UTC()})
	}
	var operations []sqlc.Operation
	if err := decode(row.Operations, &operations, "operations"); err != nil {
		return err
	}
	for _, o := range operations {
		op, err := operation(o)
		if err != nil {
			return err
		}
		a.Operations = append(a.Operations, op)
	}
	if err := decode(row.Approvals, &a.Approvals, "approvals"); err != nil {
		return err
	}
	for i := range a.Approvals {
		a.Approvals[i].At = a.Approvals[i].At.UTC()
	}
	return nil
}

// CommandSet returns the commands that verify a run now, and their digest.
func (s *Store) CommandSet(ctx context.Context, ref Ref) ([]run.Check, string, error) {
	row, err := s.q.RunCommands(ctx, s.pool, ref.Tenant, ref.Run)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, "", fault.New(fault.NotFound, "There is no such run here.")
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the commands that verify: %w", err)
	}
	var checks []run.Check
	if err := decode(row.Verification, &checks, "verification"); err != nil {
		return nil, "", err
	}
	var contract run.Contract
	if err := decode(row.Contract, &contract, "contract"); err != nil {
		return nil, "", err
	}
	return commandSet(checks, contract.Verification)
}

func commandSet(repository, contract []run.Check) ([]run.Check, string, error) {
	all := slices.Concat(repository, contract)
	if all == nil {
		all = []run.Check{}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, "", fmt.Errorf("encode command set: %w", err)
	}
	sum := sha256.Sum256(raw)
	return all, hex.EncodeToString(sum[:]), nil
}
