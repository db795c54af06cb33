package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// MostSimulated is how many runs a draft is tried on at most, and mostChanged how many of them are listed.
const (
	MostSimulated = 10_000
	mostChanged   = 200
	simulatedPage = 500
)

// Simulation is what a draft would have done to past runs.
type Simulation struct {
	// Against is the version in force, Draft the draft's.
	Against, Draft string
	// Runs were looked at, the newest; Since is when the oldest of them was asked for.
	Runs  int
	Since time.Time
	// Changed counts runs that the draft decides differently, Kinds how: a run may count in several.
	Changed int
	Kinds   map[policy.ChangeKind]int
	// List are the newest changed runs, at most 200.
	List []SimulatedRun
}

// SimulatedRun is a run that a draft decides differently.
type SimulatedRun struct {
	Run        uuid.UUID
	Title      string
	Repository string
	State      run.State
	At         time.Time
	Changes    []policy.Change
}

// SimulatePolicy asks for each of the tenant's newest runs what the draft would have decided, beside the policy in
// force. Nothing is stored and nothing is locked. A run that produced no result is compared up to its plan. A server does
// this once at a time for each tenant, because ten thousand runs keep it busy for seconds.
func (s *Store) SimulatePolicy(ctx context.Context, tenant uuid.UUID, document string, most int) (Simulation, error) {
	draft, err := policy.Accept([]byte(document), zoneKnown)
	if err != nil {
		return Simulation{}, err
	}
	if _, busy := s.simulating.LoadOrStore(tenant, true); busy {
		return Simulation{}, fault.New(fault.TooMany, "The draft was not tried: another simulation of this tenant is under way. Try again when it has ended, in some seconds.").
			WithCode("simulation_under_way").WithRetryAfter(5 * time.Second)
	}
	defer s.simulating.Delete(tenant)
	now, err := s.Rules(ctx, tenant)
	if err != nil {
		return Simulation{}, err
	}
	out := Simulation{Against: now.Version, Draft: draft.Version, Kinds: map[policy.ChangeKind]int{}}
	at, id := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), uuid.Max
	for most = min(most, MostSimulated); out.Runs < most; {
		rows, err := s.q.SimulatedRuns(ctx, s.reads(tenant), tenant, at, id, int32(min(most-out.Runs, simulatedPage)))
		if err != nil {
			return out, fmt.Errorf("read past runs: %w", err)
		}
		if len(rows) == 0 {
			break
		}
		patches, err := s.patchesOf(ctx, tenant, rows)
		if err != nil {
			return out, err
		}
		for _, row := range rows {
			if ctx.Err() != nil {
				return out, fmt.Errorf("try the draft on past runs: %w", ctx.Err())
			}
			if err := out.add(row, patches[row.Patch], now, draft); err != nil {
				return out, err
			}
		}
		at, id = rows[len(rows)-1].CreatedAt, rows[len(rows)-1].ID
	}
	return out, nil
}

// patchesOf reads what was found in the patches of the runs, by their artifacts.
func (s *Store) patchesOf(ctx context.Context, tenant uuid.UUID, rows []sqlc.SimulatedRunsRow) (map[string]json.RawMessage, error) {
	var ids []uuid.UUID
	for _, row := range rows {
		if row.Patch == "" {
			continue
		}
		id, err := typeid.Parse(typeid.Artifact, row.Patch)
		if err != nil {
			return nil, fmt.Errorf("the patch of run %s: %w", row.ID, err)
		}
		ids = append(ids, id)
	}
	found, err := s.q.PatchesByArtifact(ctx, s.reads(tenant), tenant, ids)
	if err != nil {
		return nil, fmt.Errorf("load parsed patches: %w", err)
	}
	out := make(map[string]json.RawMessage, len(found))
	for _, p := range found {
		out[typeid.Format(typeid.Artifact, p.ArtifactID)] = p.Facts
	}
	return out, nil
}

func (o *Simulation) add(row sqlc.SimulatedRunsRow, patch json.RawMessage, now, draft policy.Rules) error {
	o.Runs, o.Since = o.Runs+1, row.CreatedAt.UTC()
	past, err := pastRun(row, patch)
	if err != nil {
		return err
	}
	changes := policy.Compare(now, draft, past.facts(now), past.facts(draft))
	if len(changes) == 0 {
		return nil
	}
	o.Changed++
	seen := map[policy.ChangeKind]bool{}
	for _, c := range changes {
		if !seen[c.Kind] {
			o.Kinds[c.Kind]++
		}
		seen[c.Kind] = true
	}
	if len(o.List) < mostChanged {
		o.List = append(o.List, SimulatedRun{row.ID, row.Title, row.Repository, run.State(row.State), row.CreatedAt.UTC(), changes})
	}
	return nil
}

// pastFacts is a run as decisions about it see it, but for what a policy's own paths find in its patch.
type pastFacts struct {
	known    policy.Facts
	contract run.Contract
	patch    PatchFacts
	scope    []string
	forbid   []string
}

func pastRun(row sqlc.SimulatedRunsRow, found json.RawMessage) (pastFacts, error) {
	p := pastFacts{scope: row.Scope, forbid: row.Forbidden}
	var judge run.JudgeEvidence
	if err := decode(row.Contract, &p.contract, "contract"); err != nil {
		return p, err
	}
	if len(found) > 0 {
		if err := json.Unmarshal(found, &p.patch); err != nil {
			return p, fmt.Errorf("read the parsed patch of run %s: %w", row.ID, err)
		}
	}
	if err := json.Unmarshal(row.Judge, &judge); err != nil {
		return p, fmt.Errorf("read the judge's report of run %s: %w", row.ID, err)
	}
	f := &p.known
	f.Repository, f.Requester, f.RequesterRoles = row.Repository, row.RequestedBy.String(), roles(row.Roles)
	f.Risk, f.Mode = policy.Risk(row.Risk), policy.Mode(row.Mode)
	f.AgentProfile, f.Priority, f.Requires = row.AgentProfile, int(row.Priority), join(row.Requires, p.contract.Requires)
	f.PlanGateAsked, f.AutoPRAsked, f.AttestationAsked = p.contract.PlanGate, p.contract.AutoPR, p.contract.Attestation
	if judge.Verdict == "" {
		return p, nil // nothing came of it that anybody decided about
	}
	f.Result, f.Verdict, f.Confidence, f.JudgeReasons = policy.Result(row.Outcome), policy.Verdict(judge.Verdict), judge.Confidence, judge.Reasons
	f.VerificationPassed, f.BudgetLeft, f.RepairRoundsLeft = row.VerificationDigest != "", true, 1
	f.SecretScan = policy.SecretScan(p.patch.Scan.State)
	changed(p.patch.Facts, f)
	return p, nil
}

func (p pastFacts) facts(r policy.Rules) policy.Facts {
	f := p.known
	if f.Result != policy.ResultPatch {
		return f
	}
	hits := patch.Screen(p.patch.Facts, screen(r, p.contract, p.scope, p.forbid))
	f.ForbiddenHits, f.ProtectedHits, f.GeneratedViolations = hits.Forbidden, hits.Protected, hits.GeneratedViolations
	for _, x := range p.patch.Hidden {
		f.HiddenText = append(f.HiddenText, x.String())
	}
	return f
}
