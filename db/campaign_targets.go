package db

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/campaign"
	"signalbox/internal/fault"
	"signalbox/internal/glob"
	"signalbox/internal/typeid"
)

// targets are the campaign's, in their order, as their tasks stand now; loaded once.
func (h *heldCampaign) targets(ctx context.Context) ([]sqlc.CampaignTargetsRow, error) {
	if h.loaded == nil {
		rows, err := h.s.q.CampaignTargets(ctx, h.tx, h.row.TenantID, h.row.ID)
		if err != nil {
			return nil, fmt.Errorf("load a campaign's targets: %w", err)
		}
		h.loaded = rows
	}
	return h.loaded, nil
}

// resolve finds the targets anew, each with why it takes part or does not, and gives them their waves.
func (h *heldCampaign) resolve(ctx context.Context) error {
	all, err := h.s.q.CampaignCandidates(ctx, h.tx, h.row.TenantID, mostRepositories)
	if err != nil {
		return fmt.Errorf("list repositories: %w", err)
	}
	if len(all) == mostRepositories {
		return fault.Newf(fault.Invalid, "Nothing was changed: there are %d repositories or more, which is more than a preview looks through.", mostRepositories).WithField("targets")
	}
	names := make(map[uuid.UUID]string, len(all))
	for _, r := range all {
		names[r.ID] = r.Name
	}
	rows, missing := matched(h.c.Spec.Targets, all)
	switch {
	case len(missing) > 0:
		return fault.Newf(fault.Invalid, "Nothing was changed: no repository is registered as %s. Register it, or take it from the list.", strings.Join(missing[:min(len(missing), 5)], ", ")).WithField("targets")
	case len(rows) == 0:
		return fault.New(fault.Invalid, "Nothing was changed: no repository matches.").WithField("targets")
	case len(rows) > campaign.MaxTargets:
		return fault.Newf(fault.Invalid, "Nothing was changed: more than %d repositories match.", campaign.MaxTargets).WithField("targets")
	}
	var candidates []campaign.Candidate
	var places []int
	for i, r := range rows {
		rows[i].ID, rows[i].TenantID, rows[i].CampaignID, rows[i].Ordinal = typeid.New(), h.row.TenantID, h.row.ID, int32(i)
		if r.Stage == string(campaign.Waiting) {
			candidates = append(candidates, campaign.Candidate{Repository: names[r.RepositoryID], Owner: r.Owner})
			places = append(places, i)
			if err := h.fills(r, names[r.RepositoryID]); err != nil {
				return err
			}
		}
	}
	waves, err := campaign.Assign(candidates, h.c.Spec.Waves)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "Nothing was changed: "+err.Error()+".").WithField("waves")
	}
	for n, i := range places {
		rows[i].Wave = int32(waves[n])
	}
	if err := h.s.q.DeleteCampaignTargets(ctx, h.tx, h.row.TenantID, h.row.ID); err != nil {
		return fmt.Errorf("forget the targets of the last preview: %w", err)
	}
	raw, err := encode(rows)
	if err != nil {
		return err
	}
	return wrap("store a campaign's targets", h.s.q.InsertCampaignTargets(ctx, h.tx, raw))
}

// mostRepositories is how many repositories a tenant may have for a campaign to be previewed.
const mostRepositories = 100_000

// fills holds that goal and title name only variables that the target has.
func (h *heldCampaign) fills(t sqlc.CampaignTarget, repository string) error {
	vars := map[string]string{}
	if err := decode(t.Vars, &vars, "vars"); err != nil {
		return err
	}
	for field, template := range map[string]string{"goal": h.c.Spec.Goal, "title": h.c.Spec.Title} {
		if _, unknown := campaign.Fill(template, vars); len(unknown) > 0 {
			return fault.Newf(fault.Invalid, "Nothing was changed: the %s names {{%.60s}}, and %s has no such variable.", field, unknown[0], repository).WithField(field)
		}
	}
	return nil
}

// matched are the repositories that a spec names or matches, in the order of their names, and the names that nobody knows. An owner
// that the spec does not say is the first part of the name.
func matched(t campaign.Targets, all []sqlc.CampaignCandidatesRow) (rows []sqlc.CampaignTarget, missing []string) {
	listed := map[string]campaign.Listed{}
	for _, l := range t.List {
		listed[l.Repository] = l
	}
	for _, r := range all {
		l, named := listed[r.Name]
		delete(listed, r.Name)
		by := slices.IndexFunc(t.Match, func(g string) bool { return glob.Match(g, r.Name) })
		row := sqlc.CampaignTarget{RepositoryID: r.ID, Owner: l.Owner, Stage: string(campaign.Waiting), Vars: []byte("{}")}
		switch {
		case named:
			row.Why = "It is on the list."
		case by >= 0:
			row.Why = "Its name matches " + t.Match[by] + "."
		default:
			continue
		}
		if row.Owner == "" {
			row.Owner, _, _ = strings.Cut(r.Name, "/")
		}
		if len(l.Vars) > 0 {
			row.Vars, _ = encode(l.Vars) // a map of strings
		}
		if out := slices.IndexFunc(t.Exclude, func(e campaign.Exclusion) bool { return glob.Match(e.Match, r.Name) }); out >= 0 {
			row.Stage, row.Reason = string(campaign.Excluded), t.Exclude[out].Reason
		}
		rows = append(rows, row)
	}
	for name := range listed {
		missing = append(missing, name)
	}
	slices.Sort(missing)
	return rows, missing
}

// rerun lets the first wave wait again, for the version that is to be proven.
func (h *heldCampaign) rerun(ctx context.Context) error {
	targets, err := h.targets(ctx)
	if err != nil {
		return err
	}
	for i := range targets {
		t := &targets[i].CampaignTarget
		if t.Wave != 0 || t.Stage == string(campaign.Excluded) {
			continue
		}
		if t.Stage == string(campaign.Active) || t.Stage == string(campaign.Held) {
			return fault.Newf(fault.Conflict, "Nothing was changed: %s of the first wave is still at work. Let it end, or cancel it, and run the canary then.", targets[i].Repository)
		}
		h.again(i, "")
	}
	return nil
}

// again lets a target wait for another attempt.
func (h *heldCampaign) again(i int, instruction string) {
	t := &h.loaded[i].CampaignTarget
	t.Stage, t.Outcome, t.TaskID, t.Instruction = string(campaign.Waiting), "", nil, instruction
	t.Reason, t.Cause, t.Sample, t.EndedAt, t.OpenedAt, t.PullOpen, t.CancelAsked = "", "", "", nil, nil, false, false
	h.changed[i] = true
}

// TargetsOrder is what a person says about some of a campaign's targets, which they named, or all that a cluster holds.
type TargetsOrder struct {
	Campaign uuid.UUID
	Targets  []uuid.UUID
	// Cause chooses the failures of one cause instead.
	Cause string
	// Outcomes chooses what ended so instead.
	Outcomes []campaign.Outcome
	// Reason of an exclusion, Instruction of a retry.
	Reason, Instruction string
}

func (o TargetsOrder) names(t sqlc.CampaignTarget) bool {
	switch {
	case len(o.Targets) > 0:
		return slices.Contains(o.Targets, t.ID)
	case o.Cause != "":
		return t.Cause == o.Cause
	default:
		return slices.Contains(o.Outcomes, campaign.Outcome(t.Outcome))
	}
}

// ExcludeTargets takes targets out, with a reason; one that is at work cannot be taken out, and is counted as skipped.
func (s *Store) ExcludeTargets(ctx context.Context, in Request, o TargetsOrder) (CampaignAck, error) {
	if strings.TrimSpace(o.Reason) == "" || len(o.Reason) > maxCampaignReason {
		return CampaignAck{}, fault.Newf(fault.Invalid, "Nothing was excluded: say why, in at most %d bytes, so that others know.", maxCampaignReason).WithField("reason")
	}
	return s.eachTarget(ctx, in, o, campaign.TargetExcluded, func(h *heldCampaign, i int) bool {
		t := &h.loaded[i].CampaignTarget
		switch campaign.Stage(t.Stage) {
		case campaign.Waiting, campaign.Ended, campaign.Open:
			t.Stage, t.Outcome, t.Reason = string(campaign.Excluded), "", o.Reason
			h.changed[i] = true
			return true
		default:
			return false
		}
	})
}

// RetryTargets lets targets that ended without success wait for another attempt, with an instruction that is added to the goal.
func (s *Store) RetryTargets(ctx context.Context, in Request, o TargetsOrder) (CampaignAck, error) {
	if len(o.Instruction) > 10_000 {
		return CampaignAck{}, fault.New(fault.Invalid, "Nothing was tried again: the instruction is longer than 10,000 bytes.").WithField("instruction")
	}
	return s.eachTarget(ctx, in, o, campaign.TargetRetried, func(h *heldCampaign, i int) bool {
		t := h.loaded[i].CampaignTarget
		if t.Stage != string(campaign.Ended) || !campaign.Outcome(t.Outcome).Leftover() || t.Wave > h.row.Wave {
			return false
		}
		h.again(i, o.Instruction)
		return true
	})
}

// eachTarget does one thing to every target that is named and can take part; each is an event of its own.
func (s *Store) eachTarget(ctx context.Context, in Request, o TargetsOrder, kind campaign.Kind, do func(h *heldCampaign, i int) bool) (CampaignAck, error) {
	return s.campaignRequest(ctx, in, string(kind), o.Campaign, func(ctx context.Context, h *heldCampaign) (CampaignAck, error) {
		targets, err := h.targets(ctx)
		if err != nil {
			return CampaignAck{}, err
		}
		touched, skipped := 0, 0
		for i := range targets {
			id := targets[i].CampaignTarget.ID
			switch {
			case !o.names(targets[i].CampaignTarget):
			case !do(h, i):
				skipped++
			default:
				touched++
				if err := h.apply(campaign.Event{Kind: kind, By: in.By, Reason: cmp.Or(o.Reason, o.Instruction)}, &id); err != nil {
					return CampaignAck{}, err
				}
			}
		}
		if touched == 0 {
			return CampaignAck{}, fault.Newf(fault.Conflict, "Nothing was changed: none of the %d targets that were named can take part now.", skipped).WithCode("no_target")
		}
		ack := h.ack()
		ack.Targets, ack.Skipped = touched, skipped
		return ack, nil
	})
}
