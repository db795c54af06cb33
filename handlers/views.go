package handlers

import (
	"net/http"
	"net/url"
	"strings"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/web"
)

// listNamed is a list whose filters can be saved, by the name in the form.
func listNamed(name string) (l db.List, page string, err error) {
	switch l = db.List(name); l {
	case db.ListRuns:
		return l, web.RunsURL, nil
	case db.ListTasks:
		return l, web.TasksURL, nil
	}
	return "", "", fault.New(fault.Invalid, "Nothing was done: there is no such list.").WithField("list")
}

// filtersOf keeps of an address what are filters of the list, in one fixed order: the place in the list is none of them.
func filtersOf(l db.List, q url.Values) string {
	known := []string{"q", "state", "repository", "view"}
	if l == db.ListTasks {
		known = []string{"q", "state", "repository", "mine"}
	}
	kept := url.Values{}
	for _, name := range known {
		if v := q.Get(name); v != "" {
			kept.Set(name, v)
		}
	}
	return kept.Encode()
}

// views are a person's own views of a list; the one whose filters the page shows is marked.
func (s *server) views(r *http.Request, l db.List) (web.SavedViews, error) {
	here := filtersOf(l, r.URL.Query())
	out := web.SavedViews{List: string(l), Query: here}
	all, err := s.store.SavedViews(r.Context(), who(r).tenant, who(r).user, l)
	if err != nil {
		return out, err
	}
	for _, v := range all {
		out.Mine = append(out.Mine, web.SavedView{Name: v.Name, Href: "/" + string(l) + "?" + v.Query, Here: v.Query == here})
	}
	return out, nil
}

// postView saves the filters of a list under a name.
func (s *server) postView(w http.ResponseWriter, r *http.Request) error {
	k, page, values, err := s.viewForm(r)
	if err != nil {
		return err
	}
	q, err := url.ParseQuery(values.Get("query"))
	if err != nil {
		return fault.Wrap(fault.Malformed, err, "Nothing was saved: the filters could not be read.")
	}
	if err := s.checkFilters(r, k.List, q); err != nil {
		return err
	}
	query := filtersOf(k.List, q)
	if err := s.store.SaveView(r.Context(), k, query); err != nil {
		return err
	}
	return see(w, r, page+"?"+query+"&done=view-saved")
}

// checkFilters holds that the list would show something under the filters, so that nobody saves an error.
func (s *server) checkFilters(r *http.Request, l db.List, q url.Values) error {
	err := s.readFilters(r, l, q)
	if f, ok := fault.Find(err); ok {
		told := *f
		told.Sentence = strings.Replace(f.Sentence, "Nothing is shown: ", "Nothing was saved: ", 1)
		return &told
	}
	return err
}

func (s *server) readFilters(r *http.Request, l db.List, q url.Values) error {
	if l == db.ListRuns {
		_, _, err := s.runFilter(r, q)
		return err
	}
	if _, err := taskState(q.Get("state")); err != nil {
		return err
	}
	_, _, err := s.repositoryFilter(r, q.Get("repository"))
	return err
}

// postViewDelete forgets a view.
func (s *server) postViewDelete(w http.ResponseWriter, r *http.Request) error {
	k, page, _, err := s.viewForm(r)
	if err != nil {
		return err
	}
	if err := s.store.DeleteView(r.Context(), k); err != nil {
		return err
	}
	return see(w, r, page+"?done=view-deleted")
}

func (s *server) viewForm(r *http.Request) (db.ViewKey, string, url.Values, error) {
	values, err := form(r)
	if err != nil {
		return db.ViewKey{}, "", nil, err
	}
	l, page, err := listNamed(values.Get("list"))
	return db.ViewKey{Tenant: who(r).tenant, User: who(r).user, List: l, Name: strings.TrimSpace(values.Get("name"))}, page, values, err
}
