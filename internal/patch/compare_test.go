package patch_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/patch"
)

func comparedText(c patch.Comparison) (out []string) {
	for _, f := range c.Files {
		out = append(out, f.Path+": "+f.What)
		for _, l := range f.Lines {
			if l.Skipped > 0 {
				out = append(out, fmt.Sprintf("… %d", l.Skipped))
				continue
			}
			out = append(out, fmt.Sprintf("%s %s %s", l.Kind[:1], l.Is[:1], l.Text))
		}
	}
	return out
}

// 2.3 of the pages: what changed between two revisions of a patch, per file, by the lines that only one of them changes.
func TestCompare(t *testing.T) {
	t.Parallel()
	base := map[string]string{"a": "1\n2\n3\n", "gone": "x\n", "moved": "k\nk\nk\nk\nk\nk\nk\nk\nend\n", "mode": "m\n"}
	with := func(change map[string]string) *patch.Patch {
		after := map[string]string{}
		for _, files := range []map[string]string{base, change} {
			for name, content := range files {
				after[name] = content
			}
		}
		return parsed(t, gitDiff(t, base, after))
	}
	older := with(map[string]string{"a": "1\ntwo\n3\n", "gone": "y\n", "new": lines(20, "l%d") + "old\n", "same": "s\n", "moved": "n\nk\nk\nk\nk\nk\nk\nk\nk\nend\n"})
	newer := with(map[string]string{"a": "1\nTWO \u202e\n3\n", "new": lines(20, "l%d") + "new\n", "same": "s\n", "only": "o\n", "moved": "k\nk\nk\nk\nk\nk\nk\nk\nn\nend\n", "mode": "\x00exec:m\n"})
	c := patch.Compare(older, newer, patch.Bounds{})
	want := []string{
		"a: changed in another way", "c r 2", "r a two", "a a TWO ⟦U+202E⟧",
		"mode: changed only now",
		"moved: the same lines, at another place or between other lines", "… 1",
		"new: changed in another way", "… 17", "c a l17", "c a l18", "c a l19", "r a old", "a a new",
		"only: changed only now", "a a o",
		"gone: no longer changed", "r r x", "r a y",
	}
	if diff := cmp.Diff(want, comparedText(c)); diff != "" {
		t.Errorf("comparison (-want +got): %s", diff)
	}
	if c.Same != 1 || c.More != 0 {
		t.Errorf("%d files are the same, %d lines more", c.Same, c.More)
	}
	if c := patch.Compare(newer, newer, patch.Bounds{}); len(c.Files) != 0 || c.Same != 6 {
		t.Errorf("a patch differs from itself: %+v", c)
	}
}

// A comparison of hostile patches is bounded in lines and in work, and counts what it leaves out.
func TestCompareIsBounded(t *testing.T) {
	t.Parallel()
	a, b := map[string]string{}, map[string]string{}
	for i := range 20 {
		a[fmt.Sprint("f", i)] = lines(1500, fmt.Sprintf("a%d-%%d", i))
		b[fmt.Sprint("f", i)] = lines(1500, fmt.Sprintf("b%d-%%d", i))
	}
	c := patch.Compare(parsed(t, gitDiff(t, nil, a)), parsed(t, gitDiff(t, nil, b)), patch.Bounds{LinesPerFile: 400, Lines: 2000})
	shown := 0
	for _, f := range c.Files {
		shown += len(f.Lines)
	}
	if shown != 2000 || shown+c.More != 20*3000 {
		t.Errorf("%d lines shown, %d more", shown, c.More)
	}
}
