package patch_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/patch"
)

// A26: every file that is not shown whole and as it is belongs to a group, also where the reason lies in a part that is
// not shown.
func TestUnshownGroups(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("line\n", 40)
	raw := gitDiff(t, map[string]string{"old.txt": "one\u200btwo\nthree\n"}, map[string]string{
		"big.txt": long + "late \u202e text\n", "cut.txt": strings.Repeat("x", 300) + "\n", "logo.png": "\x00\x01\x02\n", "small.txt": "one\n", "old.txt": "three\n",
	})
	p, err := patch.Parse(raw, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []patch.UnshownGroup{
		{Why: patch.UnshownLarge, Files: []string{"big.txt", "cut.txt"}},
		{Why: patch.UnshownBinary, Files: []string{"logo.png"}},
		{Why: patch.UnshownHidden, Files: []string{"big.txt", "old.txt"}},
	}
	if diff := cmp.Diff(want, p.Render(patch.Bounds{LinesPerFile: 20, LineBytes: 200}).Unshown()); diff != "" {
		t.Errorf("groups (-want +got): %s", diff)
	}
	if got := p.Render(patch.Bounds{Files: 1}).Unshown(); got[0].Why != patch.UnshownLarge || len(got[0].Files) != 4 {
		t.Errorf("beyond the number of files: %+v", got)
	}
}
