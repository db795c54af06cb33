package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/internal/agent"
	"signalbox/internal/git"
	"signalbox/internal/patch"
	"signalbox/internal/sandbox"
	"signalbox/internal/wire"
)

// execute is the phase in which an agent works: checkout, sandbox, context, plan, agent, patch. After a gate or a
// repair request it begins in the middle: then the workspace is rebuilt from the stored patch and only what is left
// to do is reported.
func (s *session) execute() error {
	profile, ok := s.w.cfg.File.Agents[s.as.AgentProfile]
	if !ok {
		return fail(codeToolMissing, "This worker has no agent profile %q.", s.as.AgentProfile)
	}
	if err := s.isolation(); err != nil {
		return err
	}
	at := s.as.State
	fresh := at == wire.RunStateLEASED || at == wire.RunStateQUEUED || at == wire.RunStatePREPARING
	if at == wire.RunStateLEASED || at == wire.RunStateQUEUED {
		if err := s.l.step(wire.RunCommand{Command: wire.CmdStart}); err != nil {
			return err
		}
	}
	s.w.cfg.Hook(PointInPreparation)
	if err := s.fetchBase(s.as.BaseCommit); err != nil {
		return err
	}
	tree, err := s.startingTree(fresh)
	if err != nil {
		return err
	}
	p, err := s.open("agent", s.slotFor(false), tree, true, profile.Mounts)
	if err != nil {
		return err
	}
	if fresh {
		ready := &wire.SandboxReady{Isolation: wire.IsolationTier(p.box.Tier()), BaseCommit: s.base, Resources: resources(s.sandboxLimits())}
		if err := s.l.step(wire.RunCommand{Command: wire.CmdSandboxReady, SandboxReady: ready}); err != nil {
			return err
		}
	}
	if fresh || at == wire.RunStateCONTEXTBUILDING {
		if err := s.buildContext(); err != nil {
			return err
		}
	}
	plan, err := s.planFor(p, profile, tree, fresh || at != wire.RunStateEXECUTING)
	if err != nil {
		return err
	}
	out, err := s.runAgent(p, profile, agent.PhaseExecute, plan)
	if err != nil {
		return s.keepPartial(p, err)
	}
	if err := agentFailure(out); err != nil {
		return s.keepPartial(p, withOutcome(err, out))
	}
	return s.handIn(p, profile, out)
}

// startingTree is what the agent starts from: the base, or the last revision of this attempt where one is to be
// repaired. A new attempt starts clean, whatever earlier ones made.
func (s *session) startingTree(fresh bool) (string, error) {
	if fresh || s.as.Patch == nil || s.as.Patch.BaseCommit != s.base {
		return s.base, nil
	}
	var tree string
	err := s.act("checkout", fmt.Sprintf("Rebuild revision %d", s.as.Patch.Revision), func() (string, error) {
		var err error
		tree, err = s.applyStored(s.as.Patch.BaseCommit)
		return "", err
	})
	return tree, err
}

// applyStored reads the assignment's patch, checks its digest and applies it. On its own base the tree must be the one
// that was recorded.
func (s *session) applyStored(base string) (string, error) {
	p := s.as.Patch
	content, err := s.l.fetch(p.ArtifactId, p.Digest, 256<<20)
	if err != nil {
		return "", failWith(codePatchInvalid, err, "The stored patch could not be read.")
	}
	tree, err := s.repo.Apply(s.l.work, base, content)
	if err != nil {
		return "", gitFailure(err, "Applying the stored patch")
	}
	if base == p.BaseCommit && p.ResultTree != "" && tree != p.ResultTree {
		return "", fail(codePatchNoApply, "The stored patch gives the tree %s, recorded is %s.", tree, p.ResultTree)
	}
	return tree, nil
}

func resources(l sandbox.Limits) map[string]string {
	d := sandbox.DefaultLimits()
	words := map[string]string{}
	set := func(name string, value, fallback int64, unit string) {
		if value <= 0 {
			value = fallback
		}
		words[name] = fmt.Sprintf("%d %s", value, unit)
	}
	set("memory", l.Memory>>20, d.Memory>>20, "MiB")
	set("processes", int64(l.Procs), int64(d.Procs), "")
	set("output", l.Output>>20, d.Output>>20, "MiB")
	return words
}

// runAgent runs the profile's program once.
func (s *session) runAgent(p *place, profile Profile, phase agent.Phase, plan *agent.Plan) (agent.Outcome, error) {
	contract, err := json.MarshalIndent(s.as.Contract, "", "  ")
	if err != nil {
		return agent.Outcome{}, fmt.Errorf("encode contract: %w", err)
	}
	feedback, err := s.feedback()
	if err != nil {
		return agent.Outcome{}, err
	}
	adapter := &agent.Command{Profile: s.as.AgentProfile, ProgramVersion: profile.Version, Argv: profile.Argv}
	env := map[string]string{
		"SIGNALBOX_RUN_ID": s.as.RunId, "SIGNALBOX_TASK_ID": s.as.TaskId, "SIGNALBOX_ATTEMPT": fmt.Sprint(s.as.AttemptNo),
		"SIGNALBOX_REPAIR_ROUND": fmt.Sprint(s.as.RepairRound), "SIGNALBOX_BASE_COMMIT": s.base,
	}
	for _, m := range []map[string]string{profile.Env, profile.Secrets} {
		for k, v := range m {
			env[k] = v
		}
	}
	wall := time.Duration(profile.Wall)
	if n := time.Duration(s.as.Limits.AttemptSeconds) * time.Second; n > 0 && (wall == 0 || n < wall) {
		wall = n
	}
	var once sync.Once
	begun := func() {
		if phase == agent.PhaseExecute {
			once.Do(func() { s.w.cfg.Hook(PointInExecution) })
		}
	}
	job := agent.Job{
		Phase: phase, Goal: s.as.Goal, Contract: contract, Feedback: feedback, Plan: plan, Env: env,
		Timers: agent.Timers{FirstOutput: time.Duration(profile.FirstOutput), Idle: time.Duration(profile.Idle), Wall: wall, Grace: time.Duration(profile.Grace)},
		Log:    &tap{next: s.output("agent", ""), first: begun},
	}
	var out agent.Outcome
	err = s.act("agent", string(phase)+" with "+s.as.AgentProfile, func() (string, error) {
		sink, settle := s.agentEvents(begun)
		started := time.Now()
		var err error
		out, err = adapter.Run(s.l.work, p.box, job, sink)
		s.flushOutput()
		settle()
		s.l.facts.use(wire.UsageReport{SandboxMs: time.Since(started).Milliseconds()})
		if s.l.work.Err() != nil {
			return "", s.l.check()
		}
		if err != nil {
			return "", failWith(codeSandboxStart, err, "The agent could not be started in its sandbox.")
		}
		begun()
		if f := agentFailure(out); f != nil {
			return "", f
		}
		return clip(cmp.Or(out.Summary, out.End), 1000), nil
	})
	if f, ok := errors.AsType[*failure](err); ok && f.code != codeSandboxStart {
		return out, nil // the caller looks at the outcome itself
	}
	return out, err
}

// tap calls first before the first byte passes.
type tap struct {
	next  interface{ Write([]byte) (int, error) }
	once  sync.Once
	first func()
}

func (t *tap) Write(p []byte) (int, error) {
	t.once.Do(t.first)
	return t.next.Write(p)
}

// agentEvents turns what the agent says into steps and usage. Results for calls that are not open are reported as
// warnings by the adapter and never reach this point as an end of something else. settle closes the calls that never
// got an answer: nothing stays pending once the phase goes on (R-RCV-6). Call ids are the agent's own and may come again in
// its next start, so they are told apart by the start they belong to; a step that is done closes the open one of its title.
func (s *session) agentEvents(begun func()) (sink func(agent.Event), settle func()) {
	s.starts++
	start := fmt.Sprintf("%d-", s.starts)
	open, said := map[string]agent.ToolStarted{}, map[string]string{}
	settle = func() {
		for title, id := range said {
			s.l.facts.step(wire.StepReport{CallId: id, Kind: "agent_step", Name: clip(title, 400), State: wire.StepCancelled, Summary: "The agent ended without saying what became of this step."})
		}
		for id, began := range open {
			s.l.facts.step(wire.StepReport{CallId: start + "tool-" + clip(id, 180), Kind: "tool_call", Name: clip(began.Name, 400), State: wire.StepCancelled, Summary: "The agent ended without an answer to this call."})
		}
	}
	return func(e agent.Event) {
		begun()
		switch e := e.(type) {
		case agent.ToolStarted:
			open[e.CallID] = e
			s.l.facts.step(wire.StepReport{CallId: start + "tool-" + clip(e.CallID, 180), Kind: "tool_call", Name: clip(e.Name, 400), State: wire.StepRunning, Summary: clip(e.Input, 1000)})
			s.l.facts.use(wire.UsageReport{ToolCalls: 1})
		case agent.ToolFinished:
			began, ok := open[e.CallID]
			if !ok {
				return
			}
			delete(open, e.CallID)
			state := wire.StepSucceeded
			switch e.Status {
			case "failed":
				state = wire.StepFailed
			case "cancelled":
				state = wire.StepCancelled
			}
			s.l.facts.step(wire.StepReport{
				CallId: start + "tool-" + clip(e.CallID, 180), Kind: "tool_call", Name: clip(began.Name, 400), State: state, Summary: clip(e.Output, 1000), ExitCode: e.ExitCode, DurationMs: max(0, e.Duration.Milliseconds()),
			})
			s.l.facts.use(wire.UsageReport{ToolMs: max(0, e.Duration.Milliseconds())})
		case agent.Step:
			id, again := said[e.Title]
			if !again {
				s.calls++
				id = start + "said-" + fmt.Sprint(s.calls)
			}
			state := wire.StepRunning
			switch e.Status {
			case "done", "":
				state = wire.StepSucceeded
			case "failed":
				state = wire.StepFailed
			}
			if delete(said, e.Title); state == wire.StepRunning {
				said[e.Title] = id
			}
			s.l.facts.step(wire.StepReport{CallId: id, Kind: "agent_step", Name: clip(e.Title, 400), State: state})
		case agent.Usage:
			u := wire.UsageReport{InputTokens: max(0, e.Input+e.CacheRead+e.CacheWrite), OutputTokens: max(0, e.Output), AgentIterations: 1, ProviderCalls: 1,
				Provider: clip(e.Provider, 200), Model: clip(e.Model, 200)}
			if e.HasCost {
				u.CostMicros = new(max(0, e.CostMicros))
			}
			s.l.facts.use(u)
		case agent.Warning:
			_, _ = fmt.Fprintf(s.l.facts.writer("worker", ""), "agent warning: %s\n", clip(e.Message, 2000))
		}
	}, settle
}

// handIn takes the patch and reports it, or the report, or that nothing needs to change.
func (s *session) handIn(p *place, profile Profile, out agent.Outcome) error {
	taken, err := s.takePatch(p)
	if err != nil {
		return err
	}
	s.keepLog()
	if s.as.Contract.Mode == wire.AnalysisReportCreated {
		return s.handInReport(out, taken)
	}
	if taken.Empty() {
		if !out.NoChange && !profile.EmptyIsNoChange {
			return fail(codeEmptyPatch, "The agent ended without a change and did not say that none is needed.")
		}
		s.l.facts.drain()
		summary := cmp.Or(out.Summary, "The agent found nothing to change and did not say why.")
		return s.l.step(wire.RunCommand{Command: wire.CmdNoChangeSubmitted, NoChangeSubmitted: &wire.NoChangeSubmitted{Summary: clip(summary, 4000)}})
	}
	stored, err := s.store(wire.ArtifactKindPatch, "change.patch", taken.Bytes, uploadOptions{base: s.base, tree: taken.Tree})
	if err != nil {
		return refusedUpload(err, codePatchInvalid, "The server refused the patch")
	}
	s.w.cfg.Hook(PointAfterPatchStored)
	s.storeOldTexts(taken, stored.Digest)
	s.l.facts.drain()
	return s.l.step(wire.RunCommand{Command: wire.CmdPatchSubmitted, PatchSubmitted: &wire.PatchSubmitted{
		ArtifactId: stored.Id, BaseCommit: s.base, ResultTree: taken.Tree, Summary: clip(out.Summary, 4000),
	}})
}

func (s *session) handInReport(out agent.Outcome, taken git.Patch) error {
	if !taken.Empty() {
		if _, err := s.l.upload(s.l.work, wire.ArtifactKindEvidence, "unexpected.patch", taken.Bytes, uploadOptions{}); err != nil {
			return err
		}
		return fail(codeUnexpectedDiff, "The task asked for a report only, but files were changed.")
	}
	name, content := "report.json", []byte(out.Report)
	if len(content) == 0 {
		name, content = "report.md", []byte(out.Summary)
	}
	if len(content) == 0 {
		return fail(codeAgentNoResult, "The agent ended without a report.")
	}
	stored, err := s.store(wire.ArtifactKindReport, name, content, uploadOptions{})
	if err != nil {
		return refusedUpload(err, codeAgentNoResult, "The server refused the report")
	}
	s.l.facts.drain()
	return s.l.step(wire.RunCommand{Command: wire.CmdReportSubmitted, ReportSubmitted: &wire.ReportSubmitted{ArtifactId: stored.Id}})
}

func (s *session) takePatch(p *place) (git.Patch, error) {
	var taken git.Patch
	err := s.act("patch", "Take the patch", func() (string, error) {
		var err error
		if taken, err = s.repo.Patch(s.l.work, s.base, p.checkout(), git.Limits{PatchBytes: patch.MaxBytes}); err != nil {
			return "", gitFailure(err, "Taking the patch")
		}
		for _, skip := range taken.Skipped {
			s.note("worker", "not part of the change: %q: %s", skip.Path, skip.Why)
		}
		return fmt.Sprintf("%d bytes; %d things in the workspace cannot be part of a change.", len(taken.Bytes), len(taken.Skipped)), nil
	})
	return taken, err
}

// store uploads as a step.
func (s *session) store(kind wire.ArtifactKind, name string, content []byte, o uploadOptions) (artifact, error) {
	var a artifact
	err := s.act("upload", "Store "+name, func() (string, error) {
		var err error
		a, err = s.l.upload(s.l.work, kind, name, content, o)
		return "", err
	})
	return a, err
}

// refusedUpload gives the server's "no" to an upload a code; other errors pass.
func refusedUpload(err error, code, what string) error {
	p, ok := errors.AsType[*problemError](err)
	if !ok || p.problem.Stop {
		return err
	}
	if p.status == 413 {
		code = codePatchTooLarge
	}
	return failWith(code, err, "%s: %s", what, clip(p.problem.Detail, 500))
}

// keepPartial stores what the agent had changed when it ended badly or was stopped: as evidence, never as a patch.
func (s *session) keepPartial(p *place, err error) error {
	if s.l.ctx.Err() != nil || p.box == nil {
		return err
	}
	partial, patchErr := s.repo.Patch(s.l.ctx, s.base, p.checkout(), git.Limits{PatchBytes: patch.MaxBytes})
	if patchErr != nil || partial.Empty() {
		return err
	}
	if _, upErr := s.l.upload(s.l.ctx, wire.ArtifactKindEvidence, "partial.patch", partial.Bytes, uploadOptions{}); upErr != nil {
		s.w.log.Warn("partial change not stored", "lease_id", s.as.LeaseId, "error", upErr)
	}
	return err
}

// withOutcome adds the facts of an agent's end to a failure, for the evidence.
func withOutcome(err error, out agent.Outcome) error {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		return err
	}
	raw, encErr := json.Marshal(map[string]any{
		"reason": out.Reason, "exit_code": out.Result.ExitCode, "signal": out.Result.Signal, "timed_out": out.Result.TimedOut, "leftover_processes": out.Result.Leftovers,
		"duration_ms": out.Result.Duration.Milliseconds(), "stderr_tail": clip(out.StderrTail, 17<<10), "warnings": out.Warnings, "events": out.Events,
	})
	if encErr == nil {
		f.evidence = raw
	}
	return f
}
