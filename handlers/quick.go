package handlers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// getQuick shows all of a gate's plan or patch with Approve at its end, or why that is not offered.
func (s *server) getQuick(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	data, err := s.quick(r, id)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.QuickPage(web.QuickPageData{Shell: s.shell(r), Quick: data}))
}

// getQuickFragment is the same for a row of My turn.
func (s *server) getQuickFragment(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	return s.quickRow(w, r, http.StatusOK, id, nil)
}

// quickRow renders the row's part, after a post with its outcome: where something moved, what is to be read now stands
// above the button again.
func (s *server) quickRow(w http.ResponseWriter, r *http.Request, code int, id uuid.UUID, outcome *web.Outcome) error {
	data, err := s.quick(r, id)
	if err != nil {
		return err
	}
	data.InRow, data.Panel.Outcome = true, outcome
	return s.render(w, r, code, web.Quick(data))
}

func (s *server) quick(r *http.Request, id uuid.UUID) (web.QuickData, error) {
	var data web.QuickData
	g, err := s.gate(r, id)
	if err != nil {
		return data, err
	}
	data.Panel = s.gatePanel(r, g)
	var content policy.QuickContent
	if data.Plan, data.Files, content, err = s.quickContent(r, g, true); err != nil {
		return data, err
	}
	data.Why = policy.Quick(policy.GateKind(g.info.Kind), g.standing.Risk, content)
	written := data.Panel
	if err := s.keepText(r, &written, nil); err != nil {
		return data, err
	}
	data.Unsent = written.Text != "" || len(written.Comments) > 0 || len(written.Lines) > 0
	evidence, err := s.evidenceView(r, g.run, g.standing)
	if err == nil && g.info.Kind == run.GatePatch {
		data.Checks = web.ChecksSentence(evidence)
	}
	return data, err
}

// quickContent is what is shown of a gate's plan or patch, and what is known of it. Both follow from what is stored and
// from the bounds of a page alone: the offer and the decision look with the same eyes. A decision does not need the lines of
// a patch coloured; show asks for them.
func (s *server) quickContent(r *http.Request, g gate, show bool) (*web.PlanView, []web.DiffFile, policy.QuickContent, error) {
	in := typeid.Format(typeid.Gate, g.info.ID) + "-"
	switch g.info.Kind {
	case run.GatePlan:
		view, whole, err := s.quickPlan(r, g)
		if err != nil || view == nil {
			return nil, nil, policy.QuickContent{}, err
		}
		view.In = in
		return view, nil, web.QuickPlan(*view, whole), nil
	case run.GatePatch:
		p, err := s.gatePatch(r, g.info)
		if err != nil || p == nil {
			return nil, nil, policy.QuickContent{}, err
		}
		d := p.parsed.Render(web.InlineBounds())
		content := web.QuickPatch(d)
		if !show {
			return nil, nil, content, nil
		}
		options, err := s.diffOptions(r, g, *p)
		if err != nil {
			return nil, nil, content, err
		}
		options.In, options.Place, options.View, options.Ticks = in, web.DiffPlace{}, web.DiffChoice{}, nil
		return nil, web.NewDiffView(d, options).Files, content, nil
	}
	return nil, nil, policy.QuickContent{}, nil
}

// quickPlan reads the plan that is decided, and reports whether its view leaves out nothing.
func (s *server) quickPlan(r *http.Request, g gate) (*web.PlanView, bool, error) {
	artifacts, err := s.store.Artifacts(r.Context(), g.run.Tenant, g.run.ID)
	if err != nil {
		return nil, false, err
	}
	for _, a := range artifacts {
		if a.Kind != "plan" || a.Late || typeid.Format(typeid.Artifact, a.ID) != g.info.Artifact {
			continue
		}
		view, err := s.planView(r, g, a)
		if err != nil || view.Raw != "" {
			return view, true, err
		}
		raw, err := s.artifacts.Read(r.Context(), g.run.Tenant, a.SHA256, 4<<20)
		return view, err == nil && saysNoMore(raw), err
	}
	return nil, false, nil
}

// saysNoMore reports whether a plan has the known fields only, and each of them once.
func saysNoMore(raw []byte) bool {
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	var p plan
	if err := strict.Decode(&p); err != nil || len(bytes.TrimSpace(raw[strict.InputOffset():])) > 0 {
		return false
	}
	d, seen := json.NewDecoder(bytes.NewReader(raw)), map[string]bool{}
	if _, err := d.Token(); err != nil {
		return false
	}
	for d.More() {
		name, err := d.Token()
		key := strings.ToLower(fmt.Sprint(name)) // as the decoder matches names
		var value json.RawMessage
		if err != nil || seen[key] || d.Decode(&value) != nil {
			return false
		}
		seen[key] = true
	}
	return true
}

// fromList reports whether a posted decision says that it comes from a list.
func fromList(v url.Values) bool { return v.Has(web.QuickField) }

// quickly looks, for an approval that says it comes from a list, at what the list can have shown. A decision about anything
// but the present revision is refused for that. Drafts stay: the form in the list did not send them.
func (s *server) quickly(r *http.Request, v *db.Verdict) error {
	v.Draft, v.Quick = "", &policy.QuickContent{}
	g, err := s.gate(r, v.Gate)
	if err != nil || g.info.Digest != v.Digest || g.info.Revision != v.Revision {
		return err
	}
	_, _, *v.Quick, err = s.quickContent(r, g, false)
	return err
}
