package handlers_test

import (
	"crypto/sha1" //nolint:gosec // git's own names of objects
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

func blob(text string) string {
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// old is a text of 60 lines, some of them hostile.
func old(end string) []string {
	var lines []string
	for n := 1; n <= 60; n++ {
		lines = append(lines, fmt.Sprintf("line %d%s", n, end))
	}
	lines[1], lines[57] = "<script>alert(1)</script> hx-get=/x"+end, "hid\u202eden"+end
	lines[40] = strings.Repeat("long", 900) + end
	return lines
}

// changed is the patch that replaces line 30 of a text.
func changed(from, to, name string, lines []string) string {
	head := "diff --git a/" + from + " b/" + to + "\n"
	if from != to {
		head += "similarity index 90%\nrename from " + from + "\nrename to " + to + "\n"
	}
	return head + "index " + name + ".." + strings.Repeat("2", 40) + " 100644\n--- a/" + from + "\n+++ b/" + to + "\n" +
		"@@ -27,7 +27,8 @@\n " + strings.Join(lines[26:29], " ") + "-" + lines[29] + "+thirty" + lines[0][len("line 1"):] + "+and one" + lines[0][len("line 1"):] + " " + strings.Join(lines[30:33], " ")
}

// putNamed stores an artifact under a name of one's own.
func (l *lease) putNamed(t testing.TB, kind wire.ArtifactKind, name, content string) answer {
	t.Helper()
	q := url.Values{"kind": {string(kind)}, "name": {name}, "sha256": {sha(content)}, "lease_id": {l.as.LeaseId}, "fencing_token": {strconv.FormatInt(l.as.FencingToken, 10)}}
	return l.call(t, "POST", "/runs/"+l.as.RunId+"/artifacts?"+q.Encode(), content, "Content-Type", "application/octet-stream")
}

// 2.3, R-UI-2: lines around a change are shown where they are known for sure, by link and by script, on both sides of the page,
// and change nothing about what is decided. What a worker stored is hostile.
func TestLinesAroundAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Change line 30.")
	k := w.worker(t, "one")
	plain, crlf, forged := old("\n"), old("\r\n"), old("\n")
	forged[0] = "forged\n"
	noEnd := append(old("\n")[:59:59], "line 60")
	text := func(lines []string) string { return strings.Join(lines, "") }
	forgedOf := old("\n")
	forgedOf[0] = "what it was\n"
	patch := changed("plain.txt", "plain.txt", blob(text(plain)), plain) + changed("crlf.txt", "crlf.txt", blob(text(crlf)), crlf) +
		changed("no-end.txt", "no-end.txt", blob(text(noEnd)), noEnd) + changed("before.txt", "renamed.txt", blob(text(plain)), plain) +
		changed("forged.txt", "forged.txt", blob(text(forgedOf)), forgedOf) + changed("large.txt", "large.txt", blob("left out"), plain) +
		goneBinary("logo.png") + newFile("new.txt", "one")
	base := ""
	for _, lines := range [][]string{plain, crlf, noEnd} {
		base += fmt.Sprintf("%s blob %d\n%s\n", blob(text(lines)), len(text(lines)), text(lines))
	}
	base += fmt.Sprintf("%s blob %d\n%s\n", blob(text(forgedOf)), len(text(forged)), text(forged))

	l := k.claim(t, "execute")
	l.plan(t)
	l.putNamed(t, wire.ArtifactKindBaseTexts, "before-"+sha(patch)[:16]+".txt", base).want(t, http.StatusCreated)
	l.putNamed(t, wire.ArtifactKindBaseTexts, "before-"+sha("another")[:16]+".txt", "of another patch").want(t, http.StatusCreated)
	l.putNamed(t, wire.ArtifactKindBaseTexts, "before-x.txt", strings.Repeat("x", 9<<20)).want(t, http.StatusRequestEntityTooLarge)
	l.handIn(t, patch)
	k.claim(t, "verify").verify(t)
	gates := got(w.store.Gates(t.Context(), db.DefaultTenant, db.GateFilter{Run: got(typeid.Parse(typeid.Run, l.as.RunId))(t), Limit: 1}))(t)
	gate := typeid.Format(typeid.Gate, gates[0].ID)
	b := w.signedIn(t, ana)

	page := b.get(t, "/gates/"+gate).want(t, http.StatusOK).page(t)
	offers := func(doc *goquery.Selection) []string {
		return doc.Find(".dhunk a[hx-get]").Map(func(_ int, a *goquery.Selection) string { return a.Text() })
	}
	want := func(name string) []string {
		return []string{"Show 20 lines above, lines 7 to 26 of " + name, "Show all 26 lines, lines 1 to 26 of " + name, "Show 20 lines below, lines 35 to 54 of " + name, "Show all 27 lines, lines 35 to 61 of " + name}
	}
	for i, name := range []string{"plain.txt", "crlf.txt", "no-end.txt", "renamed.txt", "", "", "", ""} {
		file := page.Find(fmt.Sprintf("#file-%d", i+1))
		wanted := []string{}
		if name != "" {
			wanted = want(name)
		}
		if d := cmp.Diff(wanted, offers(file)); d != "" || file.Length() != 1 {
			t.Errorf("file %d, %s (-want +got):\n%s", i+1, name, d)
		}
	}

	all := page.Find("#file-1 .dhunk a[hx-get]").Eq(1)
	context := func(doc *goquery.Selection) []string {
		return doc.Find("tr.dctx").Map(func(_ int, tr *goquery.Selection) string {
			return tr.Find(".dno").Eq(0).AttrOr("data-n", "") + " " + tr.AttrOr("id", "") + " " + tr.Find("code").Text()
		})
	}
	answered := b.get(t, all.AttrOr("hx-get", ""), "HX-Request", "true").want(t, http.StatusOK)
	answered.body = "<table>" + answered.body + "</table>" // where htmx puts it
	fragment := answered.page(t)
	lines := context(fragment.Selection)
	if len(lines) != 26 || lines[1] != "2 file-1-R2 <script>alert(1)</script> hx-get=/x" || lines[25] != "26 file-1-R26 line 26" || fragment.Find("main, a").Length() != 0 {
		t.Errorf("the fragment has %q", lines)
	}
	if shown := fragment.Find("tbody"); shown.Length() != 1 || shown.AttrOr("data-focus", "") != shown.AttrOr("id", "none") || shown.AttrOr("aria-label", "") != "Lines 1 to 26" {
		t.Errorf("the focus goes to %q", shown.AttrOr("data-focus", ""))
	}
	whole := b.get(t, all.AttrOr("href", "")).want(t, http.StatusOK).page(t)
	inspect(t, "the gate with lines around a change", whole)
	if d := cmp.Diff(lines, context(whole.Find("#file-1 tbody").First())); d != "" {
		t.Errorf("lines (-fragment +page):\n%s", d)
	}
	if whole.Find("#file-1 tbody").First().Find("a[data-line], a[hx-get]").Length() != 0 || !strings.HasSuffix(all.AttrOr("href", ""), "lines=1-1-26#file-1-R1") {
		t.Errorf("shown lines take comments, or %s leads elsewhere", all.AttrOr("href", ""))
	}
	if whole.Find("#file-1 script, #file-1 [hx-get='/x']").Length() != 0 {
		t.Error("text became markup")
	}
	same := func(what string) {
		t.Helper()
		if d := cmp.Diff(page.Find(what).Text(), whole.Find(what).Text()); d != "" {
			t.Errorf("%s (-before +with lines):\n%s", what, d)
		}
	}
	same("#file-1 .dfile-head")
	same(".elsewhere")
	if got, want := whole.Find("input[name=digest]").AttrOr("value", "-"), page.Find("input[name=digest]").AttrOr("value", "+"); got != want {
		t.Errorf("digest %s, was %s", got, want)
	}

	// Step by step, from the end of the hunk on; every link keeps what is shown, and the way to look at it.
	doc := b.get(t, "/gates/"+gate+"?view=split&w=1").want(t, http.StatusOK).page(t)
	doc = b.get(t, doc.Find("#file-2 .dhunk a[hx-get]").Eq(2).AttrOr("href", "")).want(t, http.StatusOK).page(t)
	if got := offers(doc.Find("#file-2")); len(got) != 3 || got[2] != "Show all 7 lines, lines 55 to 61 of crlf.txt" {
		t.Errorf("after one step: %q", got)
	}
	doc = b.get(t, doc.Find("#file-2 .dhunk a[hx-get]").Eq(2).AttrOr("href", "")).want(t, http.StatusOK).page(t)
	row := doc.Find("#file-2-R59").Parent()
	if n := row.Find("td"); n.Eq(0).AttrOr("data-n", "") != "58" || n.Eq(2).AttrOr("data-n", "") != "59" || n.Eq(1).Text() != n.Eq(3).Text() || row.Find(".hid").First().Text() != "U+202E" {
		t.Errorf("side by side: %s", got(goquery.OuterHtml(row))(t))
	}
	if n := doc.Find("#file-2-R42").Parent().Find("code").First(); !strings.HasSuffix(n.Text(), "line cut here") || len(n.Text()) > 2100 {
		t.Errorf("a long line has %d characters", len(n.Text()))
	}
	if doc.Find("#file-2 .dend").Length() != 0 {
		t.Error("the ends of unchanged lines are remarked upon")
	}

	// The file's own page, and one without a newline at its end.
	alone := b.get(t, "/gates/"+gate+"/files/3?lines=3-55-61").want(t, http.StatusOK).page(t)
	if n := alone.Find("#file-3 .dnote"); n.Length() != 1 || n.Prev().AttrOr("id", "") != "file-3-R61" {
		t.Errorf("%d lines end their file without a newline", n.Length())
	}
	if href := alone.Find("#file-3 .dhunk a[hx-get]").Last().AttrOr("href", ""); href != "/gates/"+gate+"/files/3?lines=3-35-61#file-3-R35" {
		t.Errorf("from the file's page %q", href)
	}

	for _, nothing := range []string{"5/lines?from=1&to=26", "6/lines?from=1&to=26", "7/lines?from=1&to=1", "1/lines?from=20&to=40", "1/lines?from=27&to=30", "1/lines", "1/lines?from=26&to=1", "0/lines?from=1&to=1", "9/lines?from=1&to=1", "x/lines?from=1&to=1", "1/lines?from=35&to=62"} {
		b.get(t, "/f/gates/"+gate+"/files/"+nothing).want(t, http.StatusNotFound)
	}
	for lines, n := range map[string]int{"x": 0, "1-0-3": 0, "1-5-4": 0, "9-1-2": 0, "1-28-29": 0, "1-1": 0, "5-1-26": 0, strings.Repeat("1-1-1.", 60) + "1-2-2": 1, "1-2-99999999999.1-1-1": 53} {
		doc := b.get(t, "/gates/"+gate+"?lines="+lines).want(t, http.StatusOK).page(t)
		if shown := doc.Find("#file-5 tr.dctx, #file-1 tr.dctx").Length(); shown != 12+n {
			t.Errorf("lines=%.20s shows %d lines", lines, shown)
		}
	}

	// All is read when the first part of the page is sent: what is gone by then is shown all the same.
	cut := &flushed{ResponseRecorder: httptest.NewRecorder(), first: func() { must(t, os.RemoveAll(w.blobs)) }}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/gates/"+gate+"?lines=1-1-26", nil)
	for _, c := range b.Jar.Cookies(r.URL) {
		r.AddCookie(c)
	}
	w.app.ServeHTTP(cut, r)
	whole = answer{cut.Result(), cut.Body.String()}.want(t, http.StatusOK).page(t)
	if n := whole.Find("#file-1 tr.dctx").Length(); n != 6+26 || cut.first != nil {
		t.Errorf("%d lines are shown, and the page was sent in parts: %v", n, cut.first == nil)
	}
}

// flushed is an answer that does something when its first part is sent.
type flushed struct {
	*httptest.ResponseRecorder
	first func()
}

// Flush implements http.Flusher.
func (f *flushed) Flush() {
	if f.first != nil {
		f.first()
		f.first = nil
	}
}
