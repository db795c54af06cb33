package patch_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/patch"
)

// R-TRN-8: what we read is what would be applied. Real patches are damaged at
// random; wherever both we and `git apply` accept the result, both must see
// the same files with the same numbers of lines.
func TestGitAgrees(t *testing.T) {
	t.Parallel()
	body := lines(30, "line %d")
	base := strings.SplitAfter(string(gitDiff(t, map[string]string{
		"a.txt": body, "gone.txt": "x\n", "old name.txt": body + "t\n", "run.sh": "e\n", "bin": "\x00\x01", "ünï": "x\n",
	}, map[string]string{
		"a.txt": strings.Replace(body, "line 3\n", "l\nm\n", 1), "d/new.go": "p\n", "new name.txt": body + "u\n",
		"run.sh": "\x00exec:e\n", "bin": "\x00\x02", "ünï": "y\n", "l": "\x00link:a.txt",
	}, "-M")), "\n")
	extra := []string{
		"--- a/evil\n", "+++ b/evil\n", "diff --git a/evil b/evil\n", "rename from evil\n", "rename to evil\n", "new file mode 120000\n",
		"@@ -0,0 +1 @@\n", "+x\n", "\n", "Index: evil\n", "--- evil\t2020\n", "copy to ../x\n", "index 1..2\n", "deleted file mode 100644\n",
		"old mode 100644\n", "new mode 100755\n", "GIT binary patch\n", "\\ No newline at end of file\n", "-- \n", " \n",
	}
	dir, rng := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	accepted, both := 0, 0
	for range 3000 {
		ls := slices.Clone(base)
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(ls))
			switch rng.IntN(5) {
			case 0:
				ls = slices.Delete(ls, at, at+1)
			case 1:
				ls = slices.Insert(ls, at, extra[rng.IntN(len(extra))])
			case 2:
				b := rng.IntN(len(ls))
				ls[at], ls[b] = ls[b], ls[at]
			case 3:
				ls[at] = strings.NewReplacer("a/", "a/../", "b/", "/b/", "1", "2", "name", "nam").Replace(ls[at])
			case 4:
				ls = slices.Insert(ls, at, ls[rng.IntN(len(ls))])
			}
		}
		p, err := patch.Parse([]byte(strings.Join(ls, "")), 0)
		if err != nil {
			continue
		}
		accepted++
		cmd := exec.CommandContext(t.Context(), "git", "apply", "--numstat", "-z")
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(p.Bytes())
		out, err := cmd.Output()
		if err != nil {
			continue // git refuses it: nothing would be applied
		}
		both++
		var got []string
		for _, f := range p.Facts().Files {
			if f.Binary {
				got = append(got, "-\t-\t"+f.Path())
			} else {
				got = append(got, fmt.Sprintf("%d\t%d\t%s", f.Added, f.Removed, f.Path()))
			}
		}
		if want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, want) {
			t.Fatalf("we see %q, git sees %q in\n%s", got, want, strings.Join(ls, ""))
		}
	}
	if both < 100 {
		t.Errorf("only %d patches were compared (%d accepted): the test has lost its bite", both, accepted)
	}
}
