package handlers

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
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

// postDecision records a person's decision, bound to the digest of what they saw.
func (s *server) postDecision(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	values, err := form(r)
	if err != nil {
		return err
	}
	v, err := s.verdict(r, id, values)
	if err == nil {
		err = s.readElsewhere(r, &v, values["reviewed_elsewhere"])
	}
	if err == nil && fromList(values) {
		err = s.quickly(r, &v)
	}
	if err == nil {
		var ack db.VerdictAck
		if ack, err = s.store.Decide(r.Context(), v); err == nil {
			replayed(w, ack.Replayed)
			if !fromList(values) {
				s.dropEarlier(r, id)
			}
			return s.decided(w, r, id, ack, values)
		}
	}
	f, ok := fault.Find(err)
	if !ok || f.Kind == fault.Internal || f.Kind == fault.NotFound || f.Kind == fault.Unauthenticated {
		return err
	}
	s.note(r, err)
	if fromList(values) && r.Header.Get("HX-Request") != "" {
		return s.quickRow(w, r, status(f.Kind), id, refusal(f, values))
	}
	return s.gatePage(w, r, status(f.Kind), id, refusal(f, values), values)
}

// decided answers a recorded decision: the panel for htmx, a redirect for a plain form.
func (s *server) decided(w http.ResponseWriter, r *http.Request, id uuid.UUID, ack db.VerdictAck, posted url.Values) error {
	if r.Header.Get("HX-Request") == "" {
		to := web.GateURL(typeid.Format(typeid.Gate, id)) + "?done=" + ack.Outcome
		if ack.Notes > 0 {
			to += "&notes=" + strconv.Itoa(ack.Notes)
		}
		return see(w, r, to)
	}
	if fromList(posted) {
		return s.quickRow(w, r, http.StatusOK, id, recorded(ack))
	}
	return s.gatePage(w, r, http.StatusOK, id, recorded(ack), posted)
}

func recorded(ack db.VerdictAck) *web.Outcome {
	o := &web.Outcome{Kind: web.OutcomeRecorded, Title: decidedTitle(ack.Outcome, ack.Notes), Text: ack.Words}
	if ack.Outcome == "extra" {
		o.Kind = web.OutcomeExtra
	}
	o.Links = []web.Link{{Text: "Watch the run", Href: web.RunURL(typeid.Format(typeid.Run, ack.Run))}}
	return o
}

// decidedTitle is the headline of a recorded decision, with how many notes for the agent came with it.
func decidedTitle(outcome string, notes int) string {
	switch outcome {
	case "satisfied":
		if notes > 0 {
			return "Approved with " + web.NoteWords(notes) + "."
		}
		return "Approved. The run goes on."
	case "changes_requested":
		return "Changes requested. The agent gets exactly your text."
	case "rejected":
		return "Rejected. The run has ended."
	case "extra":
		return "Already approved; yours is recorded too."
	case "blocked":
		return "Recorded. A reject stands and blocks."
	case "recorded":
		if notes > 0 {
			return "Recorded with " + web.NoteWords(notes) + ". Others are still needed."
		}
		return "Recorded. Others are still needed."
	}
	return ""
}

// refusal says that nothing was decided, in the words of the rule that refused it.
func refusal(f *fault.Error, v url.Values) *web.Outcome {
	o := &web.Outcome{Text: f.Sentence}
	gate := web.GateURL(v.Get("gate_id"))
	switch {
	case f.Kind == fault.Invalid || f.Kind == fault.Malformed:
		o.Kind, o.Field = web.OutcomeInvalid, f.Field
	case f.Code == "not_quick":
		o.Kind = web.OutcomeNotQuick
	case f.Code == "stale_digest":
		o.Kind, o.Title = web.OutcomeStale, "Nothing was "+past(v.Get("verdict"))+": what you saw has changed."
		o.Text = "This page shows the newest revision now. Read it before you decide."
	case f.Kind == fault.Gone:
		o.Kind = web.OutcomeGone
	case f.Kind == fault.Forbidden:
		o.Kind = web.OutcomeForbidden
	case f.Code == "changes_requested":
		o.Kind = web.OutcomeDecided
		o.Links = []web.Link{{Text: "See the request", Href: gate + "#decisions"}}
	case f.Kind == fault.Conflict:
		o.Kind = web.OutcomeDecided
		o.Links = []web.Link{{Text: "Open the current state", Href: gate}}
	default:
		o.Kind = web.OutcomeFailed
	}
	return o
}

// past says in words what a verdict would have done.
func past(verdict string) string {
	switch policy.GateVerdict(verdict) {
	case policy.Reject:
		return "rejected"
	case policy.RequestChanges:
		return "sent back"
	}
	return "approved"
}

// verdict reads the decision of a form.
func (s *server) verdict(r *http.Request, id uuid.UUID, values url.Values) (db.Verdict, error) {
	key, err := checkKey(values.Get("idempotency_key"), "idempotency_key")
	if err != nil {
		return db.Verdict{}, err
	}
	revision, err := strconv.Atoi(values.Get("revision"))
	if err != nil {
		return db.Verdict{}, fault.New(fault.Malformed, "Nothing was decided: the form does not say which revision you saw. Open the page again.")
	}
	text, notes, err := s.withComments(r, id, values)
	if err != nil {
		return db.Verdict{}, err
	}
	if len([]rune(text)) > maxText {
		return db.Verdict{}, fault.New(fault.Invalid, "Nothing was decided: the text has more than 20,000 characters.").WithField("text")
	}
	hash, err := requestHash(r, values)
	if err != nil {
		return db.Verdict{}, err
	}
	v := db.Verdict{
		Tenant: who(r).tenant, Gate: id, Revision: revision, Digest: values.Get("digest"), Verdict: policy.GateVerdict(values.Get("verdict")), Text: text, Notes: notes,
		Key: key, Hash: hash, By: who(r).person(), Audit: auditOf(r, act{}), Draft: web.GateDraft(typeid.Format(typeid.Gate, id)),
	}
	v.Adopt, err = s.adopted(r, id, values.Get("resolution"), values.Get("adopt_url"))
	return v, err
}

// adopted reads back the pull request that a reconcile decision takes over: only one that we have recorded ourselves
// and that this run made: an earlier run's pull request on the same branch holds another change (W6).
func (s *server) adopted(r *http.Request, id uuid.UUID, resolution, address string) (*run.PullRequest, error) {
	if resolution != "adopt" {
		return nil, nil
	}
	g, err := s.store.Gate(r.Context(), who(r).tenant, id)
	if err != nil {
		return nil, err
	}
	info, err := s.store.RunInfo(r.Context(), who(r).tenant, g.Run)
	if err != nil {
		return nil, err
	}
	pulls, err := s.store.Pulls(r.Context(), who(r).tenant, db.PullFilter{Repository: info.Repository, Branch: info.Branch})
	if err != nil {
		return nil, err
	}
	for _, p := range pulls {
		if p.URL == strings.TrimSpace(address) && p.Run == info.ID {
			return &run.PullRequest{URL: p.URL, SHA: p.HeadSHA, Branch: p.Head, Number: p.Number}, nil
		}
	}
	return nil, fault.New(fault.Invalid, "Nothing was decided: under this address there is no pull request of this run's branch.").WithField("adopt_url")
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
