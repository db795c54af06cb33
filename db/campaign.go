package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/campaign"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// CampaignAck is the answer to a request about a campaign, stored with its key.
type CampaignAck struct {
	Campaign uuid.UUID      `json:"campaign"`
	State    campaign.State `json:"state"`
	Version  int64          `json:"version"`
	// Targets is how many targets the request touched, where it is about targets; Skipped how many of those named could not take part.
	Targets  int  `json:"targets,omitempty"`
	Skipped  int  `json:"skipped,omitempty"`
	Replayed bool `json:"-"`
}

// CreateCampaign stores a campaign as a draft, with the first version of its spec, which the caller has checked.
func (s *Store) CreateCampaign(ctx context.Context, in Request, spec campaign.Spec) (CampaignAck, error) {
	by, err := asker(in)
	if err != nil {
		return CampaignAck{}, err
	}
	ack, again, err := once(ctx, s, in, "campaigns:"+in.By.ID, func(tx pgx.Tx) (CampaignAck, error) {
		id := typeid.New()
		object(in, typeid.Campaign, id)
		now, err := s.q.Now(ctx, tx)
		if err != nil {
			return CampaignAck{}, fmt.Errorf("ask the time: %w", err)
		}
		h := &heldCampaign{s: s, tx: tx, now: micro(now), row: sqlc.Campaign{ID: id, TenantID: in.Tenant, Name: spec.Name, CreatedBy: by}}
		if err := h.apply(campaign.Event{Kind: campaign.Created, By: in.By, Spec: &spec}, nil); err != nil {
			return CampaignAck{}, err
		}
		if err := s.q.InsertCampaign(ctx, tx, sqlc.InsertCampaignParams{ID: id, TenantID: in.Tenant, Name: spec.Name, State: string(h.c.State), CreatedBy: by}); err != nil {
			return CampaignAck{}, fmt.Errorf("store a campaign: %w", err)
		}
		if err := h.storeSpec(ctx, by); err != nil {
			return CampaignAck{}, err
		}
		return h.ack(), h.storeEvents(ctx)
	})
	ack.Replayed = again
	return ack, translate(err, "campaign")
}

// maxCampaignReason is the longest reason that a person gives, in bytes.
const maxCampaignReason = 2000

// CampaignOrder is what a person says to a campaign.
type CampaignOrder struct {
	Campaign uuid.UUID
	Kind     campaign.Kind
	// Version that the person saw; 0: whichever it is.
	Version int64
	Reason  string
	// Spec of spec_changed.
	Spec *campaign.Spec
	// CancelRunning of stop_requested.
	CancelRunning bool
}

// OrderCampaign applies what a person says, in one transaction with its event and its audit line.
func (s *Store) OrderCampaign(ctx context.Context, in Request, o CampaignOrder) (CampaignAck, error) {
	return s.campaignRequest(ctx, in, string(o.Kind), o.Campaign, func(ctx context.Context, h *heldCampaign) (CampaignAck, error) {
		if len(o.Reason) > maxCampaignReason {
			return CampaignAck{}, fault.Newf(fault.Invalid, "Nothing was changed: the reason is longer than %d bytes.", maxCampaignReason).WithField("reason")
		}
		if o.Version != 0 && o.Version != h.row.Version {
			return CampaignAck{}, fault.New(fault.Conflict, "Nothing was changed: the campaign moved on since you looked. Look at it as it is now, and decide again.").WithCode("campaign_moved")
		}
		ev := campaign.Event{Kind: o.Kind, By: in.By, Reason: o.Reason, Spec: o.Spec, CancelRunning: o.CancelRunning}
		switch o.Kind {
		case campaign.WasPaused:
			ev.Pause = campaign.Pause{By: campaign.ByPerson, Cause: o.Reason}
		case campaign.LaunchRequested, campaign.Launched:
			targets, err := h.targets(ctx)
			if err != nil {
				return CampaignAck{}, err
			}
			for _, t := range targets {
				if t.CampaignTarget.Stage != string(campaign.Excluded) {
					ev.Targets++
				}
			}
		}
		if err := h.apply(ev, nil); err != nil {
			return CampaignAck{}, err
		}
		switch o.Kind {
		case campaign.SpecChanged:
			by, err := asker(in)
			if err != nil {
				return CampaignAck{}, err
			}
			h.row.Name = o.Spec.Name
			if err := h.storeSpec(ctx, by); err != nil {
				return CampaignAck{}, err
			}
		case campaign.WasPreviewed:
			if err := h.resolve(ctx); err != nil {
				return CampaignAck{}, err
			}
		case campaign.CanaryRerun:
			if err := h.rerun(ctx); err != nil {
				return CampaignAck{}, err
			}
		}
		return h.ack(), nil
	})
}

// campaignRequest runs a request on a locked campaign: the stored answer of its key first, then the work, what it moved, the key and
// the audit line.
func (s *Store) campaignRequest(ctx context.Context, in Request, scope string, id uuid.UUID, do func(context.Context, *heldCampaign) (CampaignAck, error)) (CampaignAck, error) {
	object(in, typeid.Campaign, id)
	ack, again, err := once(ctx, s, in, scope+":"+id.String()+":"+in.By.ID, func(tx pgx.Tx) (CampaignAck, error) {
		h, err := s.lockCampaign(ctx, tx, in.Tenant, id)
		if err != nil {
			return CampaignAck{}, err
		}
		ack, err := do(ctx, h)
		if err != nil {
			return CampaignAck{}, err
		}
		return ack, h.save(ctx)
	})
	ack.Replayed = again
	return ack, translate(err, "campaign")
}

// heldCampaign is a campaign whose row is locked.
type heldCampaign struct {
	s   *Store
	tx  pgx.Tx
	row sqlc.Campaign
	c   campaign.Campaign
	now time.Time
	// loaded are its targets, changed those whose rows are to be written, by index.
	loaded  []sqlc.CampaignTargetsRow
	changed map[int]bool
	events  []sqlc.CampaignEvent
}

func (s *Store) lockCampaign(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID) (*heldCampaign, error) {
	locked, err := s.q.LockCampaign(ctx, tx, tenant, id)
	if err != nil {
		return nil, err
	}
	c, err := s.toCampaign(ctx, tx, locked.Campaign)
	return &heldCampaign{s: s, tx: tx, row: locked.Campaign, c: c, now: micro(locked.Now), changed: map[int]bool{}}, err
}

// toCampaign is what the reducer owns of a row.
func (s *Store) toCampaign(ctx context.Context, h sqlc.DBTX, row sqlc.Campaign) (campaign.Campaign, error) {
	c := campaign.Campaign{State: campaign.State(row.State), SpecVersion: int(row.SpecVersion), Wave: int(row.Wave), WaveSince: value(row.WaveSince),
		ProvenVersion: int(row.ProvenVersion), ResumeTo: campaign.State(row.ResumeTo), RuleSince: value(row.RuleSince), AcceptedAt: value(row.AcceptedAt),
		LaunchBy: row.LaunchBy, CancelRunning: row.CancelRunning,
		Pause: campaign.Pause{By: campaign.PauseBy(row.PauseBy), Cause: row.PauseCause, Until: value(row.PauseUntil)}}
	spec, err := s.campaignSpec(ctx, h, row.TenantID, row.ID, int(row.SpecVersion))
	c.Spec = spec
	return c, err
}

func (s *Store) campaignSpec(ctx context.Context, h sqlc.DBTX, tenant, id uuid.UUID, version int) (spec campaign.Spec, err error) {
	raw, err := s.q.CampaignSpec(ctx, h, tenant, id, int32(version))
	if err != nil {
		return spec, fmt.Errorf("load version %d of a campaign's spec: %w", version, err)
	}
	return spec, decode(raw, &spec, "spec")
}

// apply reduces one event into the row, and keeps it to be written.
func (h *heldCampaign) apply(ev campaign.Event, target *uuid.UUID) error {
	ev.At = h.now
	next, err := campaign.Reduce(h.c, ev)
	if err != nil {
		return campaign.Refusal(err)
	}
	before := h.c.State
	h.c = next
	h.row.Version++
	if next.State != before {
		h.row.StateSince = h.now
	}
	reason := ev.Reason
	if ev.Pause.Cause != "" {
		reason = ev.Pause.Cause
	}
	h.events = append(h.events, sqlc.CampaignEvent{TenantID: h.row.TenantID, CampaignID: h.row.ID, Seq: h.row.Version, Kind: string(ev.Kind), ActorKind: string(ev.By.Kind), ActorID: ev.By.ID,
		ActorName: ev.By.Name, FromState: string(before), ToState: string(next.State), TargetID: target, Reason: reason, At: h.now})
	switch ev.Kind {
	case campaign.Launched:
		h.row.LaunchedAt = new(h.now)
	case campaign.WasStopped, campaign.WasCompleted, campaign.StopRequested:
		if next.State.Terminal() {
			h.row.EndedAt = new(h.now)
		}
	}
	return nil
}

// save writes the row, the targets that changed, and the events.
func (h *heldCampaign) save(ctx context.Context) error {
	if len(h.events) == 0 && len(h.changed) == 0 {
		return nil
	}
	c := h.c
	h.row.State, h.row.SpecVersion, h.row.ProvenVersion, h.row.Wave = string(c.State), int32(c.SpecVersion), int32(c.ProvenVersion), int32(c.Wave)
	h.row.WaveSince, h.row.RuleSince, h.row.AcceptedAt = pointer(c.WaveSince), pointer(c.RuleSince), pointer(c.AcceptedAt)
	h.row.PauseBy, h.row.PauseCause, h.row.PauseUntil, h.row.ResumeTo = string(c.Pause.By), c.Pause.Cause, pointer(c.Pause.Until), string(c.ResumeTo)
	h.row.LaunchBy, h.row.CancelRunning = c.LaunchBy, c.CancelRunning
	raw, err := encode(h.row)
	if err != nil {
		return err
	}
	if err := h.s.q.UpdateCampaign(ctx, h.tx, raw); err != nil {
		return fmt.Errorf("write a campaign: %w", err)
	}
	if err := h.storeTargets(ctx); err != nil {
		return err
	}
	return h.storeEvents(ctx)
}

func (h *heldCampaign) storeEvents(ctx context.Context) error {
	if len(h.events) == 0 {
		return nil
	}
	raw, err := encode(h.events)
	if err != nil {
		return err
	}
	return wrap("write a campaign's events", h.s.q.InsertCampaignEvents(ctx, h.tx, raw))
}

func (h *heldCampaign) storeTargets(ctx context.Context) error {
	if len(h.changed) == 0 {
		return nil
	}
	rows := make([]sqlc.CampaignTarget, 0, len(h.changed))
	for i := range h.loaded {
		if h.changed[i] {
			rows = append(rows, h.loaded[i].CampaignTarget)
		}
	}
	raw, err := encode(rows)
	if err != nil {
		return err
	}
	return wrap("write a campaign's targets", h.s.q.UpdateCampaignTargets(ctx, h.tx, raw))
}

func (h *heldCampaign) storeSpec(ctx context.Context, by uuid.UUID) error {
	raw, err := json.Marshal(h.c.Spec)
	if err != nil {
		return fmt.Errorf("encode a campaign's spec: %w", err)
	}
	err = h.s.q.InsertCampaignSpec(ctx, h.tx, sqlc.InsertCampaignSpecParams{TenantID: h.row.TenantID, CampaignID: h.row.ID, Version: int32(h.c.SpecVersion), Spec: raw, MadeBy: by})
	return wrap("store a campaign's spec", err)
}

func (h *heldCampaign) ack() CampaignAck {
	return CampaignAck{Campaign: h.row.ID, State: h.c.State, Version: h.row.Version}
}

// asker is the person behind a request; nobody else has campaigns.
func asker(in Request) (uuid.UUID, error) {
	id, err := uuid.Parse(in.By.ID)
	if err != nil || in.By.Kind != run.Human {
		return uuid.Nil, fault.New(fault.Forbidden, "Nothing was changed: only a person, or a token of a person, has campaigns.")
	}
	return id, nil
}
