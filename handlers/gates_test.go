package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/wire"
)

// R-TRN-6, R-TRN-7, T7: twenty people approve one gate at once; one of them moves the run, the others are answered and
// kept, and one piece of work is started.
func TestTwentyApproveAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	gate, run := w.waiting(t, w.worker(t, "one"))
	const people = 20
	browsers := make([]*browser, people)
	for i := range browsers {
		browsers[i] = w.signedIn(t, idPerson{sub: fmt.Sprintf("a%d", i), name: fmt.Sprintf("Approver %d", i), groups: []string{"approvers"}})
	}
	var wg sync.WaitGroup
	codes := make([]int, people)
	forms := make([]url.Values, people)
	for i, b := range browsers {
		forms[i] = b.gateForm(t, gate)
		forms[i].Set("verdict", "approve")
	}
	for i, b := range browsers {
		wg.Go(func() { codes[i] = b.post(t, "/gates/"+gate+"/decisions", forms[i]).StatusCode })
	}
	wg.Wait()
	for i, code := range codes {
		if code != http.StatusSeeOther {
			t.Errorf("person %d was answered %d", i, code)
		}
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var events, queued, decisions int
	must(t, conn.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM run_events WHERE kind = 'approved'), (SELECT count(*) FROM run_queue), (SELECT count(*) FROM decisions WHERE verdict = 'approve')").Scan(&events, &queued, &decisions))
	if events != 1 || queued != 1 || decisions != people {
		t.Errorf("%d approved events, %d queue rows, %d stored decisions; want 1, 1, %d", events, queued, decisions, people)
	}
	if r := into[wire.Run](t, w.cli(t, ana).call(t, "GET", "/runs/"+run, nil)); r.State != "PR_CREATING" {
		t.Errorf("run %s", r.State)
	}
}

// T6, A4: a decision on what is no longer shown decides nothing and loses no text, with and without htmx.
func TestStaleDigest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	k, approver := w.worker(t, "one"), w.signedIn(t, ana)
	gate, run := w.waiting(t, k)
	form := approver.gateForm(t, gate)
	form.Set("digest", strings.Repeat("0", 64))
	form.Set("verdict", "approve")
	form.Set("text", "Good <b>work</b>.")
	a := approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusConflict)
	if !strings.Contains(a.body, "Nothing was approved") || a.page(t).Find("textarea").First().Text() != "Good <b>work</b>." {
		t.Error("the page does not say that nothing was approved, or lost the text")
	}
	if a.page(t).Find("html main").Length() != 1 {
		t.Error("a plain form is answered with a fragment")
	}
	h := approver.post(t, "/gates/"+gate+"/decisions", form, "HX-Request", "true").want(t, http.StatusConflict)
	// All of the page moves on: a panel about the newest revision beside older content would invite a blind decision.
	if h.Header.Get("HX-Retarget") != "#main" || h.Header.Get("HX-Reselect") != "#main" || h.page(t).Find("main #gate-panel").Length() != 1 {
		t.Errorf("htmx is not told to replace the page's content: %v %.300s", h.Header, h.body)
	}
	if r := into[wire.Run](t, w.cli(t, ana).call(t, "GET", "/runs/"+run, nil)); r.State != "WAITING_FOR_APPROVAL" {
		t.Errorf("run %s", r.State)
	}
	t.Run("an old revision", func(t *testing.T) {
		form := approver.gateForm(t, gate)
		form.Set("revision", "99")
		form.Set("verdict", "approve")
		approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusConflict)
	})
}

// T5, A8, A10, A11: who cannot approve, by page and by API.
func TestWhoMayNotApprove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	both := idPerson{sub: "both", name: "Both", groups: []string{"requesters", "approvers"}}
	w.signedIn(t, both).submit(t, "Replace one word.")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	shown := into[wire.Gate](t, w.cli(t, ana).call(t, "GET", "/gates/"+gate, nil))
	if !shown.MayDecide || shown.Digest == "" {
		t.Fatalf("gate %+v", shown)
	}
	decide := wire.DecisionCreate{Verdict: wire.DecideApprove, Digest: shown.Digest, Revision: shown.Revision}
	path := "/gates/" + gate + "/decisions"
	for name, c := range map[string]client{
		"the requester": w.cli(t, both), "a viewer": w.cli(t, vera), "an admin": w.cli(t, adam), "an approver's API token": w.token(t, ana, "read", "tasks", "repositories"), "a worker": w.worker(t, "two").client,
	} {
		if a := c.call(t, "POST", path, decide); a.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	// The session of somebody who lost the role is refused at the moment of the post (A12).
	b := w.signedIn(t, ben)
	form := b.gateForm(t, gate)
	w.user(t, idPerson{sub: "ben", name: ben.name, groups: []string{"viewers"}})
	form.Set("verdict", "approve")
	form.Set("text", "kept")
	lost := b.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusForbidden).page(t)
	if lost.Find("#gate-panel textarea").Text() != "kept" || lost.Find("form[action$='/decisions']").Length() != 0 {
		t.Errorf("the panel of somebody whose role is gone keeps %q, and %d forms", lost.Find("#gate-panel textarea").Text(), lost.Find("form[action$='/decisions']").Length())
	}
	// Whoever has not got the role sees everything and no button, and who could give it (A11).
	for _, page := range []*goquery.Document{lost, w.signedIn(t, vera).get(t, "/gates/"+gate).want(t, http.StatusOK).page(t)} {
		panel := strings.Join(strings.Fields(page.Find("#gate-panel").Text()), " ")
		if !strings.Contains(panel, "this gate asks for the role approver, which you do not hold.Can decide: people with the role approver, which is granted by membership in the group approvers at test.") {
			t.Errorf("who may not decide reads: %s", panel)
		}
	}
	if a := w.signedIn(t, vera).get(t, "/admin").want(t, http.StatusForbidden); !strings.Contains(a.body, "granted by membership in the group admins at test") {
		t.Errorf("the page of a missing role: %s", a.body)
	}
	// Nothing of that counted.
	if g := into[wire.Gate](t, w.cli(t, ana).call(t, "GET", "/gates/"+gate, nil)); g.State != "open" || len(g.Decisions) != 0 {
		t.Errorf("gate %s with %d decisions", g.State, len(g.Decisions))
	}
	// And whoever may, may by API as well; the same key again is the same answer.
	ana := w.cli(t, ana)
	first := ana.call(t, "POST", path, decide, "Idempotency-Key", "key-0123456789").want(t, http.StatusOK)
	again := ana.call(t, "POST", path, decide, "Idempotency-Key", "key-0123456789").want(t, http.StatusOK)
	if again.Header.Get("Idempotency-Replayed") != "true" || first.Header.Get("Idempotency-Replayed") != "" {
		t.Error("a repeated key is not marked as replayed")
	}
	decide.Verdict = wire.DecideReject
	decide.Text = "No."
	ana.call(t, "POST", path, decide, "Idempotency-Key", "key-0123456789").want(t, http.StatusUnprocessableEntity)
}

// A31: an approval that nobody has acted on can be withdrawn; afterwards not.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	k := w.worker(t, "one")
	gate, run := w.waiting(t, k)
	b := w.signedIn(t, ana)
	approve := func() {
		form := b.gateForm(t, gate)
		form.Set("verdict", "approve")
		b.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	}
	approve()
	withdraw := b.get(t, "/gates/"+gate).page(t).Find("form[action$='/withdraw']")
	b.post(t, "/gates/"+gate+"/withdraw", fields(withdraw)).want(t, http.StatusSeeOther)
	approve()
	k.claim(t, "publish")
	form := fields(withdraw)
	form.Set("idempotency_key", "another-key-0123456789")
	late := b.post(t, "/gates/"+gate+"/withdraw", form).want(t, http.StatusConflict).page(t)
	said := late.Find("#gate-panel .outcome").Text()
	if !regexp.MustCompile(`^\s*Nothing was withdrawn: a worker already started at \d\d:\d\d:\d\d UTC\.`).MatchString(said) || !strings.Contains(said, "A requester or an administrator can cancel the run.") {
		t.Errorf("too late to withdraw: %q", said)
	}
	// Whoever may cancel gets the link to it.
	both := w.signedIn(t, idPerson{sub: "both", name: "Both", groups: []string{"requesters", "approvers"}})
	form.Set("idempotency_key", "a-third-key-0123456789")
	link := both.post(t, "/gates/"+gate+"/withdraw", form).want(t, http.StatusConflict).page(t).Find("#gate-panel .outcome a")
	if href, _ := link.Attr("href"); href != "/runs/"+run+"/cancel" || link.Text() != "Cancel the run" {
		t.Errorf("the way on is %q to %q", link.Text(), href)
	}
}

// A5, A6: who comes second is told who was first and when: an approval is kept as not needed, one after a request for changes
// approves nothing and leads to the request.
func TestTheSecondOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second, k := w.signedIn(t, ana), w.signedIn(t, ben), w.worker(t, "one")
	decide := func(verdict string) answer {
		w.signedIn(t, rita).submit(t, "Replace one word.")
		gate, _ := w.waiting(t, k)
		mine, late := first.gateForm(t, gate), second.gateForm(t, gate)
		mine.Set("verdict", verdict)
		mine.Set("text", "Name the test.")
		late.Set("verdict", "approve")
		first.post(t, "/gates/"+gate+"/decisions", mine).want(t, http.StatusSeeOther)
		return second.post(t, "/gates/"+gate+"/decisions", late, "HX-Request", "true")
	}
	if said := decide("approve").want(t, http.StatusOK).page(t).Find(".outcome").Text(); !strings.Contains(said, "Already approved by Ana Approver ") || !strings.Contains(said, " ago. Yours is recorded too; it was not needed.") {
		t.Errorf("the second approval: %s", said)
	}
	page := decide("request_changes").want(t, http.StatusConflict).page(t)
	said := page.Find(".outcome").Text()
	if href, _ := page.Find(".outcome a").Attr("href"); !strings.Contains(said, "Nothing was approved: Ana Approver requested changes ") || !strings.HasSuffix(href, "#decisions") || !strings.Contains(page.Find("#decisions").Text(), "Name the test.") {
		t.Errorf("an approval after a request for changes: %s, %q", said, href)
	}
}
