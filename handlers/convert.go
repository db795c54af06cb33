package handlers

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/web"
)

// cursor writes a place in a list; readCursor reads it. Clients treat it as opaque.
func cursor(c db.Cursor) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.At.UTC().Format(time.RFC3339Nano) + " " + c.ID.String()))
}

func readCursor(s string) (db.Cursor, error) {
	if s == "" {
		return db.Cursor{}, nil
	}
	bad := fault.New(fault.Invalid, "Nothing is shown: the cursor is not one that a list gave out. Begin the list again.").WithField("cursor")
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return db.Cursor{}, bad
	}
	at, id, ok := strings.Cut(string(raw), " ")
	if !ok {
		return db.Cursor{}, bad
	}
	when, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return db.Cursor{}, bad
	}
	key, err := uuid.Parse(id)
	if err != nil {
		return db.Cursor{}, bad
	}
	return db.Cursor{At: when, ID: key}, nil
}

// more cuts a list that was read one longer than asked for and returns the cursor to go on.
func more[T interface{ Cursor() db.Cursor }](list []T, limit int32) ([]T, string) {
	if int32(len(list)) <= limit {
		return list, ""
	}
	list = list[:limit]
	return list, cursor(list[limit-1].Cursor())
}

// wireActor shows people and workers by the ids that other answers use; everybody else has a word for a name.
func wireActor(a run.Actor) wire.Actor {
	shown := wire.Actor{Type: wire.ActorType(a.Kind), Id: a.ID, Name: a.Name}
	if id, err := uuid.Parse(a.ID); err == nil {
		prefix := typeid.Worker
		if a.Kind == run.Human || a.Kind == run.Attestor {
			prefix = typeid.User
		}
		shown.Id = typeid.Format(prefix, id)
	}
	return shown
}

func wireContract(c run.Contract, digest string) wire.Contract {
	return wire.Contract{
		Mode: wire.CompletionMode(c.Mode), Risk: wire.Risk(c.Risk), Scope: c.Scope, Forbidden: c.Forbidden, Acceptance: c.Acceptance,
		PlanGate: c.PlanGate, AutoPr: c.AutoPR, Attestation: c.Attestation, Verification: wireChecks(c.Verification), Digest: digest,
	}
}

func wireChecks(checks []run.Check) []wire.VerificationCommand {
	var all []wire.VerificationCommand
	for _, c := range checks {
		all = append(all, wire.VerificationCommand{Name: c.Name, Kind: wire.VerificationCommandKind(c.Kind), Argv: c.Argv, Dir: c.Dir, TimeoutSeconds: c.TimeoutSeconds})
	}
	return all
}

func runChecks(checks []wire.VerificationCommand) []run.Check {
	var all []run.Check
	for _, c := range checks {
		kind := string(c.Kind)
		if kind == "" {
			kind = string(wire.CheckTest)
		}
		all = append(all, run.Check{Name: c.Name, Kind: kind, Argv: c.Argv, Dir: c.Dir, TimeoutSeconds: c.TimeoutSeconds})
	}
	return all
}

func wireTask(t db.TaskInfo) wire.Task {
	return wire.Task{
		Id: typeid.Format(typeid.Task, t.ID), Title: t.Title, Goal: t.Goal, Kind: t.Kind,
		RepositoryId: typeid.Format(typeid.Repo, t.Repository), RepositoryName: t.RepositoryName, BaseRef: t.BaseRef, State: wire.TaskState(t.State),
		Contract: wireContract(t.Contract, t.ContractDigest), AgentProfile: t.AgentProfile, ParentTaskId: typeid.Format(typeid.Task, t.Parent),
		RequestedBy: &wire.Actor{Type: wire.ActorType(run.Human), Id: typeid.Format(typeid.User, t.RequestedBy), Name: t.Requester},
		ActiveRunId: typeid.Format(typeid.Run, t.ActiveRun), RunsUsed: t.RunsUsed, MaxRuns: t.MaxRuns, CancelRequested: t.CancelRequested,
		ReasonCode: t.Reason, Reason: t.ReasonWords, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
}

func wireRun(r db.RunInfo) wire.Run {
	w := wire.Run{
		Id: typeid.Format(typeid.Run, r.ID), TaskId: typeid.Format(typeid.Task, r.Task), TaskTitle: r.TaskTitle,
		RepositoryId: typeid.Format(typeid.Repo, r.Repository), RepositoryName: r.RepositoryName, State: wire.RunState(r.State), Version: r.Version,
		Sentence: web.StateSentence(runView(r, time.Now()), time.Now()), Terminal: r.State.Terminal(), Mode: wire.CompletionMode(r.Mode), Risk: wire.Risk(r.Risk),
		AttemptNo: r.AttemptNo, RepairRound: r.Repairs, BaseRef: r.BaseRef, BaseCommit: r.BaseCommit, Branch: r.Branch, WaitingFor: wire.Phase(r.Queued),
		PlanDigest: r.Plan, PolicyVersion: r.PolicyVersion, Outcome: string(r.Outcome), CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if r.Gate != nil {
		w.GateId = typeid.Format(typeid.Gate, r.Gate.ID)
	}
	if r.Patch != nil {
		w.PatchDigest = r.Patch.Digest
	}
	if r.Lease != nil {
		w.Lease = &wire.LeaseInfo{Id: typeid.Format(typeid.Lease, r.Lease.ID), Phase: wire.Phase(r.Lease.Phase)}
		if h := r.Holder; h != nil {
			w.Lease.Worker, w.Lease.Isolation, w.Lease.AcquiredAt, w.Lease.ExpiresAt = h.Worker, wire.IsolationTier(h.Isolation), h.AcquiredAt, h.ExpiresAt
		}
	}
	if f := r.Failure; f != nil {
		w.Failure = &wire.Failure{Category: string(f.Category), ReasonCode: string(f.Code), Retryable: f.Retryable, Summary: f.Summary, EvidenceArtifactId: f.Evidence}
	}
	if c := r.Cancel; c != nil {
		w.CancelRequestedAt, w.CancelReason = c.At, c.Reason
		w.CancelRequestedBy = new(wireActor(c.By))
	}
	if p := r.PR; p != nil {
		w.PullRequest = &wire.PullRequest{Url: p.URL, Number: p.Number, Branch: p.Branch, Sha: p.SHA}
	}
	if r.FinishedAt != nil {
		w.FinishedAt = *r.FinishedAt
	}
	return w
}

func wireEvent(e db.EventInfo) (wire.RunEvent, error) {
	w := wire.RunEvent{
		Seq: e.Seq, Kind: string(e.Kind), From: wire.RunState(e.From), To: wire.RunState(e.To), Actor: wireActor(e.By), At: e.At, Hash: hex.EncodeToString(e.Hash),
	}
	shown, err := timelineEvent(e)
	if err != nil {
		return w, err
	}
	w.Payload, w.Sentence = shown.Data, web.Sentence(shown).Text
	return w, nil
}

// timelineEvent decodes an event for the page. The stored payload is the whole event; the page wants its content.
func timelineEvent(e db.EventInfo) (web.TimelineEvent, error) {
	t := web.TimelineEvent{
		Seq: e.Seq, Kind: string(e.Kind), At: e.At, ActorKind: string(e.By.Kind), ActorName: e.By.Name, From: string(e.From), To: string(e.To), Attempt: e.Attempt, Canonical: string(e.Canonical),
	}
	var envelope struct {
		Payload map[string]any `json:"payload"`
	}
	if err := json.Unmarshal(e.Payload, &envelope); err != nil {
		return t, fmt.Errorf("decode event %d: %w", e.Seq, err)
	}
	t.Data = envelope.Payload
	return t, nil
}

func wireArtifact(a db.ArtifactInfo) wire.Artifact {
	w := wire.Artifact{
		Id: typeid.Format(typeid.Artifact, a.ID), RunId: typeid.Format(typeid.Run, a.Run), AttemptNo: a.AttemptNo, Kind: wire.ArtifactKind(a.Kind),
		Name: a.Name, Sha256: a.SHA256, Size: a.Size, Late: a.Late, CreatedAt: a.CreatedAt,
	}
	if p := a.Patch; p != nil {
		w.Patch = &wire.PatchFacts{Revision: a.Revision, Files: p.Files, Additions: p.Added, Deletions: p.Removed, PatchId: p.PatchID}
		if p.Fault != "" {
			w.Patch.Findings = append(w.Patch.Findings, p.Fault)
		}
		if p.Scan != "clean" {
			w.Patch.Findings = append(w.Patch.Findings, "secret scan: "+p.Scan)
		}
	}
	return w
}

func wireRepository(r db.RepositoryInfo) wire.Repository {
	return wire.Repository{
		Id: typeid.Format(typeid.Repo, r.ID), Name: r.Name, ForgeId: typeid.Format(typeid.Forge, r.Forge), ForgeKind: r.ForgeKind, CloneUrl: r.CloneURL,
		DefaultBranch: r.DefaultBranch, Verification: wireChecks(r.Verification), Scope: r.Scope, Forbidden: r.Forbidden, CreatedAt: r.CreatedAt,
	}
}

func wirePull(p db.PullInfo) wire.LocalPull {
	return wire.LocalPull{
		Id: typeid.Format(typeid.Pull, p.ID), RepositoryId: typeid.Format(typeid.Repo, p.Repository), Number: p.Number, Url: p.URL, State: p.State,
		HeadBranch: p.Head, BaseBranch: p.Base, HeadSha: p.HeadSHA, MergedSha: p.MergeSHA, Title: p.Title, Body: p.Body, CreatedAt: p.CreatedAt,
	}
}

func wirePhases(phases []run.Phase) []wire.Phase {
	var all []wire.Phase
	for _, p := range phases {
		all = append(all, wire.Phase(p))
	}
	return all
}

func runPhases(phases []wire.Phase) []run.Phase {
	var all []run.Phase
	for _, p := range phases {
		all = append(all, run.Phase(p))
	}
	return all
}
