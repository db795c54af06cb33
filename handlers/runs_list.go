package handlers

import (
	"net/http"
	"net/url"
	"slices"

	"signalbox/db"
	"signalbox/internal/run"
	"signalbox/web"
)

// runFilter reads the filters of the list of runs, which pages and the bulk cancel share, and the choices of its form.
func (s *server) runFilter(r *http.Request, q url.Values) (db.RunFilter, web.RunFilter, error) {
	filter := db.RunFilter{State: run.State(q.Get("state")), View: db.View(q.Get("view")), Query: q.Get("q")}
	shown := web.RunFilter{Query: filter.Query, View: q.Get("view"), States: states(run.States(), filter.State)}
	if filter.State != "" && !slices.Contains(run.States(), filter.State) {
		return filter, shown, noSuchFilter("state", filter.State, run.States())
	}
	if filter.View != "" && !slices.Contains(db.Views(), filter.View) {
		return filter, shown, noSuchFilter("view", filter.View, db.Views())
	}
	var err error
	shown.Repositories, filter.Repository, err = s.repositoryFilter(r, q.Get("repository"))
	shown.Set = filter.Query != "" || filter.State != "" || filter.View != "" || q.Get("repository") != ""
	return filter, shown, err
}

// getRuns lists runs.
func (s *server) getRuns(w http.ResponseWriter, r *http.Request) error {
	q, p := r.URL.Query(), who(r)
	filter, shown, err := s.runFilter(r, q)
	if err != nil {
		return err
	}
	if filter.Before, err = readCursor(q.Get("before")); err != nil {
		return err
	}
	filter.Limit = pageSize + 1
	list, err := s.store.Runs(r.Context(), p.tenant, filter)
	if err != nil {
		return err
	}
	list, next := more(list, pageSize)
	data := web.RunsPageData{Shell: s.shell(r), Filter: shown, Pager: pager(r, len(list), next)}
	if data.Views, err = s.views(r, db.ListRuns); err != nil {
		return err
	}
	if shown.Set {
		q.Del("before")
		q.Del("done")
		q.Set("all", "1")
		data.CancelAll = web.RunsCancelURL + "?" + q.Encode()
	}
	if data.Rows, err = s.runRows(r, list); err != nil {
		return err
	}
	data.Pager.Tally, err = tally(shown.Set, func(all bool) (int, error) {
		if all {
			return s.store.CountRuns(r.Context(), p.tenant, db.RunFilter{})
		}
		return s.store.CountRuns(r.Context(), p.tenant, filter)
	})
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.RunsPage(data))
}

// tally counts a list: with filters what they let pass and all there is, without them only the latter.
func tally(filtered bool, count func(all bool) (int, error)) (t web.Tally, err error) {
	t.Most, t.Filtered = db.CountMost, filtered
	if t.All, err = count(true); err != nil || !filtered {
		t.Matching = t.All
		return t, err
	}
	t.Matching, err = count(false)
	return t, err
}
