package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/wire"
)

// U7: what a person writes is kept for them alone, comes back with the page, can be discarded, and ends with what was made
// from it.
func TestDrafts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester := w.signedIn(t, rita)
	requester.submit(t, "Replace one word.")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	approver, colleague := w.signedIn(t, ana), w.signedIn(t, ben)
	key, hostile := "gate:"+gate, "</textarea><script>alert(1)</script>\n& more"
	keep := func(b *browser, key, text string, code int) {
		t.Helper()
		b.post(t, "/drafts/"+key, url.Values{"text": {text}}).want(t, code)
	}
	shown := func(b *browser) (text, note string) {
		t.Helper()
		page := b.get(t, "/gates/"+gate).want(t, http.StatusOK).page(t)
		return page.Find("#f-text").Text(), strings.TrimSpace(page.Find(".kept:not([hidden]) span").Text())
	}
	if text, note := shown(approver); text != "" || note != "" {
		t.Errorf("before anything was written: %q, %q", text, note)
	}
	keep(approver, key, hostile, http.StatusNoContent)
	if text, note := shown(approver); text != hostile || !strings.HasPrefix(note, "Your text of ") || !strings.HasSuffix(note, " UTC was kept.") {
		t.Errorf("kept: %q, %q", text, note)
	}
	if text, note := shown(colleague); text != "" || note != "" {
		t.Errorf("a colleague sees %q, %q", text, note)
	}

	// A refused decision shows what was posted, and keeps what was kept.
	form := approver.gateForm(t, gate)
	form.Set("digest", "0")
	form.Set("verdict", "approve")
	form.Set("text", "newer")
	refused := approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusConflict).page(t)
	if got := refused.Find("#f-text").Text(); got != "newer" || refused.Find(".kept:not([hidden])").Length() != 0 {
		t.Errorf("after a refusal: %q", got)
	}
	if text, _ := shown(approver); text != hostile {
		t.Errorf("after a refusal is kept: %q", text)
	}

	discard, ok := approver.get(t, "/gates/"+gate).page(t).Find("form[data-discards]").Attr("action")
	if !ok {
		t.Fatal("the kept text cannot be discarded")
	}
	colleague.post(t, discard, url.Values{}).want(t, http.StatusSeeOther)
	if text, _ := shown(approver); text != hostile {
		t.Error("somebody else discarded it")
	}
	if at := approver.post(t, discard, url.Values{}).want(t, http.StatusSeeOther).Header.Get("Location"); !strings.HasPrefix(at, "/gates/"+gate) {
		t.Errorf("discarding leads to %s", at)
	}
	if text, note := shown(approver); text != "" || note != "" {
		t.Errorf("after discarding: %q, %q", text, note)
	}

	keep(approver, key, "Again.", http.StatusNoContent)
	form = approver.gateForm(t, gate)
	form.Set("verdict", "reject")
	form.Set("text", "Again.")
	approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	if page := approver.get(t, "/gates/"+gate).page(t); page.Find("textarea").Length() != 0 {
		t.Error("the text of a decision is shown as not sent")
	}
	keep(approver, key, "Too late.", http.StatusGone)
}

// A key names a form of ours: nobody stores anything else, or more than the form takes, or for another tenant's gate.
func TestDraftKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester := w.signedIn(t, rita)
	task := strings.TrimPrefix(requester.submit(t, "Replace one word."), "/tasks/")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	for key, code := range map[string]int{
		"gate:" + gate: 204, "gate:" + gate + ":1:1": 204, "gate:" + gate + ":1:100": 204, "task:new": 204, "task:" + task: 204,
		"gate:" + gate + ":1:101": 404, "gate:" + gate + ":1:0": 404, "gate:" + gate + ":9:1": 404, "gate:" + gate + ":1:01": 404, "gate:" + gate + ":1:1:1": 404,
		"gate:" + gate + ":": 404, "gate:" + gate + ":x": 404, "gate:" + task: 404, "task:" + gate: 404, "task:": 404, "task:new:1": 404, "other": 404, "gate": 404,
		"gate:" + another(gate): 404, "task:" + another(task): 404,
	} {
		if a := requester.post(t, "/drafts/"+key, url.Values{"text": {"x"}}); a.StatusCode != code && !(code == 404 && a.StatusCode == 422) {
			t.Errorf("%s: %d, want %d", key, a.StatusCode, code)
		}
	}
	for key, most := range map[string]int{"gate:" + gate: 20000, "gate:" + gate + ":1:1": 2000, "task:new": 50000} {
		requester.post(t, "/drafts/"+key, url.Values{"text": {strings.Repeat("ä", most/2) + strings.Repeat("a", most-most/2)}}).want(t, http.StatusNoContent)
		requester.post(t, "/drafts/"+key, url.Values{"text": {strings.Repeat("a", most+1)}}).want(t, http.StatusRequestEntityTooLarge)
	}
	requester.post(t, "/drafts/task:new", url.Values{"text": {strings.Repeat("a", 1<<20)}}).want(t, http.StatusRequestEntityTooLarge)
	requester.post(t, "/drafts/task:new", url.Values{"text": {"\x00"}}).want(t, http.StatusUnprocessableEntity)
	requester.post(t, "/drafts/task:new", url.Values{"text": {"x"}}, "Sec-Fetch-Site", "cross-site").want(t, http.StatusForbidden)
	w.browser().post(t, "/drafts/task:new", url.Values{"text": {"x"}}).want(t, http.StatusUnauthorized)
}

// another gives a well-formed id that differs from id in its last letter, whatever that is.
func another(id string) string {
	last := "0"
	if strings.HasSuffix(id, last) {
		last = "1"
	}
	return id[:len(id)-1] + last
}

// U7: the goal of a new task is kept, for each task that it was filled from, and ends with the submission.
func TestDraftOfATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	task := strings.TrimPrefix(b.submit(t, "Replace one word."), "/tasks/")
	from := "/tasks/new?from=" + task
	goal := func(page string) string {
		t.Helper()
		return b.get(t, page).want(t, http.StatusOK).page(t).Find("#f-goal").Text()
	}
	b.post(t, "/drafts/task:new", url.Values{"text": {"A new goal."}}).want(t, http.StatusNoContent)
	if goal("/tasks/new") != "A new goal." || goal(from) != "Replace one word." {
		t.Errorf("kept: %q, %q", goal("/tasks/new"), goal(from))
	}
	b.post(t, "/drafts/task:"+task, url.Values{"text": {"Replace two words."}}).want(t, http.StatusNoContent)
	if goal(from) != "Replace two words." {
		t.Errorf("kept: %q", goal(from))
	}
	if at := b.post(t, "/drafts/task:"+task+"/discard", url.Values{}).want(t, http.StatusSeeOther).Header.Get("Location"); at != from+"&done=draft-discarded" {
		t.Errorf("discarding leads to %s", at)
	}
	// A refused submission keeps the key; the one that is taken ends the draft.
	refused := b.post(t, "/tasks", url.Values{"draft": {"task:new"}, "goal": {"Posted."}, "idempotency_key": {"key-0123456789abcdef"}}).want(t, http.StatusUnprocessableEntity).page(t)
	if key, _ := refused.Find("#f-goal").Attr("data-draft"); key != "task:new" || refused.Find("#f-goal").Text() != "Posted." {
		t.Errorf("refused: %q, %q", key, refused.Find("#f-goal").Text())
	}
	b.submit(t, "A new goal.", "draft", "task:new")
	if goal("/tasks/new") != "" {
		t.Errorf("after the submission: %q", goal("/tasks/new"))
	}
}

// A25: a decision that comes after the session ended decides nothing and loses no text; nothing of it is stored, because
// nobody knows for certain whose it was.
func TestNoTextIsLostWithTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	gate, run := w.waiting(t, w.worker(t, "one"))
	approver := w.signedIn(t, ana)
	form := approver.gateForm(t, gate)
	form.Set("verdict", "reject")
	form.Set("text", "Because </textarea>.")
	w.sql(t, "DELETE FROM sessions")
	plain := approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusUnauthorized)
	if page := plain.page(t); page.Find("textarea").Text() != "Because </textarea>." || !strings.Contains(page.Find("main").Text(), "Nothing was done") ||
		page.Find(`main a[href="/login?why=ended&return_to=%2Fgates%2F`+gate+`"]`).Length() != 1 {
		t.Errorf("the plain answer: %s", page.Find("main").Text())
	}
	htmx := approver.post(t, "/gates/"+gate+"/decisions", form, "HX-Request", "true", "HX-Current-URL", w.url+"/gates/"+gate).want(t, http.StatusUnauthorized)
	if htmx.Header.Get("HX-Retarget") != "#session-banner" || !strings.Contains(htmx.body, "Nothing was decided") || !strings.Contains(htmx.body, `href="/login?return_to=%2Fgates%2F`+gate+`"`) {
		t.Errorf("the fragment: %v %s", htmx.Header, htmx.body)
	}
	goal := approver.post(t, "/tasks", url.Values{"draft": {"task:new"}, "goal": {"A goal."}}).want(t, http.StatusUnauthorized).page(t)
	if goal.Find("textarea").Text() != "A goal." || goal.Find(`main a[href$="return_to=%2Ftasks%2Fnew"]`).Length() != 1 {
		t.Errorf("a new task: %s", goal.Find("main").Text())
	}
	// Another site makes nobody read its words here.
	if a := approver.post(t, "/tasks", url.Values{"goal": {"Trust me."}}, "Sec-Fetch-Site", "cross-site").want(t, http.StatusForbidden); strings.Contains(a.body, "Trust me") {
		t.Error("a foreign form is shown")
	}
	approver = w.signedIn(t, ana)
	if text := approver.get(t, "/gates/"+gate).page(t).Find("#f-text").Text(); text != "" {
		t.Errorf("stored without a login: %q", text)
	}
	if r := into[wire.Run](t, w.cli(t, ana).call(t, "GET", "/runs/"+run, nil)); r.State != "WAITING_FOR_APPROVAL" {
		t.Errorf("run %s", r.State)
	}
}

// sql runs a statement as the database's owner.
func (w *world) sql(t *testing.T, statement string) {
	t.Helper()
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	_, err := conn.Exec(t.Context(), statement)
	must(t, err)
}

func (w *world) draftsOf(t *testing.T, p idPerson, key string) db.DraftKey {
	t.Helper()
	s := w.user(t, p)
	return db.DraftKey{Tenant: s.Tenant, User: s.User, Key: key}
}
