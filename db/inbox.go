package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// WaitingGate is an open gate with what the list of a person's work says about it.
type WaitingGate struct {
	GateInfo
	// EffectiveRisk is what the policy in force makes of the task's risk and the patch; RiskReasons say why, and are empty where the
	// task's own word counts.
	EffectiveRisk policy.Risk
	RiskReasons   []string
	// Approved says that this person approved the present revision.
	Approved bool
	// Shape is equal for patches that look alike; empty at other gates.
	Shape string
	// Turn is what people say about whose turn it is.
	Turn Turn
}

// The lists of open gates.
const (
	WaitingMine    = "mine"    // the person may decide them
	WaitingSnoozed = "snoozed" // the person may, and has put them off
	WaitingOthers  = "others"  // all others
)

// WaitingFilter says whose open gates are asked for.
type WaitingFilter struct {
	User  uuid.UUID
	Roles []policy.Role
	List  string // WaitingMine, WaitingSnoozed or WaitingOthers
	Limit int32
}

// WaitingIDs lists the ids of the gates that WaitingGates lists.
func (s *Store) WaitingIDs(ctx context.Context, tenant uuid.UUID, f WaitingFilter) ([]uuid.UUID, error) {
	names := []string{}
	for _, r := range f.Roles {
		names = append(names, string(r))
	}
	ids, err := s.q.WaitingGates(ctx, s.reads(tenant), sqlc.WaitingGatesParams{TenantID: tenant, List: f.List, Roles: names, UserID: f.User, Count: f.Limit})
	if err != nil {
		return nil, fmt.Errorf("list open gates: %w", err)
	}
	return ids, nil
}

// WaitingGates lists open gates, at most limit; where there are more, those that expire first.
func (s *Store) WaitingGates(ctx context.Context, tenant uuid.UUID, f WaitingFilter) ([]WaitingGate, error) {
	ids, err := s.WaitingIDs(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	gates, err := s.gates(ctx, tenant, ids)
	if err != nil {
		return nil, err
	}
	approved, err := s.q.GatesApprovedBy(ctx, s.reads(tenant), tenant, ids, f.User)
	if err != nil {
		return nil, fmt.Errorf("list own approvals: %w", err)
	}
	done := map[uuid.UUID]bool{}
	for _, id := range approved {
		done[id] = true
	}
	turns, err := s.turns(ctx, tenant, ids, f.User)
	if err != nil {
		return nil, err
	}
	all := make([]WaitingGate, 0, len(gates))
	for _, g := range gates {
		all = append(all, WaitingGate{GateInfo: g, Approved: done[g.ID], Turn: turns[g.ID]})
	}
	return all, s.rateGates(ctx, tenant, all)
}

// rateGates fills in the effective risk, as a decision on each gate would see it.
func (s *Store) rateGates(ctx context.Context, tenant uuid.UUID, all []WaitingGate) error {
	rules, err := s.Rules(ctx, tenant)
	if err != nil {
		return err
	}
	artifacts := make([]uuid.UUID, len(all))
	for i, g := range all {
		if g.Kind == run.GatePatch && g.Patch != nil {
			if artifacts[i], err = typeid.Parse(typeid.Artifact, g.Patch.Artifact); err != nil {
				return fmt.Errorf("rate gates: %w", err)
			}
		}
	}
	rows, err := s.q.PatchesByArtifact(ctx, s.reads(tenant), tenant, artifacts)
	if err != nil {
		return fmt.Errorf("load parsed patches: %w", err)
	}
	found := map[uuid.UUID]json.RawMessage{}
	for _, r := range rows {
		found[r.ArtifactID] = r.Facts
	}
	for i := range all {
		f := policy.Facts{Risk: policy.Risk(all[i].Risk)}
		if raw, ok := found[artifacts[i]]; ok {
			var known PatchFacts
			if err := json.Unmarshal(raw, &known); err != nil {
				return fmt.Errorf("read the parsed patch: %w", err)
			}
			all[i].Shape = known.Facts.Shape
			f.ProtectedHits = patch.Screen(known.Facts, screen(rules, run.Contract{}, nil, nil)).Protected
			for _, x := range known.Hidden {
				f.HiddenText = append(f.HiddenText, x.String())
			}
		}
		all[i].EffectiveRisk, all[i].RiskReasons = policy.EffectiveRisk(rules, f)
	}
	return nil
}
