package handlers

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// Bounds of the pages about policy: versions that are listed, runs that a draft is tried on by the page, and bytes of a
// posted form: a document of 256 KiB, escaped.
const (
	policiesShown = 100
	pageSimulated = 500
	maxPolicyForm = 1 << 20
)

func policyRow(p db.PolicyInfo) web.PolicyRow {
	return web.PolicyRow{Version: p.Version, By: p.By, ConfirmedBy: p.ConfirmedBy, Reason: p.Reason, At: p.At, InForce: p.InForce}
}

// getPolicies lists the versions, and the change that waits.
func (s *server) getPolicies(w http.ResponseWriter, r *http.Request) error {
	p := who(r)
	all, waits, err := s.store.Policies(r.Context(), p.tenant, policiesShown)
	if err != nil {
		return err
	}
	data := web.PoliciesPageData{Shell: s.shell(r), InForce: policy.DefaultVersion, MayChange: p.has(policy.RoleAdmin)}
	for i, v := range all {
		row := policyRow(v)
		row.Before = policy.DefaultVersion
		if i+1 < len(all) {
			row.Before = all[i+1].Version
		}
		data.Rows = append(data.Rows, row)
	}
	if len(all) > 0 {
		data.InForce = all[0].Version
	}
	if waits != nil {
		before, err := s.store.PolicyDocument(r.Context(), p.tenant, waits.BasedOn)
		if err != nil {
			return err
		}
		data.Waits = &web.PolicyWaits{Row: policyRow(*waits), BasedOn: waits.BasedOn, Own: waits.ByID == p.user, MayDecide: data.MayChange,
			ConfirmKey: db.NewSecret(), WithdrawKey: db.NewSecret(), Lines: policy.DiffLines(before, waits.Document)}
	}
	return s.render(w, r, http.StatusOK, web.PoliciesPage(data))
}

// policyVersion is the version that the address names.
func policyVersion(r *http.Request) string {
	v, err := url.PathUnescape(chi.URLParam(r, "version"))
	if err != nil {
		return ""
	}
	return v
}

// getPolicy is one version's text.
func (s *server) getPolicy(w http.ResponseWriter, r *http.Request) error {
	version, p := policyVersion(r), who(r)
	doc, err := s.store.PolicyDocument(r.Context(), p.tenant, version)
	if err != nil {
		return err
	}
	row := web.PolicyRow{Version: version}
	all, _, err := s.store.Policies(r.Context(), p.tenant, policiesShown)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(all, func(v db.PolicyInfo) bool { return v.Version == version }); i >= 0 {
		row = policyRow(all[i])
	}
	return s.render(w, r, http.StatusOK, web.PolicyPage(web.PolicyPageData{Shell: s.shell(r), Title: "Policy version " + version, Row: &row, Document: doc}))
}

// getPolicyDiff compares two versions.
func (s *server) getPolicyDiff(w http.ResponseWriter, r *http.Request) error {
	p, from, to := who(r), r.URL.Query().Get("from"), r.URL.Query().Get("to")
	a, err := s.store.PolicyDocument(r.Context(), p.tenant, from)
	if err != nil {
		return err
	}
	b, err := s.store.PolicyDocument(r.Context(), p.tenant, to)
	if err != nil {
		return err
	}
	all, _, err := s.store.Policies(r.Context(), p.tenant, policiesShown)
	if err != nil {
		return err
	}
	data := web.PolicyPageData{Shell: s.shell(r), Title: "Policy: " + from + " to " + to, From: from, To: to, Lines: policy.DiffLines(a, b)}
	for _, v := range all {
		data.Versions = append(data.Versions, v.Version)
	}
	data.Versions = append(data.Versions, policy.DefaultVersion)
	return s.render(w, r, http.StatusOK, web.PolicyPage(data))
}

// getPolicyNew is the editor, with the text that is in force.
func (s *server) getPolicyNew(w http.ResponseWriter, r *http.Request) error {
	all, _, err := s.store.Policies(r.Context(), who(r).tenant, 1)
	if err != nil {
		return err
	}
	doc := "schema: 1\nversion: policy-1\n"
	if len(all) > 0 {
		if doc, err = s.store.PolicyDocument(r.Context(), who(r).tenant, all[0].Version); err != nil {
			return err
		}
	}
	return s.policyEditor(w, r, http.StatusOK, web.PolicyEditorData{Document: doc})
}

func (s *server) policyEditor(w http.ResponseWriter, r *http.Request, code int, data web.PolicyEditorData) error {
	data.Shell, data.IdempotencyKey, data.InForce = s.shell(r), db.NewSecret(), "unreadable"
	// A policy that cannot be read is mended here, so that it must not keep this page away.
	rules, err := s.store.Rules(r.Context(), who(r).tenant)
	if f, ok := fault.Find(err); err != nil && (!ok || f.Code != "policy_unreadable") {
		return err
	}
	if err == nil {
		data.InForce, data.SecondAdmin = rules.Version, rules.Changes.SecondAdmin
	}
	return s.render(w, r, code, web.PolicyEditorPage(data))
}

// checked is what is wrong in a document, or how its version is called.
func (s *server) checked(document string) (web.PolicyCheck, error) {
	rules, err := s.store.CheckPolicy(document)
	if err == nil {
		return web.PolicyCheck{Version: rules.Version, Rules: len(rules.Rules)}, nil
	}
	if pe, ok := errors.AsType[*policy.ParseError](err); ok {
		return web.PolicyCheck{Problems: pe.Problems}, nil
	}
	if f, ok := fault.Find(err); ok && f.Kind != fault.Internal && f.Kind != fault.Unavailable {
		return web.PolicyCheck{Problems: []policy.Problem{{Words: f.Sentence}}}, nil
	}
	return web.PolicyCheck{}, err
}

// posted is the editor's form; a browser ends lines with both characters.
func posted(v url.Values) web.PolicyEditorData {
	return web.PolicyEditorData{Document: strings.ReplaceAll(v.Get("document"), "\r\n", "\n"), Reason: v.Get("reason")}
}

// postPolicyCheck says what is wrong in the text as it stands. It stores nothing.
func (s *server) postPolicyCheck(w http.ResponseWriter, r *http.Request) error {
	values, err := form(r)
	if err != nil {
		return err
	}
	data := posted(values)
	check, err := s.checked(data.Document)
	if err != nil {
		return err
	}
	if r.Header.Get("HX-Request") != "" {
		return s.render(w, r, http.StatusOK, web.PolicyChecked(check))
	}
	data.Checked = &check
	return s.policyEditor(w, r, http.StatusOK, data)
}

// postPolicySimulate tries the text on past runs. It stores nothing.
func (s *server) postPolicySimulate(w http.ResponseWriter, r *http.Request) error {
	values, err := form(r)
	if err != nil {
		return err
	}
	data := posted(values)
	check, err := s.checked(data.Document)
	if err != nil {
		return err
	}
	if data.Checked = &check; len(check.Problems) > 0 {
		return s.policyEditor(w, r, http.StatusUnprocessableEntity, data)
	}
	found, err := s.store.SimulatePolicy(r.Context(), who(r).tenant, data.Document, pageSimulated)
	if err != nil {
		return err
	}
	shown := simulated(found)
	data.Simulated = &shown
	return s.policyEditor(w, r, http.StatusOK, data)
}

func simulated(found db.Simulation) web.PolicySimulation {
	out := web.PolicySimulation{Against: found.Against, Draft: found.Draft, Runs: found.Runs, Changed: found.Changed, Since: found.Since}
	for _, k := range policy.ChangeKinds() {
		if n := found.Kinds[k]; n > 0 {
			out.Kinds = append(out.Kinds, web.PolicyKind{Count: n, Words: k.Words()})
		}
	}
	for _, x := range found.List {
		row := web.PolicySimulated{Run: typeid.Format(typeid.Run, x.Run), Title: x.Title, Repository: x.Repository, State: string(x.State), At: x.At}
		for _, c := range x.Changes {
			row.Words = append(row.Words, c.Words)
		}
		out.List = append(out.List, row)
	}
	return out
}

// postPolicy stores a new version; refused, the form comes back with its text.
func (s *server) postPolicy(w http.ResponseWriter, r *http.Request) error {
	values, in, err := s.formRequest(r, act{action: "policy.change", object: "policy"})
	if err != nil {
		return err
	}
	data := posted(values)
	ack, err := s.store.ChangePolicy(r.Context(), in, data.Document, data.Reason)
	if f, ok := fault.Find(err); ok && f.Kind != fault.Internal && f.Kind != fault.Unavailable {
		s.note(r, err)
		check, err := s.checked(data.Document)
		if err != nil {
			return err
		}
		field := f.Field
		if field != "reason" {
			field = "document"
		}
		data.Checked, data.Errors = &check, map[string]string{field: f.Sentence}
		return s.policyEditor(w, r, status(f.Kind), data)
	}
	if err != nil {
		return err
	}
	done := "policy-proposed"
	if ack.InForce {
		done = "policy-stored"
	}
	return see(w, r, web.PoliciesURL+"?done="+done)
}

// postPolicyConfirm puts the change that waits in force.
func (s *server) postPolicyConfirm(w http.ResponseWriter, r *http.Request) error {
	version := policyVersion(r)
	_, in, err := s.formRequest(r, act{action: "policy.confirm", object: "policy", id: version})
	if err != nil {
		return err
	}
	if _, err := s.store.ConfirmPolicy(r.Context(), in, version); err != nil {
		return err
	}
	return see(w, r, web.PoliciesURL+"?done=policy-stored")
}

// postPolicyWithdraw ends the change that waits.
func (s *server) postPolicyWithdraw(w http.ResponseWriter, r *http.Request) error {
	version := policyVersion(r)
	_, in, err := s.formRequest(r, act{action: "policy.withdraw", object: "policy", id: version})
	if err != nil {
		return err
	}
	if err := s.store.WithdrawPolicy(r.Context(), in, version); err != nil {
		return err
	}
	return see(w, r, web.PoliciesURL+"?done=policy-withdrawn")
}
