package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
	"signalbox/web/ui"
)

// earlierGates bounds how many gates of a run its newest one looks back at.
const earlierGates = 20

func decisionViews(g gate) []web.DecisionView {
	var all []web.DecisionView
	for i := len(g.decisions) - 1; i >= 0; i-- {
		v := decisionView(g, g.decisions[i])
		v.N = i + 1
		all = append(all, v)
	}
	return all
}

// earlierDecisions are those about earlier revisions, the newest first: they count for nothing here and are not forgotten.
func (s *server) earlierDecisions(r *http.Request, g gate) ([]web.DecisionView, error) {
	if g.info.Revision <= 1 {
		return nil, nil
	}
	gates, err := s.store.GatesOfRun(r.Context(), g.run.Tenant, g.run.ID, earlierGates)
	if err != nil {
		return nil, err
	}
	var before []uuid.UUID
	for _, e := range gates {
		if e.ID != g.info.ID && e.Kind == g.info.Kind && e.Revision < g.info.Revision {
			before = append(before, e.ID)
		}
	}
	decisions, err := s.store.Decisions(r.Context(), g.run.Tenant, before...)
	if err != nil {
		return nil, err
	}
	var all []web.DecisionView
	number := map[uuid.UUID]int{} // decisions are counted at their own gate
	for _, d := range decisions {
		number[d.Gate]++
		v := decisionView(g, d)
		v.N, v.GateID = number[d.Gate], typeid.Format(typeid.Gate, d.Gate)
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b web.DecisionView) int { return b.At.Compare(a.At) })
	return all, nil
}

func decisionView(g gate, d db.DecisionInfo) web.DecisionView {
	channel := "browser"
	if d.Channel == "api" {
		channel = "command line"
	}
	return web.DecisionView{
		Who: d.UserName, Verdict: d.Verdict, Text: d.Text, At: d.At, Revision: d.Revision, Digest: d.Digest, Channel: channel,
		Outdated: d.Revision < g.info.Revision, Carried: d.CarriedOver, Extra: d.Extra, Notes: d.Notes,
		NotesGo: web.NotesGo(string(g.info.Kind), string(g.run.Mode)),
	}
}

// whoCan names who can still approve, at most five.
func whoCan(q db.Requirement) string {
	switch n := len(q.Who); {
	case q.Have >= q.Need:
		return ""
	case n == 0:
		return "Nobody can approve it any more. An administrator can give the role to somebody else."
	case n > 5:
		return fmt.Sprintf("Can approve: %s and %d more.", strings.Join(q.Who[:5], ", "), n-5)
	}
	return "Can approve: " + strings.Join(q.Who, ", ") + "."
}

// gatePanel is the decision panel.
func (s *server) gatePanel(r *http.Request, g gate) web.GatePanelData {
	p, i := who(r), g.info
	d := web.GatePanelData{
		GateID: typeid.Format(typeid.Gate, i.ID), Kind: string(i.Kind), State: string(i.State), Revision: i.Revision, Digest: i.Digest, IdempotencyKey: db.NewSecret(),
		PolicyVersion: g.standing.Version, RunID: typeid.Format(typeid.Run, i.Run), RunState: string(g.run.State), TaskID: typeid.Format(typeid.Task, i.Task),
		Title: i.TaskTitle, Repository: i.RepositoryName, Base: g.task.BaseRef, BaseCommit: i.Base, Mode: string(g.run.Mode), Requester: i.Requester,
		OpenedAt: i.OpenedAt, ExpiresAt: i.ExpiresAt, Now: time.Now().UTC(), Risk: string(g.standing.Risk), RiskReasons: g.standing.RiskReasons,
		WhyStopped: strings.Join(i.Reasons, " "), WhoCan: fmt.Sprintf("people with the role %s", i.Role),
		MayReopen:   i.State == run.GateExpired && p.kind == person && p.mayDecide(i.Role),
		MayWithdraw: i.State == run.GateSatisfied && g.run.Dispatched != nil && g.run.Dispatched.ID == i.ID && p.mayDecide(i.Role),
	}
	for _, q := range g.standing.Requirements {
		row := web.QuorumRow{Requirement: q.Words, Have: q.Have, Need: q.Need}
		if g.open() {
			row.Who = whoCan(q)
		}
		d.Quorum = append(d.Quorum, row)
	}
	if g.open() && g.standing.Moved != "" {
		d.RiskReasons = append(slices.Clone(d.RiskReasons), g.standing.Moved)
	}
	if g.open() && g.standing.Tally.Blocked && len(d.Quorum) > 0 {
		d.Quorum[0].Who = g.standing.Tally.Words
	}
	if i.State == run.GateSatisfied && g.run.Dispatched != nil && g.run.Dispatched.ID == i.ID && i.ClosedAt != nil {
		d.WaitsSince = i.ClosedAt.UTC()
	}
	if d.Base == "" {
		d.Base = g.run.DefaultBranch
	}
	if d.BaseCommit == "" {
		d.BaseCommit = g.run.BaseCommit
	}
	if i.Kind == run.GatePatch && i.Patch != nil {
		d.Files, d.Added, d.Removed = i.Patch.Files, i.Patch.Added, i.Patch.Removed
	}
	if !p.has(i.Role) {
		d.WhoCan += ", which is granted by " + s.grantedBy(r, i.Role)
	}
	d.MayDecide = g.open() && (g.standing.MayApprove || g.standing.MayReject)
	switch {
	case !g.open():
	case i.State == run.GateExpired:
		d.MayDecide = false
	case !g.standing.MayApprove:
		// Whoever may not approve is told why; rejecting or sending back may still be theirs.
		d.MayDecide, d.WhyNot = false, g.standing.Why
	}
	for _, v := range g.decisions {
		if v.Revision == i.Revision {
			d.Decisions = append(d.Decisions, decisionView(g, v))
		}
	}
	for _, op := range i.Reasons {
		if i.Kind == run.GateReconcile {
			d.Ambiguous = append(d.Ambiguous, op)
		}
	}
	if pr := g.run.PR; pr != nil {
		d.Pull = &web.PullRef{Number: int(pr.Number), Href: pr.URL, Branch: pr.Branch, Commit: pr.SHA}
	}
	if i.Kind == run.GatePlan && g.open() {
		d.Effects = s.planEffects(r, g)
	}
	return d
}

// planEffects says also what the agent may use for the plan. A gate can be decided without that, so a failure only leaves it out.
func (s *server) planEffects(r *http.Request, g gate) []string {
	effects := web.ApproveEffects(string(g.info.Kind), string(g.run.Mode))
	cost, err := s.store.RunCost(r.Context(), db.Ref{Tenant: g.run.Tenant, Run: g.run.ID})
	if err != nil {
		s.log.WarnContext(r.Context(), "a run's limits are left out", "request_id", requestID(r), "error", err.Error())
		return effects
	}
	var most []string
	if cost.MaxAttempt > 0 {
		most = append(most, ui.Dur(cost.MaxAttempt)+" for each attempt")
	}
	if left := cost.MaxMicros - cost.Money.Reported - cost.Money.Estimated; cost.MaxMicros > 0 {
		most = append(most, fmt.Sprintf("%s of the run's %s", s.currency.Of(max(left, 0)), s.currency.Of(cost.MaxMicros)))
	}
	if len(most) == 0 {
		return effects
	}
	return slices.Insert(effects, 1, "It may use "+strings.Join(most, ", and ")+".")
}

// keptApproval says that the gate's approval was carried over a base that moved (A19); empty where it was not.
func (s *server) keptApproval(r *http.Request, g gate) (string, error) {
	if g.info.Kind != run.GatePatch || g.info.State != run.GateSatisfied {
		return "", nil
	}
	e, ok, err := s.store.LastEvent(r.Context(), g.run.Tenant, g.run.ID, run.KindApprovalCarried)
	if err != nil || !ok {
		return "", err
	}
	shown, err := timelineEvent(e)
	if err != nil || shown.Data["from"] != g.info.ID.String() {
		return "", err
	}
	moved, ok, err := s.store.LastEvent(r.Context(), g.run.Tenant, g.run.ID, run.KindBaseMoved)
	if err != nil {
		return "", err
	}
	if ok && moved.Seq < e.Seq { // it, and not a later one, was what the approval was carried over
		before, err := timelineEvent(moved)
		if err != nil {
			return "", err
		}
		shown.Data["commits"] = before.Data["commits"]
	}
	return web.Sentence(shown).Text, nil
}
