package patch_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/patch"
)

// marked writes the changed lines of a file with [ ] around their marks and the pair's number behind.
func marked(f patch.DiffFile) []string {
	var out []string
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			if l.Kind == patch.LineContext {
				continue
			}
			text, at := "", 0
			for _, p := range l.Words {
				text += l.Text[at:p.From] + "[" + l.Text[p.From:p.To] + "]"
				at = p.To
			}
			out = append(out, fmt.Sprintf("%s%s %d", map[patch.LineKind]string{patch.LineAdded: "+", patch.LineRemoved: "-"}[l.Kind], text+l.Text[at:], l.Pair))
		}
	}
	return out
}

func changedFile(t *testing.T, before, after string) patch.DiffFile {
	t.Helper()
	return parsed(t, gitDiff(t, map[string]string{"a.go": before}, map[string]string{"a.go": after})).Render(patch.Bounds{}).Files[0]
}

// What is marked is what the other line does not have: whole words, blanks only where they alone differ, and nothing in
// lines that have little in common.
func TestMarkWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a ", 300)
	for name, c := range map[string]struct {
		before, after string
		ignore        bool
		want          []string
	}{
		"a word":               {"if x == 500 {\n", "if x == limit {\n", false, []string{"-if x == [500] { 1", "+if x == [limit] { 1"}},
		"only more":            {"f(a)\n", "f(a, b)\n", false, []string{"-f(a) 1", "+f(a[, b]) 1"}},
		"words that follow":    {"the red cat sat down here\n", "the big dog sat down here\n", false, []string{"-the [red cat] sat down here 1", "+the [big dog] sat down here 1"}},
		"an accent":            {"naïve way to go\n", "naive way to go\n", false, []string{"-[naïve] way to go 1", "+[naive] way to go 1"}},
		"indentation":          {"  return nil\n", "\treturn nil\n", false, []string{"-[  ]return nil 1", "+[\t]return nil 1"}},
		"a blank at the end":   {"return nil\n", "return nil  \n", false, []string{"-return nil 1", "+return nil[  ] 1"}},
		"blanks are ignored":   {"  return nil\n", "\treturn err, nil\n", true, []string{"-  return nil 1", "+\treturn [err,] nil 1"}},
		"nothing in common":    {"alpha beta gamma\n", "one two three\n", false, []string{"-alpha beta gamma 0", "+one two three 0"}},
		"as many, in order":    {"a := 1\nb := 2\n", "a := 3\nb := 4\n", false, []string{"-a := [1] 1", "-b := [2] 2", "+a := [3] 1", "+b := [4] 2"}},
		"more, the most alike": {"return fetch(ctx, id)\n", "if id == 0 {\nreturn nil\n}\nreturn fetch(ctx, key)\n", false, []string{"-return fetch(ctx, [id]) 4", "+if id == 0 { 0", "+return nil 0", "+} 0", "+return fetch(ctx, [key]) 1"}},
		"too many words":       {long + "b\n", long + "c\n", false, []string{"-" + long + "b 0", "+" + long + "c 0"}},
		"no newline":           {"last", "last\n", false, []string{"-last 1", "+last 1"}},
		"a hidden character":   {"x = a + b\n", "x = a\u202e + b\n", false, []string{"-x = a + b 1", "+x = a[⟦U+202E⟧] + b 1"}},
		"which one is hidden":  {"x = a\u2066 + b\n", "x = a\u202e + b\n", false, []string{"-x = a[⟦U+2066⟧] + b 1", "+x = a[⟦U+202E⟧] + b 1"}},
	} {
		f := changedFile(t, c.before, c.after)
		f.MarkWords(patch.NewWork(), c.ignore)
		if diff := cmp.Diff(c.want, marked(f)); diff != "" {
			t.Errorf("%s (-want +got): %s", name, diff)
		}
	}
}

// A line that is cut has no marks: nobody knows its end.
func TestCutLinesHaveNoMarks(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 300)
	f := parsed(t, gitDiff(t, map[string]string{"a": "one " + text + "\n"}, map[string]string{"a": "two " + text + "\n"})).Render(patch.Bounds{LineBytes: 200}).Files[0]
	f.MarkWords(patch.NewWork(), false)
	for _, l := range marked(f) {
		if strings.Contains(l, "[") {
			t.Errorf("marked: %s", l)
		}
	}
}

// Hostile numbers of lines and words take no more than the work of a page, and what is over it is shown without marks.
func TestMarksAreBounded(t *testing.T) {
	t.Parallel()
	var before, after strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&before, "o%d %so\n", i, strings.Repeat("w ", 150))
		fmt.Fprintf(&after, "n%d %sn\n", i, strings.Repeat("w ", 150))
	}
	p := parsed(t, gitDiff(t, map[string]string{"a": before.String()}, map[string]string{"a": after.String()}))
	f := p.Render(patch.Bounds{LinesPerFile: 20_000}).Files[0]
	f.MarkWords(patch.NewWork(), false)
	with, without := 0, 0
	for _, l := range marked(f) {
		if strings.Contains(l, "[") {
			with++
		} else {
			without++
		}
	}
	if with == 0 || with > 100 || with+without != 10_000 {
		t.Errorf("%d lines with marks and %d without", with, without)
	}
}

// FuzzMarkWords: marks are in order, inside the line, between characters and never inside a written-out hidden character,
// and the text stays as it was.
func FuzzMarkWords(f *testing.F) {
	for _, seed := range [][2]string{
		{"if x == 500 {", "if x == limit {"}, {"", "x"}, {"\u202ea", "a\u2066"}, {"⟦U+202E⟧", "⟦U+202E"}, {"⟦⟦U+⟧", "\u202e⟦U+202E⟧⟧"}, {"\xff\xfe a", "\xfe b"},
		{"e\u0301 e", "é e"}, {"a\tb  c", "a b c "}, {"<ins>&amp;", "<del>&lt;"}, {strings.Repeat("(", 500), strings.Repeat(")", 500)}, {"👩‍👩‍👧 x", "👩‍👧 x"},
	} {
		f.Add(seed[0], seed[1], true)
		f.Add(seed[0], seed[1], false)
	}
	f.Fuzz(func(t *testing.T, old, fresh string, ignore bool) {
		one, _ := patch.Reveal(strings.NewReplacer("\n", "", "\r", "").Replace(old))
		two, _ := patch.Reveal(strings.NewReplacer("\n", "", "\r", "").Replace(fresh))
		df := patch.DiffFile{Hunks: []patch.Hunk{{Lines: []patch.DiffLine{{Kind: patch.LineRemoved, Old: 1, Text: one}, {Kind: patch.LineAdded, New: 1, Text: two}}}}}
		df.MarkWords(patch.NewWork(), ignore)
		for i, want := range []string{one, two} {
			l := df.Hunks[0].Lines[i]
			if l.Text != want {
				t.Fatalf("the text %q became %q", want, l.Text)
			}
			at := 0
			for _, p := range l.Words {
				if p.From < at || p.To <= p.From || p.To > len(l.Text) || !utf8.ValidString(l.Text[p.From:p.To]) {
					t.Fatalf("%q is marked at %v", l.Text, l.Words)
				}
				at = p.To
			}
		}
	})
}
