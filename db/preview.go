package db

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/schedule"
)

// TaskPreview is what would become of a task that was not submitted, at this moment and under the rules of this moment.
type TaskPreview struct {
	Rules policy.Rules
	policy.Foreseen
	// Refused says why it could not be submitted at all, or is empty.
	Refused string
	// Approvers are the people who may approve, by the gates that are foreseen and those that only a protected path brings.
	Approvers map[policy.GateKind][]string
	// RequesterMayNot says why the one who asks may not approve it.
	RequesterMayNot string
	// Place and Last are nil where no repository is known.
	Place *QueuePlace
	Last  *LastRuns
}

// QueuePlace is where a new run would stand.
type QueuePlace struct {
	Queue string
	// Ahead counts the tenant's items that go first, up to a thousand; Oldest is since when the first of them is ready (zero: none).
	Ahead  int
	Oldest time.Time
	// Went is how many of the queue's runs ended a minute, over the last ten.
	Went float64
	// Free says that a worker would take it with its next question; Why is the reason otherwise.
	Free bool
	Why  string
}

// LastRuns are the newest finished runs of one repository.
type LastRuns struct {
	// Costs of those of which all is known, the cheapest first, in millionths of the currency; Unpriced counts the others.
	Costs    []int64
	Unpriced int
	// Worked is how long each was active, without the time it waited for people, the shortest first.
	Worked []time.Duration
}

// lastRuns is how many finished runs an expectation stands on at most.
const lastRuns = 20

// PreviewTask asks what CreateTask and all that follows it would decide. It stores nothing. The zero repository is one that was not
// chosen yet: then only what does not depend on it is foreseen.
func (s *Store) PreviewTask(ctx context.Context, in Request, spec TaskSpec) (TaskPreview, error) {
	rules, err := s.Rules(ctx, in.Tenant)
	if err != nil {
		return TaskPreview{}, err
	}
	requester, err := uuid.Parse(in.By.ID)
	if err != nil {
		return TaskPreview{}, fault.New(fault.Forbidden, "Nothing can be said about the task: only a person, or a token of a person, submits tasks.")
	}
	ask := s.ask(in.Tenant, spec.Repository, requester)
	q := rules.Admission.Quota
	ask.Most = int32(max(q.MaxQueued, q.MaxActive, 1))
	g, err := s.grounds(ctx, s.pool, ask)
	if err != nil {
		return TaskPreview{}, err
	}
	known := g.repo != nil
	if !known {
		if spec.Repository != uuid.Nil {
			return TaskPreview{}, fault.New(fault.Invalid, "There is no such repository here.").WithField("repository_id")
		}
		g.repo = &sqlc.Repository{}
	}
	m, err := newTask(in, spec, rules, micro(g.Now))
	if err != nil {
		return TaskPreview{}, err
	}
	f, err := s.startFacts(ctx, s.pool, m.row, run.Run{Tenant: in.Tenant, Repository: spec.Repository, Mode: spec.Contract.Mode, Risk: spec.Contract.Risk},
		start{asked: in.Roles, rules: rules, grounds: g})
	if err != nil {
		return TaskPreview{}, err
	}
	p := TaskPreview{Rules: rules, Foreseen: policy.Foresee(rules, f)}
	if known {
		if err := verifiable(m.row, *g.repo); err != nil {
			p.Refused = fault.Sentence(err)
		}
		if p.Place, err = s.placeOf(ctx, in.Tenant, requester, spec.Repository, f, p.Rules); err != nil {
			return p, err
		}
		if p.Last, err = s.lastRuns(ctx, in.Tenant, spec.Repository); err != nil {
			return p, err
		}
	}
	return p, s.approvers(ctx, in, f, &p)
}

// approvers finds out who may decide about the work, as the gates will.
func (s *Store) approvers(ctx context.Context, in Request, f policy.Facts, p *TaskPreview) error {
	kinds := []policy.GateKind{}
	for _, g := range []policy.GateDecision{p.Plan, p.Result.Gate, p.Protected.Gate} {
		if g.Gate && !slices.Contains(kinds, g.Kind) {
			kinds = append(kinds, g.Kind)
		}
	}
	asked := []string{}
	for _, k := range kinds {
		asked = append(asked, string(p.Rules.Gates.For(k).Role))
	}
	rows, err := s.q.MembersWithRoles(ctx, s.reads(in.Tenant), in.Tenant, asked)
	if err != nil {
		return fmt.Errorf("list who may approve: %w", err)
	}
	names, people := map[string]string{}, []policy.Actor{}
	for _, r := range rows {
		names[r.UserID.String()] = r.Name
		people = append(people, policy.Actor{User: r.UserID.String(), Roles: roles(r.Roles), LivePerson: true})
	}
	p.Approvers = map[policy.GateKind][]string{}
	for _, k := range kinds {
		p.Approvers[k] = []string{}
		for _, a := range policy.Approvers(p.Rules, f, k, people) {
			p.Approvers[k] = append(p.Approvers[k], names[a.User])
		}
		f.Gate = policy.GateFacts{Kind: k}
		_, p.RequesterMayNot = policy.MayDecide(p.Rules, f, policy.Actor{User: in.By.ID, Roles: in.Roles, LivePerson: true}, policy.Approve)
	}
	return nil
}

// placeOf says where a new run of the requester would stand, by the rules by which work is given out.
func (s *Store) placeOf(ctx context.Context, tenant, requester, repository uuid.UUID, f policy.Facts, rules policy.Rules) (*QueuePlace, error) {
	state, offers, err := s.waitingFor(ctx, tenant)
	if err != nil {
		return nil, err
	}
	route := rules.Routing.Route(f)
	route.Requires = route.Of(string(run.PhaseExecute))
	item := schedule.Item{Tenant: tenant, User: requester, Repository: repository, Phase: string(run.PhaseExecute), Route: route, Risk: f.Risk,
		Rank: schedule.Rank(state.Now, route.Priority, s.timing.Aging), Since: state.Now}
	row, err := s.q.AheadOfNew(ctx, s.reads(tenant), item.Phase, route.Queue, tenant, item.Rank)
	if err != nil {
		return nil, fmt.Errorf("count who goes first: %w", err)
	}
	why := schedule.Why(state, offers, item, int(row.Ahead))
	p := &QueuePlace{Queue: route.Queue, Ahead: int(row.Ahead), Free: why.Code == schedule.CodeNext, Why: why.Words}
	if p.Ahead > 0 {
		p.Oldest = row.Oldest.UTC()
	}
	queues, err := s.Queues(ctx, tenant)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		if q.Name == route.Queue {
			p.Went = q.Went
		}
	}
	return p, nil
}

func (s *Store) lastRuns(ctx context.Context, tenant, repository uuid.UUID) (*LastRuns, error) {
	rows, err := s.q.FinishedLately(ctx, s.reads(tenant), tenant, repository, lastRuns)
	if err != nil {
		return nil, fmt.Errorf("look at the repository's last runs: %w", err)
	}
	l := &LastRuns{}
	for _, r := range rows {
		l.Worked = append(l.Worked, time.Duration(r.ActiveMs)*time.Millisecond)
		if r.Unpriced {
			l.Unpriced++
		} else {
			l.Costs = append(l.Costs, r.Micros)
		}
	}
	slices.Sort(l.Costs)
	slices.Sort(l.Worked)
	return l, nil
}
