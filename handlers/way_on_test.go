package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
)

// R-UI-2: a task that waits for a person leads to its gate, from its own page, and no longer when it has been decided.
func TestTaskLeadsToItsGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	gate, run := w.waiting(t, w.worker(t, "one"))
	approver := w.signedIn(t, ana)
	task := approver.get(t, "/runs/"+run).page(t).Find(`#run-panel a[href^="/tasks/"]`).AttrOr("href", "")
	way := approver.get(t, task).page(t).Find(".pagehead a.button-primary")
	if way.AttrOr("href", "") != "/gates/"+gate || !strings.Contains(way.Text(), "Open the patch gate") {
		t.Errorf("the task leads to %q, %q", way.AttrOr("href", ""), way.Text())
	}
	form := approver.gateForm(t, gate)
	form.Set("verdict", "approve")
	approver.post(t, "/gates/"+gate+"/decisions", form)
	if n := approver.get(t, task).page(t).Find(`.pagehead a[href^="/gates/"]`).Length(); n != 0 {
		t.Errorf("%d links to a gate that was decided", n)
	}
}

// T6: the page that says what did not happen leads back to the page whose form was sent, and to no other host.
func TestErrorLeadsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	const nowhere = "/runs/run_01jdx3h4k8e5q9v2m7c6b1a0zt/cancel"
	for _, tc := range []struct{ from, back string }{
		{w.url + "/runs?view=waiting", "/runs?view=waiting"},
		{"https://evil.example/runs", ""},
		{w.url + "//evil.example/x", "/"},
		{"", ""},
	} {
		page := b.post(t, nowhere, url.Values{"idempotency_key": {"key-0123456789"}}, "Referer", tc.from).want(t, http.StatusNotFound).page(t)
		back := page.Find(".errorpage .actions a").FilterFunction(func(_ int, a *goquery.Selection) bool { return a.Text() == "Back to the page" })
		if got := back.AttrOr("href", ""); got != tc.back || back.Length() > 1 {
			t.Errorf("sent from %q, the way back is %q, want %q", tc.from, got, tc.back)
		}
	}
}
