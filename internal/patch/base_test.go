package patch_test

import (
	"crypto/sha1" //nolint:gosec // git's own names of objects
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/patch"
)

// blob is git's name for a text.
func blob(text string) string {
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

func batch(name, text string) string { return fmt.Sprintf("%s blob %d\n%s\n", name, len(text), text) }

// numbered is lines from 1 to n.
func numbered(n int, end string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "line %d%s", i, end)
	}
	return b.String()
}

func changeOf(name, rest string) string {
	return "diff --git a/a.txt b/a.txt\nindex " + name + ".." + strings.Repeat("2", len(name)) + " 100644\n--- a/a.txt\n+++ b/a.txt\n" + rest
}

// middle removes line 10, adds two in its place, and one after line 20.
func middle(end string) string {
	return "@@ -9,3 +9,4 @@\n line 9" + end + "-line 10" + end + "+ten" + end + "+ten and a half" + end + " line 11" + end +
		"@@ -20,2 +21,3 @@\n line 20" + end + "+more" + end + " line 21" + end
}

// 2.3: lines around the hunks are known by their numbers on both sides, and only where the text is what the patch was made from.
func TestAround(t *testing.T) {
	t.Parallel()
	old := numbered(30, "\n")
	sum := sha256.Sum256(fmt.Appendf(nil, "blob %d\x00%s", len(old), old))
	long := hex.EncodeToString(sum[:])
	crlf, noEnd := numbered(30, "\r\n"), strings.TrimSuffix(numbered(21, "\n"), "\n")
	whole := []patch.Gap{{Old: 1, New: 1, Lines: 8}, {Old: 12, New: 13, Lines: 8}, {Old: 22, New: 24, Lines: 9}}
	nothing := "diff --git a/a.txt b/a.txt\n"
	for name, c := range map[string]struct {
		patch, base string
		want        []patch.Gap // nil: not known
	}{
		"plain":              {changeOf(blob(old), middle("\n")), batch(blob(old), old), whole},
		"among others":       {changeOf(blob(old), middle("\n")), batch(blob("x"), "x") + batch(blob(old), old) + "rubbish", whole},
		"SHA-256":            {changeOf(long, middle("\n")), batch(long, old), whole},
		"abbreviated":        {changeOf(blob(old)[:9], middle("\n")), batch(blob(old), old), whole},
		"abbreviated to six": {changeOf(blob(old)[:6], middle("\n")), batch(blob(old), old), nil},
		"CRLF":               {changeOf(blob(crlf), middle("\r\n")), batch(blob(crlf), crlf), whole},
		"no newline at the end": {changeOf(blob(noEnd), "@@ -20,2 +20,3 @@\n line 20\n+more\n line 21\n\\ No newline at the end of file\n"), batch(blob(noEnd), noEnd),
			[]patch.Gap{{Old: 1, New: 1, Lines: 19}, {Old: 22, New: 23}}},
		"no context":                  {changeOf(blob(old), "@@ -10,0 +11,2 @@\n+a\n+b\n@@ -20 +21,0 @@\n-line 20\n"), batch(blob(old), old), []patch.Gap{{Old: 1, New: 1, Lines: 10}, {Old: 11, New: 13, Lines: 9}, {Old: 21, New: 22, Lines: 10}}},
		"an empty file":               {changeOf(blob(""), "@@ -0,0 +1 @@\n+a\n"), batch(blob(""), ""), []patch.Gap{{Old: 1, New: 1}, {Old: 1, New: 2}}},
		"renamed":                     {nothing[:len(nothing)-len("b/a.txt\n")] + "b/b.txt\nsimilarity index 90%\nrename from a.txt\nrename to b.txt\nindex " + blob(old) + ".." + blob("x") + " 100644\n--- a/a.txt\n+++ b/b.txt\n" + middle("\n"), batch(blob(old), old), whole},
		"mode changed":                {nothing + "old mode 100644\nnew mode 100755\nindex " + blob(old) + ".." + blob("x") + "\n--- a/a.txt\n+++ b/a.txt\n" + middle("\n"), batch(blob(old), old), whole},
		"forged":                      {changeOf(blob(old), middle("\n")), batch(blob(old), strings.Replace(old, "line 15", "line XV", 1)), nil},
		"another text":                {changeOf(blob(old), middle("\n")), batch(blob("x"), "x"), nil},
		"nothing stored":              {changeOf(blob(old), middle("\n")), "", nil},
		"cut":                         {changeOf(blob(old), middle("\n")), batch(blob(old), old)[:100], nil},
		"a size too far":              {changeOf(blob(old), middle("\n")), strings.Replace(batch(blob(old), old), "blob ", "blob 9", 1), nil},
		"a wild size":                 {changeOf(blob(old), middle("\n")), blob(old) + " blob 99999999999999999999\n" + old, nil},
		"hunks that say otherwise":    {changeOf(blob(old), strings.Replace(middle("\n"), " line 20", " line XX", 1)), batch(blob(old), old), nil},
		"hunks beyond the end":        {changeOf(blob(old), "@@ -31 +31,2 @@\n line 31\n+x\n"), batch(blob(old), old), nil},
		"no old lines, far beyond":    {changeOf(blob(old), "@@ -1000,0 +1001,1 @@\n+x\n"), batch(blob(old), old), nil},
		"no old lines, beyond":        {changeOf(blob(old), "@@ -31,0 +32,1 @@\n+x\n"), batch(blob(old), old), nil},
		"no old lines, at the end":    {changeOf(blob(old), "@@ -30,0 +31,1 @@\n+x\n"), batch(blob(old), old), []patch.Gap{{Old: 1, New: 1, Lines: 30}, {Old: 31, New: 32}}},
		"without a name":              {nothing + "--- a/a.txt\n+++ b/a.txt\n" + middle("\n"), batch("", old), nil},
		"other line ends":             {changeOf(blob(crlf), middle("\n")), batch(blob(crlf), crlf), nil},
		"new numbers that do not fit": {changeOf(blob(old), strings.Replace(middle("\n"), "+21,3", "+20,3", 1)), batch(blob(old), old), nil},
		"hunks in the wrong order":    {changeOf(blob(old), "@@ -20 +20,2 @@\n line 20\n+x\n@@ -9 +10,2 @@\n line 9\n+y\n"), batch(blob(old), old), nil},
		"a new file":                  {nothing + "new file mode 100644\nindex 0000000000000000000000000000000000000000.." + blob("x") + "\n--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n", batch(blob(old), old), nil},
		"a link":                      {nothing + "index " + blob(old) + ".." + blob("x") + " 120000\n--- a/a.txt\n+++ b/a.txt\n" + middle("\n"), batch(blob(old), old), nil},
	} {
		p, err := patch.Parse([]byte(c.patch), 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		around, ok := p.Around(0, patch.ParseBase([]byte(c.base)))
		if d := cmp.Diff(c.want, around.Gaps); d != "" || ok != (c.want != nil) {
			t.Errorf("%s: known: %v (-want +got):\n%s", name, ok, d)
		}
	}
}

// 2.3, B7: a line around a hunk is shown exactly as the same line would be within one: cut, with hidden characters written out.
func TestLinesAroundAreShownAsThoseOfHunks(t *testing.T) {
	t.Parallel()
	lines := []string{"\ufeffmark", "plain", "hid\u202eden", "bad \xff bytes", strings.Repeat("long", 800), "tab\tand \x1b[31m", "<script>", "ends in CRLF\r", "last"}
	old := strings.Join(lines, "\n")
	rest := "@@ -" + fmt.Sprintf("1,%d +1,%d", len(lines), len(lines)+1) + " @@\n+first\n " + strings.Join(lines, "\n ") + "\n\\ No newline at the end of file\n"
	within, err := patch.Parse([]byte(changeOf(blob(old), rest)), 0)
	if err != nil {
		t.Fatal(err)
	}
	outside, err := patch.Parse([]byte(changeOf(blob(old), "@@ -0,0 +1 @@\n+first\n")), 0)
	if err != nil {
		t.Fatal(err)
	}
	around, ok := outside.Around(0, patch.ParseBase([]byte(batch(blob(old), old))))
	if !ok {
		t.Fatal("the lines are not known")
	}
	want := within.Render(patch.Bounds{}).Files[0].Hunks[0].Lines[1:]
	left := patch.Bounds{Lines: 100, Bytes: 1 << 20, LineBytes: 2000}
	got := around.Lines(1, -5, 1<<30, &left)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-within a hunk +around it):\n%s", d)
	}
	if left.Lines != 100-len(lines) {
		t.Errorf("%d lines are left", left.Lines)
	}
	for name, left := range map[string]patch.Bounds{"lines": {Lines: 3, Bytes: 1 << 20, LineBytes: 2000}, "bytes": {Lines: 100, Bytes: 20, LineBytes: 2000}} {
		if got := around.Lines(1, 2, 9, &left); len(got) != 3 || got[0].New != 2 || got[0].Old != 1 {
			t.Errorf("few %s: %+v", name, got)
		}
	}
	if got := around.Lines(0, 1, 9, &left); len(got) != 0 {
		t.Errorf("an empty gap has %d lines", len(got))
	}
}

// Many files may name one text of very many lines: it is split once, and a page makes so many lines and no more.
func TestTextsAreSplitOnceAndWithinBounds(t *testing.T) {
	t.Parallel()
	var raw, texts strings.Builder
	files := 0
	change := func(text string, times int) {
		texts.WriteString(batch(blob(text), text))
		for range times {
			files++
			raw.WriteString(strings.ReplaceAll(changeOf(blob(text), "@@ -0,0 +1 @@\n+x\n"), "a.txt", fmt.Sprint(files)))
		}
	}
	large := strings.Repeat("\n", patch.MaxBaseLines/2-1)
	change(large, 300)
	change(large+"\n", 2) // this and the one before are one line more than the bound
	change("small\n", 1)
	p, err := patch.Parse([]byte(raw.String()), 0)
	if err != nil {
		t.Fatal(err)
	}
	base := patch.ParseBase([]byte(texts.String()))
	for i := range 300 {
		if _, ok := p.Around(i, base); !ok {
			t.Fatalf("file %d of the 300 that name one text is not known", i)
		}
	}
	for i, want := range map[int]bool{300: false, 301: false, 302: true} {
		if _, ok := p.Around(i, base); ok != want {
			t.Errorf("file %d: %v", i, ok)
		}
	}
	if _, ok := p.Around(300, patch.ParseBase([]byte(texts.String()))); !ok {
		t.Error("a page of its own does not know the file's lines")
	}
}

// FuzzAround: whatever a patch and the old texts beside it hold, the lines around its hunks are lines of a file: in order, and none twice.
func FuzzAround(f *testing.F) {
	old := numbered(30, "\n")
	f.Add([]byte(changeOf(blob(old), middle("\n"))), []byte(batch(blob(old), old)))
	f.Add([]byte(changeOf(blob(old), "@@ -10,0 +11,2 @@\n+a\n+b\n@@ -20 +21,0 @@\n-line 20\n")), []byte(batch(blob("x"), "x")+batch(blob(old), old)))
	f.Add([]byte(changeOf(blob(old), middle("\n"))), []byte(blob(old)+" blob 99999999999999999999\n"+old))
	f.Add([]byte(changeOf(blob(""), "@@ -0,0 +1 @@\n+a\n")), []byte(batch(blob(""), "")))
	f.Fuzz(func(t *testing.T, raw, texts []byte) {
		p, err := patch.Parse(raw, 1<<16)
		if err != nil {
			return
		}
		base := patch.ParseBase(texts)
		for i := range p.Facts().Files {
			around, ok := p.Around(i, base)
			at := 0
			for _, g := range around.Gaps {
				if !ok || g.Lines < 0 || g.Old < at || g.New < 0 {
					t.Fatalf("file %d of %q beside %q: %+v", i, raw, texts, around.Gaps)
				}
				at = g.Old + g.Lines
			}
		}
	})
}
