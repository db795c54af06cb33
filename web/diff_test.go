package web_test

import (
	"strings"
	"testing"

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
	view := web.NewDiffView(p.Render(web.InlineBounds()), web.DiffOptions{RawURL: "/runs/x/patch"})
	if len(view.NotShown) != 1 || !strings.Contains(view.NotShown[0].Reason, "7500 more lines") {
		t.Errorf("not shown: %+v", view.NotShown)
	}
	if lines := len(view.Files[0].Hunks[0].Lines); lines != 1500 {
		t.Errorf("%d lines shown", lines)
	}
}
