package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"

	"signalbox/internal/patch"
	"signalbox/web"
)

func manyFiles(t *testing.T, hidden string, paths ...string) *patch.Patch {
	t.Helper()
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, "diff --git a/%s b/%s\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+line%s\n", p, p, p, hidden)
	}
	b.WriteString("diff --git a/z.go b/z.go\nindex 1111111..2222222 100644\n--- a/z.go\n+++ b/z.go\n@@ -1 +1 @@\n-a\n+b\n")
	p, err := patch.Parse([]byte(b.String()), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// 2.3: files are chosen by a part of their path, extension and status; what the choice hides is counted, and so are hidden
// characters in it. What is not shown at all is listed as ever.
func TestFilesAreFiltered(t *testing.T) {
	t.Parallel()
	p := manyFiles(t, "\u202e", "Makefile", "a/b/one.go", "a/b/two.txt", "a/One.GO", ".gitignore")
	ticks := make([]web.Tick, 6)
	ticks[1].Viewed = true
	for name, c := range map[string]struct {
		filter web.FileFilter
		want   []string
	}{
		"all":          {web.FileFilter{}, []string{"Makefile", "a/b/one.go", "a/b/two.txt", "a/One.GO", ".gitignore", "z.go"}},
		"a part":       {web.FileFilter{Name: "ONE"}, []string{"a/b/one.go", "a/One.GO"}},
		"a directory":  {web.FileFilter{Name: "b/"}, []string{"a/b/one.go", "a/b/two.txt"}},
		"an extension": {web.FileFilter{Ext: ".go"}, []string{"a/b/one.go", "a/One.GO", "z.go"}},
		"none":         {web.FileFilter{Ext: "none"}, []string{"Makefile", ".gitignore"}},
		"modified":     {web.FileFilter{Status: "modified"}, []string{"z.go"}},
		"not viewed":   {web.FileFilter{Ext: ".go", Status: "unviewed"}, []string{"a/One.GO", "z.go"}},
		"nothing":      {web.FileFilter{Name: "<b>", Status: "renamed"}, nil},
	} {
		view := web.NewDiffView(p.Render(web.InlineBounds()), web.DiffOptions{Place: web.GatePlace(gateID), Ticks: ticks, View: web.DiffChoice{Split: true, Files: c.filter}})
		page, err := goquery.NewDocumentFromReader(strings.NewReader(render(t, web.DiffSection(*view))))
		if err != nil {
			t.Fatal(err)
		}
		paths := page.Find(".dfile").Map(func(_ int, s *goquery.Selection) string { return s.AttrOr("aria-label", "") })
		if len(paths) == 0 {
			paths = nil
		}
		if diff := cmp.Diff(c.want, paths); diff != "" {
			t.Errorf("%s: files (-want +got): %s", name, diff)
		}
		if n := page.Find(".filelist li").Length(); n != len(c.want) {
			t.Errorf("%s: %d files are listed", name, n)
		}
		words := page.Find(".notice").Text()
		counted := strings.Contains(words, fmt.Sprintf("%d files are hidden by the filter.", 6-len(c.want))) && page.Find(`.notice a[href$="?view=split#diff"]`).Text() == "Show all 6 files"
		if counted != (len(c.want) < 6) {
			t.Errorf("%s: the notices say %q", name, words)
		}
		if !strings.Contains(words, "5 hidden or text-reordering characters are in this patch.") {
			t.Errorf("%s: hidden characters are not counted: %q", name, words)
		}
		if strings.Contains(page.Find(".diff").Text(), "changes no file") || page.Find("b").Length() > 0 {
			t.Errorf("%s: the page lies", name)
		}
	}
}

// The list of files has its directories, each of which can be put away, and names every file with its path for readers.
func TestFilesAreListedByDirectory(t *testing.T) {
	t.Parallel()
	p := manyFiles(t, "", "Makefile", "a/b/one.go", "a/b/two.txt")
	view := web.NewDiffView(p.Render(web.InlineBounds()), web.DiffOptions{Place: web.GatePlace(gateID)})
	page, err := goquery.NewDocumentFromReader(strings.NewReader(render(t, web.DiffSection(*view))))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(page.Find(".filelist details summary").Text()), " "); got != "a/b/ 2 files" {
		t.Errorf("directories %q", got)
	}
	names := page.Find(".filelist li code").Map(func(_ int, s *goquery.Selection) string { return s.Text() })
	if diff := cmp.Diff([]string{"Makefile", "z.go", "a/b/one.go", "a/b/two.txt"}, names); diff != "" {
		t.Errorf("names (-want +got): %s", diff)
	}
}
