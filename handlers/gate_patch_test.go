package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"

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
