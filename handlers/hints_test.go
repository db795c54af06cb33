package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/run"
)

// hinted are the hints that a page shows.
func hinted(page *goquery.Document) string {
	return strings.Join(page.Find("[data-hint]").Map(func(_ int, s *goquery.Selection) string { return s.AttrOr("data-hint", "") }), " ")
}

// ux.md 2.0: whoever comes to an empty installation is told the next step that they may take, until it was taken or they put the hint
// away, for themselves alone.
func TestFirstHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, asker, approver, other, viewer := w.signedIn(t, adam), w.signedIn(t, rita), w.signedIn(t, ana), w.signedIn(t, ben), w.signedIn(t, vera)
	want := func(b *browser, path, hints string) *goquery.Document {
		t.Helper()
		page := b.get(t, path).want(t, http.StatusOK).page(t)
		if got := hinted(page); got != hints {
			t.Errorf("%s hints at %q, want %q", path, got, hints)
		}
		return page
	}
	putAway := func(b *browser, page *goquery.Document, hint string) string {
		t.Helper()
		return b.post(t, "/hints/dismiss", fields(page.Find(`[data-hint="`+hint+`"] form`))).want(t, http.StatusSeeOther).Header.Get("Location")
	}

	w.sql(t, "DELETE FROM repositories")
	want(admin, "/inbox", "repository worker")
	want(asker, "/inbox", "")
	repo := got(w.store.CreateRepository(t.Context(), db.DefaultTenant, uuid.Nil, db.RepositoryInfo{
		Name: "acme/api", Forge: db.LocalForge, CloneURL: "acme/api.git", DefaultBranch: "main", Verification: []run.Check{{Name: "test", Kind: "test", Argv: []string{"true"}}},
	}))(t)
	w.repo = repo.ID

	page := want(admin, "/inbox", "worker task")
	if text := page.Find(`[data-hint=worker] pre`).Text(); !strings.Contains(text, "SIGNALBOX_SERVER_URL="+w.url+" ") {
		t.Errorf("the hint starts a worker by %q", text)
	}
	for _, b := range []*browser{approver, viewer} {
		want(b, "/inbox", "")
		want(b, "/workers", "")
	}
	if at := putAway(admin, want(admin, "/workers", "worker"), "worker"); at != "/workers" {
		t.Errorf("put away, one is at %s", at)
	}
	want(admin, "/workers", "")
	page = want(admin, "/inbox", "task")
	for range 2 {
		putAway(admin, page, "task")
	}
	want(admin, "/inbox", "")
	want(asker, "/inbox", "task")
	asker.post(t, "/hints/dismiss", url.Values{"hint": {"everything"}}).want(t, http.StatusUnprocessableEntity)
	if at := asker.post(t, "/hints/dismiss", url.Values{"hint": {"worker"}, "return_to": {"//evil.example"}}).want(t, http.StatusSeeOther).Header.Get("Location"); at != "/" {
		t.Errorf("back is %s", at)
	}

	asker.submit(t, "Replace one word.")
	want(asker, "/inbox", "")
	k := w.worker(t, "one")
	gate, _ := w.waiting(t, k)
	want(asker, "/gates/"+gate, "")
	want(viewer, "/gates/"+gate, "")
	page = want(other, "/gates/"+gate, "gate")
	putAway(other, page, "gate")
	want(other, "/gates/"+gate, "")
	want(approver, "/gates/"+gate, "gate")
	form := approver.gateForm(t, gate)
	form.Set("verdict", "reject")
	form.Set("text", "Not now.")
	approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	asker.submit(t, "Replace another word.")
	gate, _ = w.waiting(t, k)
	want(approver, "/gates/"+gate, "")
}
