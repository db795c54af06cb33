package db

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/typeid"
)

// Found is one thing that a preflight of a repository looked at; State is ok, problem or unchecked.
type Found struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Words string `json:"words"`
}

// KeepPreflight stores what was found about a repository, in place of what was found before. The request is repeated safely
// by its key and audited, where it has a key and an audit line.
func (s *Store) KeepPreflight(ctx context.Context, in Request, id uuid.UUID, found []Found) error {
	list, err := encode(found)
	if err != nil {
		return err
	}
	_, _, err = once(ctx, s, in, "preflight:"+id.String(), func(tx pgx.Tx) (bool, error) {
		object(in, typeid.Repo, id)
		n, err := s.q.KeepPreflight(ctx, tx, list, in.Tenant, id)
		if err == nil && n == 0 {
			err = fault.New(fault.NotFound, "There is no such repository here.")
		}
		return true, err
	})
	return translate(err, "repository")
}

// UsedBy is what one person or repository used of what policy bounds.
type UsedBy struct {
	Name         string
	Micros       int64 // of today, reported and estimated
	Gates, Pulls int
}

// BudgetUse is where a tenant stands before the limits of its policy.
type BudgetUse struct {
	Version string
	Zone    string
	Ends    time.Time // of today
	Spent   Money     // today
	// DailyMicros is what a day may cost; 0: no bound.
	DailyMicros int64
	Bounds      []policy.Bound
	// Limits of each run and the bounds of each person come from the same version.
	Limits               policy.Limits
	Reviewers            policy.ReviewerRules
	People, Repositories []UsedBy // the dearest first
}

// usedRows bounds the pairs of person and repository that are added up.
const usedRows = 5000

// BudgetUse reads what a tenant has used today, and of what it has used something now.
func (s *Store) BudgetUse(ctx context.Context, tenant uuid.UUID) (BudgetUse, error) {
	rules, err := s.Rules(ctx, tenant)
	if err != nil {
		return BudgetUse{}, err
	}
	ask := s.ask(tenant, uuid.Nil, uuid.Nil)
	ask.Most = 1 << 20
	g, err := s.grounds(ctx, s.pool, ask)
	if err != nil {
		return BudgetUse{}, err
	}
	var f policy.Facts
	if err := s.admissionFacts(ctx, s.pool, tenant, g, policy.Rules{}, &f); err != nil {
		return BudgetUse{}, err
	}
	zone, _ := zoneOf(rules.Budget.TimeZone)
	begins, ends := dayOf(g.Now, zone)
	out := BudgetUse{Version: rules.Version, Zone: zone.String(), Ends: ends.UTC(), DailyMicros: rules.Budget.DailyCents * 10_000,
		Bounds: policy.Bounds(rules, f), Limits: rules.Limits, Reviewers: rules.Admission.Reviewers}
	if out.Spent, err = s.TenantCost(ctx, tenant, begins, ends); err != nil {
		return BudgetUse{}, err
	}
	rows, err := s.q.UsedToday(ctx, s.reads(tenant), tenant, begins, ends, usedRows)
	if err != nil {
		return BudgetUse{}, fmt.Errorf("add up what was used: %w", err)
	}
	people, repositories := map[uuid.UUID]*UsedBy{}, map[string]*UsedBy{}
	for _, r := range rows {
		p, ok := people[r.RequestedBy]
		if !ok {
			p = &UsedBy{Name: r.Requester}
			people[r.RequestedBy] = p
		}
		o, ok := repositories[r.Repository]
		if !ok {
			o = &UsedBy{Name: r.Repository}
			repositories[r.Repository] = o
		}
		for _, u := range []*UsedBy{p, o} {
			u.Micros, u.Gates, u.Pulls = u.Micros+r.Micros, u.Gates+int(r.Gates), u.Pulls+int(r.Pulls)
		}
	}
	out.People, out.Repositories = dearest(people), dearest(repositories)
	return out, nil
}

func dearest[K comparable](all map[K]*UsedBy) []UsedBy {
	out := make([]UsedBy, 0, len(all))
	for _, u := range all {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b UsedBy) int {
		return cmp.Or(cmp.Compare(b.Micros, a.Micros), cmp.Compare(b.Gates+b.Pulls, a.Gates+a.Pulls), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Retention is what a tenant has stored, and how much of what is deleted after a time is due now.
type Retention struct {
	Keys, KeysDue         int64 // answers to requests, kept for KeyMemory
	Drafts, DraftsDue     int64 // unsent texts, kept for thirty days after the last letter
	Sessions, SessionsDue int64 // logins, deleted at their owner's next sign-in after they ended
	Artifacts, Bytes      int64
	Audited, Runs         int64
	KeyMemory, BootMemory time.Duration
}

// Retention counts what is stored for the tenant.
func (s *Store) Retention(ctx context.Context, tenant uuid.UUID) (Retention, error) {
	r, err := s.q.Retention(ctx, s.pool, tenant, keyMemory.Seconds())
	if err != nil {
		return Retention{}, fmt.Errorf("count what is stored: %w", err)
	}
	return Retention{r.Keys, r.KeysDue, r.Drafts, r.DraftsDue, r.Sessions, r.SessionsDue, r.Artifacts, r.ArtifactBytes, r.Audited, r.Runs, keyMemory, bootMemory}, nil
}
