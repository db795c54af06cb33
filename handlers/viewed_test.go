package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"signalbox/internal/wire"
)

// ticked are the files of a page: "viewed", "changed" or "" by path.
func ticked(page *goquery.Document) map[string]string {
	all := map[string]string{}
	for _, f := range page.Find(".dfile").EachIter() {
		state := ""
		if f.Find("button[aria-pressed=true]").Length() == 1 {
			state = "viewed"
		}
		if strings.Contains(f.Find(".viewed").Text(), "changed since you viewed it") {
			state += "changed"
		}
		if _, open := f.Find("details").Attr("open"); open == (state == "viewed") {
			state += ", fold wrong"
		}
		all[f.AttrOr("aria-label", "")] = state
	}
	return all
}

func sameTicks(t *testing.T, what string, page *goquery.Document, count string, want map[string]string) {
	t.Helper()
	got := ticked(page)
	for path, state := range want {
		if got[path] != state {
			t.Errorf("%s: %s is %q, want %q", what, path, got[path], state)
		}
	}
	for _, id := range []string{"#viewed-count", "#viewed-files"} {
		if words := page.Find(id).Text(); words != count {
			t.Errorf("%s: %s says %q, want %q", what, id, words, count)
		}
	}
}

// 2.3: a file is ticked as viewed with one button that needs no script, for one person and for what the file changes: a new
// revision keeps the ticks of files that change the same and says of others that they changed. No decision needs a tick.
func TestViewedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	k, b := w.worker(t, "one"), w.signedIn(t, ana)
	first, run := w.waitingWith(t, k, diff("a.txt", "two")+newFile("b.txt", "same"))
	at := "/gates/" + first
	page := b.get(t, at).want(t, http.StatusOK).page(t)
	sameTicks(t, "at first", page, "0 of 2 viewed", map[string]string{"a.txt": "", "b.txt": ""})
	forms := map[int]url.Values{1: fields(page.Find("#viewed-1-form")), 2: fields(page.Find("#viewed-2-form"))}
	for n, address := range map[int]string{1: at + "/files/1/viewed", 2: at + "/files/2/viewed"} {
		a := b.post(t, address+"?view=split", forms[n]).want(t, http.StatusSeeOther)
		if to := a.Header.Get("Location"); to != at+"?view=split#file-"+map[int]string{1: "1", 2: "2"}[n] {
			t.Errorf("leads to %s", to)
		}
	}
	sameTicks(t, "ticked", b.get(t, at).page(t), "2 of 2 viewed", map[string]string{"a.txt": "viewed", "b.txt": "viewed"})
	sameTicks(t, "somebody else", w.signedIn(t, rita).get(t, at).page(t), "0 of 2 viewed", map[string]string{"a.txt": "", "b.txt": ""})

	// With a script the answer is the form and the counts, and nothing of the lines.
	back := fields(b.get(t, at).page(t).Find("#viewed-2-form"))
	answer := b.post(t, at+"/files/2/viewed", back, "HX-Request", "true").want(t, http.StatusOK)
	if strings.Contains(answer.body, "dtable") || !strings.Contains(answer.body, "1 of 2 viewed") || !strings.Contains(answer.body, `aria-pressed="false"`) {
		t.Errorf("the answer is %s", answer.body)
	}
	b.post(t, at+"/files/2/viewed", forms[2]).want(t, http.StatusSeeOther)

	// What is not on the page is not ticked.
	for _, n := range []string{"0", "3", "x", "-1"} {
		b.post(t, at+"/files/"+n+"/viewed", forms[1]).want(t, http.StatusNotFound)
	}
	b.post(t, at+"/files/2/viewed", forms[1]).want(t, http.StatusConflict)

	form := b.gateForm(t, first)
	form.Set("verdict", "request_changes")
	form.Set("text", "Three.")
	b.post(t, at+"/decisions", form).want(t, http.StatusSeeOther)
	k.claim(t, "execute").handIn(t, diff("a.txt", "three")+newFile("b.txt", "same"))
	k.claim(t, "verify").verify(t)
	gates := into[wire.GateList](t, w.cli(t, ana).call(t, "GET", "/gates?state=open&run_id="+run, nil).want(t, http.StatusOK)).Items
	if len(gates) != 1 {
		t.Fatalf("gates %+v", gates)
	}
	at = "/gates/" + gates[0].Id
	sameTicks(t, "the next revision", b.get(t, at).page(t), "1 of 2 viewed", map[string]string{"a.txt": "changed", "b.txt": "viewed"})

	// A comment that is being written is not put away.
	page = b.get(t, at+"?note=2-R1").page(t)
	if _, open := page.Find("#fold-2").Attr("open"); !open {
		t.Error("a field for a comment is put away")
	}
	form = b.gateForm(t, gates[0].Id)
	form.Set("verdict", "approve")
	b.post(t, at+"/decisions", form).want(t, http.StatusSeeOther)
	if r := into[wire.Run](t, w.cli(t, ana).call(t, "GET", "/runs/"+run, nil)); r.State != "PR_CREATING" {
		t.Errorf("run %s: an approval needed ticks", r.State)
	}
}
