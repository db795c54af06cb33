package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/capability"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/trail"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// drainGrace is what a worker is told to finish in after a drain signal.
const drainGrace = 30 * time.Second

// workerID is the worker as its credential makes it; nothing of the body adds to it (S11).
func (p *principal) workerID() db.WorkerID {
	w := db.WorkerID{ID: p.credential, Name: p.name, Phases: p.phases}
	if p.tenant != uuid.Nil {
		w.Tenant = &p.tenant
	}
	return w
}

func (s *server) apiWorkers(w http.ResponseWriter, r *http.Request) error {
	workers, err := s.store.Workers(r.Context(), who(r).tenant)
	if err != nil {
		return err
	}
	list := wire.WorkerList{Items: []wire.Worker{}}
	for _, info := range workers {
		list.Items = append(list.Items, wire.Worker{
			Id: typeid.Format(typeid.Worker, info.ID), Name: info.Name, Version: info.Version, State: info.State, Phases: wirePhases(info.Phases),
			Isolation: wire.IsolationTier(info.Isolation), MaxConcurrentRuns: info.MaxConcurrent, ActiveLeases: int(info.Leases), LastHeartbeatAt: info.HeartbeatAt,
		})
	}
	return s.answer(w, r, http.StatusOK, list)
}

// offered are the phases that a worker names, which its credential must allow.
func offered(p *principal, phases []wire.Phase) ([]run.Phase, error) {
	asked := runPhases(phases)
	for _, phase := range asked {
		if !slices.Contains(p.phases, phase) {
			return nil, fault.Newf(fault.Forbidden, "Nothing was done: the credential does not allow the phase %s.", phase).WithField("phases").WithCode("phase_not_allowed")
		}
	}
	return asked, nil
}

func (s *server) apiRegisterWorker(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.WorkerRegister](s, r)
	if err != nil {
		return err
	}
	p := who(r)
	phases, err := offered(p, body.Phases)
	if err != nil {
		return err
	}
	probes, err := json.Marshal(body.Probes)
	if err != nil {
		return fmt.Errorf("encode probes: %w", err)
	}
	if body.Probes == nil {
		probes = nil
	}
	for _, c := range body.Capabilities {
		if err := capability.CheckOffer(c); err != nil {
			return fault.Wrap(fault.Invalid, err, "The worker was not registered: "+err.Error()).WithField("capabilities")
		}
	}
	starting, err := startingBoot(body)
	if err != nil {
		return err
	}
	boot, err := s.store.RegisterBoot(r.Context(), p.workerID(), db.Boot{
		Starting: body.State == wire.BootStarting, ID: starting,
		Name: body.Name, Version: body.Version, Phases: phases, Capabilities: body.Capabilities, Isolation: string(body.Isolation), Probes: probes, MaxConcurrent: body.MaxConcurrentRuns, Queues: body.Queues, Pools: body.Pools,
	})
	if err != nil {
		return err
	}
	t := s.store.Timing()
	return s.answer(w, r, http.StatusCreated, wire.WorkerBoot{
		WorkerId: typeid.Format(typeid.Worker, p.credential), BootId: typeid.Format(typeid.Boot, boot), LeaseTtlMs: t.LeaseTTL.Milliseconds(),
		HeartbeatMs: t.Heartbeat.Milliseconds(), DrainGraceMs: drainGrace.Milliseconds(), CancelGraceMs: t.CancelGrace.Milliseconds(),
	})
}

// startingBoot is the boot that the worker says is ready now, nil for a new one.
func startingBoot(body wire.WorkerRegister) (uuid.UUID, error) {
	if body.BootId == "" {
		return uuid.Nil, nil
	}
	if body.State == wire.BootStarting {
		return uuid.Nil, fault.New(fault.Invalid, "The worker was not registered: a boot that has an id is ready or registers again.").WithField("state")
	}
	return typeid.ParseField("boot_id", typeid.Boot, body.BootId)
}

func (s *server) apiDeregisterWorker(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.BootRef](s, r)
	if err != nil {
		return err
	}
	boot, err := typeid.ParseField("boot_id", typeid.Boot, body.BootId)
	if err != nil {
		return err
	}
	if err := s.store.StopBoot(r.Context(), who(r).workerID(), boot); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) apiHeartbeat(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.Heartbeat](s, r)
	if err != nil {
		return err
	}
	boot, err := typeid.ParseField("boot_id", typeid.Boot, body.BootId)
	if err != nil {
		return err
	}
	var beats []db.Beat
	for i, l := range body.Leases {
		lease, err := leaseRef(fmt.Sprintf("leases.%d.lease_id", i), l.LeaseId, l.FencingToken)
		if err != nil {
			return err
		}
		id, err := typeid.ParseField(fmt.Sprintf("leases.%d.run_id", i), typeid.Run, l.RunId)
		if err != nil {
			return err
		}
		beats = append(beats, db.Beat{Run: id, Lease: lease, Stopping: l.Stopping})
	}
	trail.Add(r.Context(), trail.Chain{Boot: body.BootId})
	pulses, drain, err := s.store.Extend(r.Context(), who(r).workerID(), boot, body.State == wire.WorkerDraining, beats)
	if err != nil {
		return err
	}
	answer := wire.HeartbeatAck{Leases: []wire.LeaseSignal{}, Drain: drain}
	for _, p := range pulses {
		answer.Leases = append(answer.Leases, wire.LeaseSignal{
			LeaseId: typeid.Format(typeid.Lease, p.Lease.ID), RunId: typeid.Format(typeid.Run, p.Run), Signal: wire.LeaseSignalSignal(p.Signal), ExpiresInMs: p.ExpiresIn.Milliseconds(),
		})
	}
	return s.answer(w, r, http.StatusOK, answer)
}

// apiClaim waits for work. A client that goes away before the answer finds its leases under the same claim id.
func (s *server) apiClaim(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.Claim](s, r)
	if err != nil {
		return err
	}
	p := who(r)
	phases, err := offered(p, body.Phases)
	if err != nil {
		return err
	}
	boot, err := typeid.ParseField("boot_id", typeid.Boot, body.BootId)
	if err != nil {
		return err
	}
	trail.Add(r.Context(), trail.Chain{Boot: body.BootId})
	ctx, cancel := s.untilDrained(r.Context())
	defer cancel()
	claimed, again, err := s.store.ClaimWait(ctx, db.ClaimRequest{ClaimID: body.ClaimId, Worker: p.workerID(), Boot: boot, Phases: phases, Max: body.Max},
		time.Duration(body.WaitSeconds)*time.Second)
	if err != nil {
		return err
	}
	answer := wire.ClaimAck{Assignments: []wire.Assignment{}, Replayed: again}
	refs := make([]db.Ref, len(claimed))
	for i, c := range claimed {
		refs[i] = c.Ref
	}
	all, err := s.store.Assignments(r.Context(), refs, p.credential)
	if err != nil {
		return err
	}
	for i, a := range all {
		one, err := s.assignment(r, claimed[i], a)
		if err != nil {
			// Nobody works on it, so its lease ends by itself and the run by its crash budget; the others are handed over.
			s.log.ErrorContext(r.Context(), "a run was leased and cannot be described to its worker", "run_id", typeid.Format(typeid.Run, claimed[i].Ref.Run), "error", err)
			continue
		}
		answer.Assignments = append(answer.Assignments, one)
	}
	return s.answer(w, r, http.StatusOK, answer)
}

// assignment puts together what a phase needs.
func (s *server) assignment(r *http.Request, c db.Claimed, a db.Assignment) (wire.Assignment, error) {
	if a.Unreadable != nil {
		return wire.Assignment{}, a.Unreadable
	}
	t, info := a.Task, a.Run
	out := wire.Assignment{
		LeaseId: typeid.Format(typeid.Lease, c.Lease.ID), FencingToken: c.Lease.Token, LeaseTtlMs: c.TTL.Milliseconds(), Phase: wire.Phase(c.Lease.Phase),
		RunId: typeid.Format(typeid.Run, info.ID), TaskId: typeid.Format(typeid.Task, t.ID), RunVersion: info.Version, State: wire.RunState(info.State),
		AttemptNo: info.AttemptNo, RepairRound: info.Repairs, Redelivery: redelivery(info, c.Lease.Phase), Title: t.Title, Goal: t.Goal,
		Contract: wireContract(t.Contract, t.ContractDigest), BaseRef: t.BaseRef, BaseCommit: info.BaseCommit, Branch: info.Branch, AgentProfile: t.AgentProfile,
		Repository: wire.AssignedRepository{
			Id: typeid.Format(typeid.Repo, a.Repository.ID), Name: a.Repository.Name, ForgeKind: a.Repository.ForgeKind, CloneUrl: a.Repository.CloneURL, DefaultBranch: a.Repository.DefaultBranch,
		},
		PlanGate: a.PlanGate, ApprovedPlanDigest: info.ApprovedPlan, Verification: wireChecks(a.Checks), CommandSetDigest: a.ChecksDigest,
		VerificationReportId: typeid.Format(typeid.Artifact, a.Verification), ReportArtifactId: typeid.Format(typeid.Artifact, a.Report),
		AgentSessionArtifactId: typeid.Format(typeid.Artifact, a.Session), SameWorker: a.SameWorker, MinIsolation: wire.IsolationTier(a.Rules.Execution.MinIsolation),
		Limits: wireLimits(info.Limits),
		Judge: &wire.JudgeRules{
			MinConfidence: a.Rules.Judge.MinConfidence, Scope: a.Screening.Scope, Forbidden: a.Screening.Forbidden, Protected: a.Screening.Protected,
			Generated: a.Screening.Generated, MaxChangedFiles: info.Limits.ChangedFiles, MaxDiffLines: info.Limits.DiffLines,
		},
	}
	if out.BaseRef == "" {
		out.BaseRef = a.Repository.DefaultBranch
	}
	if a.Plan != nil {
		out.Plan = &wire.AssignedPlan{ArtifactId: typeid.Format(typeid.Artifact, a.Plan.Artifact), Digest: a.Plan.Digest, Approved: a.Plan.Approved}
	}
	if p := info.Patch; p != nil {
		out.Patch = &wire.AssignedPatch{ArtifactId: p.Artifact, Digest: p.Digest, Revision: p.Revision, BaseCommit: p.Base, ResultTree: p.Tree}
	}
	for _, f := range a.Feedback {
		out.Feedback = append(out.Feedback, wire.Feedback{
			Source: wire.FeedbackSource(f.Source), Text: f.Text, Author: f.Author, GateId: typeid.Format(typeid.Gate, f.Gate), Revision: f.Revision, ArtifactId: f.Artifact, At: f.At,
		})
	}
	for _, op := range a.Operations {
		out.Operations = append(out.Operations, wireOperation(op))
	}
	if c.Lease.Phase == run.PhasePublish {
		var err error
		if out.Publish, err = s.publishPlan(r, a); err != nil {
			return out, err
		}
	}
	return out, nil
}

func redelivery(info db.RunInfo, phase run.Phase) int {
	switch phase {
	case run.PhaseVerify:
		return info.VerifyRedeliveries
	case run.PhasePublish:
		return info.PublishRedeliveries
	default:
		return 0
	}
}

func wireLimits(l run.Limits) wire.Limits {
	seconds := func(d time.Duration) int { return int(d / time.Second) }
	return wire.Limits{
		WallClockSeconds: seconds(l.RunTimeout.Std()), AttemptSeconds: seconds(l.AttemptTimeout.Std()), CommandSeconds: seconds(l.CommandTimeout.Std()),
		MaxAttempts: l.MaxAttempts, MaxRepairRounds: l.RepairRounds, MaxChangedFiles: l.ChangedFiles, MaxDiffLines: l.DiffLines, MaxToolCalls: l.ToolCalls,
		MaxAgentIterations: l.AgentIterations, MaxTokens: l.TokensIn + l.TokensOut, MaxCostMicros: l.CostCents * 10_000,
	}
}

func wireOperation(op db.Operation) wire.Operation {
	return wire.Operation{
		Id: typeid.Format(typeid.Op, op.ID), Kind: wire.OperationKind(op.Kind), Identity: op.Identity, State: op.State, Parameters: op.Parameters, Result: op.Result,
	}
}

func leaseRef(field, id string, token int64) (run.LeaseRef, error) {
	lease, err := typeid.ParseField(field, typeid.Lease, id)
	return run.LeaseRef{ID: lease, Token: token}, err
}
