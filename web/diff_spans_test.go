package web_test

import (
	"strings"
	"testing"

	"golang.org/x/net/html"

	"signalbox/internal/patch"
	"signalbox/web"
)

// codeOf are the lines of code on a page: their texts, and what is marked as changed in them.
func codeOf(t *testing.T, page string) (texts, marks []string) {
	t.Helper()
	words := func(n *html.Node) string {
		var b strings.Builder
		for c := range n.Descendants() {
			if c.Type == html.TextNode {
				b.WriteString(c.Data)
			}
		}
		return b.String()
	}
	for n := range parse(t, page).Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch {
		case n.Data == "code" && strings.HasPrefix(attr(n.Parent, "class"), "dcode"):
			texts = append(texts, words(n))
		case n.Data == "ins" || n.Data == "del":
			marks = append(marks, n.Data+" "+words(n))
		}
	}
	return texts, marks
}

func hostile(t *testing.T, path, before, after string) (*patch.Patch, []string) {
	t.Helper()
	p, err := patch.Parse([]byte("diff --git a/"+path+" b/"+path+"\nindex 1111111..2222222 100644\n--- a/"+path+"\n+++ b/"+path+"\n@@ -1 +1 @@\n-"+before+"\n+"+after+"\n"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, l := range p.Render(web.InlineBounds()).Files[0].Hunks[0].Lines {
		if l.Hidden {
			l.Text = strings.NewReplacer("⟦", "", "⟧", "").Replace(l.Text)
		}
		want = append(want, l.Text)
	}
	return p, want
}

// Changed words are marked inside coloured code, around hidden characters and on either side, and the text of a line is what
// it is without marks. A hidden character has a chip and is counted in whatever token it stands (B7): in code a lexer cuts it.
func TestChangedWordsAreMarked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, before, after string
		marks               []string
		hidden              int
	}{
		"in a string":       {"a.go", `x := "one two"`, `x := "one three"`, []string{"del two", "ins three"}, 0},
		"over tokens":       {"a.go", "return a+b, nil", "return a, err, nil", []string{"del +b", "ins , err"}, 0},
		"a hidden one":      {"a.go", "var x = a + b", "var x = a\u202e + b", []string{"ins U+202E"}, 1},
		"in a comment":      {"a.go", "// is it so\u2066", "// is that so\u2066", []string{"del it", "ins that"}, 2},
		"markup":            {"a.html", "<b>one</b><i>x</i>", "<ins>one</ins><i>x</i>", []string{"del b", "del b", "ins ins", "ins ins"}, 0},
		"brackets of ours":  {"a.txt", "⟦U+202E⟧ is how it is shown", "⟦U+202E is how it is shown", []string{"del ⟦U+202E⟧", "ins ⟦U+202E"}, 0},
		"only white space":  {"a.txt", "one two", "one  two", []string{"del  ", "ins   "}, 0},
		"nothing in common": {"a.txt", "alpha", "beta", nil, 0},
	} {
		p, want := hostile(t, c.path, c.before, c.after)
		for _, split := range []bool{false, true} {
			view := web.NewDiffView(p.Render(web.InlineBounds()), web.DiffOptions{View: web.DiffChoice{Split: split}})
			texts, marks := codeOf(t, render(t, web.DiffSection(*view)))
			if strings.Join(texts, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s: the lines are %q, want %q", name, texts, want)
			}
			if strings.Join(marks, "|") != strings.Join(c.marks, "|") {
				t.Errorf("%s: marked are %q, want %q", name, marks, c.marks)
			}
			if view.Files[0].Hidden != c.hidden {
				t.Errorf("%s: %d hidden characters, want %d", name, view.Files[0].Hidden, c.hidden)
			}
		}
	}
}

// With white space left out nothing of it is marked.
func TestMarksLeaveOutWhiteSpace(t *testing.T) {
	t.Parallel()
	p, _ := hostile(t, "a.txt", "  return one", "\treturn\tone, two")
	view := web.NewDiffView(p.Render(web.InlineBounds()), web.DiffOptions{View: web.DiffChoice{IgnoreSpace: true}})
	if _, marks := codeOf(t, render(t, web.DiffSection(*view))); strings.Join(marks, "|") != "ins , two" {
		t.Errorf("marked are %q", marks)
	}
}

// Side by side, a line stands beside the one whose place it took.
func TestPairsStandSideBySide(t *testing.T) {
	t.Parallel()
	p, err := patch.Parse([]byte("diff --git a/a b/a\nindex 1111111..2222222 100644\n--- a/a\n+++ b/a\n@@ -1,2 +1,4 @@\n-return fetch(ctx, id)\n-end of it\n+if id == 0 {\n+\tpanic(1)\n+return fetch(ctx, key)\n+the end of it\n"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	view := web.NewDiffView(p.Render(web.InlineBounds()), web.DiffOptions{View: web.DiffChoice{Split: true}})
	var rows []string
	for n := range parse(t, render(t, web.DiffSection(*view))).Descendants() {
		if n.Type == html.ElementNode && n.Data == "tr" {
			texts := ""
			for c := range n.Descendants() {
				if c.Type == html.TextNode {
					texts += c.Data
				} else if c.Data == "td" {
					texts += "|"
				}
			}
			rows = append(rows, texts)
		}
	}
	want := "|||if id == 0 {\n|||\tpanic(1)\n|return fetch(ctx, id)||return fetch(ctx, key)\n|end of it||the end of it"
	got := strings.NewReplacer("||||", "|||").Replace(strings.Join(rows[len(rows)-4:], "\n"))
	if !strings.Contains(got, "return fetch(ctx, id)||return fetch(ctx, key)") || !strings.Contains(got, "end of it||the end of it") {
		t.Errorf("rows\n%s\nwant\n%s", got, want)
	}
}

// A line that differs in its end says so in words, in either view, also where white space is left out; the head of the file
// counts those that differ in nothing else.
func TestLineEndsAreShown(t *testing.T) {
	t.Parallel()
	p, err := patch.Parse([]byte("diff --git a/a b/a\nindex 1111111..2222222 100644\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-one\r\n-two\r\n+one\n+two\n"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, choice := range []web.DiffChoice{{}, {Split: true}, {IgnoreSpace: true}, {Split: true, IgnoreSpace: true}} {
		page := render(t, web.DiffSection(*web.NewDiffView(p.Render(web.InlineBounds()), web.DiffOptions{View: choice})))
		said := 2
		if choice.Split && choice.IgnoreSpace {
			said = 4 // both sides are the same line
		}
		if n := strings.Count(page, `<span class="dend">line end CRLF → LF</span>`); n != said {
			t.Errorf("%+v: %d lines say it, want %d", choice, n, said)
		}
		if !strings.Contains(page, "2 lines: only line end CRLF → LF") {
			t.Errorf("%+v: the head of the file does not count them", choice)
		}
	}
}
