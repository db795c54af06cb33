package web_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/patch"
	"signalbox/web"
)

// outline is what a file shows between its hunks: "4" is four lines shown, "(24: 20↓ 20↑ all)" lines that are offered.
func outline(f web.DiffFile) string {
	var words []string
	for i, gap := range f.Gaps {
		for _, p := range gap {
			if len(p.Lines) > 0 {
				words = append(words, fmt.Sprintf("%d-%d", p.From, p.To))
				continue
			}
			var offers []string
			for _, o := range p.Offers {
				offers = append(offers, o.Text)
			}
			words = append(words, fmt.Sprintf("(%d-%d: %s)", p.From, p.To, strings.Join(offers, ", ")))
		}
		if i < len(f.Hunks) {
			words = append(words, "@@")
		}
	}
	return strings.Join(words, " ")
}

// 2.3: what is asked for is shown, the rest stays offered: next to what stands above it, next to what stands below, and all.
func TestLinesAroundHunks(t *testing.T) {
	t.Parallel()
	for lines, want := range map[web.LineRanges]string{
		"":                       "(1-4: Show all 4 lines) @@ (7-60: Show 20 lines below, Show 20 lines above, Show all 54 lines) @@ (63-90: Show 20 lines below, Show all 28 lines)",
		"1-1-4":                  "1-4 @@ (7-60: Show 20 lines below, Show 20 lines above, Show all 54 lines) @@ (63-90: Show 20 lines below, Show all 28 lines)",
		"1-4-4.1-63-200":         "(1-3: Show all 3 lines) 4-4 @@ (7-60: Show 20 lines below, Show 20 lines above, Show all 54 lines) @@ 63-90",
		"1-7-26.1-41-60":         "(1-4: Show all 4 lines) @@ 7-26 (27-40: Show all 14 lines) 41-60 @@ (63-90: Show 20 lines below, Show all 28 lines)",
		"1-30-31.1-58-59":        "(1-4: Show all 4 lines) @@ (7-29: Show 20 lines below, Show 20 lines above, Show all 23 lines) 30-31 (32-57: Show 20 lines below, Show 20 lines above, Show all 26 lines) 58-59 (60-60: Show 1 line) @@ (63-90: Show 20 lines below, Show all 28 lines)",
		"2-1-4.1-5-6.1-61-62.xx": "(1-4: Show all 4 lines) @@ (7-60: Show 20 lines below, Show 20 lines above, Show all 54 lines) @@ (63-90: Show 20 lines below, Show all 28 lines)",
	} {
		view := web.DiffChoiceOf(url.Values{"lines": {string(lines)}})
		if d := cmp.Diff(want, outline(sampleAround(t, view))); d != "" {
			t.Errorf("lines=%s (-want +got):\n%s", lines, d)
		}
	}
}

// An address names lines in one way only, whatever way they were asked for in, and no more than its bound.
func TestLineRanges(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]web.LineRanges{
		"": "", "2-41-60": "2-41-60", "3-1-20.2-41-60": "2-41-60.3-1-20", "1-21-40.1-1-20": "1-1-40", "1-1-20.1-5-9": "1-1-20", "1-1-2.1-4-5": "1-1-2.1-4-5",
		"1-2": "", "a-b-c": "", "1-5-4": "", "-1-5": "", "1-0-4": "", "1-1-9.1-1-1.x": "1-1-9", strings.Repeat("1-1-1.", 50) + "1-9-9": "1-1-1",
	} {
		if got := web.DiffChoiceOf(url.Values{"lines": {in}}).Lines; got != want {
			t.Errorf("%.40s is read as %q, want %q", in, got, want)
		}
	}
	file := sampleAround(t, web.DiffChoice{Split: true, IgnoreSpace: true, Lines: "1-7-26"})
	u, err := url.Parse(file.Gaps[1][1].Offers[0].Href)
	if err != nil || web.DiffChoiceOf(u.Query()) != (web.DiffChoice{Split: true, IgnoreSpace: true, Lines: "1-7-46"}) || u.Fragment != "file-1-R27" {
		t.Errorf("the next step leads to %s", u)
	}
}

// Where the page shows a part of a file's hunks only, what comes after them is not what stands around them.
func TestNoLinesAroundPartsOfHunks(t *testing.T) {
	t.Parallel()
	whole, around := sampleHunks(t)
	for name, c := range map[string]struct {
		bounds patch.Bounds
		place  web.DiffPlace
		gaps   int
	}{"whole": {web.PullBounds(), web.PullPlace("pull_1"), 3}, "cut": {patch.Bounds{LinesPerFile: 4}, web.GatePlace(gateID), 0}, "a page that loads nothing": {web.PullBounds(), web.DiffPlace{}, 0}} {
		view := web.NewDiffView(whole.Render(c.bounds), web.DiffOptions{Place: c.place, Around: around})
		if n := len(view.Files[0].Gaps); n != c.gaps || len(view.Files[0].Hunks) != 2 {
			t.Errorf("%s: %d hunks and %d gaps", name, len(view.Files[0].Hunks), n)
		}
	}
}

// Where an address names as many ranges as it may, it offers no step that it could not show, and still those that touch what is
// shown.
func TestNoOfferBeyondTheMostRanges(t *testing.T) {
	t.Parallel()
	ranges := func(n int) (all []string) {
		all = []string{"1-7-26"}
		for i := 1; i < n; i++ {
			all = append(all, fmt.Sprintf("2-%d-%d", 2*i, 2*i))
		}
		return all
	}
	for n, want := range map[int]string{
		49: "(1-4: Show all 4 lines) @@ 7-26 (27-60: Show 20 lines below, Show 20 lines above, Show all 34 lines) @@ (63-90: Show 20 lines below, Show all 28 lines)",
		50: "(1-4: ) @@ 7-26 (27-60: Show 20 lines below, Show all 34 lines) @@ (63-90: )",
	} {
		file := sampleAround(t, web.DiffChoiceOf(url.Values{"lines": {strings.Join(ranges(n), ".")}}))
		if d := cmp.Diff(want, outline(file)); d != "" {
			t.Errorf("%d ranges (-want +got):\n%s", n, d)
		}
		for _, gap := range file.Gaps {
			for _, p := range gap {
				for _, o := range p.Offers {
					u, err := url.Parse(o.Href)
					if err != nil {
						t.Fatal(err)
					}
					if from, lines := strings.TrimPrefix(u.Fragment, "file-1-R"), string(web.DiffChoiceOf(u.Query()).Lines); lines != u.Query().Get("lines") {
						t.Errorf("%d ranges: the offer at line %s leads to %s, of which %s is shown", n, from, u.Query().Get("lines"), lines)
					}
				}
			}
		}
	}
}
