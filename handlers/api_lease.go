package handlers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/trail"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// holder is the proof that every write of a worker carries: its credential, its lease, its token.
func (s *server) holder(r *http.Request, lease string, token int64) (db.Holder, error) {
	id, err := pathID(r, "run_id", typeid.Run)
	if err != nil {
		return db.Holder{}, err
	}
	return s.holderOf(r, id, lease, token)
}

// holderOf is holder where the body names the run.
func (s *server) holderOf(r *http.Request, id uuid.UUID, lease string, token int64) (db.Holder, error) {
	ref, err := leaseRef("lease_id", lease, token)
	if err != nil {
		return db.Holder{}, err
	}
	trail.Add(r.Context(), trail.Chain{Run: typeid.Format(typeid.Run, id), Lease: lease, Token: token})
	p := who(r)
	tenant, err := tenantOf(r, func() (uuid.UUID, error) { return s.store.TenantOfLease(r.Context(), p.credential, id, ref.ID) })
	return db.Holder{Ref: db.Ref{Tenant: tenant, Run: id}, Lease: ref, Worker: p.credential}, err
}

// untilDrained ends a wait when the server drains.
func (s *server) untilDrained(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// apiRunCommand records what the holder of a lease reports.
func (s *server) apiRunCommand(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	body, err := decode[wire.RunCommand](s, r)
	if err != nil {
		return err
	}
	h, err := s.holder(r, body.LeaseId, body.FencingToken)
	if err != nil {
		return err
	}
	if err := onlyOwnContent(body); err != nil {
		return err
	}
	switch body.Command {
	case wire.CmdOperationIntended:
		o := body.OperationIntended
		return s.operation(w, r, h, func() (db.Operation, error) {
			return s.store.Intend(r.Context(), h, string(o.Kind), o.Identity, o.Parameters)
		})
	case wire.CmdOperationDispatched:
		return s.operation(w, r, h, func() (db.Operation, error) {
			return s.store.Dispatch(r.Context(), h, body.OperationDispatched.Identity)
		})
	case wire.CmdOperationObserved:
		if o := body.OperationObserved; o.Outcome != wire.OutcomeAmbiguous {
			return s.operation(w, r, h, func() (db.Operation, error) {
				return s.store.Observe(r.Context(), h, o.Identity, string(o.Outcome), o.Result)
			})
		}
	}
	command, err := s.command(r, h, body)
	if err != nil {
		return err
	}
	hash, err := requestHash(r, body)
	if err != nil {
		return err
	}
	p := who(r)
	ack, err := s.store.Apply(r.Context(), h.Ref, db.Intent{
		Key: key, Hash: hash, By: run.Actor{Kind: run.Worker, ID: p.actorID(), Name: p.name}, Lease: &h.Lease, Worker: p.credential, Command: command,
	})
	if err != nil {
		return err
	}
	replayed(w, ack.Replayed)
	return s.answer(w, r, http.StatusOK, wire.CommandAck{
		Run:      wire.RunRef{Id: typeid.Format(typeid.Run, ack.Run), State: wire.RunState(ack.State), Version: ack.Version},
		Continue: ack.Leased && !ack.Cancelling, CancelRequested: ack.Cancelling, Replayed: ack.Replayed, Next: fitting(ack),
	})
}

// fitting lists the commands that move the run on from where it is now.
func fitting(ack db.Ack) []wire.CommandName {
	if !ack.Leased {
		return nil
	}
	switch ack.State {
	case run.Leased:
		return []wire.CommandName{wire.CmdStart}
	case run.Preparing:
		return []wire.CommandName{wire.CmdSandboxReady}
	case run.ContextBuilding:
		return []wire.CommandName{wire.CmdContextReady}
	case run.Planning:
		return []wire.CommandName{wire.CmdPlanSubmitted}
	case run.Executing:
		return []wire.CommandName{wire.CmdPatchSubmitted, wire.CmdReportSubmitted, wire.CmdNoChangeSubmitted}
	case run.PatchReady:
		return []wire.CommandName{wire.CmdVerificationStarted}
	case run.Verifying:
		return []wire.CommandName{wire.CmdVerificationReported}
	case run.Judging:
		return []wire.CommandName{wire.CmdJudgeReported}
	case run.PRCreating:
		return []wire.CommandName{wire.CmdOperationIntended, wire.CmdOperationDispatched, wire.CmdOperationObserved, wire.CmdPrReported, wire.CmdBaseMoved, wire.CmdBranchTouched}
	case run.Cancelling:
		return []wire.CommandName{wire.CmdCancelConfirmed, wire.CmdStopped}
	default:
		return nil
	}
}

// operation records a step of an effect outside, which is no transition.
func (s *server) operation(w http.ResponseWriter, r *http.Request, h db.Holder, do func() (db.Operation, error)) error {
	op, err := do()
	if err != nil {
		return err
	}
	info, err := s.store.RunInfo(r.Context(), h.Ref.Tenant, h.Ref.Run)
	if err != nil {
		return err
	}
	shown := wireOperation(op)
	return s.answer(w, r, http.StatusOK, wire.CommandAck{
		Run:      wire.RunRef{Id: typeid.Format(typeid.Run, info.ID), State: wire.RunState(info.State), Version: info.Version},
		Continue: info.Holds(&h.Lease) && info.State != run.Cancelling, CancelRequested: info.State == run.Cancelling, Operation: &shown,
	})
}

// contents lists the members of a command by its name; nil where the command carries none.
func contents(b wire.RunCommand) map[wire.CommandName]bool {
	return map[wire.CommandName]bool{
		wire.CmdSandboxReady: b.SandboxReady != nil, wire.CmdContextReady: b.ContextReady != nil, wire.CmdPlanSubmitted: b.PlanSubmitted != nil,
		wire.CmdPatchSubmitted: b.PatchSubmitted != nil, wire.CmdReportSubmitted: b.ReportSubmitted != nil, wire.CmdNoChangeSubmitted: b.NoChangeSubmitted != nil,
		wire.CmdVerificationStarted: b.VerificationStarted != nil, wire.CmdVerificationReported: b.VerificationReported != nil, wire.CmdJudgeReported: b.JudgeReported != nil,
		wire.CmdOperationIntended: b.OperationIntended != nil, wire.CmdOperationDispatched: b.OperationDispatched != nil, wire.CmdOperationObserved: b.OperationObserved != nil,
		wire.CmdPrReported: b.PrReported != nil, wire.CmdBaseMoved: b.BaseMoved != nil, wire.CmdBranchTouched: b.BranchTouched != nil,
		wire.CmdAttemptFailed: b.AttemptFailed != nil, wire.CmdRelease: b.Release != nil, wire.CmdStopped: b.Stopped != nil,
	}
}

// onlyOwnContent holds that a command carries the member of its own name and no other.
func onlyOwnContent(b wire.RunCommand) error {
	all := contents(b)
	if own, carries := all[b.Command]; carries && !own {
		return invalidFields([]wire.FieldError{{Field: string(b.Command), Message: "This is missing: the command carries its content in the member of its own name."}})
	}
	var fields []wire.FieldError
	for name, given := range all {
		if given && name != b.Command {
			fields = append(fields, wire.FieldError{Field: string(name), Message: fmt.Sprintf("The command %s does not carry this.", b.Command)})
		}
	}
	if len(fields) > 0 {
		return invalidFields(fields)
	}
	return nil
}

// command turns a body into what the core decides about.
func (s *server) command(r *http.Request, h db.Holder, b wire.RunCommand) (run.Command, error) {
	switch b.Command {
	case wire.CmdStart:
		return run.Start{}, nil
	case wire.CmdSandboxReady:
		return run.SandboxIsReady{Tier: string(b.SandboxReady.Isolation), Base: b.SandboxReady.BaseCommit}, nil
	case wire.CmdContextReady:
		return run.ContextIsReady{Artifact: b.ContextReady.ArtifactId}, nil
	case wire.CmdPlanSubmitted:
		return run.PlanSubmitted{Artifact: b.PlanSubmitted.ArtifactId}, nil
	case wire.CmdPatchSubmitted:
		return run.PatchSubmitted{Artifact: b.PatchSubmitted.ArtifactId, Base: b.PatchSubmitted.BaseCommit, Tree: b.PatchSubmitted.ResultTree, Summary: b.PatchSubmitted.Summary}, nil
	case wire.CmdReportSubmitted:
		return run.ReportSubmitted{Artifact: b.ReportSubmitted.ArtifactId}, nil
	case wire.CmdNoChangeSubmitted:
		return run.NoChangeSubmitted{Summary: b.NoChangeSubmitted.Summary}, nil
	case wire.CmdVerificationStarted:
		return s.verificationStarted(r, h, *b.VerificationStarted)
	case wire.CmdVerificationReported:
		return run.VerifyReported{Artifact: b.VerificationReported.ArtifactId}, nil
	case wire.CmdJudgeReported:
		j := b.JudgeReported
		return run.JudgeReported{Judge: run.JudgeEvidence{Artifact: j.ArtifactId, Verdict: string(j.Verdict), Confidence: j.Confidence, Reasons: j.Reasons}}, nil
	case wire.CmdOperationObserved:
		return s.ambiguous(r, h, *b.OperationObserved)
	case wire.CmdPrReported:
		return run.PRReported{PR: run.PullRequest{URL: b.PrReported.Url, SHA: b.PrReported.Sha, Branch: b.PrReported.Branch, Number: b.PrReported.Number}}, nil
	case wire.CmdBaseMoved:
		return run.BaseHasMoved{NewBase: b.BaseMoved.NewBase, Overlaps: b.BaseMoved.Overlapping, Commits: b.BaseMoved.Commits}, nil
	case wire.CmdBranchTouched:
		info, err := s.store.RunInfo(r.Context(), h.Ref.Tenant, h.Ref.Run)
		return run.BranchWasTouched{Branch: info.Branch, SHA: b.BranchTouched.Sha}, err
	case wire.CmdAttemptFailed:
		f := b.AttemptFailed
		return run.AttemptHasFailed{Code: run.Code(f.ReasonCode), Summary: f.Summary, Artifact: f.ArtifactId,
			RetryAfter: time.Duration(f.RetryAfterSeconds) * time.Second}, nil
	case wire.CmdRelease:
		return run.Release{Reason: b.Release.Reason}, nil
	case wire.CmdStopped:
		return run.Stopped{Why: run.StopWhy(b.Stopped.Why), Summary: b.Stopped.Summary}, nil
	case wire.CmdCancelConfirmed:
		return run.ConfirmCancel{}, nil
	}
	return nil, fault.Newf(fault.Invalid, "Nothing was changed: there is no command %q.", b.Command).WithField("command")
}

// verificationStarted holds that exactly the fixed command set will run.
func (s *server) verificationStarted(r *http.Request, h db.Holder, v wire.VerificationStarted) (run.Command, error) {
	checks, digest, err := s.store.CommandSet(r.Context(), h.Ref)
	if err != nil {
		return nil, err
	}
	if digest != v.CommandSetDigest {
		return nil, fault.New(fault.Conflict, "Nothing was changed: the repository's checks were changed since the work was given out. Release the lease; the next one gets the new set.").
			WithField("verification_started.command_set_digest").WithCode("command_set_changed")
	}
	names := []string{}
	for _, c := range checks {
		names = append(names, c.Name)
	}
	return run.VerifyStarted{Commands: names, Digest: digest}, nil
}

// ambiguous keeps what is known of the effect; then a person is asked.
func (s *server) ambiguous(r *http.Request, h db.Holder, o wire.OperationObserved) (run.Command, error) {
	if _, err := s.store.Observe(r.Context(), h, o.Identity, string(o.Outcome), o.Result); err != nil {
		return nil, err
	}
	return run.EffectIsAmbiguous{Operations: []string{o.Identity}, Summary: "It is not known whether this happened, and the target cannot be asked: " + o.Identity + "."}, nil
}

func (s *server) apiPostSteps(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.StepBatch](s, r)
	if err != nil {
		return err
	}
	batch := db.Batch{Sequence: body.Sequence, Steps: []db.Step{}}
	for _, step := range body.Steps {
		batch.Steps = append(batch.Steps, db.Step{
			CallID: step.CallId, Kind: step.Kind, Name: step.Name, State: run.StepState(step.State), Summary: step.Summary, ExitCode: step.ExitCode,
			Duration: time.Duration(step.DurationMs) * time.Millisecond,
		})
	}
	return s.facts(w, r, body.LeaseId, body.FencingToken, batch)
}

func (s *server) apiPostLogs(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.LogBatch](s, r)
	if err != nil {
		return err
	}
	batch := db.Batch{Sequence: body.Sequence, Chunks: []db.Chunk{}}
	for i, c := range body.Chunks {
		if len(c.Data) > 65536 {
			return fault.New(fault.TooLarge, "Nothing was stored: a chunk holds at most 64 KiB.").WithField(fmt.Sprintf("chunks.%d.data", i))
		}
		batch.Chunks = append(batch.Chunks, db.Chunk{Stream: c.Stream, CallID: c.CallId, Data: c.Data})
	}
	return s.facts(w, r, body.LeaseId, body.FencingToken, batch)
}

func (s *server) apiPostUsage(w http.ResponseWriter, r *http.Request) error {
	u, err := decode[wire.UsageReport](s, r)
	if err != nil {
		return err
	}
	return s.facts(w, r, u.LeaseId, u.FencingToken, db.Batch{Sequence: u.Sequence, Used: &db.Used{
		Provider: u.Provider, Model: u.Model, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, ToolCalls: u.ToolCalls, AgentIterations: u.AgentIterations,
		ToolTime: time.Duration(u.ToolMs) * time.Millisecond, SandboxTime: time.Duration(u.SandboxMs) * time.Millisecond, ProviderCalls: u.ProviderCalls, CostMicros: u.CostMicros,
	}})
}

func (s *server) facts(w http.ResponseWriter, r *http.Request, lease string, token int64, batch db.Batch) error {
	h, err := s.holder(r, lease, token)
	if err != nil {
		return err
	}
	again, err := s.store.Append(r.Context(), h, batch)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, wire.FactAck{Sequence: batch.Sequence, Replayed: again})
}
