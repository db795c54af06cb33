package web_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"golang.org/x/net/html"

	"signalbox/internal/patch"
	"signalbox/web"
)

// documents are all pages as they are sent, by the name of their golden file.
func documents(t *testing.T) map[string]*goquery.Document {
	t.Helper()
	all := map[string]*goquery.Document{}
	for name, page := range pages(t) {
		all[name] = got(goquery.NewDocumentFromReader(strings.NewReader(render(t, page))))(t)
	}
	return all
}

// having are the elements that carry an attribute.
func having(doc *goquery.Document, name string) *goquery.Selection {
	return doc.Find("*").FilterFunction(func(_ int, s *goquery.Selection) bool { return has(s.Get(0), name) })
}

var replaced = regexp.MustCompile(`hx-target="(#[\w-]+)"`)

// What is shown changes by one mechanism alone, the stream: a list with boxes to tick is never loaded again by itself, so no selection
// is lost, and on a page that is live nothing that somebody fills in stands where a message goes.
// Field reports: stroom#2393, airflow#26173, airflow#50000, riverui#495.
func TestNothingIsRefreshedBesidesTheStream(t *testing.T) {
	t.Parallel()
	docs := documents(t)
	regions := replaced.FindAllStringSubmatch(render(t, web.RunLive(web.RunLiveData{Panel: web.RunPanelData{Run: sampleRun(), Now: now}, Facts: sampleFacts(), Rows: sampleTimeline(), Stage: "Waiting"}))+
		render(t, web.GateLive(web.GateNoticeData{GateID: gateID, Revision: 3, Shown: 2, Now: now}))+
		render(t, web.InboxLive(web.InboxLiveData{New: 1, Rows: map[string]string{gateID: "It was approved."}}))+`hx-target="#log-state" hx-target="#log-lines" hx-target="#log-open"`, -1)
	if len(regions) < 10 {
		t.Fatalf("messages go to %v", regions)
	}
	for name, doc := range docs {
		streams := having(doc, "hx-sse:connect").Length()
		if chips := doc.Find("#live").Length(); streams > 1 || streams != chips {
			t.Errorf("%s: %d streams and %d chips that say how they are", name, streams, chips)
		}
		for _, e := range having(doc, "hx-trigger").EachIter() {
			if when := e.AttrOr("hx-trigger", ""); regexp.MustCompile(`\b(every|load|revealed|intersect)\b`).MatchString(when) {
				t.Errorf("%s: something is loaded by itself: %s", name, when)
			}
		}
		for _, attribute := range []string{"http-equiv", "hx-push-url", "hx-replace-url", "hx-boost"} {
			if n := having(doc, attribute).Length(); n > 0 {
				t.Errorf("%s: %d elements with %s", name, n, attribute)
			}
		}
		if streams > 0 {
			for _, region := range regions {
				if n := doc.Find(region[1]).Find("input, textarea, select, form").Length(); n > 0 {
					t.Errorf("%s: %d fields and forms stand in %s, which messages replace", name, n, region[1])
				}
			}
		}
	}
	for name, live := range map[string]bool{"run_waiting": true, "gate_patch": true, "log_live": true, "inbox": true, "runs": false, "tasks": false} {
		if ticks := docs[name].Find("main input[type=checkbox]").Length(); docs[name].Find("#stream").Length() == 1 != live || ticks == 0 && (!live || name == "inbox") {
			t.Errorf("%s: live is %t, or there is nothing to tick", name, !live)
		}
	}
}

// Nothing that ticks is read aloud: no age, bar, log or timeline stands in a region that a screen reader follows.
// Field reports: owncast#3334, astryx PR#4384.
func TestNothingTicksAloud(t *testing.T) {
	t.Parallel()
	seen := 0
	loud := func(n *html.Node) bool {
		role := attr(n, "role")
		return has(n, "aria-live") && attr(n, "aria-live") != "off" || role == "status" || role == "alert" || role == "log" || role == "timer" || role == "marquee"
	}
	for name, doc := range documents(t) {
		for _, e := range having(doc, "data-ago").AddSelection(doc.Find("progress, #timeline-rows, #log-box, #log-lines, #live, .statepanel")).EachIter() {
			seen++
			for n := e.Get(0); n != nil; n = n.Parent {
				if n.Type == html.ElementNode && loud(n) {
					t.Errorf("%s: %s %q stands in a region that is read aloud", name, e.Get(0).Data, e.AttrOr("id", e.AttrOr("class", "")))
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d things that tick were found", seen)
	}
}

// A control that does nothing is not there: it is absent with the reason in words, never grey without one. What decides is called the
// same on every page, for the same kind of gate.
// Field reports: argo-cd#19105, rollout-extension#84, argo-rollouts#4413.
func TestControlsWorkAndKeepTheirNames(t *testing.T) {
	t.Parallel()
	names := map[string]map[string]bool{}
	call := func(what, words string) {
		if names[what] == nil {
			names[what] = map[string]bool{}
		}
		names[what][strings.Join(strings.Fields(words), " ")] = true
	}
	for name, doc := range documents(t) {
		if name == "gallery" { // it shows a button that was just pressed
			continue
		}
		if n := doc.Find("[disabled], [aria-disabled=true]").Length(); n > 0 {
			t.Errorf("%s: %d controls do nothing", name, n)
		}
		for _, b := range doc.Find("button[name=verdict]").EachIter() {
			if verdict := b.AttrOr("value", ""); verdict != "approve" {
				call(verdict, b.Text())
			}
		}
		for _, a := range doc.Find(`#run-panel a[href$="/cancel"]`).EachIter() {
			call("ask to cancel", a.Text())
		}
		for _, b := range doc.Find("#pause").EachIter() {
			call("pause", b.Text())
		}
	}
	for _, what := range []string{"request_changes", "reject", "ask to cancel", "pause"} {
		if len(names[what]) != 1 {
			t.Errorf("%s is called %v", what, names[what])
		}
	}
}

// A patch is never said to be empty because it is large, filtered or not to be read here: each has words of its own, and the list of
// files has all of them.
// Field report: vibe-kanban#1375.
func TestAPatchIsOnlyEmptyWhenItIs(t *testing.T) {
	t.Parallel()
	const empty = "This patch changes no file."
	show := func(text string, o web.DiffOptions) *goquery.Document {
		p := got(patch.Parse([]byte(text), 1<<20))(t)
		return got(goquery.NewDocumentFromReader(strings.NewReader(render(t, web.DiffSection(*web.NewDiffView(p.Render(web.InlineBounds()), o))))))(t)
	}
	files := func(lines int) string {
		var all strings.Builder
		for i := range 150 {
			fmt.Fprintf(&all, "diff --git a/f%d.txt b/f%d.txt\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n+++ b/f%d.txt\n@@ -0,0 +1,%d @@\n%s", i, i, i, lines, strings.Repeat("+line\n", lines))
		}
		return all.String()
	}
	for _, lines := range []int{1, 30} { // all are shown at once, or most wait for a click
		doc := show(files(lines), web.DiffOptions{Place: web.GatePlace(gateID), RawURL: "/raw"})
		listed := doc.Find(".filelist a, .filetree a").FilterFunction(func(_ int, a *goquery.Selection) bool { return strings.HasPrefix(a.AttrOr("href", ""), "#file-") }).Length()
		if shown := doc.Find(".dfile").Length(); shown != 150 || listed < 150 || strings.Contains(doc.Text(), empty) {
			t.Errorf("of 150 files with %d lines each %d are shown and %d listed", lines, shown, listed)
		}
	}
	doc := show(files(1), web.DiffOptions{Place: web.GatePlace(gateID), View: web.DiffChoice{Files: web.FileFilter{Name: "nothing like it"}}})
	if text := doc.Text(); doc.Find(".dfile").Length() != 0 || !strings.Contains(text, "150 files are hidden by the filter.") || strings.Contains(text, empty) {
		t.Errorf("a filter that fits no file: %s", text)
	}
	if text := show("", web.DiffOptions{Place: web.GatePlace(gateID)}).Text(); !strings.Contains(text, empty) {
		t.Errorf("an empty patch: %s", text)
	}
}
