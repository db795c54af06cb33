package handlers

import (
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/web"
)

// postTaskPreview shows what would become of the task in the form. It stores nothing; it is posted because a goal is longer than an
// address. A page that only wants the preview gets that part alone.
func (s *server) postTaskPreview(w http.ResponseWriter, r *http.Request) error {
	values, err := form(r)
	if err != nil {
		return err
	}
	if r.Header.Get("HX-Request") == "" {
		return s.newTaskPage(w, r, http.StatusOK, web.NewTaskPageData{Previewed: true}, values)
	}
	preview, err := s.taskPreview(r, values)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.TaskPreviewPart(preview))
}

// taskPreview is what the store foresees about the form, which may not be complete yet.
func (s *server) taskPreview(r *http.Request, v url.Values) (web.TaskPreviewData, error) {
	spec, _ := taskForm(v)
	data, err := s.foreseen(r, spec)
	if fault.KindOf(err) == fault.Invalid {
		spec.Repository = uuid.Nil // none of ours: as good as none
		return s.foreseen(r, spec)
	}
	return data, err
}

// foreseen is what would become of the task at this moment.
func (s *server) foreseen(r *http.Request, spec db.TaskSpec) (web.TaskPreviewData, error) {
	p := who(r)
	found, err := s.store.PreviewTask(r.Context(), db.Request{Tenant: p.tenant, By: p.actor(), Roles: p.roles}, spec)
	if err != nil {
		return web.TaskPreviewData{}, err
	}
	data := web.TaskPreviewData{
		Now: time.Now().UTC(), Foreseen: found.Foreseen, Refused: found.Refused, Chosen: spec.Repository != uuid.Nil, Approvers: found.Approvers,
		Barred: found.RequesterMayNot, Limits: found.Rules.Limits, Currency: s.currency,
	}
	if q := found.Place; q != nil {
		data.Wait = web.PreviewWait{Queue: q.Queue, Ahead: q.Ahead, Oldest: q.Oldest, Went: q.Went, AtOnce: q.Free, Why: q.Why}
	}
	if l := found.Last; l != nil {
		data.Last = web.PreviewRuns{Costs: l.Costs, Unpriced: l.Unpriced, Worked: l.Worked}
	}
	return data, nil
}
