package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/campaign"
	"signalbox/internal/run"
)

// CampaignInfo is a campaign as people see it.
type CampaignInfo struct {
	campaign.Campaign
	ID        uuid.UUID
	Name      string
	Version   int64
	CreatedBy uuid.UUID
	Creator   string
	CreatedAt time.Time
	// StateSince is when it came into its state.
	StateSince          time.Time
	LaunchedAt, EndedAt time.Time // zero before
	// Targets and Ended count its targets in a list, the excluded ones left out.
	Targets, Ended int
}

// Cursor is the campaign's place in a list.
func (c CampaignInfo) Cursor() Cursor { return Cursor{c.CreatedAt, c.ID} }

// CampaignTarget is a target as people see it.
type CampaignTarget struct {
	campaign.Target
	ID, RepositoryID uuid.UUID
	Why, Reason      string
	Attempt          int
	// Task of the last attempt and the newest run of it; zero before.
	Task, Run     uuid.UUID
	TaskState     run.TaskState
	PullState     string
	Instruction   string
	Cause, Sample string
	CostMicros    int64
	MovedAt       time.Time
}

// CampaignEvent is one line of a campaign's history.
type CampaignEvent struct {
	Seq      int64
	Kind     campaign.Kind
	By       run.Actor
	From, To campaign.State
	Target   uuid.UUID // zero where it is about none
	Reason   string
	At       time.Time
}

// Campaigns lists a tenant's campaigns, the newest first.
func (s *Store) Campaigns(ctx context.Context, tenant uuid.UUID, before Cursor, limit int) ([]CampaignInfo, error) {
	at, id := before.down()
	rows, err := s.q.Campaigns(ctx, s.reads(tenant), tenant, at, id, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list campaigns: %w", err)
	}
	out := make([]CampaignInfo, 0, len(rows))
	for _, r := range rows {
		out = append(out, CampaignInfo{
			Campaign: campaign.Campaign{State: campaign.State(r.State), SpecVersion: int(r.SpecVersion), ProvenVersion: int(r.ProvenVersion), Wave: int(r.Wave),
				Pause: campaign.Pause{By: campaign.PauseBy(r.PauseBy), Cause: r.PauseCause, Until: value(r.PauseUntil)}},
			ID: r.ID, Name: r.Name, Version: r.Version, CreatedBy: r.CreatedBy, Creator: r.Creator, CreatedAt: r.CreatedAt, StateSince: r.StateSince,
			LaunchedAt: value(r.LaunchedAt), EndedAt: value(r.EndedAt), Targets: int(r.Targets), Ended: int(r.Ended),
		})
	}
	return out, nil
}

// Campaign is one campaign, with its spec.
func (s *Store) Campaign(ctx context.Context, tenant, id uuid.UUID) (CampaignInfo, error) {
	r, err := s.q.Campaign(ctx, s.reads(tenant), tenant, id)
	if err != nil {
		return CampaignInfo{}, translate(err, "campaign")
	}
	row := sqlc.Campaign{ID: r.ID, TenantID: r.TenantID, State: r.State, SpecVersion: r.SpecVersion, ProvenVersion: r.ProvenVersion, Wave: r.Wave, WaveSince: r.WaveSince, PauseBy: r.PauseBy,
		PauseCause: r.PauseCause, PauseUntil: r.PauseUntil, ResumeTo: r.ResumeTo, RuleSince: r.RuleSince, AcceptedAt: r.AcceptedAt, LaunchBy: r.LaunchBy, CancelRunning: r.CancelRunning}
	c, err := s.toCampaign(ctx, s.reads(tenant), row)
	if err != nil {
		return CampaignInfo{}, err
	}
	return CampaignInfo{Campaign: c, ID: r.ID, Name: r.Name, Version: r.Version, CreatedBy: r.CreatedBy, Creator: r.Creator, CreatedAt: r.CreatedAt, StateSince: r.StateSince,
		LaunchedAt: value(r.LaunchedAt), EndedAt: value(r.EndedAt)}, nil
}

// CampaignTargets are a campaign's targets in their order.
func (s *Store) CampaignTargets(ctx context.Context, tenant, id uuid.UUID) ([]CampaignTarget, error) {
	rows, err := s.q.CampaignTargets(ctx, s.reads(tenant), tenant, id)
	if err != nil {
		return nil, fmt.Errorf("list a campaign's targets: %w", err)
	}
	out := make([]CampaignTarget, 0, len(rows))
	for _, r := range rows {
		t := r.CampaignTarget
		out = append(out, CampaignTarget{Target: asTarget(r), ID: t.ID, RepositoryID: t.RepositoryID, Why: t.Why, Reason: t.Reason, Attempt: int(t.Attempt), Task: value(t.TaskID), Run: r.RunID,
			TaskState: run.TaskState(r.TaskState), PullState: r.PullState, Instruction: t.Instruction, Cause: t.Cause, Sample: t.Sample, CostMicros: r.Micros, MovedAt: t.MovedAt})
	}
	return out, nil
}

// CampaignEvents are a campaign's events after a number, in order.
func (s *Store) CampaignEvents(ctx context.Context, tenant, id uuid.UUID, after int64, limit int) ([]CampaignEvent, error) {
	rows, err := s.q.CampaignEvents(ctx, s.reads(tenant), tenant, id, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list a campaign's events: %w", err)
	}
	out := make([]CampaignEvent, 0, len(rows))
	for _, r := range rows {
		out = append(out, CampaignEvent{r.Seq, campaign.Kind(r.Kind), run.Actor{Kind: run.ActorKind(r.ActorKind), ID: r.ActorID, Name: r.ActorName}, campaign.State(r.FromState),
			campaign.State(r.ToState), value(r.TargetID), r.Reason, r.At})
	}
	return out, nil
}
