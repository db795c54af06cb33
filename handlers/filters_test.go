package handlers_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
)

// 2.0, T6: a list that is asked for with a filter it does not have says which one, what stood there and what it takes, and leads
// to the same list without any.
func TestUnknownFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	l.plan(t)
	l.say(t, "", "one line\n")
	b, run, logs := w.signedIn(t, adam), l.as.RunId, l.logURL()
	const odd = "<b>\u202eodd"
	for _, tc := range []struct {
		list, name string
		takes      []string
	}{
		{"/runs", "state", []string{"QUEUED", "WAITING_FOR_APPROVAL", "SUCCEEDED"}},
		{"/runs", "view", []string{"waiting, running, failed or stuck"}},
		{"/runs", "repository", []string{"It takes acme/api."}},
		{"/runs", "before", nil},
		{"/runs/cancel", "state", []string{"QUEUED"}},
		{"/tasks", "state", []string{"DRAFT", "COMPLETED"}},
		{"/tasks", "repository", []string{"It takes acme/api."}},
		{"/tasks", "before", nil},
		{"/audit", "zone", []string{"Europe/Zurich"}},
		{"/audit", "since", []string{"2026-11-30T14:00"}},
		{"/audit", "until", []string{"2026-11-30T14:00"}},
		{"/audit", "before", nil},
		{"/admin/people", "before", nil},
		{"/admin/tokens", "before", nil},
		{"/admin/workers", "before", nil},
		{"/runs/" + run, "show", []string{"failed, human, tool, policy or cost"}},
		{"/runs/" + run, "level", []string{"summary, detailed or raw"}},
		{"/runs/" + run, "at", nil},
		{logs, "t", []string{"utc or local"}},
		{logs, "at", nil},
		{logs, "from", nil},
	} {
		q := url.Values{tc.name: {odd}, "all": {"1"}}
		page := b.get(t, tc.list+"?"+q.Encode()).want(t, http.StatusUnprocessableEntity).page(t)
		sentence := page.Find(".errorpage .lead").Text()
		for _, takes := range tc.takes {
			if !strings.Contains(sentence, takes) || !strings.Contains(sentence, "filter "+tc.name+" ") || !strings.Contains(sentence, `"<b>\u202eodd"`) {
				t.Errorf("%s with an odd %s says %q, and not that it takes %q", tc.list, tc.name, sentence, takes)
			}
		}
		ways := page.Find(".errorpage .actions a")
		if way := ways.First(); way.AttrOr("href", "") != tc.list || way.Text() != "Show all, without filters" {
			t.Errorf("%s with an odd %s leads to %q", tc.list, tc.name, ways.Map(func(_ int, a *goquery.Selection) string { return a.AttrOr("href", "") }))
		}
		b.get(t, tc.list).want(t, http.StatusOK)
	}
	if ways := b.get(t, "/nowhere?state=x").want(t, http.StatusNotFound).page(t).Find(".errorpage .actions a").Map(func(_ int, a *goquery.Selection) string { return a.AttrOr("href", "") }); !slices.Equal(ways, []string{"/inbox"}) {
		t.Errorf("where there is nothing, the ways on are %q", ways)
	}
}
