package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/wire"
)

// newFile is a patch's section that adds a file with lines.
func newFile(name string, lines ...string) string {
	return "diff --git a/" + name + " b/" + name + "\nnew file mode 100644\nindex " + strings.Repeat("0", 40) + ".." + strings.Repeat("2", 40) + "\n" +
		"--- /dev/null\n+++ b/" + name + fmt.Sprintf("\n@@ -0,0 +1,%d @@\n+", len(lines)) + strings.Join(lines, "\n+") + "\n"
}

// goneBinary is a patch's section that deletes a file of the bytes "\0\1\2\3\n": policy forbids to add one.
func goneBinary(name string) string {
	return "diff --git a/" + name + " b/" + name + "\ndeleted file mode 100644\nindex " + strings.Repeat("3", 40) + ".." + strings.Repeat("0", 40) + "\n" +
		"GIT binary patch\nliteral 0\nHcmV?d00001\n\nliteral 5\nMcmZQzWMbw50018V5dZ)H\n\n"
}

func repeated(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d", i+1)
	}
	return lines
}

// A26, R-UI-2: what the page does not show needs a tick for each reason before an approval counts; without it nothing is
// recorded and nothing is lost. Sending back and rejecting need none. Page and API alike.
// Field reports: buzz#4502, cadis#435, t3code#1534, automic-vault#157, agent-secret#247.
func TestWhatIsNotShownIsReviewedElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Change three files.")
	gate, run := w.waitingWith(t, w.worker(t, "one"), newFile("big.txt", repeated(3000)...)+goneBinary("logo.png")+newFile("odd.txt", "admin \u202e} begin"))
	b, c := w.signedIn(t, ana), w.cli(t, ana)
	path := "/gates/" + gate + "/decisions"

	page := b.get(t, "/gates/"+gate).want(t, http.StatusOK).page(t)
	want := []string{"too_large", "binary", "hidden_text"}
	if diff := cmp.Diff(want, values(page.Find("input[name=reviewed_elsewhere][required]"))); diff != "" {
		t.Errorf("ticks (-want +got): %s", diff)
	}
	if n := page.Find("button[formnovalidate]").Length(); n != 2 {
		t.Errorf("%d buttons go without the ticks, want 2", n)
	}
	form := b.gateForm(t, gate)
	form.Set("verdict", "approve")
	form.Set("text", "Mind <the> gap.")
	for name, ticked := range map[string][]string{"none": nil, "one": {"binary"}, "two": {"too_large", "binary"}, "nonsense": {"x", "too_large", "hidden_text"}} {
		form["reviewed_elsewhere"] = ticked
		for _, htmx := range []string{"", "true"} {
			a := b.post(t, path, form, "HX-Request", htmx).want(t, http.StatusUnprocessableEntity)
			doc := a.page(t)
			words := doc.Find("#gate-panel [role=alert]").Text()
			if !strings.Contains(words, "Nothing was approved: ") || !strings.Contains(words, " Tick that you reviewed them, or open them.") {
				t.Errorf("%s: the answer says %q", name, words)
			}
			if got := doc.Find("#f-text").Text(); got != "Mind <the> gap." {
				t.Errorf("%s: the text is now %q", name, got)
			}
			if got := values(doc.Find("input[name=reviewed_elsewhere][checked]")); len(got) != len(ticked) && name != "nonsense" {
				t.Errorf("%s: %v are still ticked, want %v", name, got, ticked)
			}
			if fragment := doc.Find("main").Length() == 0; fragment != (htmx != "") {
				t.Errorf("%s: answered with a fragment: %v", name, fragment)
			}
		}
	}
	if words := b.post(t, path, without(form, "reviewed_elsewhere")).page(t).Find("#e-elsewhere").Text(); strings.TrimSpace(words) != "Nothing was approved: 2 files were not shown, and 1 file has hidden characters. Tick that you reviewed them, or open them." {
		t.Errorf("the sentence is %q", words)
	}

	// The same by API: the gate says what is not shown, the approval names it.
	shown := into[wire.Gate](t, c.call(t, "GET", "/gates/"+gate, nil).want(t, http.StatusOK))
	var reasons []wire.NotShownReason
	for _, n := range shown.NotShown {
		reasons = append(reasons, n.Reason)
	}
	decide := wire.DecisionCreate{Verdict: wire.DecideApprove, Digest: shown.Digest, Revision: shown.Revision, ReviewedElsewhere: reasons[:len(reasons)-1]}
	if a := c.call(t, "POST", path, decide).want(t, http.StatusUnprocessableEntity); !strings.Contains(a.body, "not_shown") {
		t.Errorf("the API answers %s", a.body)
	}
	if g := into[wire.Gate](t, c.call(t, "GET", "/gates/"+gate, nil)); g.State != "open" || len(g.Decisions) != 0 {
		t.Fatalf("gate %s with %d decisions", g.State, len(g.Decisions))
	}

	// Whoever may not approve is told that, and a stale form that it is stale.
	if a := w.cli(t, vera).call(t, "POST", path, decide); a.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer: %d %s", a.StatusCode, a.body)
	}
	stale := without(form, "reviewed_elsewhere")
	stale.Set("digest", strings.Repeat("0", 64))
	b.post(t, path, stale).want(t, http.StatusConflict)

	form["reviewed_elsewhere"] = want
	b.post(t, path, form).want(t, http.StatusSeeOther)
	b.post(t, path, form).want(t, http.StatusSeeOther) // the same request again is the same answer (A7)
	if r := into[wire.Run](t, c.call(t, "GET", "/runs/"+run, nil)); r.State != "PR_CREATING" {
		t.Errorf("run %s", r.State)
	}
}

// A26: sending back needs no tick, by the page and by the API.
func TestSendingBackNeedsNoTick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Remove a picture.")
	gate, _ := w.waitingWith(t, w.worker(t, "one"), goneBinary("logo.png"))
	b := w.signedIn(t, ana)
	form := b.gateForm(t, gate)
	form.Set("verdict", "request_changes")
	form.Set("text", "Keep the picture.")
	b.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
}

// Rule 29 of the pages, 2.3: a file over the limit is loaded by itself, as a fragment and as a page, and that changes nothing
// about the tick. Views are in the address; the default shows every change.
// Field reports: vibe-kanban#838, isaacs/github#755.
func TestViewsOfAPatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Change two files.")
	indented := "diff --git a/a.txt b/a.txt\nindex " + strings.Repeat("1", 40) + ".." + strings.Repeat("2", 40) + " 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n-one\n-two\n+\tone\n+\ttwo\n+three\n"
	gate, _ := w.waitingWith(t, w.worker(t, "one"), indented+newFile("big.txt", repeated(2310)...))
	b := w.signedIn(t, ana)
	page := b.get(t, "/gates/"+gate).want(t, http.StatusOK).page(t)
	changed := func(doc *goquery.Document) int { return doc.Find("#file-1 tr.dadd, #file-1 tr.ddel").Length() }
	if n := changed(page); n != 5 {
		t.Errorf("%d changed lines are shown, want 5", n)
	}
	load := page.Find("#file-2 a[hx-get]")
	if words := load.Contents().First().Text(); words != "Load the diff (2,310 lines)" || page.Find("#file-2 tr").Length() != 0 {
		t.Errorf("the large file offers %q, with %d lines", words, page.Find("#file-2 tr").Length())
	}
	fragment := b.get(t, load.AttrOr("hx-get", ""), "HX-Request", "true").want(t, http.StatusOK).page(t)
	whole := b.get(t, load.AttrOr("href", "")).want(t, http.StatusOK).page(t)
	inspect(t, "the file's page", whole)
	for name, doc := range map[string]*goquery.Document{"fragment": fragment, "page": whole} {
		if n := doc.Find("#file-2 tr.dadd").Length(); n != 2310 || doc.Find("#file-2-R2310").Length() != 1 {
			t.Errorf("%s: %d lines", name, n)
		}
	}
	if fragment.Find("main").Length() != 0 || whole.Find("main").Length() != 1 {
		t.Error("the fragment is a page, or the page a fragment")
	}
	for _, path := range []string{"/files/0", "/files/3", "/files/x", "/files/-1", "/files/99999999999999999999"} {
		b.get(t, "/gates/"+gate+path).want(t, http.StatusNotFound)
		b.get(t, "/f/gates/"+gate+path).want(t, http.StatusNotFound)
	}

	doc := b.get(t, "/gates/"+gate+"?w=1&view=split").want(t, http.StatusOK).page(t)
	if words := doc.Find(".diff").Text(); !strings.Contains(words, "2 lines that differ only in white space are shown as unchanged.") {
		t.Errorf("the page does not count what it leaves out: %.400s", words)
	}
	if n := doc.Find("#file-1 .dsplit td.dcode.dadd, #file-1 .dsplit td.dcode.ddel").Length(); n != 1 {
		t.Errorf("%d changed lines side by side, want 1", n)
	}
	if got := values(doc.Find("input[name=reviewed_elsewhere]")); len(got) != 1 || got[0] != "too_large" {
		t.Errorf("the view changed the ticks to %v (A26)", got)
	}
	doc = b.get(t, "/gates/"+gate+"?q=A.TXT&ext=.txt&view=split").want(t, http.StatusOK).page(t)
	if n := doc.Find(".dfile").Length(); n != 1 || !strings.Contains(doc.Find(".diff").Text(), "1 file is hidden by the filter.") {
		t.Errorf("%d files are left, and the page says %.400s", n, doc.Find(".diff").Text())
	}
	if got := values(doc.Find("input[name=reviewed_elsewhere]")); len(got) != 1 || got[0] != "too_large" {
		t.Errorf("the filter changed the ticks to %v (A26)", got)
	}
	if kept := doc.Find(".diff form.filters input[type=hidden][name=view]").AttrOr("value", ""); kept != "split" {
		t.Errorf("the filter forgets the view: %q", kept)
	}
	doc = b.get(t, "/gates/"+gate+"?w=1&view=split").want(t, http.StatusOK).page(t)
	for _, link := range doc.Find(".diff-switches a").EachIter() {
		href := link.AttrOr("href", "")
		if (link.Text() == "Show one below the other") != strings.HasSuffix(href, "?w=1#diff") || (link.Text() == "Show changes of white space") != strings.HasSuffix(href, "?view=split#diff") {
			t.Errorf("%q leads to %s", link.Text(), href)
		}
	}
}

// 2.3, A14: a new revision offers what changed since the one before, above the whole patch; one that was only asked again
// has changed nothing.
func TestWhatChangedSinceARevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	k, b := w.worker(t, "one"), w.signedIn(t, ana)
	first, run := w.waitingWith(t, k, diff("a.txt", "two")+newFile("b.txt", "same"))
	form := b.gateForm(t, first)
	form.Set("verdict", "request_changes")
	form.Set("text", "Three.")
	b.post(t, "/gates/"+first+"/decisions", form).want(t, http.StatusSeeOther)
	k.claim(t, "execute").handIn(t, diff("a.txt", "three")+newFile("b.txt", "same"))
	k.claim(t, "verify").verify(t)
	gates := into[wire.GateList](t, w.cli(t, ana).call(t, "GET", "/gates?state=open&run_id="+run, nil).want(t, http.StatusOK)).Items
	if len(gates) != 1 || gates[0].Revision != 2 {
		t.Fatalf("gates %+v", gates)
	}
	page := b.get(t, "/gates/"+gates[0].Id).want(t, http.StatusOK).page(t)
	link := page.Find(".diff-switches a").FilterFunction(func(_ int, s *goquery.Selection) bool { return s.Text() == "What changed since revision 1" })
	if page.Find(".since").Length() != 0 || link.Length() != 1 {
		t.Fatalf("%d links to the comparison", link.Length())
	}
	page = b.get(t, link.AttrOr("href", "")).want(t, http.StatusOK).page(t)
	since := page.Find(".since")
	var lines []string
	for _, tr := range since.Find("tbody tr").EachIter() {
		lines = append(lines, strings.Join(strings.Fields(tr.Text()), " "))
	}
	if diff := cmp.Diff([]string{"gone+ addedtwo", "new+ addedthree"}, lines); diff != "" {
		t.Errorf("comparison (-want +got): %s", diff)
	}
	if words := since.Text(); !strings.Contains(words, "1 file is changed otherwise. 1 file is changed exactly as before.") || page.Find("#file-1 tr.dadd").Length() != 1 {
		t.Errorf("the page says %q, and shows %d lines of the patch", words, page.Find("#file-1 tr.dadd").Length())
	}
	for _, nothing := range []string{"2", "3", "0", "-1", "x"} {
		if b.get(t, "/gates/"+gates[0].Id+"?since="+nothing).want(t, http.StatusOK).page(t).Find(".since").Length() != 0 {
			t.Errorf("since=%s compares", nothing)
		}
	}

	// The time runs out and somebody asks again: revision 3 is the patch of revision 2.
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	got(conn.Exec(t.Context(), "UPDATE gates SET expires_at = clock_timestamp() - interval '1 second' WHERE state = 'open'"))(t)
	for _, due := range got(w.store.DueGates(t.Context(), uuid.Nil, 10))(t) {
		must(t, w.store.ExpireGate(t.Context(), due))
	}
	again := fields(b.get(t, "/gates/"+gates[0].Id).page(t).Find("form[action$='/reopen']"))
	b.post(t, "/gates/"+gates[0].Id+"/reopen", again).want(t, http.StatusSeeOther)
	for since, words := range map[string]string{"2": "Nothing: revision 3 makes exactly the change of revision 2.", "1": "1 file is changed otherwise."} {
		if got := b.get(t, "/gates/"+gates[0].Id+"?since="+since).want(t, http.StatusOK).page(t).Find(".since").Text(); !strings.Contains(got, words) {
			t.Errorf("since %s: %q", since, got)
		}
	}
}

func values(s *goquery.Selection) []string {
	return s.Map(func(_ int, s *goquery.Selection) string { return s.AttrOr("value", "") })
}

func without(v url.Values, field string) url.Values {
	out := url.Values{}
	for name, list := range v {
		if name != field {
			out[name] = list
		}
	}
	return out
}
