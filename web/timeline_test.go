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
		folds := page.Find(".tl-fold:not(.tl-past) > details")
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

// R-UI-1; field reports: bytebase PR #21427, riverui #364, actions/runner #1118 and #1505, buildkite/feedback #157, argo-workflows #13839.
// Attempts that another followed stand in one row,
// closed, at the level summary; what failed in them is grey wherever it is shown. The newest attempt is open, and its failure is red.
func TestAttemptsFold(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		level, show string
		attempt     int
		at          int64
		gap         int
		folds, open int
	}{
		{level: web.LevelSummary, attempt: 3, folds: 1}, {level: web.LevelSummary, attempt: 3, at: 8, folds: 1, open: 1}, {level: web.LevelSummary, attempt: 3, at: 14, folds: 1, open: 1},
		{level: web.LevelSummary, attempt: 2, folds: 1}, {level: web.LevelSummary, attempt: 1}, {level: web.LevelSummary},
		{level: web.LevelSummary, attempt: 3, gap: 6, folds: 2}, {level: web.LevelSummary, attempt: 3, show: "failed"}, {level: web.LevelDetailed, attempt: 3}, {level: web.LevelRaw, attempt: 3},
	} {
		name := fmt.Sprintf("%+v", tc)
		d := sampleRunPage()
		d.Timeline.Level, d.Timeline.Show, d.Timeline.Attempt, d.Timeline.At = tc.level, tc.show, tc.attempt, tc.at
		if tc.gap > 0 {
			d.Timeline.GapAt, d.Timeline.Gap, d.Timeline.GapURL = tc.gap, 7, "/runs/x?from=7"
		}
		d.Timeline.Events = append(sampleEvents(), event(20, 6*time.Minute, "attempt_failed", "worker", "harbour-2", "EXECUTING", "QUEUED", 2, nil),
			event(21, 5*time.Minute, "lease_acquired", "worker", "harbour-3", "QUEUED", "LEASED", 3, object{"lease": object{"phase": "execute"}}),
			event(22, 4*time.Minute, "attempt_failed", "worker", "harbour-3", "EXECUTING", "FAILED", 3, nil))
		page := got(goquery.NewDocumentFromReader(strings.NewReader(render(t, web.RunPage(d)))))(t)
		if n := page.Find("#timeline-rows li.tl-row").Length(); n != len(d.Timeline.Events) {
			t.Errorf("%s: %d rows for %d events", name, n, len(d.Timeline.Events))
		}
		past := page.Find("#timeline-rows > .tl-past > details")
		if past.Length() != tc.folds || past.Filter("[open]").Length() != tc.open {
			t.Errorf("%s: %d folds of attempts, %d open", name, past.Length(), past.Filter("[open]").Length())
		}
		if words := past.First().Find("summary").First().Text(); tc.folds > 0 && !strings.HasPrefix(words, fmt.Sprintf("%d attempts ", tc.attempt)) {
			t.Errorf("%s: the fold says %q", name, words)
		}
		if n := page.Find("#timeline-rows .tl-gap").Length(); n != min(tc.gap, 1) || past.Find(".tl-gap").Length() > 0 {
			t.Errorf("%s: %d gaps, %d of them folded", name, n, past.Find(".tl-gap").Length())
		}
		for _, ev := range d.Timeline.Events {
			row := page.Find(fmt.Sprintf("#timeline-rows #e%d", ev.Seq))
			if failed := ev.Kind == "worker_lost" || ev.Kind == "attempt_failed"; ev.Seq > 0 && failed && row.HasClass("tone-failed") != (ev.Attempt >= tc.attempt) {
				t.Errorf("%s: the failure of attempt %d is %q", name, ev.Attempt, row.AttrOr("class", ""))
			}
			if inFold := row.Closest(".tl-past").Length() > 0; ev.Seq > 0 && inFold != (tc.folds > 0 && ev.Attempt > 0 && ev.Attempt < tc.attempt) {
				t.Errorf("%s: event %d of attempt %d is folded: %t", name, ev.Seq, ev.Attempt, inFold)
			}
		}
		// Each attempt has its own times and worker.
		cards := page.Find("section[aria-labelledby=attempts]").Text()
		for _, own := range []string{"harbour-2, from 29 Nov 2026, 14:11:10 UTC for 21 min", "harbour-1, from 29 Nov 2026, 14:03:10 UTC for 7 min"} {
			if !strings.Contains(cards, own) {
				t.Errorf("%s: the attempts lack %q: %s", name, own, cards)
			}
		}
		// Steps of an earlier attempt are closed and grey, too.
		if old := page.Find("#step-s0"); old.Is("[open]") || old.Find(".tone-failed, .badge-failed").Length() > 0 || !strings.Contains(old.Text(), "Failed, then tried again") || !page.Find("#step-s2").Is("[open]") {
			t.Errorf("%s: the step of an earlier attempt: %s", name, old.Text())
		}
	}
}

// R-UI-1, R-COST-1, R-RCV-3: what a run did outside and what each model cost stand on its page: reported, estimated and unknown
// are told apart, and an effect that nobody saw is not said to have happened.
func TestEffectsAndModels(t *testing.T) {
	t.Parallel()
	d := sampleRunPage()
	d.Effects = append(d.Effects, web.EffectView{Kind: "push_branch", State: "ambiguous", Identity: strings.Repeat("x", 5000) + "</code><script>alert(1)</script>", Error: "<b>no</b>", Parameters: map[string]string{"branch": "\u202e"}})
	page := got(goquery.NewDocumentFromReader(strings.NewReader(render(t, web.RunPage(d)))))(t)
	cards := page.Find("section[aria-labelledby=effects] .card")
	for i, want := range [][]string{
		{"Open a pull request from agent/x/y into main", "Sent, not seen yet", "Intended29 Nov 2026, 14:29:10 UTC", "Dispatched29 Nov 2026, 14:30:10 UTC", "nobody looked yet", "open_pull_request:repo_1:agent/x/y:main"},
		{"Push branch agent/x/y", "Did not happen", "remote: the branch is protected", "Observed29 Nov 2026, 14:28:10 UTC"},
		{"Comment on the pull request", "Intended", "nothing went out"},
		{"Push branch", "Not certain", "<b>no</b>"},
	} {
		text := strings.Join(strings.Fields(cards.Eq(i).Text()), " ")
		for _, w := range want {
			if !strings.Contains(text, w) && !strings.Contains(strings.ReplaceAll(text, " ", ""), strings.ReplaceAll(w, " ", "")) {
				t.Errorf("effect %d lacks %q: %s", i, w, text)
			}
		}
	}
	if n := len(cards.Eq(3).Text()); n > 1000 || page.Find("section[aria-labelledby=effects] script, section[aria-labelledby=effects] b").Length() > 0 {
		t.Errorf("an effect with a long identity has %d bytes", n)
	}
	models := strings.Join(strings.Fields(page.Find("section[aria-labelledby=models]").Text()), " ")
	for _, w := range []string{"vendor/large-1", "0.0021 USD estimated 400 tokens in, 90 out, 1 call", "0.4123 USD reported 81200 tokens in, 9300 out, 14 calls", "model not namedcost unknown for 1 call 5 tokens in, 0 out, 1 call", "More models were used"} {
		if !strings.Contains(models, w) {
			t.Errorf("the cost by model lacks %q: %s", w, models)
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
