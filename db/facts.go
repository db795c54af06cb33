package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/evidence"
	"signalbox/internal/fault"
	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// PatchFacts is what the server found when it parsed and scanned a stored patch.
type PatchFacts struct {
	Facts  patch.Facts        `json:"facts"`
	Scan   patch.ScanResult   `json:"scan"`
	Hidden []patch.HiddenText `json:"hidden,omitempty"`
	// Fault is set where the patch cannot be used at all.
	Fault run.Code `json:"fault,omitempty"`
}

// facts loads what Decide needs for the command; what it does not need is left
// out, so that the small commands cost one read.
func (s *Store) facts(ctx context.Context, h sqlc.DBTX, r run.Run, row sqlc.Run, now time.Time, in Intent) (run.Facts, error) {
	f := run.Facts{Minted: run.Minted{Gate: typeid.New(), Now: micro(now), Draw: s.draw()}}
	switch c := in.Command.(type) {
	case run.Start, run.SandboxIsReady:
		return f, nil
	case run.Release:
		return f, s.releaseFacts(ctx, h, r, &f)
	case run.ContextIsReady:
		a, err := s.artifactOf(ctx, h, r, c.Artifact, "context")
		f.Context = proof(a, row)
		return f, err
	}
	known, err := s.factsOf(ctx, h, r, &f)
	if err != nil {
		return f, err
	}
	contract, err := contractOf(terms(known), r, &f)
	if err != nil {
		return f, err
	}
	f.Unresolved = known.Unresolved
	s.spentFacts(r, row, now, known, &f)
	if err := s.commandFacts(ctx, h, r, row, contract, in, &f); err != nil {
		return f, err
	}
	f.LastFailure, err = s.lastFailure(ctx, h, r, in.Command)
	return f, err
}

// factsOf reads policy and facts: inside of a transaction by themselves, otherwise together with whoever asks at the same time.
func (s *Store) factsOf(ctx context.Context, h sqlc.DBTX, r run.Run, f *run.Facts) (known sqlc.FactsOfRunsRow, err error) {
	if h != sqlc.DBTX(s.pool) {
		if f.Rules, err = s.rulesFor(ctx, h, r); err != nil {
			return known, err
		}
		rows, err := s.q.FactsOfRuns(ctx, h, []uuid.UUID{r.ID})
		if err == nil && len(rows) == 0 {
			err = pgx.ErrNoRows
		}
		if err != nil {
			return known, fmt.Errorf("load the facts of run %s: %w", r.ID, err)
		}
		return rows[0], nil
	}
	both, err := s.commits.facts.Do(ctx, Ref{r.Tenant, r.ID})
	if err != nil {
		return known, busy(err)
	}
	if f.Rules, err = s.rulesIn(both.document); err == nil {
		f.Rules, err = s.heldTo(ctx, h, r.Tenant, r.PolicyVersion, f.Rules)
	}
	return both.FactsOfRunsRow, err
}

// rulesFor are today's rules, held to those that the run was admitted under.
func (s *Store) rulesFor(ctx context.Context, h sqlc.DBTX, r run.Run) (policy.Rules, error) {
	rules, err := s.rulesOf(ctx, h, r.Tenant)
	if err != nil {
		return rules, err
	}
	return s.heldTo(ctx, h, r.Tenant, r.PolicyVersion, rules)
}

// terms are the part of the facts that does not change.
func terms(k sqlc.FactsOfRunsRow) sqlc.RunContractsRow {
	return sqlc.RunContractsRow{RunID: k.RunID, Contract: k.Contract, RequestedBy: k.RequestedBy, AgentProfile: k.AgentProfile, Priority: k.Priority,
		CancelRequested: k.CancelRequested, Repository: k.Repository, Scope: k.Scope, Forbidden: k.Forbidden, Requires: k.Requires, ForgeID: k.ForgeID,
		DefaultBranch: k.DefaultBranch, Roles: k.Roles}
}

func (s *Store) commandFacts(ctx context.Context, h sqlc.DBTX, r run.Run, row sqlc.Run, contract screening, in Intent, f *run.Facts) error {
	switch c := in.Command.(type) {
	case run.PlanSubmitted:
		a, err := s.artifactOf(ctx, h, r, c.Artifact, "plan")
		if err != nil {
			return err
		}
		f.Plan = proof(a, row)
		f.Digest = s.revision(r, run.GatePlan, row.BaseCommit, a.Sha256)
	case run.PatchSubmitted:
		return s.patchFacts(ctx, h, r, c, f)
	case run.ReportSubmitted:
		a, err := s.artifactOf(ctx, h, r, c.Artifact, "report")
		if err != nil {
			return err
		}
		f.Report = proof(a, row)
		return s.diffOfLease(ctx, h, r, f)
	case run.NoChangeSubmitted:
		f.Digest = evidence.Digest([]byte("no change: " + c.Summary))
		return s.diffOfLease(ctx, h, r, f)
	case run.VerifyStarted:
		maker, err := s.q.ResultMaker(ctx, h, r.ID)
		if err != nil {
			return fmt.Errorf("load who made the result: %w", err)
		}
		f.SameWorker = maker == in.Worker
	case run.VerifyReported:
		return s.verificationFacts(ctx, h, r, c, f)
	case run.JudgeReported:
		if _, err := s.artifactOf(ctx, h, r, c.Judge.Artifact, "judge_report"); err != nil {
			return err
		}
		f.Policy.Verdict, f.Policy.Confidence = policy.Verdict(c.Judge.Verdict), c.Judge.Confidence
		return s.judgeFacts(ctx, h, r, contract, f)
	case run.PRReported:
		if err := s.resultFacts(ctx, h, r, contract, f); err != nil {
			return err
		}
		return s.prFacts(ctx, h, r, c, f)
	case run.AttemptHasFailed:
		if err := s.pauseFacts(ctx, h, r, c, f); err != nil {
			return err
		}
	case run.BaseHasMoved, run.EffectIsAmbiguous, run.Stopped:
		if _, ok := in.Command.(run.Stopped); ok {
			if err := s.releaseFacts(ctx, h, r, f); err != nil {
				return err
			}
		}
		f.Digest = s.revision(r, run.GateReconcile, row.BaseCommit, in.Key)
		if r.Patch != nil {
			f.Digest = s.revision(r, run.GatePatch, r.Patch.Base, r.Patch.Digest)
		}
	}
	if f.Digest == "" {
		f.Digest = s.revision(r, run.GateBudget, row.BaseCommit, in.Key)
	}
	return nil
}

// revision computes the digest that a decision is bound to (D-15). The content
// stands in by its own SHA-256, under which the blob store holds the exact bytes.
func (s *Store) revision(r run.Run, k run.GateKind, base, contentDigest string) string {
	v := evidence.Revision{Kind: string(k), Repository: r.Repository, Base: base, Content: []byte(contentDigest)}
	if k == run.GatePatch && r.Patch != nil {
		v.ResultTree, v.VerificationDigest = r.Patch.Tree, r.Verification
	}
	return evidence.RevisionDigest(v)
}

func proof(a sqlc.Artifact, row sqlc.Run) *run.PlanEvidence {
	if a.ID == uuid.Nil {
		return nil
	}
	return &run.PlanEvidence{Artifact: typeid.Format(typeid.Artifact, a.ID), Digest: a.Sha256, Base: row.BaseCommit}
}

// artifactOf loads an artifact that a command names: it must be of this run and
// of the kind that the command is about.
func (s *Store) artifactOf(ctx context.Context, h sqlc.DBTX, r run.Run, ref, kind string) (sqlc.Artifact, error) {
	id, err := typeid.Parse(typeid.Artifact, ref)
	if err != nil {
		return sqlc.Artifact{}, err
	}
	a, err := s.q.Artifact(ctx, h, r.Tenant, id)
	if errors.Is(err, pgx.ErrNoRows) || (err == nil && a.RunID != r.ID) {
		return sqlc.Artifact{}, fault.New(fault.Invalid, "Nothing was changed: the run has no such artifact. Upload it first.").WithField("artifact_id")
	}
	if err != nil {
		return sqlc.Artifact{}, fmt.Errorf("load artifact: %w", err)
	}
	if a.Late {
		return sqlc.Artifact{}, fault.New(fault.Conflict, "Nothing was changed: the artifact came after its lease had ended and is kept as evidence only.").WithField("artifact_id")
	}
	if a.Kind != kind {
		return sqlc.Artifact{}, fault.Newf(fault.Invalid, "Nothing was changed: the artifact is a %s, and a %s is asked for.", a.Kind, kind).WithField("artifact_id")
	}
	return a, nil
}

// screening is the contract joined with repository and policy: which paths a
// change may touch.
type screening struct {
	contract run.Contract
	rules    patch.Screening
}

// contractFacts fills in what task, repository and requester say.
func (s *Store) contractFacts(ctx context.Context, h sqlc.DBTX, r run.Run, f *run.Facts) (screening, error) {
	rows, err := s.q.RunContracts(ctx, h, []uuid.UUID{r.ID})
	if err != nil {
		return screening{}, fmt.Errorf("load the task's contract: %w", err)
	}
	if len(rows) != 1 || r.Tenant == uuid.Nil {
		return screening{}, fmt.Errorf("run %s has no contract", r.ID)
	}
	return contractOf(rows[0], r, f)
}

func contractOf(c sqlc.RunContractsRow, r run.Run, f *run.Facts) (screening, error) {
	var k run.Contract
	if err := decode(c.Contract, &k, "contract"); err != nil {
		return screening{}, err
	}
	p := &f.Policy
	p.Repository, p.Requester, p.RequesterRoles = c.Repository, c.RequestedBy.String(), roles(c.Roles)
	p.Risk, p.Mode = policy.Risk(r.Risk), policy.Mode(r.Mode)
	p.AgentProfile, p.Priority, p.Requires = c.AgentProfile, int(c.Priority), join(c.Requires, k.Requires)
	p.PlanGateAsked, p.AutoPRAsked, p.AttestationAsked = k.PlanGate, k.AutoPR, k.Attestation
	return screening{k, screen(f.Rules, k, c.Scope, c.Forbidden)}, nil
}

// screen joins the globs. A contract narrows the repository's scope and cannot
// widen it: where both say something, a path must be in both, which is the
// contract's scope checked beside the repository's.
func screen(rules policy.Rules, k run.Contract, scope, forbidden []string) patch.Screening {
	in := k.Scope
	if len(in) == 0 {
		in = scope
	}
	return patch.Screening{Scope: in, Forbidden: join(rules.Paths.Forbidden, forbidden, k.Forbidden), Protected: rules.Paths.Protected,
		Generated: rules.Paths.Generated, GeneratedSources: rules.Paths.GeneratedSources, GeneratedRule: string(rules.Paths.GeneratedRule),
		Symlinks: rules.Paths.Symlinks, Binaries: rules.Paths.Binaries}
}

func join(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

func roles(names []string) []policy.Role {
	out := make([]policy.Role, 0, len(names))
	for _, n := range names {
		out = append(out, policy.Role(n))
	}
	return out
}

// patchFacts reads what the server itself found in the stored patch.
func (s *Store) patchFacts(ctx context.Context, h sqlc.DBTX, r run.Run, c run.PatchSubmitted, f *run.Facts) error {
	a, err := s.artifactOf(ctx, h, r, c.Artifact, "patch")
	if err != nil {
		return err
	}
	p, err := s.q.Patch(ctx, h, r.Tenant, a.ID)
	if err != nil {
		return fmt.Errorf("load the parsed patch: %w", err)
	}
	if f.PatchFault = run.Code(p.Fault); p.Fault != "" {
		var found PatchFacts
		if err := json.Unmarshal(p.Facts, &found); err != nil {
			return fmt.Errorf("decode the parsed patch: %w", err)
		}
		f.PatchWords = found.Scan.Words
	}
	if most := r.Limits.PatchBytes; f.PatchFault == "" && most > 0 && a.Size > most {
		f.PatchFault, f.PatchWords = run.CodePatchTooLarge, fmt.Sprintf("The patch has %d bytes; the limit is %d.", a.Size, most)
	}
	f.Patch = &run.Patch{Artifact: c.Artifact, Digest: p.Digest, PatchID: p.PatchID, Base: c.Base, Tree: c.Tree,
		Files: int(p.Files), Added: int(p.Added), Removed: int(p.Removed)}
	return nil
}

// diffOfLease finds a patch with changes that this lease stored: it speaks
// against a report that says nothing was changed.
func (s *Store) diffOfLease(ctx context.Context, h sqlc.DBTX, r run.Run, f *run.Facts) error {
	p, err := s.q.PatchOfAttempt(ctx, h, r.Tenant, r.ID, int32(r.AttemptNo), &r.Lease.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for a diff: %w", err)
	}
	f.Patch = &run.Patch{Digest: p.Digest, Files: int(p.Files)}
	return nil
}

func (s *Store) verificationFacts(ctx context.Context, h sqlc.DBTX, r run.Run, c run.VerifyReported, f *run.Facts) error {
	a, err := s.artifactOf(ctx, h, r, c.Artifact, "verification_report")
	if err != nil {
		return err
	}
	v, err := s.q.Verification(ctx, h, r.Tenant, a.ID)
	if err != nil {
		return fmt.Errorf("load the verification report: %w", err)
	}
	before, err := s.q.PreviousFailure(ctx, h, r.ID, int32(r.AttemptNo))
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("load the failure before: %w", err)
	}
	f.Verification = &run.VerificationFacts{Passed: v.Passed, Infrastructure: v.Infrastructure, Previous: before,
		Evidence: run.VerificationEvidence{Artifact: c.Artifact, Digest: v.Digest, Patch: v.PatchDigest, Summary: v.Summary, Fingerprint: v.Fingerprint}}
	return nil
}

// judgeFacts compares the stored patch with policy and contract. The guards stand
// on this and on nothing that a worker said, apart from the verdict itself.
func (s *Store) judgeFacts(ctx context.Context, h sqlc.DBTX, r run.Run, sc screening, f *run.Facts) error {
	if r.Outcome != run.OutcomePatch {
		f.Digest = s.revision(r, run.GateReport, "", r.Report)
		return nil
	}
	stored, err := s.storedPatch(ctx, h, r.Tenant, r.Patch.Artifact)
	if err != nil {
		return err
	}
	hits := patch.Screen(stored.Facts, sc.rules)
	p := &f.Policy
	p.SecretScan = policy.SecretScan(stored.Scan.State)
	for _, x := range stored.Scan.Findings {
		p.SecretFindings = append(p.SecretFindings, x.String())
	}
	for _, x := range stored.Hidden {
		p.HiddenText = append(p.HiddenText, x.String())
	}
	p.ForbiddenHits, p.ProtectedHits, p.GeneratedViolations = hits.Forbidden, hits.Protected, hits.GeneratedViolations
	for _, o := range hits.OutOfScope {
		p.ForbiddenHits = append(p.ForbiddenHits, o+" (outside the task's scope)")
	}
	changed(stored.Facts, p)
	f.Digest = s.revision(r, run.GatePatch, r.Patch.Base, r.Patch.Digest)
	return s.carriedFacts(ctx, h, r, f)
}

// changed fills in what a patch touches.
func changed(found patch.Facts, p *policy.Facts) {
	p.ChangedFiles, p.AddedLines, p.RemovedLines = len(found.Files), found.Added, found.Removed
	for _, x := range found.Files {
		p.Paths = append(p.Paths, x.NewPath)
		if x.OldPath != x.NewPath {
			p.Paths = append(p.Paths, x.OldPath)
		}
	}
	p.Paths = slices.DeleteFunc(p.Paths, func(name string) bool { return name == "" })
}

// resultFacts fills in what rules may ask about a result that is on its way out: nothing where no rule asks.
func (s *Store) resultFacts(ctx context.Context, h sqlc.DBTX, r run.Run, sc screening, f *run.Facts) error {
	if !f.Rules.NeedsResult() {
		return nil
	}
	f.Policy.Result = policy.Result(r.Outcome)
	if err := s.judgeAtGate(ctx, h, r, f); err != nil || r.Patch == nil {
		return err
	}
	return s.judgeFacts(ctx, h, r, sc, f)
}

func (s *Store) storedPatch(ctx context.Context, h sqlc.DBTX, tenant uuid.UUID, ref string) (PatchFacts, error) {
	id, err := typeid.Parse(typeid.Artifact, ref)
	if err != nil {
		return PatchFacts{}, err
	}
	p, err := s.q.Patch(ctx, h, tenant, id)
	if err != nil {
		return PatchFacts{}, fmt.Errorf("load the parsed patch: %w", err)
	}
	var out PatchFacts
	if err := json.Unmarshal(p.Facts, &out); err != nil {
		return PatchFacts{}, fmt.Errorf("read the parsed patch: %w", err)
	}
	return out, nil
}

// carriedFacts counts the people whose approval of the same patch id on an older
// base still stands under today's rules (D-15).
func (s *Store) carriedFacts(ctx context.Context, h sqlc.DBTX, r run.Run, f *run.Facts) error {
	if r.BaseMoves == 0 || r.ApprovedPatchID == "" {
		return nil
	}
	g, err := s.q.ApprovedGate(ctx, h, r.Tenant, r.ID, string(run.GatePatch))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load the approved gate: %w", err)
	}
	gf, err := s.gateFacts(ctx, h, r, g)
	if err != nil {
		return err
	}
	p := f.Policy
	// Rules about a result are asked, too: they may bar whom nothing barred when the gate was decided.
	p.Gate, p.Result = gf, policy.Result(r.Outcome)
	f.CarriedFrom = g.ID
	if f.CarriedBy, err = s.approversOf(ctx, h, g); err != nil {
		return err
	}
	t := policy.Count(f.Rules, p)
	still, err := s.mayStillDecide(ctx, h, r.Tenant, f.CarriedBy, f.Rules.Under(p).Gates.For(policy.GatePatch).Role)
	if err != nil {
		return err
	}
	counts := slices.DeleteFunc(t.By, func(id string) bool { return !still[id] })
	f.CarriedBy = slices.DeleteFunc(f.CarriedBy, func(a run.Actor) bool { return !slices.Contains(counts, a.ID) })
	f.Policy.CarriedApprovals = len(counts)
	return nil
}

// mayStillDecide are those of some people, by id, who hold a role today: an approval is not carried for whoever lost it since.
func (s *Store) mayStillDecide(ctx context.Context, h sqlc.DBTX, tenant uuid.UUID, people []run.Actor, role policy.Role) (map[string]bool, error) {
	ids := make([]uuid.UUID, 0, len(people))
	for _, p := range people {
		id, err := uuid.Parse(p.ID)
		if err != nil {
			return nil, fmt.Errorf("read who approved: %w", err)
		}
		ids = append(ids, id)
	}
	rows, err := s.q.MayStillDecide(ctx, h, tenant, ids, string(role))
	if err != nil {
		return nil, fmt.Errorf("load who may still decide: %w", err)
	}
	still := make(map[string]bool, len(rows))
	for _, id := range rows {
		still[id.String()] = true
	}
	return still, nil
}

// approversOf are the people whose approvals of a gate's present revision stand, in their order.
func (s *Store) approversOf(ctx context.Context, h sqlc.DBTX, g sqlc.Gate) ([]run.Actor, error) {
	ds, err := s.q.GateDecisions(ctx, h, g.TenantID, g.ID)
	if err != nil {
		return nil, fmt.Errorf("load who approved: %w", err)
	}
	var all []run.Actor
	for _, d := range ds {
		switch {
		case d.Decision.Verdict == withdrawn:
			all = nil
		case d.Decision.Verdict == string(policy.Approve) && d.Decision.Revision == g.Revision && d.Decision.DigestSeen == g.Digest && !d.Decision.Extra:
			all = append(all, run.Actor{Kind: run.Human, ID: d.Decision.UserID.String(), Name: d.Name})
		}
	}
	return all, nil
}

// gateFacts is what policy asks about a gate revision.
func (s *Store) gateFacts(ctx context.Context, h sqlc.DBTX, r run.Run, g sqlc.Gate) (policy.GateFacts, error) {
	out := policy.GateFacts{Kind: policy.GateKind(g.Kind), Expired: g.State == string(run.GateExpired)}
	last, err := s.q.LastInstructor(ctx, h, r.Tenant, r.ID, g.Kind)
	switch {
	case err == nil:
		out.LastInstructor = last.String()
	case !errors.Is(err, pgx.ErrNoRows):
		return out, fmt.Errorf("load the last instruction: %w", err)
	}
	ds, err := s.q.GateDecisions(ctx, h, r.Tenant, g.ID)
	if err != nil {
		return out, fmt.Errorf("load decisions: %w", err)
	}
	for _, d := range ds {
		if d.Decision.Verdict == withdrawn {
			out.Decisions = nil
			continue
		}
		if d.Decision.Revision == g.Revision && d.Decision.DigestSeen == g.Digest && !d.Decision.Extra && d.Decision.CarriedOverFrom == nil {
			out.Decisions = append(out.Decisions, policy.Decided{User: d.Decision.UserID.String(), Verdict: policy.GateVerdict(d.Decision.Verdict)})
		}
	}
	return out, nil
}
