package db

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/campaign"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// CampaignRef names a campaign of a tenant.
type CampaignRef struct{ Tenant, Campaign uuid.UUID }

// GoingCampaigns are the campaigns that the control plane looks at, of all tenants, by id.
func (s *Store) GoingCampaigns(ctx context.Context, after uuid.UUID, limit int) ([]CampaignRef, error) {
	rows, err := s.q.GoingCampaigns(ctx, s.pool, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list campaigns: %w", err)
	}
	out := make([]CampaignRef, len(rows))
	for i, r := range rows {
		out[i] = CampaignRef{r.TenantID, r.ID}
	}
	return out, nil
}

func fleetActor() run.Actor { return run.Actor{Kind: run.ControlPlane, ID: "campaign"} }

// errand is what is to be done about a target's task once its row says so: outside of the campaign's lock, and repeated until it is
// done.
type errand struct {
	target sqlc.CampaignTarget
	cancel bool
}

// PassCampaign takes one look at a campaign: it learns where its targets' tasks stand, asks the plan what is next, writes both in one
// transaction, and then makes and cancels tasks. Every step may be repeated, by any replica and after any crash: a target's row says
// that it runs before its task is made, and the task's request has a key made of target and attempt. moved reports whether anything
// was written or done.
func (s *Store) PassCampaign(ctx context.Context, ref CampaignRef) (moved bool, err error) {
	var errands []errand
	var c campaign.Campaign
	var row sqlc.Campaign
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		errands = nil
		h, err := s.lockCampaign(ctx, tx, ref.Tenant, ref.Campaign)
		if err != nil {
			return err
		}
		if !h.c.Launched() || h.c.State.Terminal() {
			return nil
		}
		if err := h.learn(ctx); err != nil {
			return err
		}
		if err := h.plan(); err != nil {
			return err
		}
		for _, t := range h.loaded {
			t := t.CampaignTarget
			switch {
			case t.Stage != string(campaign.Active) && t.Stage != string(campaign.Held):
			case t.TaskID == nil:
				errands = append(errands, errand{target: t})
			case t.CancelAsked:
				errands = append(errands, errand{t, true})
			}
		}
		c, row, moved = h.c, h.row, len(h.events) > 0
		return h.save(ctx)
	})
	if err != nil {
		return false, translate(err, "campaign")
	}
	// One target that cannot be served holds up no other.
	var failed []error
	for _, e := range errands {
		did, err := s.carryOut(ctx, row, c, e)
		failed = append(failed, err)
		moved = moved || did
	}
	return moved, errors.Join(failed...)
}

// learn brings the targets' stages up to what their tasks say.
func (h *heldCampaign) learn(ctx context.Context) error {
	targets, err := h.targets(ctx)
	if err != nil {
		return err
	}
	for i := range targets {
		if !stands(&targets[i], h.c.Spec.Completes, h.now) {
			continue
		}
		h.changed[i] = true
		t := targets[i].CampaignTarget
		words := t.Stage
		if t.Outcome != "" {
			words = t.Outcome
		}
		if err := h.apply(campaign.Event{Kind: campaign.TargetMoved, By: fleetActor(), Reason: words}, &t.ID); err != nil {
			return err
		}
	}
	return nil
}

// plan asks what is next and writes it into the rows.
func (h *heldCampaign) plan() error {
	snapshot := campaign.Snapshot{Campaign: h.c}
	for _, t := range h.loaded {
		snapshot.Targets = append(snapshot.Targets, asTarget(t))
		snapshot.SpentMicros += t.Micros
	}
	for _, a := range campaign.Plan(snapshot, h.now) {
		ev := campaign.Event{By: fleetActor(), Reason: a.Cause}
		var target *uuid.UUID
		switch a.Kind {
		case campaign.ActStart, campaign.ActCancel:
			t := &h.loaded[a.Target].CampaignTarget
			h.changed[a.Target], target = true, &t.ID
			if a.Kind == campaign.ActCancel {
				t.CancelAsked, ev.Kind = true, campaign.TargetMoved
				ev.Reason = "The campaign was stopped."
				break
			}
			t.Stage, t.SpecVersion, t.Attempt, t.StartedAt, t.TaskID = string(campaign.Active), int32(h.c.ProvenVersion), t.Attempt+1, new(h.now), nil
			ev.Kind = campaign.TargetStarted
		case campaign.ActPause:
			ev.Kind, ev.Pause = campaign.WasPaused, campaign.Pause{By: a.By, Cause: a.Cause, Until: a.Until}
		case campaign.ActResume:
			ev.Kind = campaign.Resumed
		case campaign.ActAwait:
			ev.Kind = campaign.PromotionAsked
		case campaign.ActPromote:
			ev.Kind = campaign.Promoted
		case campaign.ActComplete:
			ev.Kind, ev.Failures = campaign.WasCompleted, a.Failures
		case campaign.ActStopped:
			ev.Kind = campaign.WasStopped
		}
		if err := h.apply(ev, target); err != nil {
			return err
		}
	}
	return nil
}

func asTarget(t sqlc.CampaignTargetsRow) campaign.Target {
	c := t.CampaignTarget
	return campaign.Target{Repository: t.Repository, Owner: c.Owner, Wave: int(c.Wave), Stage: campaign.Stage(c.Stage), Outcome: campaign.Outcome(c.Outcome), SpecVersion: int(c.SpecVersion),
		StartedAt: value(c.StartedAt), EndedAt: value(c.EndedAt), OpenedAt: value(c.OpenedAt), PullOpen: c.PullOpen, CancelAsked: c.CancelAsked}
}

// stands derives where a target stands from its task, the task's newest run and its pull request, and reports whether that is news.
func stands(row *sqlc.CampaignTargetsRow, completes campaign.Completes, now time.Time) bool {
	t := &row.CampaignTarget
	if t.TaskID == nil || t.Stage == string(campaign.Excluded) || t.Stage == string(campaign.Waiting) {
		return false
	}
	before := *t
	stage, outcome := standing(*row, completes)
	t.Stage, t.Outcome = string(stage), string(outcome)
	if row.PullState != "" {
		t.OpenedAt, t.PullOpen = new(micro(row.PullOpenedAt)), row.PullState != "MERGED" && row.PullState != "CLOSED"
	}
	if stage == campaign.Ended && before.Stage != t.Stage {
		t.EndedAt = new(now)
	}
	if stage != campaign.Ended {
		t.EndedAt = nil
	}
	t.Cause, t.Sample, t.Reason = "", "", ""
	if outcome.Leftover() && outcome != campaign.NoOutcome {
		t.Reason = row.FailureSummary
		if t.Reason == "" {
			t.Reason = row.TaskWords
		}
		text := row.FailureEvidence
		if text == "" {
			text = row.FailureSummary
		}
		t.Cause, t.Sample = campaign.Signature(text), cut(text, 2000)
	}
	return before.Stage != t.Stage || before.Outcome != t.Outcome || before.PullOpen != t.PullOpen
}

func cut(text string, n int) string {
	if len(text) > n {
		return strings.ToValidUTF8(text[:n], "")
	}
	return text
}

func standing(row sqlc.CampaignTargetsRow, completes campaign.Completes) (campaign.Stage, campaign.Outcome) {
	switch run.TaskState(row.TaskState) {
	case run.TaskWaiting:
		return campaign.Held, ""
	case run.TaskCompleted:
		return delivered(row, completes)
	case run.TaskRunning:
		if row.AwaitsMerge {
			return delivered(row, completes)
		}
		return campaign.Active, ""
	case run.TaskCancelled:
		return campaign.Ended, campaign.Cancelled
	case run.TaskRejected:
		return campaign.Ended, campaign.Rejected
	case run.TaskReady:
		if row.TaskGoesOn || row.RunID == uuid.Nil {
			return campaign.Active, ""
		}
		return campaign.Ended, ending(row)
	case run.TaskFailed:
		return campaign.Ended, ending(row)
	default:
		return campaign.Active, ""
	}
}

// delivered is the end of a task that did what was asked.
func delivered(row sqlc.CampaignTargetsRow, completes campaign.Completes) (campaign.Stage, campaign.Outcome) {
	switch {
	case row.RunOutcome == string(run.OutcomeNoChange):
		return campaign.Ended, campaign.NoChange
	case row.PullState == "MERGED":
		return campaign.Ended, campaign.Merged
	case row.PullState == "CLOSED":
		return campaign.Ended, campaign.Closed
	case row.PullState != "" && completes == campaign.WhenMerged:
		return campaign.Open, ""
	default:
		return campaign.Ended, campaign.Delivered
	}
}

// ending says what the failure of the newest run means for a campaign: only what the work itself caused is a failure.
func ending(row sqlc.CampaignTargetsRow) campaign.Outcome {
	switch run.Code(row.FailureCode) {
	case run.CodeHumanRejected, run.CodePolicyDenied:
		return campaign.Rejected
	case run.CodeApprovalExpired, run.CodeAttestationExpired:
		return campaign.Inconclusive
	}
	switch run.Category(row.FailureCategory) {
	case run.CatInfrastructure, run.CatRepositoryAccess, run.CatPRCreationFailed:
		return campaign.Infra
	case run.CatUserCancelled:
		return campaign.Cancelled
	case "":
		return campaign.Inconclusive
	default:
		return campaign.Failed
	}
}

// makeWithin is how long the making of a target's task is tried again where the machinery fails.
const makeWithin = 10 * time.Minute

// carryOut makes a target's task, or cancels it. A target that was started before a pause or a stop still gets its task: whether another
// replica made it already is known by its key alone.
func (s *Store) carryOut(ctx context.Context, row sqlc.Campaign, c campaign.Campaign, e errand) (bool, error) {
	if e.cancel {
		ack, err := s.CancelTask(ctx, s.fleetRequest(row, e.target, "task_cancel_requested"), *e.target.TaskID, "Campaign "+row.Name+" was stopped.")
		if fault.KindOf(err) == fault.Conflict { // it ended meanwhile
			return false, nil
		}
		return err == nil && !ack.Replayed, err
	}
	ack, err := s.makeTask(ctx, row, c, e.target)
	kind := fault.KindOf(err)
	switch {
	case err == nil:
		n, err := s.q.TargetGotTask(ctx, s.pool, &ack.Task, row.TenantID, e.target.ID, e.target.Attempt)
		return n > 0, wrap("write a target's task", err)
	case errors.Is(err, errCreatorGone):
		return s.pauseFor(ctx, row, fault.Sentence(err))
	case kind == fault.Internal || kind == fault.Unavailable:
		if time.Since(value(e.target.StartedAt)) < makeWithin {
			return false, err
		}
		return true, s.endWithoutTask(ctx, row, e.target, campaign.Infra, fault.Sentence(err))
	default: // it would be refused again
		return true, s.endWithoutTask(ctx, row, e.target, campaign.Rejected, fault.Sentence(err))
	}
}

// fleetRequest is what is asked for a target's attempt, once, however often it is repeated.
func (s *Store) fleetRequest(row sqlc.Campaign, t sqlc.CampaignTarget, action string) Request {
	key := fmt.Sprintf("campaign:%s:%d", t.ID, t.Attempt)
	sum := sha256.Sum256([]byte(action + key))
	return Request{Tenant: row.TenantID, By: fleetActor(), Key: key, Hash: sum[:],
		Audit: &Audit{Tenant: row.TenantID, By: fleetActor(), Channel: "campaign", Action: action, ObjectType: string(typeid.Task), Result: "ok", Reason: "campaign " + typeid.Format(typeid.Campaign, row.ID)}}
}

// pauseFor pauses a campaign that cannot go on before a person does something.
func (s *Store) pauseFor(ctx context.Context, row sqlc.Campaign, cause string) (paused bool, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		h, err := s.lockCampaign(ctx, tx, row.TenantID, row.ID)
		if err != nil || h.c.State != campaign.Running {
			return err
		}
		paused = true
		if err := h.apply(campaign.Event{Kind: campaign.WasPaused, By: fleetActor(), Pause: campaign.Pause{By: campaign.ByRule, Cause: cause}}, nil); err != nil {
			return err
		}
		return h.save(ctx)
	})
	return paused, err
}

// endWithoutTask ends a target whose task could not be made, where its attempt is still the same, and says why.
func (s *Store) endWithoutTask(ctx context.Context, row sqlc.Campaign, target sqlc.CampaignTarget, outcome campaign.Outcome, why string) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		h, err := s.lockCampaign(ctx, tx, row.TenantID, row.ID)
		if err != nil {
			return err
		}
		targets, err := h.targets(ctx)
		if err != nil {
			return err
		}
		for i := range targets {
			t := &targets[i].CampaignTarget
			if t.ID != target.ID || t.Attempt != target.Attempt || t.TaskID != nil || t.Stage != target.Stage {
				continue
			}
			t.Stage, t.Outcome, t.Reason, t.Cause, t.EndedAt = string(campaign.Ended), string(outcome), why, campaign.Signature(why), new(h.now)
			if err := h.apply(campaign.Event{Kind: campaign.TargetMoved, By: fleetActor(), Reason: t.Outcome}, &t.ID); err != nil {
				return err
			}
			h.changed[i] = true
		}
		return h.save(ctx)
	})
}

// errCreatorGone says that nobody stands behind the campaign's tasks any more.
var errCreatorGone = fault.New(fault.Forbidden, "Nothing was started: who made the campaign may not sign in any more. Start a follow-up campaign of somebody else, or let them in again and resume.")

// makeTask submits a target's task as who made the campaign would, with the roles that they hold now.
func (s *Store) makeTask(ctx context.Context, row sqlc.Campaign, c campaign.Campaign, t sqlc.CampaignTarget) (TaskAck, error) {
	spec := c.Spec
	if int(t.SpecVersion) != c.SpecVersion {
		var err error
		if spec, err = s.campaignSpec(ctx, s.pool, row.TenantID, row.ID, int(t.SpecVersion)); err != nil {
			return TaskAck{}, err
		}
	}
	who, err := s.q.PersonAsRequester(ctx, s.pool, row.TenantID, row.CreatedBy)
	if errors.Is(err, pgx.ErrNoRows) {
		return TaskAck{}, errCreatorGone
	}
	if err != nil {
		return TaskAck{}, fmt.Errorf("load who made a campaign: %w", err)
	}
	vars := map[string]string{}
	if err := decode(t.Vars, &vars, "vars"); err != nil {
		return TaskAck{}, err
	}
	goal, unknown := campaign.Fill(spec.Goal, vars)
	if len(unknown) > 0 {
		return TaskAck{}, fault.Newf(fault.Invalid, "The task was not made: the goal names %q, which the target has no value for.", unknown[0])
	}
	if t.Instruction != "" {
		goal += "\n\n" + t.Instruction
	}
	title, _ := campaign.Fill(spec.Title, vars)
	if title == "" {
		title = spec.Name
	}
	in := s.fleetRequest(row, t, "task_created")
	in.By = run.Actor{Kind: run.Human, ID: row.CreatedBy.String(), Name: who.Name}
	for _, r := range who.Roles {
		in.Roles = append(in.Roles, policy.Role(r))
	}
	return s.CreateTask(ctx, in, TaskSpec{Repository: t.RepositoryID, Title: title, Goal: goal, Contract: spec.Contract, AgentProfile: spec.Agent, Campaign: &row.ID})
}
