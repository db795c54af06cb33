package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"signalbox/internal/wire"
)

// 2.1: several items of My turn are put off or claimed at once, those that are selected or all; what each came to is said, one that
// cannot be had holds back no other, and nothing is decided by it.
func TestSeveralTurnsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker := w.worker(t, "one")
	var gates, runs []string
	for range 3 {
		w.signedIn(t, rita).submit(t, "Replace one word.")
		gate, run := w.waiting(t, worker)
		gates, runs = append(gates, gate), append(runs, run)
	}
	b := w.signedIn(t, ana)
	list := b.get(t, "/inbox").page(t)
	if n := list.Find(`input[name=gate][form=turns-bulk]`).Length(); n != 3 {
		t.Fatalf("%d items can be selected", n)
	}
	if all := list.Find("#f-bulk-do").Text(); !strings.HasPrefix(all, "I am on it (3 of 3)Snooze; back in an hour (3 of 3)") {
		t.Errorf("offered: %s", all)
	}

	other := another(gates[2])
	page := b.post(t, "/inbox/turns", url.Values{"do": {"snooze-4h"}, "gate": {gates[0], gates[0], other, gates[1]}}).want(t, http.StatusOK).page(t)
	if head := page.Find("h1").Text(); head != "Done for 2 of 3 items" || !strings.Contains(page.Find("main").Text(), other) {
		t.Errorf("%s: %s", head, page.Find("main").Text())
	}
	list = b.get(t, "/inbox").page(t)
	if s := list.Find("#snoozed").Text(); s != "Snoozed (2)" || list.Find("#turns-bulk").Length() != 0 {
		t.Errorf("after snoozing: %q, %d forms", s, list.Find("#turns-bulk").Length())
	}

	for _, gate := range gates[:2] {
		b.post(t, "/gates/"+gate+"/turn", url.Values{"do": {"wake"}}).want(t, http.StatusSeeOther)
	}
	if head := b.post(t, "/inbox/turns", url.Values{"do": {"claim"}, "all": {"1"}}).want(t, http.StatusOK).page(t).Find("h1").Text(); head != "Done for 3 items" {
		t.Errorf("claimed: %s", head)
	}
	if n := strings.Count(w.signedIn(t, ben).get(t, "/inbox").body, "is on it until"); n != 3 {
		t.Errorf("%d are seen to be claimed", n)
	}
	if all := b.get(t, "/inbox").page(t).Find("#f-bulk-do option").First().Text(); all != "I am not on it any more (3 of 3)" {
		t.Errorf("offered: %s", all)
	}

	for _, bad := range []url.Values{{"do": {"approve"}, "all": {"1"}}, {"do": {"snooze-never"}, "all": {"1"}}, {"do": {"wake"}, "gate": {gates[0]}}, {"do": {"claim"}, "gate": {"gate_1"}}, {"all": {"1"}}} {
		b.post(t, "/inbox/turns", bad).want(t, http.StatusUnprocessableEntity)
	}
	if head := b.post(t, "/inbox/turns", url.Values{"do": {"claim"}}).want(t, http.StatusOK).page(t).Find("h1").Text(); head != "Nothing was selected" {
		t.Errorf("without items: %s", head)
	}
	// Whoever asked for the changes takes no turn at them, and nobody's turn is a decision.
	if head := w.signedIn(t, rita).post(t, "/inbox/turns", url.Values{"do": {"claim"}, "gate": gates}).want(t, http.StatusOK).page(t).Find("h1").Text(); head != "Nothing was changed" {
		t.Errorf("the requester: %s", head)
	}
	for _, run := range runs {
		if r := into[wire.Run](t, w.cli(t, ana).call(t, "GET", "/runs/"+run, nil)); r.State != "WAITING_FOR_APPROVAL" {
			t.Errorf("run %s is %s", run, r.State)
		}
	}
}
