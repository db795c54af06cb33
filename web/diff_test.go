package web_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"signalbox/internal/patch"
	"signalbox/web"
)

// TestDiffShowsEverything: every line of the patch is on the page with its exact text, or counted as not shown.
func TestDiffShowsEverything(t *testing.T) {
	t.Parallel()
	p, err := patch.Parse([]byte(samplePatch), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	d := p.Render(web.InlineBounds())
	view := web.NewDiffView(d, web.DiffOptions{})
	for i, f := range d.Files {
		for j, h := range f.Hunks {
			for k, l := range h.Lines {
				got := ""
				for _, s := range view.Files[i].Hunks[j].Lines[k].Spans {
					got += s.Text
				}
				want := strings.NewReplacer("⟦", "", "⟧", "").Replace(l.Text)
				if got != want {
					t.Errorf("%s line %d: %q, want %q", f.File.Path(), k, got, want)
				}
			}
		}
	}
	colours := 0
	for _, l := range view.Files[0].Hunks[0].Lines {
		colours += len(l.Spans)
	}
	if colours <= len(view.Files[0].Hunks[0].Lines) {
		t.Error("no syntax colours in a Go file")
	}
}

// TestDeceptionIsShown: hidden characters are written out and counted, left-out files are counted (security row B7).
func TestDeceptionIsShown(t *testing.T) {
	t.Parallel()
	view := sampleDiff(t)
	text := render(t, web.DiffSection(*view))
	for _, want := range []string{"2 hidden or text-reordering characters are in this patch.", `<span class="hid">U&#43;202E</span>`, "Not shown inline: 1 file.", "assets/logo.png", "CI configuration", "protected path"} {
		if !strings.Contains(text, want) && !strings.Contains(text, strings.ReplaceAll(want, "&#43;", "+")) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.ContainsRune(text, '\u202e') || strings.ContainsRune(text, '\u2066') {
		t.Error("a hidden character reached the page as itself")
	}
}

// TestLongPatchIsBoundedAndCounted: what is over the bounds is named in the banner.
// Field reports: gitbucket#860, gitbucket#1945, Reviewable#34.
func TestLongPatchIsBoundedAndCounted(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("diff --git a/big.txt b/big.txt\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n+++ b/big.txt\n@@ -0,0 +1,9000 @@\n")
	for range 9000 {
		b.WriteString("+line\n")
	}
	p, err := patch.Parse([]byte(b.String()), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	view := web.NewDiffView(p.Render(web.PullBounds()), web.DiffOptions{RawURL: "/runs/x/patch"})
	if len(view.NotShown) != 1 || !strings.Contains(view.NotShown[0].Reason, "7,500 more lines") {
		t.Errorf("not shown: %+v", view.NotShown)
	}
	if lines := len(view.Files[0].Hunks[0].Lines); lines != 1500 {
		t.Errorf("%d lines shown", lines)
	}
	view = web.NewDiffView(p.Render(web.InlineBounds()), web.DiffOptions{RawURL: "/runs/x/patch", Place: web.GatePlace(gateID)})
	if len(view.Files[0].Hunks) != 0 || view.Files[0].Load != "Load the diff (9,000 lines)" || view.NotShown[0].Href != web.GatePlace(gateID).FileURL(1, web.DiffChoice{}) {
		t.Errorf("on a gate's page: %+v, not shown %+v", view.Files[0], view.NotShown)
	}
}

// TestSplitShowsTheSameLines: side by side holds exactly the lines of the other view, with the same permalinks.
func TestSplitShowsTheSameLines(t *testing.T) {
	t.Parallel()
	p, err := patch.Parse([]byte(samplePatch), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	anchors := func(split bool) (ids []string, text string) {
		view := web.NewDiffView(p.Render(web.InlineBounds()), web.DiffOptions{Place: web.GatePlace(gateID), View: web.DiffChoice{Split: split}})
		for n := range parse(t, render(t, web.DiffSection(*view))).Descendants() {
			if id := attr(n, "id"); strings.HasPrefix(id, "file-") {
				ids = append(ids, id)
			}
			if n.Type == html.ElementNode && n.Data == "code" && n.FirstChild != nil {
				for c := range n.Descendants() {
					if c.Type == html.TextNode {
						text += c.Data
					}
				}
				text += "\n"
			}
		}
		slices.Sort(ids)
		return ids, text
	}
	one, oneText := anchors(false)
	two, twoText := anchors(true)
	if diff := cmp.Diff(one, two); diff != "" {
		t.Errorf("anchors (-unified +split): %s", diff)
	}
	for line := range strings.SplitSeq(oneText, "\n") {
		if !strings.Contains(twoText, line) {
			t.Errorf("%q is not in the other view", line)
		}
	}
}

// TestViewsAreInTheAddress: each link changes one choice and keeps the other, and reads back as it was written.
func TestViewsAreInTheAddress(t *testing.T) {
	t.Parallel()
	for _, split := range []bool{false, true} {
		for _, space := range []bool{false, true} {
			c := web.DiffChoice{Split: split, IgnoreSpace: space, Since: 3, Files: web.FileFilter{Name: "a&b ü", Ext: ".go", Status: "added"}}
			u, err := url.Parse(web.GatePlace(gateID).DiffURL(c))
			if err != nil || web.DiffChoiceOf(u.Query()) != c || u.Fragment != "diff" {
				t.Errorf("%+v: %v %v", c, u, err)
			}
		}
	}
	if c := web.DiffChoiceOf(url.Values{"w": {"2"}, "view": {"x"}, "since": {"-1"}}); c != (web.DiffChoice{}) {
		t.Errorf("nonsense is read as %+v", c)
	}
}
