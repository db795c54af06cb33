package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
// force. Nothing is stored, and no row is locked. A run that produced no result is compared up to its plan. It is done
// once at a time for each tenant, by whatever server, because ten thousand runs keep one busy for seconds; all of it is read
// in one transaction, which holds that turn and needs no second connection.
func (s *Store) SimulatePolicy(ctx context.Context, tenant uuid.UUID, document string, most int) (Simulation, error) {
	draft, err := policy.Accept([]byte(document), zoneKnown)
	if err != nil {
		return Simulation{}, err
	}
	now, err := s.Rules(ctx, tenant)
	if err != nil {
		return Simulation{}, err
	}
	var out Simulation
	err = s.readTx(ctx, tenant, func(tx pgx.Tx) error {
		mine, err := s.q.TakeSimulation(ctx, tx, tenant.String())
		if err != nil {
			return fmt.Errorf("ask for the turn to simulate: %w", err)
		}
		if !mine {
			return fault.New(fault.TooMany, "The draft was not tried: another simulation of this tenant is under way. Try again when it has ended, in some seconds.").
				WithCode("simulation_under_way").WithRetryAfter(5 * time.Second)
		}
		out = Simulation{Against: now.Version, Draft: draft.Version, Kinds: map[policy.ChangeKind]int{}}
		at, id := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), uuid.Max
		for left := min(most, MostSimulated); left > 0; {
			rows, err := s.q.SimulatedRuns(ctx, tx, tenant, at, id, int32(min(left, simulatedPage)))
			if err != nil {
				return fmt.Errorf("read past runs: %w", err)
			}
			if len(rows) == 0 {
				return nil
			}
			ids, err := patchesOf(rows)
			if err != nil {
				return err
			}
			found, err := s.q.PatchesByArtifact(ctx, tx, tenant, ids)
			if err != nil {
				return fmt.Errorf("load parsed patches: %w", err)
			}
			if err := out.page(ctx, rows, found, now, draft); err != nil {
				return err
			}
			left -= len(rows)
			at, id = rows[len(rows)-1].CreatedAt, rows[len(rows)-1].ID
		}
		return nil
	})
	return out, err
}

// patchesOf are the artifacts of the runs' patches.
func patchesOf(rows []sqlc.SimulatedRunsRow) (ids []uuid.UUID, err error) {
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
	return ids, nil
}

// page compares some runs, with what was found in their patches.
func (o *Simulation) page(ctx context.Context, rows []sqlc.SimulatedRunsRow, found []sqlc.PatchesByArtifactRow, now, draft policy.Rules) error {
	patches := make(map[string]json.RawMessage, len(found))
	for _, p := range found {
		patches[typeid.Format(typeid.Artifact, p.ArtifactID)] = p.Facts
	}
	for _, row := range rows {
		if ctx.Err() != nil {
			return fmt.Errorf("try the draft on past runs: %w", ctx.Err())
		}
		if err := o.add(row, patches[row.Patch], now, draft); err != nil {
			return err
		}
	}
	return nil
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
