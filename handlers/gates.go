package handlers

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// gate is everything that a gate's page and panel are made of.
type gate struct {
	info      db.GateInfo
	run       db.RunInfo
	task      db.TaskInfo
	decisions []db.DecisionInfo
	standing  db.Standing
}

func (s *server) gate(r *http.Request, id uuid.UUID) (gate, error) {
	ctx, p := r.Context(), who(r)
	var g gate
	var err error
	if g.info, err = s.store.Gate(ctx, p.tenant, id); err != nil {
		return g, err
	}
	if g.run, err = s.store.RunInfo(ctx, p.tenant, g.info.Run); err != nil {
		return g, err
	}
	if g.task, err = s.store.Task(ctx, p.tenant, g.info.Task); err != nil {
		return g, err
	}
	if g.decisions, err = s.store.Decisions(ctx, p.tenant, id); err != nil {
		return g, err
	}
	g.standing, err = s.store.Standing(ctx, p.tenant, id, p.person())
	return g, err
}

// person is who decides, as the store wants to know it.
func (p *principal) person() db.Decider {
	channel := "api"
	if p.browser {
		channel = "page"
	}
	return db.Decider{User: p.user, Name: p.name, Roles: p.roles, Live: p.kind == person, AuthTime: p.authTime, Channel: channel}
}

// open reports whether the gate takes decisions.
func (g gate) open() bool { return g.info.State == run.GateOpen || g.info.State == run.GateExpired }

// getGate shows what is asked, with the evidence.
func (s *server) getGate(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	return s.gatePage(w, r, http.StatusOK, id, nil, nil)
}

// gatePage renders the page, after a refused post with the person's text and the outcome.
func (s *server) gatePage(w http.ResponseWriter, r *http.Request, code int, id uuid.UUID, outcome *web.Outcome, posted url.Values) error {
	g, err := s.gate(r, id)
	if err != nil {
		return err
	}
	panel := s.gatePanel(r, g)
	panel.Outcome = outcome
	kept := posted
	if outcome != nil && (outcome.Kind == web.OutcomeRecorded || outcome.Kind == web.OutcomeExtra) {
		kept = nil // it was sent
	}
	if err := s.keepText(r, &panel, kept); err != nil {
		return err
	}
	htmx := r.Header.Get("HX-Request") != "" && r.Method == http.MethodPost
	// Comments stand beside the panel, and are answered with it.
	fragment := htmx && (outcome == nil || outcome.Kind != web.OutcomeStale) && g.info.Kind != run.GatePlan && len(web.LineNoteFields(posted)) == 0
	var patch *gatePatch
	if panel.MayDecide || !fragment {
		if patch, err = s.gatePatch(r, g.info); err != nil {
			return err
		}
		panel.Unshown = unshownViews(g.info, patch)
	}
	if fragment {
		return s.render(w, r, code, web.GatePanel(panel))
	}
	if htmx {
		// A panel about the newest revision beside the content of an older one would invite a decision on what nobody
		// read: all of the page moves on.
		h := w.Header()
		h.Set("HX-Retarget", "#main")
		h.Set("HX-Reselect", "#main")
		h.Set("HX-Reswap", "outerHTML")
	}
	data := web.GatePageData{Shell: s.shell(r), Panel: panel, Live: g.open(), History: decisionViews(g)}
	earlier, err := s.earlierDecisions(r, g)
	if err != nil {
		return err
	}
	data.History = append(data.History, earlier...)
	if data.Bypasses, err = s.bypasses(r, db.BypassFilter{Run: g.run.ID}); err != nil {
		return err
	}
	data.MayBypass = g.info.State == run.GateOpen && who(r).has(policy.RoleBreakglass) && g.info.Kind != run.GateBudget && g.info.Kind != run.GateReconcile
	if data.Live {
		turn, err := s.store.Turn(r.Context(), who(r).tenant, id, who(r).user)
		if err != nil {
			return err
		}
		if data.Turn, err = s.turnTaker(r).view(g.info, turn); err != nil {
			return err
		}
	}
	if panel.MayDecide {
		if data.Hints, err = s.hints(r, db.HintGate); err != nil {
			return err
		}
	}
	if data.Kept, err = s.keptApproval(r, g); err != nil {
		return err
	}
	if data.Evidence, err = s.evidenceView(r, g.run, g.standing); err != nil {
		return err
	}
	if data.Agent, err = s.agentWords(r, g.run); err != nil {
		return err
	}
	if err := s.gateContent(r, g, &data); err != nil {
		return err
	}
	if data.Work, err = s.gateWork(r, g, data.Now); err != nil {
		return err
	}
	if patch != nil {
		if data.Diff, err = s.diffView(r, g, *patch, lineNotes(r, panel, 0)); err != nil {
			return err
		}
	}
	return s.render(w, r, code, web.GatePage(data))
}

// gateContent reads the plan or report that is decided.
func (s *server) gateContent(r *http.Request, g gate, data *web.GatePageData) error {
	artifacts, err := s.store.Artifacts(r.Context(), g.run.Tenant, g.run.ID)
	if err != nil {
		return err
	}
	for _, a := range artifacts {
		shown := typeid.Format(typeid.Artifact, a.ID) == g.info.Artifact
		switch {
		case a.Late:
		case a.Kind == "plan" && (shown || a.SHA256 == g.run.Plan && g.info.Kind == run.GatePatch):
			if data.Plan, err = s.planView(r, g, a); err != nil {
				return err
			}
		case a.Kind == "report" && (shown || a.SHA256 == g.run.Report):
			raw, err := s.artifacts.Read(r.Context(), g.run.Tenant, a.SHA256, maxReport)
			if err != nil {
				return err
			}
			data.Report = strings.ToValidUTF8(string(raw), "\uFFFD")
		}
	}
	return nil
}

func (s *server) planView(r *http.Request, g gate, a db.ArtifactInfo) (*web.PlanView, error) {
	raw, err := s.artifacts.Read(r.Context(), g.run.Tenant, a.SHA256, 4<<20)
	if err != nil {
		return nil, err
	}
	view := &web.PlanView{Digest: a.SHA256}
	if g.info.Kind == run.GatePlan {
		view.Revision = g.info.Revision
	}
	var p plan
	if err := json.Unmarshal(raw, &p); err != nil || len(p.Steps) == 0 {
		view.Raw = strings.ToValidUTF8(string(raw), "\uFFFD")
		return view, nil
	}
	view.Summary = p.Summary
	for _, step := range p.Steps {
		view.Steps = append(view.Steps, web.PlanStep{Title: step})
	}
	last := web.PlanStep{Title: "Files that may change, and how the result is checked", Files: listOf(p.Files)}
	if checks := listOf(p.Verifiers); len(checks) > 0 {
		last.Text = "Checked by: " + strings.Join(checks, ", ") + "."
	}
	view.Steps = append(view.Steps, last)
	for _, risk := range listOf(p.Risks) {
		view.Assumptions = append(view.Assumptions, "Risk: "+risk)
	}
	view.Assumptions = append(view.Assumptions, "Done when: "+p.StopCondition)
	view.OutOfScope = listOf(p.ForbiddenChanges)
	return view, nil
}

func listOf(list *[]string) []string {
	if list == nil {
		return nil
	}
	return *list
}

func (s *server) postReopen(w http.ResponseWriter, r *http.Request) error {
	return s.moveGate(w, r, "asked-again", func(in db.Request, id uuid.UUID, _ url.Values) (db.Ack, error) {
		return s.store.AskAgain(r.Context(), in, who(r).person(), id, "")
	})
}

func (s *server) postWithdraw(w http.ResponseWriter, r *http.Request) error {
	return s.moveGate(w, r, "withdrawn", func(in db.Request, id uuid.UUID, v url.Values) (db.Ack, error) {
		return s.store.Withdraw(r.Context(), in, who(r).person(), id, v.Get("reason"))
	})
}

func (s *server) moveGate(w http.ResponseWriter, r *http.Request, done string, do func(db.Request, uuid.UUID, url.Values) (db.Ack, error)) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	if err := s.mayMove(r, id); err != nil {
		return err
	}
	values, in, err := s.formRequest(r, act{})
	if err != nil {
		return err
	}
	if _, err := do(in, id, values); err != nil {
		return s.notMoved(w, r, id, err)
	}
	return see(w, r, web.GateURL(typeid.Format(typeid.Gate, id))+"?done="+done)
}

// notMoved answers a move that came too late with the gate as it is now and the way on: what somebody works on already can
// only be cancelled (A31).
func (s *server) notMoved(w http.ResponseWriter, r *http.Request, id uuid.UUID, err error) error {
	f, ok := fault.Find(err)
	if !ok || f.Kind != fault.Conflict && f.Kind != fault.Gone {
		return err
	}
	s.note(r, err)
	o := &web.Outcome{Kind: web.OutcomeDecided, Title: f.Sentence}
	if f.Code == "already_started" {
		g, gateErr := s.store.Gate(r.Context(), who(r).tenant, id)
		switch {
		case gateErr != nil:
			return gateErr
		case g.RunState.Terminal():
		case who(r).has(policy.RoleRequester) || who(r).has(policy.RoleAdmin):
			o.Links = []web.Link{{Text: "Cancel the run", Href: web.RunCancelURL(typeid.Format(typeid.Run, g.Run))}}
		default:
			o.Text = "A requester or an administrator can cancel the run."
		}
	}
	return s.gatePage(w, r, status(f.Kind), id, o, nil)
}

// mayMove holds that asking again and withdrawing are for those who may decide there.
func (s *server) mayMove(r *http.Request, id uuid.UUID) error {
	g, err := s.store.Gate(r.Context(), who(r).tenant, id)
	if err != nil {
		return err
	}
	if !who(r).mayDecide(g.Role) {
		return lacks([]policy.Role{g.Role})
	}
	return nil
}
