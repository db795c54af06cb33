package handlers

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// getBypass is the page on which a gate is bypassed, or a bypass is reviewed.
func (s *server) getBypass(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	return s.bypassPage(w, r, http.StatusOK, id, nil, nil)
}

func (s *server) bypassPage(w http.ResponseWriter, r *http.Request, code int, id uuid.UUID, posted url.Values, refused *fault.Error) error {
	p := who(r)
	g, err := s.store.Gate(r.Context(), p.tenant, id)
	if err != nil {
		return err
	}
	d := web.BypassPageData{
		Shell: s.shell(r), GateID: typeid.Format(typeid.Gate, id), Kind: string(g.Kind), Title: g.TaskTitle, Repository: g.RepositoryName, RunID: typeid.Format(typeid.Run, g.Run),
		Digest: g.Digest, Revision: g.Revision, Open: g.State == run.GateOpen, MinReason: db.MinBypassReason, IdempotencyKey: db.NewSecret(), Typed: map[string]string{},
	}
	for _, name := range []string{"reason", "ticket", "repository", "note"} {
		d.Typed[name] = posted.Get(name)
	}
	if err := s.keptBypass(r, &d, posted); err != nil {
		return err
	}
	if refused != nil {
		d.Refused = refused.Sentence
		if refused.Field != "" {
			d.Errors = map[string]string{refused.Field: refused.Sentence}
		}
	}
	all, err := s.bypasses(r, db.BypassFilter{Gate: id})
	if err != nil {
		return err
	}
	if len(all) > 0 {
		d.Done = &all[0]
	}
	switch {
	case !p.has(policy.RoleBreakglass):
		d.WhyNot = "This asks for the role breakglass, which is granted by " + s.grantedBy(r, policy.RoleBreakglass) + "."
	case g.Kind == run.GateBudget || g.Kind == run.GateReconcile:
		d.WhyNot = "A gate of this kind is decided by a person with its role."
	case p.authTime.IsZero() || time.Since(p.authTime) > policy.ConfirmAge:
		d.ConfirmURL = web.LoginConfirmURL(web.BypassURL(d.GateID))
	}
	return s.render(w, r, code, web.BypassPage(d))
}

// bypasses are those that a filter finds, as this person sees them.
func (s *server) bypasses(r *http.Request, f db.BypassFilter) ([]web.BypassView, error) {
	p := who(r)
	list, err := s.store.Bypasses(r.Context(), p.tenant, f)
	if err != nil {
		return nil, err
	}
	var all []web.BypassView
	for _, b := range list {
		all = append(all, web.BypassView{
			GateID: typeid.Format(typeid.Gate, b.Gate), Kind: string(b.Kind), By: b.By, Reason: b.Reason, Ticket: b.Ticket, Title: b.Title, Repository: b.Repository,
			RunID: typeid.Format(typeid.Run, b.Run), At: b.At, Due: b.Due, Reviewed: b.ReviewedAt, Reviewer: b.Reviewer, Note: b.Note,
			MayReview: b.ReviewedAt.IsZero() && b.User != p.user && b.Requester != p.user && (p.has(policy.RoleApprover) || p.has(policy.RoleAdmin)),
		})
	}
	return all, nil
}

// bypassTurns are the bypasses that this person may review.
func (s *server) bypassTurns(r *http.Request) ([]web.BypassView, error) {
	all, err := s.bypasses(r, db.BypassFilter{Waiting: true})
	var mine []web.BypassView
	for _, b := range all {
		if b.MayReview {
			mine = append(mine, b)
		}
	}
	return mine, err
}

// postBypass bypasses a gate; refused, the page comes back with what was typed.
func (s *server) postBypass(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	values, in, err := s.formRequest(r, act{action: "gate.bypass", object: "gate"})
	if err != nil {
		return err
	}
	revision, err := strconv.Atoi(values.Get("revision"))
	if err != nil {
		return fault.New(fault.Malformed, "Nothing was bypassed: the form does not say which revision you saw. Open the page again.")
	}
	ack, err := s.store.Bypass(r.Context(), db.BypassOrder{
		Tenant: in.Tenant, Gate: id, Revision: revision, Digest: values.Get("digest"), Repository: values.Get("repository"), Reason: values.Get("reason"), Ticket: values.Get("ticket"),
		Draft: web.BypassDraft(typeid.Format(typeid.Gate, id)), Key: in.Key, Hash: in.Hash, By: who(r).person(), Audit: in.Audit,
	})
	if err != nil {
		return s.bypassRefused(w, r, id, values, err)
	}
	replayed(w, ack.Replayed)
	return see(w, r, web.BypassURL(typeid.Format(typeid.Gate, id))+"?done=bypassed")
}

// postBypassReview closes the review of somebody else's bypass.
func (s *server) postBypassReview(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	values, in, err := s.formRequest(r, act{action: "gate.bypass_review", object: "gate"})
	if err != nil {
		return err
	}
	if err := s.store.ReviewBypass(r.Context(), in, id, who(r).user, values.Get("note")); err != nil {
		return s.bypassRefused(w, r, id, values, err)
	}
	return see(w, r, web.BypassURL(typeid.Format(typeid.Gate, id))+"?done=bypass-reviewed")
}

func (s *server) bypassRefused(w http.ResponseWriter, r *http.Request, id uuid.UUID, values url.Values, err error) error {
	f, ok := fault.Find(err)
	if !ok || f.Kind == fault.Internal || f.Kind == fault.NotFound || f.Kind == fault.Unauthenticated {
		return err
	}
	s.note(r, err)
	if f.Code == db.CodeConfirmLogin {
		if err := s.keepBypass(r, typeid.Format(typeid.Gate, id), values); err != nil {
			return err
		}
	}
	return s.bypassPage(w, r, status(f.Kind), id, values, f)
}

// bypassFields are the fields that wait for the person to come back from their provider.
var bypassFields = []string{"reason", "ticket", "repository"}

// keepBypass keeps what was typed while its author proves who they are.
func (s *server) keepBypass(r *http.Request, gate string, values url.Values) error {
	for _, name := range bypassFields {
		text := values.Get(name)
		if n := len([]rune(text)); n > maxText {
			return fault.Newf(fault.TooLarge, "Nothing was bypassed or kept: a field has %d characters, and %d are allowed.", n, maxText).WithCode("too_large").WithField(name)
		}
		if err := s.store.SaveDraft(r.Context(), draftKey(r, web.BypassDraft(gate)+":"+name), text); err != nil {
			return err
		}
	}
	return nil
}

// keptBypass fills in what was kept; what was posted just now is newer.
func (s *server) keptBypass(r *http.Request, d *web.BypassPageData, posted url.Values) error {
	key := web.BypassDraft(d.GateID)
	all, err := s.store.Drafts(r.Context(), draftKey(r, key))
	for _, kept := range all {
		name := strings.TrimPrefix(kept.Key, key+":")
		d.Kept = d.Kept || slices.Contains(bypassFields, name)
		if posted == nil {
			d.Typed[name] = kept.Text
		}
	}
	return err
}

// withBypasses adds to a pull request's text what was bypassed on the way to it.
func (s *server) withBypasses(r *http.Request, tenant, id uuid.UUID, body string) (string, error) {
	all, err := s.store.Bypasses(r.Context(), tenant, db.BypassFilter{Run: id})
	for _, b := range all {
		v := web.BypassView{Kind: string(b.Kind), By: b.By, Reason: b.Reason, Ticket: b.Ticket}
		body += "\n\n" + v.Words() + " Review due at " + b.Due.Format("15:04 UTC on 2 January 2006") + ": " + s.publicURL.String() + web.BypassURL(typeid.Format(typeid.Gate, b.Gate))
	}
	return body, err
}
