package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// GateInfo is a gate as lists and pages show it.
type GateInfo struct {
	ID, Run, Task          uuid.UUID
	Kind                   run.GateKind
	State                  run.GateState
	Revision               int
	Digest, Artifact, Base string
	Quorum, Approvals      int
	Role                   policy.Role
	PolicyVersion          string
	Reasons                []string
	OpenedAt, ExpiresAt    time.Time
	ClosedAt               *time.Time
	TaskTitle, Requester   string
	RequestedBy            uuid.UUID
	RepositoryName, Risk   string
	RunState               run.State
	Patch                  *run.Patch
	LastDecider, LastText  string
}

// Cursor is the gate's place in a list.
func (g GateInfo) Cursor() Cursor { return Cursor{g.OpenedAt, g.ID} }

// GateFilter narrows a list of gates; zero members do not.
type GateFilter struct {
	States []run.GateState
	Run    uuid.UUID
	After  Cursor
	Limit  int32
}

// Gates lists gates, the oldest first.
func (s *Store) Gates(ctx context.Context, tenant uuid.UUID, f GateFilter) ([]GateInfo, error) {
	states := []string{}
	for _, state := range f.States {
		states = append(states, string(state))
	}
	ids, err := s.q.PageGates(ctx, s.reads(tenant), sqlc.PageGatesParams{
		TenantID: tenant, States: states, RunID: pointer(f.Run), AfterAt: f.After.At, AfterID: f.After.ID, Count: f.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list gates: %w", err)
	}
	return s.gates(ctx, tenant, ids)
}

// GatesOfRun lists a run's gates, the oldest first, at most limit.
func (s *Store) GatesOfRun(ctx context.Context, tenant, run uuid.UUID, limit int32) ([]GateInfo, error) {
	ids, err := s.q.GatesOfRun(ctx, s.reads(tenant), run, tenant, limit)
	if err != nil {
		return nil, fmt.Errorf("list gates of a run: %w", err)
	}
	return s.gates(ctx, tenant, ids)
}

// PatchRevisions says for each revision of a run's patch gates which artifact it was about.
func (s *Store) PatchRevisions(ctx context.Context, tenant, run uuid.UUID) (map[int]string, error) {
	rows, err := s.q.PatchRevisions(ctx, s.reads(tenant), tenant, run)
	if err != nil {
		return nil, fmt.Errorf("list revisions of a patch: %w", err)
	}
	all := map[int]string{}
	for _, r := range rows {
		all[int(r.Revision)] = r.ArtifactID
	}
	return all, nil
}

// Gate reads one gate; fault.NotFound where the tenant has none of that id.
func (s *Store) Gate(ctx context.Context, tenant, id uuid.UUID) (GateInfo, error) {
	all, err := s.gates(ctx, tenant, []uuid.UUID{id})
	if err == nil && len(all) == 0 {
		return GateInfo{}, fault.New(fault.NotFound, "There is no such gate here.")
	}
	if err != nil {
		return GateInfo{}, err
	}
	return all[0], nil
}

// GatesByID reads those of the gates that the tenant has, the oldest first.
func (s *Store) GatesByID(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]GateInfo, error) {
	return s.gates(ctx, tenant, ids)
}

// gates reads gates by their ids, the oldest first.
func (s *Store) gates(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]GateInfo, error) {
	rows, err := s.q.GatesOfPage(ctx, s.reads(tenant), ids, tenant)
	if err != nil {
		return nil, fmt.Errorf("list gates: %w", err)
	}
	all := make([]GateInfo, 0, len(rows))
	for _, r := range rows {
		g := GateInfo{
			ID: r.Gate.ID, Run: r.Gate.RunID, Task: r.Gate.TaskID, Kind: run.GateKind(r.Gate.Kind), State: run.GateState(r.Gate.State),
			Revision: int(r.Gate.Revision), Digest: r.Gate.Digest, Artifact: r.Gate.ArtifactID, Base: r.Gate.BaseCommit, Quorum: int(r.Gate.Quorum),
			Approvals: int(r.Approvals), Role: policy.Role(r.Gate.Role), PolicyVersion: r.Gate.PolicyVersion, Reasons: r.Gate.Reasons,
			OpenedAt: r.Gate.OpenedAt.UTC(), ExpiresAt: r.Gate.ExpiresAt.UTC(), ClosedAt: r.Gate.ClosedAt, TaskTitle: r.TaskTitle, Requester: r.Requester,
			RequestedBy: r.RequestedBy, RepositoryName: r.RepositoryName, Risk: r.Risk, RunState: run.State(r.RunState),
			LastDecider: r.LastDecider, LastText: r.LastText,
		}
		if err := decode(r.Patch, &g.Patch, "patch"); err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

// DecisionInfo is one recorded decision.
type DecisionInfo struct {
	ID, Gate, User uuid.UUID
	Revision       int
	Digest         string
	UserName       string
	Verdict        string
	Text           string
	// Channel is page or api.
	Channel     string
	Extra       bool
	CarriedOver bool
	// Notes is how many notes for the agent came with an approval.
	Notes int
	At    time.Time
}

// Decisions lists the decisions on all revisions of the gates, oldest first.
func (s *Store) Decisions(ctx context.Context, tenant uuid.UUID, gates ...uuid.UUID) ([]DecisionInfo, error) {
	rows, err := s.q.PageDecisions(ctx, s.reads(tenant), tenant, gates)
	if err != nil {
		return nil, fmt.Errorf("list decisions: %w", err)
	}
	var all []DecisionInfo
	for _, r := range rows {
		all = append(all, DecisionInfo{
			ID: r.ID, Gate: r.GateID, User: r.UserID, Revision: int(r.Revision), Digest: r.DigestSeen, UserName: r.UserName, Verdict: r.Verdict,
			Text: r.Text, Channel: r.Channel, Extra: r.Extra, CarriedOver: r.CarriedOverFrom != nil, At: r.At.UTC(), Notes: int(r.Notes),
		})
	}
	return all, nil
}

// RecentGate is a gate that was decided in the last seven days.
type RecentGate struct {
	ID                        uuid.UUID
	Kind                      run.GateKind
	State                     run.GateState
	TaskTitle, RepositoryName string
	By                        string
	At                        time.Time
}

// RecentGates lists what was decided lately, the newest first.
func (s *Store) RecentGates(ctx context.Context, tenant uuid.UUID, limit int32) ([]RecentGate, error) {
	rows, err := s.q.RecentGates(ctx, s.reads(tenant), tenant, limit)
	if err != nil {
		return nil, fmt.Errorf("list recent gates: %w", err)
	}
	var all []RecentGate
	for _, r := range rows {
		all = append(all, RecentGate{r.ID, run.GateKind(r.Kind), run.GateState(r.State), r.TaskTitle, r.RepositoryName, r.DecidedBy, value(r.ClosedAt).UTC()})
	}
	return all, nil
}

// MyTurn counts the gates that a person with these roles may act on.
func (s *Store) MyTurn(ctx context.Context, tenant, user uuid.UUID, roles []policy.Role) (int64, error) {
	names := []string{}
	for _, r := range roles {
		names = append(names, string(r))
	}
	n, err := s.q.CountMyGates(ctx, s.reads(tenant), tenant, user, names)
	if err != nil {
		return 0, fmt.Errorf("count gates: %w", err)
	}
	return n, nil
}

// Standing is where a gate stands under today's policy, and what one person may do at it.
type Standing struct {
	MayApprove, MayReject, MayRequestChanges bool
	// Why is the reason where approving is refused.
	Why         string
	Tally       policy.Tally
	Guards      []policy.Guard
	Risk        policy.Risk
	RiskReasons []string
	Version     string
	Facts       policy.Facts
	// Requirements are the rows of the quorum, Moved says that another policy holds than when the gate was opened.
	Requirements []Requirement
	Moved        string
}

// Standing reads a gate as a decision on it would: same rules, same facts, nothing locked for longer than the look.
func (s *Store) Standing(ctx context.Context, tenant, gate uuid.UUID, by Decider) (Standing, error) {
	var out Standing
	err := s.readTx(ctx, tenant, func(tx pgx.Tx) error {
		g, err := s.q.Gate(ctx, tx, tenant, gate)
		if err != nil {
			return err
		}
		row, err := s.q.LoadRun(ctx, tx, tenant, g.RunID)
		if err != nil {
			return err
		}
		r, err := toRun(row.Run)
		if err != nil {
			return err
		}
		rules, f, err := s.gatePolicy(ctx, tx, held{g, row.Run, r, micro(row.Now)})
		if err != nil {
			return err
		}
		actor := policy.Actor{User: by.User.String(), Roles: by.Roles, LivePerson: by.Live}
		out.MayApprove, out.Why = policy.MayDecide(rules, f, actor, policy.Approve)
		out.MayReject, _ = policy.MayDecide(rules, f, actor, policy.Reject)
		out.MayRequestChanges, _ = policy.MayDecide(rules, f, actor, policy.RequestChanges)
		out.Tally, out.Version, out.Facts = policy.Count(rules, f), rules.Version, f
		if out.Tally.Blocked {
			if out.Tally.Words, err = s.blockedWords(ctx, tx, held{g, row.Run, r, micro(row.Now)}, rules, f, out.Tally); err != nil {
				return err
			}
		}
		if out.Requirements, err = s.requirements(ctx, tx, g, rules, f, out.Tally); err != nil {
			return err
		}
		out.Moved = policy.Moved(rules, f, asked(g))
		out.Risk, out.RiskReasons = policy.EffectiveRisk(rules, f)
		if g.Kind == string(run.GatePatch) || g.Kind == string(run.GateReport) {
			out.Guards = policy.Guards(rules, f)
		}
		return nil
	})
	return out, translate(err, "gate")
}
