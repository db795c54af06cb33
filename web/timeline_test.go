package web_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"signalbox/web"
)

// foldedRun had to wait for admission many times; event 9 was asked for.
func foldedRun(level string, at int64) web.RunPageData {
	d := sampleRunPage()
	d.Timeline.Level, d.Timeline.At = level, at
	first := d.Timeline.Events[0]
	events := []web.TimelineEvent{first}
	for range 12 {
		events = append(events, event(0, 30*time.Minute-2*time.Second, "run_deferred", "scheduler", "", "CREATED", "CREATED", 0, object{"reasons": []any{"The quota is used up."}}))
	}
	events = append(events, d.Timeline.Events[1:]...)
	n := int64(0)
	for i := range events {
		if events[i].FactID == "" {
			n++
			events[i].Seq, events[i].Canonical = n, fmt.Sprintf(`{"kind":"%s","note":"</pre><script>alert(1)</script>"}`, events[i].Kind)
		}
	}
	d.Timeline.Events = events
	return d
}

// R-UI-1: at the level summary a repetition stands behind one line, at the others every event has its row; no event is lost
// at any level, and the one that was asked for is not hidden.
func TestLevels(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		level      string
		at         int64
		folds      int
		open, raws bool
	}{
		{level: web.LevelSummary, folds: 1}, {level: web.LevelSummary, at: 9, folds: 1, open: true}, {level: web.LevelSummary, at: 20, folds: 1},
		{level: web.LevelDetailed}, {level: web.LevelRaw, raws: true}, {level: ""},
	} {
		d := foldedRun(tc.level, tc.at)
		page := got(goquery.NewDocumentFromReader(strings.NewReader(render(t, web.RunPage(d)))))(t)
		var rows, want []string
		page.Find("#timeline-rows li.tl-row").Each(func(_ int, li *goquery.Selection) { rows = append(rows, li.AttrOr("id", "")) })
		for _, ev := range d.Timeline.Events {
			if ev.FactID != "" {
				want = append(want, "e"+ev.FactID)
			} else {
				want = append(want, fmt.Sprint("e", ev.Seq))
			}
		}
		if !slices.Equal(rows, want) {
			t.Errorf("%s: rows %v", tc.level, rows)
		}
		folds := page.Find(".tl-fold details")
		if folds.Length() != tc.folds || tc.folds > 0 && !strings.Contains(folds.Find("summary").Text(), "12 more events") {
			t.Errorf("%s: %d folds: %q", tc.level, folds.Length(), folds.Text())
		}
		if _, open := folds.Attr("open"); open != tc.open {
			t.Errorf("%s at %d: the fold is open: %t", tc.level, tc.at, open)
		}
		if raws := page.Find("pre.tl-raw"); (raws.Length() > 0) != tc.raws || page.Find("#timeline-rows script").Length() > 0 {
			t.Errorf("%s: %d events are shown raw", tc.level, raws.Length())
		}
	}
}

// What cannot be sorted cannot be looked at alone: every sort holds kinds that exist, and no word beside the list is one.
func TestShows(t *testing.T) {
	t.Parallel()
	known := eventKinds(t)
	for _, show := range web.Shows() {
		kinds, _, ok := web.Shown(show)
		if !ok || show != "" && len(kinds) == 0 {
			t.Errorf("%q shows nothing", show)
		}
		for _, k := range kinds {
			if !slices.Contains(known, string(k)) {
				t.Errorf("%q shows %q, which no run has", show, k)
			}
		}
	}
	if _, _, ok := web.Shown("everything"); ok {
		t.Error("an unknown sort is shown")
	}
}
