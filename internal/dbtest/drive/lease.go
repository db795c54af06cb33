package drive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"signalbox/db"
	"signalbox/internal/patch"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// Lease is work that a worker of the world holds.
type Lease struct {
	db.Claimed
	Worker Worker
	w      *World
	// LastPatch is the digest of the patch that was handed in last.
	patch string
}

// Held is the lease of a claim that was made past the world, by one of its workers.
func (w *World) Held(c db.Claimed, by Worker) *Lease { return &Lease{Claimed: c, Worker: by, w: w} }

// Claim takes one item of the phases (all of them by default); nil without one.
func (w *World) Claim(ctx context.Context, by Worker, phases ...run.Phase) (*Lease, error) {
	if len(phases) == 0 {
		phases = run.Phases()
	}
	got, _, err := w.Store.Claim(ctx, db.ClaimRequest{ClaimID: w.Key("claim"), Worker: by.WorkerID, Boot: by.Boot, Phases: phases, Max: 1})
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return &Lease{Claimed: got[0], Worker: by, w: w}, nil
}

// ClaimAll asks once for as much as there is, at most most.
func (w *World) ClaimAll(ctx context.Context, by Worker, most int) (out []*Lease, err error) {
	got, _, err := w.Store.Claim(ctx, db.ClaimRequest{ClaimID: w.Key("claim"), Worker: by.WorkerID, Boot: by.Boot, Phases: run.Phases(), Max: most})
	for _, c := range got {
		out = append(out, &Lease{Claimed: c, Worker: by, w: w})
	}
	return out, err
}

// ClaimRun claims that run's item and no other: the item is put into a queue of its own, which a boot of the worker made for it serves.
func (w *World) ClaimRun(ctx context.Context, by Worker, ref db.Ref) (*Lease, error) {
	queue := "only-" + ref.Run.String()
	boot, err := w.Store.RegisterBoot(ctx, by.WorkerID, db.Boot{Name: by.Name, Version: "test", Phases: by.Phases, Isolation: "bwrap", MaxConcurrent: 1, Queues: []string{queue}})
	if err != nil {
		return nil, err
	}
	if _, err := w.Owner.Exec(ctx, `UPDATE run_queue SET queue = $2 WHERE run_id = $1`, ref.Run, queue); err != nil {
		return nil, err
	}
	by.Boot = boot
	l, err := w.Claim(ctx, by)
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		return nil, fmt.Errorf("nothing to claim for run %s", ref.Run)
	case l.Ref != ref:
		return nil, fmt.Errorf("claimed run %s instead of %s", l.Ref.Run, ref.Run)
	}
	return l, nil
}

// Proof names the lease as commands carry it.
func (l *Lease) Proof() run.LeaseRef { return run.LeaseRef{ID: l.Lease.ID, Token: l.Lease.Token} }

// Holder names the lease as facts carry it.
func (l *Lease) Holder() db.Holder {
	return db.Holder{Ref: l.Ref, Lease: l.Proof(), Worker: l.Worker.ID}
}

// Intent is the command as the lease's holder posts it, under a key.
func (l *Lease) Intent(key string, c run.Command) db.Intent {
	proof := l.Proof()
	return db.Intent{Key: key, Hash: Hash(key + c.Name()), By: run.Actor{ID: l.Worker.ID.String(), Name: l.Worker.Name}, Lease: &proof,
		Worker: l.Worker.ID, Command: c}
}

// Do posts a command under a fresh key.
func (l *Lease) Do(ctx context.Context, c run.Command) (db.Ack, error) {
	return l.w.Store.Apply(ctx, l.Ref, l.Intent(l.w.Key(c.Name()), c))
}

// All posts commands in order and stops at the first refusal.
func (l *Lease) All(ctx context.Context, cs ...run.Command) error {
	for _, c := range cs {
		if _, err := l.Do(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.Name(), err)
		}
	}
	return nil
}

// Beat sends a heartbeat for this lease alone.
func (l *Lease) Beat(ctx context.Context) (db.Pulse, error) {
	ps, _, err := l.w.Store.Extend(ctx, l.Worker.WorkerID, l.Worker.Boot, false, []db.Beat{{Run: l.Ref.Run, Lease: l.Proof()}})
	if err != nil {
		return db.Pulse{}, err
	}
	return ps[0], nil
}

// Base is the commit that every run of the world stands on.
const Base = "0123456789abcdef0123456789abcdef01234567"

// Tree is the tree that patches of the world give.
const Tree = "89abcdef0123456789abcdef0123456789abcdef"

func sum(content string) string {
	h := sha256.Sum256([]byte(content))
	return hex.EncodeToString(h[:])
}

// Put stores content as an artifact and returns its reference.
func (l *Lease) Put(ctx context.Context, kind, content string) (string, error) {
	return l.put(ctx, db.NewArtifact{Kind: kind, Name: kind, SHA256: sum(content), Size: int64(len(content))})
}

func (l *Lease) put(ctx context.Context, a db.NewArtifact) (string, error) {
	a.BlobKey = "tenants/" + l.Ref.Tenant.String() + "/sha256/" + a.SHA256
	s, err := l.w.Store.PutArtifact(ctx, l.Holder(), a)
	if err != nil {
		return "", fmt.Errorf("put %s: %w", a.Kind, err)
	}
	return typeid.Format(typeid.Artifact, s.ID), nil
}

// Diff is a patch of one added line in file.
func Diff(file, line string) string {
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\nindex 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644\n"+
		"--- a/%[1]s\n+++ b/%[1]s\n@@ -1 +1,2 @@\n one\n+%[2]s\n", file, line)
}

// PutPatch stores a patch as the server would: parsed and scanned.
func (l *Lease) PutPatch(ctx context.Context, diff string) (string, error) {
	p, err := patch.Parse([]byte(diff), patch.MaxBytes)
	if err != nil {
		return "", fmt.Errorf("parse patch: %w", err)
	}
	l.patch = p.Facts().Digest
	return l.put(ctx, db.NewArtifact{Kind: "patch", Name: "patch", SHA256: p.Facts().Digest, Size: int64(len(diff)),
		Patch: &db.PatchFacts{Facts: p.Facts(), Scan: l.w.scanner.Scan(ctx, p), Hidden: p.Hidden()}})
}

// PutReport stores a verification report about the run's stored patch.
func (l *Lease) PutReport(ctx context.Context, v db.VerificationRecord) (string, error) {
	if v.PatchDigest == "" {
		info, err := l.w.Store.RunInfo(ctx, l.Ref.Tenant, l.Ref.Run)
		if err != nil {
			return "", err
		}
		if info.Patch != nil {
			v.PatchDigest = info.Patch.Digest
		}
	}
	content := l.w.Key("report")
	return l.put(ctx, db.NewArtifact{Kind: "verification_report", Name: "report", SHA256: sum(content), Size: int64(len(content)), Verification: &v})
}

// Prepare takes a new attempt from LEASED to PLANNING.
func (l *Lease) Prepare(ctx context.Context) error {
	if err := l.All(ctx, run.Start{}, run.SandboxIsReady{Tier: "bwrap", Base: Base}); err != nil {
		return err
	}
	a, err := l.Put(ctx, "context", l.w.Key("context"))
	if err != nil {
		return err
	}
	return l.All(ctx, run.ContextIsReady{Artifact: a})
}

// Plan hands in a plan; the same text gives the same digest.
func (l *Lease) Plan(ctx context.Context, text string) (db.Ack, error) {
	a, err := l.Put(ctx, "plan", text)
	if err != nil {
		return db.Ack{}, err
	}
	return l.Do(ctx, run.PlanSubmitted{Artifact: a})
}

// HandIn hands in a patch.
func (l *Lease) HandIn(ctx context.Context, diff string) (db.Ack, error) {
	a, err := l.PutPatch(ctx, diff)
	if err != nil {
		return db.Ack{}, err
	}
	return l.Do(ctx, run.PatchSubmitted{Artifact: a, Base: Base, Tree: Tree})
}

// Verify starts verification and reports its outcome.
func (l *Lease) Verify(ctx context.Context, v db.VerificationRecord) (db.Ack, error) {
	_, digest, err := l.w.Store.CommandSet(ctx, l.Ref)
	if err != nil {
		return db.Ack{}, err
	}
	if _, err := l.Do(ctx, run.VerifyStarted{Commands: []string{"true"}, Digest: digest}); err != nil {
		return db.Ack{}, err
	}
	return l.Report(ctx, v)
}

// Report reports the outcome of a verification that has started.
func (l *Lease) Report(ctx context.Context, v db.VerificationRecord) (db.Ack, error) {
	a, err := l.PutReport(ctx, v)
	if err != nil {
		return db.Ack{}, err
	}
	return l.Do(ctx, run.VerifyReported{Artifact: a})
}

// Judge reports a verdict.
func (l *Lease) Judge(ctx context.Context, verdict string, confidence float64) (db.Ack, error) {
	a, err := l.Put(ctx, "judge_report", l.w.Key("judged"))
	if err != nil {
		return db.Ack{}, err
	}
	return l.Do(ctx, run.JudgeReported{Judge: run.JudgeEvidence{Artifact: a, Verdict: verdict, Confidence: confidence, Reasons: []string{"Looked at it."}}})
}

// Publish pushes, opens the pull request and reports it, each effect with its intent and observation.
func (l *Lease) Publish(ctx context.Context) (db.Ack, error) {
	info, err := l.w.Store.RunInfo(ctx, l.Ref.Tenant, l.Ref.Run)
	if err != nil {
		return db.Ack{}, err
	}
	if err := l.Effect(ctx, "push_branch", "push:"+info.Branch, "succeeded"); err != nil {
		return db.Ack{}, err
	}
	if err := l.OpenPull(ctx, info.Branch); err != nil {
		return db.Ack{}, err
	}
	return l.Do(ctx, run.PRReported{PR: run.PullRequest{Branch: info.Branch}})
}

// OpenPull opens the branch's pull request with its intent and observation.
func (l *Lease) OpenPull(ctx context.Context, branch string) error {
	if _, err := l.w.Store.Intend(ctx, l.Holder(), "open_pull_request", "pr:"+branch, nil); err != nil {
		return err
	}
	if _, err := l.w.Store.Dispatch(ctx, l.Holder(), "pr:"+branch); err != nil {
		return err
	}
	if _, _, err := l.w.Store.EnsurePull(ctx, l.Holder(), db.NewPull{Title: "A change", Body: "Why.", HeadBranch: branch, BaseBranch: "main",
		HeadSHA: Tree, URL: func(id string) string { return "http://localhost/pulls/" + id }}); err != nil {
		return err
	}
	_, err := l.w.Store.Observe(ctx, l.Holder(), "pr:"+branch, "succeeded", nil)
	return err
}

// Effect intends, dispatches and observes one effect; without an outcome it is left dispatched.
func (l *Lease) Effect(ctx context.Context, kind, identity, outcome string) error {
	if _, err := l.w.Store.Intend(ctx, l.Holder(), kind, identity, map[string]string{"of": "the run"}); err != nil {
		return err
	}
	if _, err := l.w.Store.Dispatch(ctx, l.Holder(), identity); err != nil {
		return err
	}
	if outcome == "" {
		return nil
	}
	_, err := l.w.Store.Observe(ctx, l.Holder(), identity, outcome, nil)
	return err
}
