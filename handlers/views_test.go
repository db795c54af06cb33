package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"signalbox/internal/typeid"
)

// mine are the names of a person's own views on the page, the one that is shown in brackets.
func mine(page *goquery.Document) string {
	var all []string
	page.Find(".view-mine").Each(func(_ int, s *goquery.Selection) {
		name := s.Text()
		if s.AttrOr("aria-current", "") == "page" {
			name = "[" + name + "]"
		}
		all = append(all, name)
	})
	return strings.Join(all, ", ")
}

// R-UI, 2.0: what a list is filtered by can be kept under a name, is seen by its owner alone, and its address holds it: the place in
// the list and what was said once are no part of it.
func TestSavedViews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, other := w.signedIn(t, rita), w.signedIn(t, ana)
	b.submit(t, "Replace one word.")
	save := func(list, name, query string, code int) answer {
		t.Helper()
		return b.post(t, "/views", url.Values{"list": {list}, "name": {name}, "query": {query}}).want(t, code)
	}
	repo := typeid.Format(typeid.Repo, w.repo)
	if page := b.get(t, "/runs").page(t); page.Find("form[action='/views']").Length() != 0 {
		t.Error("a list without filters offers to save them")
	}
	form := b.get(t, "/runs?state=QUEUED&q=&repository="+repo).page(t).Find("form[action='/views']")
	v := fields(form)
	v.Set("name", " Mine, <b>queued</b> ")
	at := b.post(t, "/views", v).want(t, http.StatusSeeOther).Header.Get("Location")
	if at != "/runs?repository="+repo+"&state=QUEUED&done=view-saved" {
		t.Errorf("saved, one is at %s", at)
	}
	page := b.get(t, at).want(t, http.StatusOK).page(t)
	if got := mine(page); got != "[Mine, <b>queued</b>]" || page.Find("form[action='/views']").Length() != 0 {
		t.Errorf("the page of a saved view shows %q", got)
	}
	if got := rows(page); got != "Replace one word." {
		t.Errorf("the view shows %s", got)
	}
	save("runs", "Later", "view=stuck&before=x&done=y&all=1", http.StatusSeeOther)
	if got, _ := b.get(t, "/runs").page(t).Find(".view-mine").First().Attr("href"); got != "/runs?view=stuck" {
		t.Errorf("a saved address is %s", got)
	}
	save("runs", "Later", "view=failed", http.StatusSeeOther)
	if got := mine(b.get(t, "/runs?view=failed").page(t)); got != "[Later], Mine, <b>queued</b>" {
		t.Errorf("replaced under its name: %s", got)
	}
	save("tasks", "Mine", "mine=1&state=RUNNING", http.StatusSeeOther)
	if got := mine(b.get(t, "/tasks?state=RUNNING&mine=1").page(t)); got != "[Mine]" {
		t.Errorf("the tasks' views: %s", got)
	}
	for _, refused := range [][3]string{{"runs", "x", ""}, {"runs", "", "view=stuck"}, {"runs", strings.Repeat("x", 61), "view=stuck"}, {"runs", "x", "state=nonsense"}, {"tasks", "x", "state=nonsense"},
		{"tasks", "x", "repository=nonsense"}, {"workers", "x", "view=stuck"}} {
		save(refused[0], refused[1], refused[2], http.StatusUnprocessableEntity)
	}
	if got := mine(other.get(t, "/runs").page(t)); got != "" {
		t.Errorf("somebody else sees %s", got)
	}
	other.post(t, "/views/delete", url.Values{"list": {"runs"}, "name": {"Later"}}).want(t, http.StatusSeeOther)
	b.post(t, "/views/delete", url.Values{"list": {"runs"}, "name": {"Mine, <b>queued</b>"}}).want(t, http.StatusSeeOther)
	if got := mine(b.get(t, "/runs").page(t)); got != "Later" {
		t.Errorf("after the deletions: %s", got)
	}
	for n := range 29 {
		save("runs", "v"+string(rune('A'+n)), "view=stuck", http.StatusSeeOther)
	}
	save("runs", "one too many", "view=stuck", http.StatusConflict)
	save("runs", "Later", "view=stuck", http.StatusSeeOther)
}

// A link to the next page does not say again that something was done.
func TestDoneIsSaidOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	for range 51 {
		b.submit(t, "Replace one word.")
	}
	next, _ := b.get(t, "/tasks?mine=1&done=view-saved").page(t).Find(".pager a[rel=next]").Attr("href")
	if !strings.Contains(next, "mine=1") || !strings.Contains(next, "before=") || strings.Contains(next, "done") {
		t.Errorf("the next page is %s", next)
	}
}
