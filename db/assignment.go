package db

import (
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

	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// Assignment is everything that the holder of a lease needs for its phase.
type Assignment struct {
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

// Assignment reads what a lease's holder needs. The worker is the credential that holds the lease.
func (s *Store) Assignment(ctx context.Context, ref Ref, worker uuid.UUID) (Assignment, error) {
	var a Assignment
	var err error
	if a.Run, err = s.RunInfo(ctx, ref.Tenant, ref.Run); err != nil {
		return a, err
	}
	if a.Task, err = s.Task(ctx, ref.Tenant, a.Run.Task); err != nil {
		return a, err
	}
	if a.Repository, err = s.Repository(ctx, ref.Tenant, a.Run.Repository); err != nil {
		return a, err
	}
	if a.Rules, err = s.Rules(ctx, ref.Tenant); err != nil {
		return a, err
	}
	a.Screening = screen(a.Rules, a.Task.Contract, a.Repository.Scope, a.Repository.Forbidden)
	if a.Checks, a.ChecksDigest, err = commandSet(a.Repository.Verification, a.Task.Contract.Verification); err != nil {
		return a, err
	}
	a.PlanGate = policy.Plan(a.Rules, policy.Facts{Risk: policy.Risk(a.Run.Risk), PlanGateAsked: a.Task.Contract.PlanGate}).Gate
	if err := s.assignEvidence(ctx, ref, &a); err != nil {
		return a, err
	}
	if a.Feedback, err = s.feedback(ctx, ref); err != nil {
		return a, err
	}
	if a.Operations, err = s.Operations(ctx, ref); err != nil {
		return a, err
	}
	// Before anything was handed in there is no maker.
	maker, err := s.q.ResultMaker(ctx, s.pool, ref.Run)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return a, fmt.Errorf("load who made the result: %w", err)
	}
	a.SameWorker = maker == worker
	return a, nil
}

// CommandSet returns the commands that verify a run now, and their digest.
func (s *Store) CommandSet(ctx context.Context, ref Ref) ([]run.Check, string, error) {
	r, err := s.RunInfo(ctx, ref.Tenant, ref.Run)
	if err != nil {
		return nil, "", err
	}
	t, err := s.Task(ctx, ref.Tenant, r.Task)
	if err != nil {
		return nil, "", err
	}
	repo, err := s.Repository(ctx, ref.Tenant, r.Repository)
	if err != nil {
		return nil, "", err
	}
	return commandSet(repo.Verification, t.Contract.Verification)
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

// assignEvidence finds the stored plan, report, verification and session that the phase works with.
func (s *Store) assignEvidence(ctx context.Context, ref Ref, a *Assignment) error {
	find := func(kind, digest string) (uuid.UUID, error) {
		if digest == "" {
			return uuid.Nil, nil
		}
		id, err := s.q.ArtifactByDigest(ctx, s.pool, ref.Tenant, ref.Run, kind, digest)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return uuid.Nil, fmt.Errorf("find %s: %w", kind, err)
		}
		return id, nil
	}
	digest := a.Run.ApprovedPlan
	if digest == "" {
		digest = a.Run.Plan
	}
	plan, err := find("plan", digest)
	if err != nil {
		return err
	}
	if plan != uuid.Nil {
		a.Plan = &AssignedPlan{plan, digest, digest == a.Run.ApprovedPlan}
	}
	if a.Verification, err = find("verification_report", a.Run.Verification); err != nil {
		return err
	}
	if a.Report, err = find("report", a.Run.Report); err != nil {
		return err
	}
	a.Session, err = s.q.AgentSession(ctx, s.pool, ref.Tenant, ref.Run)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("find the agent's session: %w", err)
	}
	rows, err := s.q.RunDecisions(ctx, s.pool, ref.Tenant, ref.Run)
	if err != nil {
		return fmt.Errorf("list decisions: %w", err)
	}
	for _, d := range rows {
		if d.Verdict == string(policy.Approve) && d.GateKind == string(run.GatePatch) {
			a.Approvals = append(a.Approvals, DecisionInfo{ID: d.ID, Gate: d.GateID, Revision: int(d.Revision), User: d.UserID, UserName: d.UserName, Verdict: d.Verdict, Text: d.Text, At: d.At.UTC()})
		}
	}
	return nil
}

func (s *Store) feedback(ctx context.Context, ref Ref) ([]Feedback, error) {
	rows, err := s.q.RunFeedback(ctx, s.pool, ref.Tenant, ref.Run)
	if err != nil {
		return nil, fmt.Errorf("list feedback: %w", err)
	}
	var all []Feedback
	for _, f := range rows {
		all = append(all, Feedback{Source: f.Source, Text: f.Text, Author: f.Author, Artifact: f.ArtifactID, Gate: value(f.GateID), Revision: int(value(f.Revision)), At: f.At.UTC()})
	}
	return all, nil
}
