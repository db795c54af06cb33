package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// 2.3, R-UI-2: a pull request shows lines around its changes as its gate did, by link and by script, in either view, and is
// merged as before. What the worker stored is shown only where git's own name of the old text is that of the stored one.
func TestLinesAroundAPull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain, forged := strings.Join(old("\n"), ""), strings.Join(old("\n"), "and more ")
	tree := ""
	for _, f := range [][2]string{{"a.txt", "one\n"}, {"forged.txt", forged}, {"plain.txt", plain}} {
		tree += "100644 blob " + w.gitIn(f[1], "--git-dir=acme/api.git", "hash-object", "-w", "--stdin") + "\t" + f[0] + "\n"
	}
	base := w.commit(w.gitIn(tree, "--git-dir=acme/api.git", "mktree"), "main", "second", baseCommit)
	patch := changed("forged.txt", "forged.txt", blob(forged), strings.SplitAfter(forged, "\n")) + changed("plain.txt", "plain.txt", blob(plain), old("\n"))
	w.signedIn(t, rita).submit(t, "Change line 30.")
	k, approver := w.worker(t, "one"), w.signedIn(t, ana)

	l := k.claim(t, "execute")
	l.do(t, wire.RunCommand{Command: wire.CmdStart})
	l.do(t, wire.RunCommand{Command: wire.CmdSandboxReady, SandboxReady: &wire.SandboxReady{Isolation: wire.Bwrap, BaseCommit: base}})
	l.do(t, wire.RunCommand{Command: wire.CmdContextReady, ContextReady: &wire.ContextReady{ArtifactId: l.store(t, wire.ArtifactKindContext, `{}`)}})
	l.do(t, wire.RunCommand{Command: wire.CmdPlanSubmitted, PlanSubmitted: &wire.PlanSubmitted{ArtifactId: l.store(t, wire.ArtifactKindPlan, planJSON)}})
	texts := fmt.Sprintf("%s blob %d\n%s\n%s blob %d\n%s\n", blob(plain), len(plain), plain, blob(forged), len(plain), plain)
	l.putNamed(t, wire.ArtifactKindBaseTexts, "before-"+sha(patch)[:16]+".txt", texts).want(t, http.StatusCreated)
	l.do(t, wire.RunCommand{Command: wire.CmdPatchSubmitted, PatchSubmitted: &wire.PatchSubmitted{
		ArtifactId: l.store(t, wire.ArtifactKindPatch, patch), BaseCommit: base, ResultTree: w.appliedTo(base, patch),
	}})
	k.claim(t, "verify").verify(t)
	gates := got(w.store.Gates(t.Context(), db.DefaultTenant, db.GateFilter{Run: got(typeid.Parse(typeid.Run, l.as.RunId))(t), Limit: 1}))(t)
	form := approver.gateForm(t, typeid.Format(typeid.Gate, gates[0].ID))
	form.Set("verdict", "approve")
	approver.post(t, "/gates/"+typeid.Format(typeid.Gate, gates[0].ID)+"/decisions", form).want(t, http.StatusSeeOther)
	k.claim(t, "publish").publish(t)
	pull := "/pulls/" + typeid.Format(typeid.Pull, got(w.store.Pulls(t.Context(), db.DefaultTenant, db.PullFilter{}))(t)[0].ID)

	page := approver.get(t, pull).want(t, http.StatusOK).page(t)
	offers := page.Find("#file-2 .dhunk a[hx-get]")
	said := offers.Map(func(_ int, a *goquery.Selection) string { return a.Text() })
	if d := cmp.Diff([]string{"Show 20 lines above, lines 7 to 26 of plain.txt", "Show all 26 lines, lines 1 to 26 of plain.txt", "Show 20 lines below, lines 35 to 54 of plain.txt", "Show all 27 lines, lines 35 to 61 of plain.txt"}, said); d != "" {
		t.Fatalf("what is offered (-want +got):\n%s", d)
	}
	if n := page.Find("#file-1 .dhunk a").Length(); n != 0 || page.Find("#file-1 .dhunk").Length() != 1 {
		t.Errorf("%d offers of lines that nobody knows for sure", n)
	}
	if href := offers.Eq(1).AttrOr("href", ""); href != pull+"?lines=2-1-26#file-2-R1" {
		t.Errorf("without a script all lines are at %q", href)
	}
	context := func(doc *goquery.Selection) []string {
		return doc.Find("tr.dctx").Map(func(_ int, tr *goquery.Selection) string {
			return tr.Find(".dno").Eq(0).AttrOr("data-n", "") + " " + tr.AttrOr("id", "") + " " + tr.Find("code").Text()
		})
	}
	loaded := approver.get(t, offers.Eq(1).AttrOr("hx-get", ""), "HX-Request", "true").want(t, http.StatusOK)
	loaded.body = "<table>" + loaded.body + "</table>" // where htmx puts it
	fragment := loaded.page(t)
	lines := context(fragment.Selection)
	if len(lines) != 26 || lines[1] != "2 file-2-R2 <script>alert(1)</script> hx-get=/x" || fragment.Find("tbody").AttrOr("data-focus", "") == "" {
		t.Errorf("the fragment has %q", lines)
	}
	whole := approver.get(t, offers.Eq(1).AttrOr("href", "")).want(t, http.StatusOK).page(t)
	inspect(t, "the pull request with lines around a change", whole)
	if d := cmp.Diff(lines, context(whole.Find("#file-2 tbody").First())); d != "" {
		t.Errorf("lines (-fragment +page):\n%s", d)
	}
	// What a loaded part still offers is on this page: single files have none here.
	step := approver.get(t, offers.Eq(0).AttrOr("hx-get", ""), "HX-Request", "true").want(t, http.StatusOK)
	step.body = "<table>" + step.body + "</table>"
	for _, a := range step.page(t).Find("a").EachIter() {
		if href := a.AttrOr("href", ""); !strings.HasPrefix(href, pull+"?lines=") {
			t.Errorf("the next step is %q", href)
		}
	}
	if n := step.page(t).Find("a").Length(); n == 0 {
		t.Error("nothing more is offered")
	}
	// Every step keeps the way to look at it, and the page stays the one that can be merged.
	split := approver.get(t, page.Find(".diff-switches a").First().AttrOr("href", "")).want(t, http.StatusOK).page(t)
	if href := split.Find("#file-2 .dhunk a[hx-get]").First().AttrOr("href", ""); split.Find("#file-2 .dsplit").Length() != 1 || href != pull+"?lines=2-7-26&view=split#file-2-R7" {
		t.Errorf("side by side the next step is %q", href)
	}
	for _, nothing := range []string{"1/lines?from=1&to=26", "2/lines?from=20&to=40", "2/lines", "0/lines?from=1&to=1", "3/lines?from=1&to=1", "x/lines?from=1&to=1"} {
		approver.get(t, "/f"+pull+"/files/"+nothing).want(t, http.StatusNotFound)
	}
	merge := fields(whole.Find("form[action$='/merge']"))
	approver.post(t, pull+"/merge", merge).want(t, http.StatusSeeOther)
	approver.get(t, "/f"+pull+"/files/2/lines?from=1&to=26").want(t, http.StatusNotFound)
}
