package handlers

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

func joinLines(lines []string) string { return strings.Join(lines, "\n") }

// runAsked is the run that the address names.
func (s *server) runAsked(r *http.Request) (db.RunInfo, error) {
	id, err := pathID(r, "id", typeid.Run)
	if err != nil {
		return db.RunInfo{}, err
	}
	return s.store.RunInfo(r.Context(), who(r).tenant, id)
}

// runPage reads what the page of a run shows.
func (s *server) runPage(r *http.Request, id uuid.UUID, at window) (web.RunPageData, error) {
	ctx, p := r.Context(), who(r)
	data := web.RunPageData{Shell: s.shell(r)}
	bypasses, err := s.bypasses(r, db.BypassFilter{Run: id})
	if err != nil {
		return data, err
	}
	data.Bypasses = bypasses
	look, err := s.lookAt(ctx, p.tenant, id, data.Now)
	if err != nil {
		return data, err
	}
	if err := s.lookCloser(ctx, &look); err != nil {
		return data, err
	}
	if err := s.lookAround(ctx, &look); err != nil {
		return data, err
	}
	data.Live, data.LastSeq = !look.info.State.Terminal(), look.info.Version
	data.RunParts, data.Facts, data.Panel = look.parts, look.facts, look.panel(look.seenBy(p))
	if data.Timeline, err = s.timeline(r, look.info, at, data.Now); err != nil {
		return data, err
	}
	if data.CancelNow = cancelNow(p, look.info); data.CancelNow {
		data.IdempotencyKey = db.NewSecret()
	}
	return data, nil
}

// runParts reads steps, attempts and artifacts.
func (s *server) runParts(ctx context.Context, info db.RunInfo, gates []db.GateInfo) (data web.RunParts, err error) {
	for _, g := range gates {
		data.Gates = append(data.Gates, gateRef(g))
	}
	if data.Steps, err = s.lastSteps(ctx, info, maxSteps); err != nil {
		return data, err
	}
	if data.Attempts, err = s.attempts(ctx, info); err != nil {
		return data, err
	}
	artifacts, err := s.store.Artifacts(ctx, info.Tenant, info.ID)
	if err != nil {
		return data, err
	}
	for _, a := range artifacts {
		data.Artifacts = append(data.Artifacts, web.ArtifactView{
			ID: typeid.Format(typeid.Artifact, a.ID), Kind: a.Kind, Name: a.Name, Size: a.Size, SHA256: a.SHA256, Attempt: a.AttemptNo, Revision: a.Revision, At: a.CreatedAt, Late: a.Late,
		})
	}
	data.Effects, err = s.effects(ctx, info)
	return data, err
}

// lastSteps are the newest steps of a run, the oldest of them first, with the end of the log of each that one would look into.
func (s *server) lastSteps(ctx context.Context, info db.RunInfo, most int32) (all []web.StepView, err error) {
	steps, err := s.store.LastSteps(ctx, info.Tenant, info.ID, most)
	if err != nil {
		return nil, err
	}
	for _, step := range steps {
		v := stepView(step)
		v.Superseded = step.AttemptNo < info.AttemptNo
		if step.State == run.StepRunning || step.State == run.StepFailed || step.State == run.StepTimedOut {
			tail, total, err := s.stepTail(ctx, info.Tenant, info.ID, step)
			if err != nil {
				return nil, err
			}
			v.LogTail, v.LogLines = joinLines(tail), total
		}
		all = append(all, v)
	}
	return all, nil
}

func (s *server) attempts(ctx context.Context, info db.RunInfo) (all []web.AttemptView, err error) {
	attempts, err := s.store.Attempts(ctx, info.Tenant, info.ID)
	if err != nil {
		return nil, err
	}
	for _, a := range attempts {
		all = append(all, web.AttemptView{
			Number: a.No, State: string(a.State), Worker: a.Worker, Started: a.StartedAt, Ended: ended(a.EndedAt), Reason: string(a.Code), Superseded: a.No < info.AttemptNo,
		})
	}
	return all, nil
}

// runSentence is what the live region says to everybody: without what depends on who looks, which runLook.panel adds.
func (s *server) runSentence(ctx context.Context, info db.RunInfo, gates []db.GateInfo, now time.Time) (web.RunView, error) {
	v := runView(info, now)
	for _, g := range gates {
		v.PlanGate = v.PlanGate || g.Kind == run.GatePlan
		v.PatchGate = v.PatchGate || g.Kind == run.GatePatch
		if info.Gate != nil && g.ID == info.Gate.ID {
			v.Gate = new(gateRef(g))
		}
	}
	events, err := s.moves(ctx, info)
	if err != nil {
		return v, err
	}
	v.StateSeconds, v.Stretches = web.StateTimes(events, now), web.Stretches(events, now)
	if info.State.Terminal() || info.State == run.Cancelling {
		v.EndedFrom = web.EndedFrom(events)
		if v.WaitedFor, err = s.waitedFor(ctx, info); err != nil {
			return v, err
		}
	}
	if info.Queued != "" {
		wait, err := s.store.Why(ctx, info.Tenant, info.ID)
		if err != nil {
			return v, err
		}
		v.RetryAt, v.QueueReason = wait.Until, wait.Reason.Words
	}
	if err := s.setAside(ctx, info, &v); err != nil {
		return v, err
	}
	if v.Pull != nil || info.Cancel != nil {
		pulls, err := s.store.Pulls(ctx, info.Tenant, db.PullFilter{Run: info.ID})
		if err != nil {
			return v, err
		}
		if len(pulls) > 0 {
			v.Pull = new(pullRef(pulls[0]))
		}
	}
	return v, nil
}

func gateRef(g db.GateInfo) web.GateRef {
	return web.GateRef{
		ID: typeid.Format(typeid.Gate, g.ID), Kind: string(g.Kind), State: string(g.State), Revision: g.Revision, Digest: g.Digest, Have: g.Approvals, Need: g.Quorum,
		OpenedAt: g.OpenedAt, ExpiresAt: g.ExpiresAt, DecidedBy: g.LastDecider, DecidedAt: ended(g.ClosedAt), Text: g.LastText,
	}
}

func pullRef(p db.PullInfo) web.PullRef {
	ref := web.PullRef{Number: int(p.Number), Title: p.Title, State: p.State, Href: p.URL, Branch: p.Head, Commit: p.HeadSHA}
	if p.ForgeKind == "local" {
		ref.Href = web.PullURL(typeid.Format(typeid.Pull, p.ID))
	}
	return ref
}

// runFacts is the side column.
func (s *server) runFacts(ctx context.Context, info db.RunInfo) (web.RunFacts, error) {
	cost, err := s.store.RunCost(ctx, db.Ref{Tenant: info.Tenant, Run: info.ID})
	if err != nil {
		return web.RunFacts{}, err
	}
	f := web.RunFacts{
		Agent: strings.TrimSpace(info.AgentProfile + " " + info.AdapterVersion), Isolation: info.Isolation, Base: info.BaseRef, BaseCommit: info.BaseCommit,
		Branch: info.Branch, PolicyVersion: info.PolicyVersion, Verdict: info.Verdict, Risk: info.Risk, FencingToken: info.Token, PlanDigest: info.Plan,
	}
	if f.Base == "" {
		f.Base = info.DefaultBranch
	}
	if task, err := s.store.Task(ctx, info.Tenant, info.Task); err == nil {
		f.Requester = task.Requester
	} else {
		return f, err
	}
	if info.Patch != nil {
		f.PatchDigest, f.PatchRevision, f.Files, f.Added, f.Removed = info.Patch.Digest, info.Patch.Revision, info.Patch.Files, info.Patch.Added, info.Patch.Removed
	}
	f.Cost, f.Uses = costWords(cost, s.currency), uses(cost)
	if f.Models, f.MoreModels, err = s.models(ctx, info); err != nil {
		return f, err
	}
	if f.SameWorker, _, err = s.verifier(ctx, info); err != nil {
		return f, err
	}
	return f, nil
}
