package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
)

// 2.1, U15: snooze, claim and pass are plain forms on the row and on the gate's page.
func TestTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.", "title", "One word")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	approver, other := w.signedIn(t, ana), w.signedIn(t, ben)
	// press sends the form with a button as a page offers it.
	press := func(b *browser, from, do string, more url.Values) string {
		t.Helper()
		form := b.get(t, from).page(t).Find("form[action='/gates/" + gate + "/turn']").Has("button[value=" + do + "]")
		if form.Length() != 1 {
			t.Fatalf("%s has %d forms to %s", from, form.Length(), do)
		}
		v := fields(form)
		v.Set("do", do)
		for name, to := range more {
			v[name] = to
		}
		return b.post(t, "/gates/"+gate+"/turn", v).want(t, http.StatusSeeOther).Header.Get("Location")
	}
	if to := press(approver, "/inbox", "snooze", url.Values{"until": {"revision"}}); to != "/inbox?done=snoozed" {
		t.Errorf("leads to %s", to)
	}
	page := approver.get(t, "/inbox").page(t)
	if got := turns(page, "snoozed"); got != "One word" || turns(page, "mine") != "" || page.Find("#snoozed").Text() != "Snoozed (1)" || !strings.Contains(page.Text(), "Snoozed until a new revision.") {
		t.Errorf("snoozed: %q", got)
	}
	if page.Find(".mainnav .count").Length() != 0 {
		t.Error("what is put off is counted")
	}
	press(approver, "/inbox", "wake", nil)
	if to := press(approver, "/gates/"+gate, "claim", nil); to != "/gates/"+gate+"?done=claimed" {
		t.Errorf("leads to %s", to)
	}
	if text := other.get(t, "/inbox").page(t).Find("#gate-" + gate).Text(); !strings.Contains(text, "Ana Approver is on it until ") {
		t.Errorf("the other sees %s", text)
	}
	if n := other.get(t, "/gates/"+gate).page(t).Find("button[value=approve]").Length(); n != 1 {
		t.Error("a claim keeps another from deciding")
	}
	press(approver, "/gates/"+gate, "release", nil)
	ben := approver.get(t, "/inbox").page(t).Find("select[name=to] option").FilterFunction(func(_ int, s *goquery.Selection) bool { return s.Text() == "Ben Approver" }).AttrOr("value", "")
	press(approver, "/inbox", "pass", url.Values{"to": {ben}})
	if text := other.get(t, "/inbox").page(t).Find("section[aria-labelledby=mine] .turn").Text(); !strings.Contains(text, "Ana Approver passed this to you.") {
		t.Errorf("the other sees %s", text)
	}
	if text := approver.get(t, "/inbox").page(t).Find("section[aria-labelledby=others] .turn").Text(); !strings.Contains(text, "You passed this to Ben Approver.") {
		t.Errorf("who passed it on sees %s", text)
	}
	if text := w.signedIn(t, rita).get(t, "/gates/"+gate).page(t).Find(".turn-more summary").Text(); !strings.Contains(text, "Ask for a review") {
		t.Errorf("who asked is offered %q", text)
	}
	approver.post(t, "/gates/"+gate+"/turn", url.Values{"do": {"snooze"}, "until": {"never"}}).want(t, http.StatusUnprocessableEntity)
	approver.post(t, "/gates/"+gate+"/turn", url.Values{"do": {"pass"}, "to": {"nobody"}}).want(t, http.StatusUnprocessableEntity)
	approver.post(t, "/gates/"+gate+"/turn", url.Values{"do": {"dance"}}).want(t, http.StatusUnprocessableEntity)
	w.signedIn(t, vera).post(t, "/gates/"+gate+"/turn", url.Values{"do": {"claim"}}).want(t, http.StatusForbidden)
	for group, want := range map[string]string{"requester": "Rita Requester 1", "shape": "Change "} {
		if got := other.get(t, "/inbox?group="+group).page(t).Find(".turns-group").Text(); !strings.HasPrefix(got, want) {
			t.Errorf("grouped by %s: %q", group, got)
		}
	}
}
