package handlers

import (
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
	o := refusal(f, values)
	if f.Code == db.CodeConfirmLogin {
		if err := s.toConfirm(r, typeid.Format(typeid.Gate, id), values, o); err != nil {
			return err
		}
	}
	if fromList(values) && r.Header.Get("HX-Request") != "" {
		return s.quickRow(w, r, status(f.Kind), id, o)
	}
	return s.gatePage(w, r, status(f.Kind), id, o, values)
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
