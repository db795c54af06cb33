package handlers

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/policy"
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
	info, err := s.store.RunInfo(ctx, p.tenant, id)
	if err != nil {
		return web.RunPageData{}, err
	}
	data := web.RunPageData{Shell: s.shell(r), Live: !info.State.Terminal(), LastSeq: info.Version}
	now := data.Now
	gates, err := s.store.GatesOfRun(ctx, p.tenant, id, 100)
	if err != nil {
		return data, err
	}
	if data.Panel, err = s.runPanel(r, info, gates, now); err != nil {
		return data, err
	}
	if data.Timeline, err = s.timeline(r, info, at, now); err != nil {
		return data, err
	}
	if data.Facts, err = s.runFacts(r, info); err != nil {
		return data, err
	}
	if data.CancelNow = cancelNow(who(r), info); data.CancelNow {
		data.IdempotencyKey = db.NewSecret()
	}
	data.RunParts, err = s.runParts(r, info, gates)
	return data, err
}

// runParts reads steps, attempts and artifacts.
func (s *server) runParts(r *http.Request, info db.RunInfo, gates []db.GateInfo) (data web.RunParts, err error) {
	ctx, tenant := r.Context(), who(r).tenant
	for _, g := range gates {
		data.Gates = append(data.Gates, gateRef(g))
	}
	steps, err := s.store.Steps(ctx, tenant, info.ID, 0, 2000)
	if err != nil {
		return data, err
	}
	for _, step := range steps[max(len(steps)-maxSteps, 0):] {
		v := stepView(step)
		v.Superseded = step.AttemptNo < info.AttemptNo
		if step.State == run.StepRunning || step.State == run.StepFailed || step.State == run.StepTimedOut {
			tail, total, err := s.stepTail(r, tenant, info.ID, step)
			if err != nil {
				return data, err
			}
			v.LogTail, v.LogLines = joinLines(tail), total
		}
		data.Steps = append(data.Steps, v)
	}
	attempts, err := s.store.Attempts(ctx, tenant, info.ID)
	if err != nil {
		return data, err
	}
	for _, a := range attempts {
		data.Attempts = append(data.Attempts, web.AttemptView{
			Number: a.No, State: string(a.State), Worker: a.Worker, Started: a.StartedAt, Ended: ended(a.EndedAt), Reason: string(a.Code), Superseded: a.No < info.AttemptNo,
		})
	}
	artifacts, err := s.store.Artifacts(ctx, tenant, info.ID)
	if err != nil {
		return data, err
	}
	for _, a := range artifacts {
		data.Artifacts = append(data.Artifacts, web.ArtifactView{
			ID: typeid.Format(typeid.Artifact, a.ID), Kind: a.Kind, Name: a.Name, Size: a.Size, SHA256: a.SHA256, Attempt: a.AttemptNo, Revision: a.Revision, At: a.CreatedAt, Late: a.Late,
		})
	}
	data.Effects, err = s.effects(r, info)
	return data, err
}

// runPanel is the live region.
func (s *server) runPanel(r *http.Request, info db.RunInfo, gates []db.GateInfo, now time.Time) (web.RunPanelData, error) {
	v := runView(info, now)
	p := who(r)
	v.MayCancel = v.MayCancel && (p.has(policy.RoleRequester) || p.has(policy.RoleAdmin)) && !cancelNow(p, info)
	for _, g := range gates {
		v.PlanGate = v.PlanGate || g.Kind == run.GatePlan
		v.PatchGate = v.PatchGate || g.Kind == run.GatePatch
		if info.Gate != nil && g.ID == info.Gate.ID {
			v.Gate = new(gateRef(g))
			v.MyTurn = g.RequestedBy != p.user && p.mayDecide(g.Role)
		}
	}
	events, err := s.moves(r, info)
	if err != nil {
		return web.RunPanelData{}, err
	}
	v.StateSeconds, v.Stretches = web.StateTimes(events, now), web.Stretches(events, now)
	if info.State.Terminal() || info.State == run.Cancelling {
		v.EndedFrom = web.EndedFrom(events)
		if v.WaitedFor, err = s.waitedFor(r, info); err != nil {
			return web.RunPanelData{}, err
		}
	}
	if v.Ladder, err = s.ladder(r, info, now); err != nil {
		return web.RunPanelData{}, err
	}
	v.CancelAcked = v.Ladder != nil && !v.Ladder.Told.IsZero()
	if info.Queued != "" {
		wait, err := s.store.Why(r.Context(), p.tenant, info.ID)
		if err != nil {
			return web.RunPanelData{}, err
		}
		v.RetryAt, v.QueueReason = wait.Until, wait.Reason.Words
	}
	if err := s.setAside(r.Context(), info, &v); err != nil {
		return web.RunPanelData{}, err
	}
	if v.Pull != nil || info.Cancel != nil {
		pulls, err := s.store.Pulls(r.Context(), p.tenant, db.PullFilter{Run: info.ID})
		if err != nil {
			return web.RunPanelData{}, err
		}
		if len(pulls) > 0 {
			v.Pull = new(pullRef(pulls[0]))
		}
	}
	return web.RunPanelData{Run: v, Now: now}, nil
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
func (s *server) runFacts(r *http.Request, info db.RunInfo) (web.RunFacts, error) {
	cost, err := s.store.RunCost(r.Context(), db.Ref{Tenant: who(r).tenant, Run: info.ID})
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
	if task, err := s.store.Task(r.Context(), who(r).tenant, info.Task); err == nil {
		f.Requester = task.Requester
	} else {
		return f, err
	}
	if info.Patch != nil {
		f.PatchDigest, f.PatchRevision, f.Files, f.Added, f.Removed = info.Patch.Digest, info.Patch.Revision, info.Patch.Files, info.Patch.Added, info.Patch.Removed
	}
	f.Cost, f.Uses = costWords(cost), uses(cost)
	if f.Models, f.MoreModels, err = s.models(r, info); err != nil {
		return f, err
	}
	if f.SameWorker, _, err = s.verifier(r, info); err != nil {
		return f, err
	}
	return f, nil
}
