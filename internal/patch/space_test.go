package patch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/patch"
)

func shownLines(f patch.DiffFile) []string {
	var out []string
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			out = append(out, fmt.Sprintf("%s %d %d %s", string(l.Kind[0]), l.Old, l.New, l.Text))
		}
	}
	return out
}

func parsed(t *testing.T, raw []byte) *patch.Patch {
	t.Helper()
	p, err := patch.Parse(raw, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What differs only in blanks and tabs becomes context, in order and with both line numbers; everything else stays.
func TestIgnoreSpace(t *testing.T) {
	t.Parallel()
	before := "if x {\nfirst()\nsecond()\n}\nend\n" + strings.Repeat("x", 300) + "\nlast"
	after := "if y {\n\tif x {\n\t\tfirst( )\n\tthird()\n\t}\n}\n end\n" + strings.Repeat("x", 300) + " \nlast\n"
	p := parsed(t, gitDiff(t, map[string]string{"a.go": before}, map[string]string{"a.go": after}))
	d := p.Render(patch.Bounds{LineBytes: 200})
	if n := d.IgnoreSpace(); n != 3 {
		t.Errorf("%d pairs, want 3", n)
	}
	x := strings.Repeat("x", 200)
	want := []string{"a 0 1 if y {", "c 1 2 \tif x {", "c 2 3 \t\tfirst( )", "r 3 0 second()", "a 0 4 \tthird()", "a 0 5 \t}", "c 4 6 }", "c 5 7  end", "r 6 0 " + x, "r 7 0 last", "a 0 8 " + x, "a 0 9 last"}
	got := shownLines(d.Files[0])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got): %s", diff)
	}
}

// A non-breaking space is no white space: it is one way to make a lie look like formatting.
func TestOnlyBlanksAndTabsAreIgnored(t *testing.T) {
	t.Parallel()
	d := parsed(t, gitDiff(t, map[string]string{"a": "a b\n"}, map[string]string{"a": "a\u00a0b\n"})).Render(patch.Bounds{})
	if n := d.IgnoreSpace(); n != 0 {
		t.Errorf("%d pairs are ignored", n)
	}
}

// Two large rewrites without anything in common are compared in bounded memory, and nothing of them is lost.
func TestIgnoreSpaceIsBounded(t *testing.T) {
	t.Parallel()
	var a, b strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&a, "a%d\n", i)
		fmt.Fprintf(&b, "b%d\n", i)
	}
	a.WriteString("end\n")
	b.WriteString(" end\n")
	d := parsed(t, gitDiff(t, map[string]string{"a": a.String()}, map[string]string{"a": b.String()})).Render(patch.Bounds{LinesPerFile: 20000})
	if n := d.IgnoreSpace(); n != 1 || len(shownLines(d.Files[0])) != 12001 {
		t.Errorf("%d pairs, %d lines", n, len(shownLines(d.Files[0])))
	}
}

// Whole: a file is shown to its end or not at all, by lines and by bytes, and one file can be shown by itself.
func TestWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	p := parsed(t, gitDiff(t, nil, map[string]string{"a": strings.Repeat("x\n", 30), "b": strings.Repeat("x\n", 20), "c": strings.Repeat("x\n", 20), "d": strings.Repeat("y", 90) + "\n"}))
	shown := func(b patch.Bounds) (out []int) {
		for _, f := range p.Render(b).Files {
			out = append(out, len(shownLines(f)))
		}
		return out
	}
	if diff := cmp.Diff([]int{0, 20, 0, 1}, shown(patch.Bounds{Whole: true, LinesPerFile: 25, Lines: 30})); diff != "" {
		t.Errorf("by lines (-want +got): %s", diff)
	}
	if diff := cmp.Diff([]int{30, 0, 0, 0}, shown(patch.Bounds{Whole: true, Bytes: 70})); diff != "" {
		t.Errorf("by bytes (-want +got): %s", diff)
	}
	if diff := cmp.Diff([]int{30, 5, 0, 0}, shown(patch.Bounds{Bytes: 70})); diff != "" {
		t.Errorf("cut by bytes (-want +got): %s", diff)
	}
	if f, ok := p.RenderFile(2, patch.Bounds{}); !ok || len(shownLines(f)) != 20 || f.File.Path() != "c" || f.Index != 2 {
		t.Errorf("one file: %v %+v", ok, f)
	}
	if _, ok := p.RenderFile(4, patch.Bounds{}); ok {
		t.Error("a file that is not there was shown")
	}
}
