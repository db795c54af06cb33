package db

import (
	"context"
	"fmt"
	"strings"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/policy"
)

// Requirement is one row of what a gate needs before the run goes on.
type Requirement struct {
	Words      string
	Have, Need int
	// Who are the names of those who can still give it.
	Who []string
}

func asked(g sqlc.Gate) policy.Asked {
	return policy.Asked{Version: g.PolicyVersion, Quorum: int(g.Quorum), Role: policy.Role(g.Role)}
}

// requirements are the rows under today's policy: how many approvals of which role, and who can still give one. A17.
func (s *Store) requirements(ctx context.Context, h sqlc.DBTX, g sqlc.Gate, rules policy.Rules, f policy.Facts, t policy.Tally) ([]Requirement, error) {
	role := rules.Gates.For(f.Gate.Kind).Role
	members, err := s.q.MembersWithRoles(ctx, h, g.TenantID, []string{string(role)})
	if err != nil {
		return nil, fmt.Errorf("list who may approve: %w", err)
	}
	names, people := map[string]string{}, []policy.Actor{}
	for _, m := range members {
		names[m.UserID.String()] = m.Name
		people = append(people, policy.Actor{User: m.UserID.String(), Roles: roles(m.Roles), LivePerson: true})
	}
	row := Requirement{Words: fmt.Sprintf("Approvals by the role %s, none from the requester", role), Have: t.Approvals, Need: t.Needed}
	for _, p := range policy.StillMay(rules, f, people) {
		row.Who = append(row.Who, names[p.User])
	}
	return []Requirement{row}, nil
}

// blockedWords name who blocks a gate. A18.
func (s *Store) blockedWords(ctx context.Context, h sqlc.DBTX, g held, rules policy.Rules, f policy.Facts, t policy.Tally) (string, error) {
	ds, err := s.q.GateDecisions(ctx, h, g.run.Tenant, g.gate.ID)
	if err != nil {
		return "", fmt.Errorf("load who blocks: %w", err)
	}
	names := map[string]string{}
	for _, d := range ds {
		names[d.Decision.UserID.String()] = d.Name
	}
	var by []string
	for _, user := range policy.Rejecters(rules, f) {
		if names[user] == "" {
			return fmt.Sprintf("%d of %d approvals, blocked by your rejection. It counts until you approve.", t.Approvals, t.Needed), nil
		}
		by = append(by, names[user])
	}
	return fmt.Sprintf("%d of %d approvals, blocked by the rejection of %s. It counts until the same person approves.", t.Approvals, t.Needed, strings.Join(by, " and of ")), nil
}
