package handlers_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/typeid"
)

// lengthen makes a run's log as long as wanted by copies of one quiet event; nobody could make so many in a test's time.
func (w *world) lengthen(t testing.TB, id string, events int) {
	t.Helper()
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	run := got(typeid.Parse(typeid.Run, id))(t)
	_, err := conn.Exec(t.Context(), `INSERT INTO run_events (tenant_id, run_id, seq, schema, event_id, kind, actor_kind, actor_id, from_state, to_state, attempt_no, at, body, payload, hash)
		SELECT e.tenant_id, e.run_id, g, e.schema, 'copy-' || g, 'run_deferred', e.actor_kind, e.actor_id, e.to_state, e.to_state, e.attempt_no, e.at + (g - e.seq) * interval '10 microseconds', '\x7b7d', '{"payload": {"reasons": ["Nobody is free."]}}', e.hash
		FROM run_events e, generate_series(e.seq + 1, $2) g WHERE e.run_id = $1 AND e.seq = (SELECT max(seq) FROM run_events WHERE run_id = $1)`, run, events)
	must(t, err)
	_, err = conn.Exec(t.Context(), `UPDATE runs SET version = $2 WHERE id = $1`, run, events)
	must(t, err)
}

// rowsOf are the numbers of the timeline's rows in the order in which they stand there.
func rowsOf(t testing.TB, page *goquery.Document) (all []int) {
	t.Helper()
	page.Find("#timeline-rows li.tl-row").Each(func(_ int, li *goquery.Selection) {
		all = append(all, got(strconv.Atoi(strings.TrimPrefix(li.AttrOr("id", ""), "e")))(t))
	})
	return all
}

func span(from, to int) (all []int) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

// R-UI-1, U13, U20: a log of any length is shown by its beginning and its end, every part of it is a link away, and every
// event has an address that renders it. The page of many thousand events is no larger than that of one.
// Field report: temporalio/ui#2704.
func TestLongTimeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	_, run := w.waiting(t, w.worker(t, "one"))
	path := "/runs/" + run

	w.lengthen(t, run, 250)
	page := b.get(t, path).want(t, http.StatusOK).page(t)
	if rows := rowsOf(t, page); !slices.Equal(rows, span(1, 250)) || page.Find(".tl-gap").Length() != 0 {
		t.Errorf("250 events are shown as %v", rows)
	}
	if s := page.Find("#stream").AttrOr("hx-sse:connect", ""); s != path+"/stream?after=250" {
		t.Errorf("stream %q", s)
	}

	w.lengthen(t, run, 1430)
	short := len(b.get(t, path).body)
	all := 20_000
	if os.Getenv("SIGNALBOX_TEST_LONG") != "" {
		all = 100_000
	}
	w.lengthen(t, run, all)
	answer := b.get(t, path).want(t, http.StatusOK)
	page = answer.page(t)
	if rows := rowsOf(t, page); !slices.Equal(rows, append(span(1, 200), span(all-49, all)...)) {
		t.Errorf("of %d events these are shown: %v", all, rows)
	}
	gap := page.Find(".tl-gap a")
	if gap.Text() != fmt.Sprintf("Load %d,750 events between", all/1000-1) || gap.AttrOr("href", "") != path+"?from=201#timeline" {
		t.Errorf("the gap says %q and leads to %q", gap.Text(), gap.AttrOr("href", ""))
	}
	if n := len(answer.body); n > short+short/10 || n > 600_000 {
		t.Errorf("the page of %d events has %d bytes, that of 1,430 has %d", all, n, short)
	}
	if words := page.Find(".spans-list").Text(); !strings.Contains(words, "Not looked at") {
		t.Errorf("the times are %q, though part of the log was not looked at", words)
	}

	for query, want := range map[string][]int{
		"?from=201": span(201, 450), fmt.Sprint("?from=", all-1): span(all-1, all), fmt.Sprint("?from=", all+1): nil, "?from=1": span(1, 250),
		"?at=1": span(1, 250), "?at=1042": span(942, 1191), fmt.Sprint("?at=", all-10): span(all-249, all), fmt.Sprint("?at=", all): span(all-249, all), "?at=123456": span(all-249, all),
	} {
		page := b.get(t, path+query).want(t, http.StatusOK).page(t)
		rows := rowsOf(t, page)
		if !slices.Equal(rows, want) {
			t.Errorf("%s shows %v", query, rows)
		}
		inspect(t, query, page)
		ends := len(rows) == 0 || rows[len(rows)-1] == all
		if s := page.Find("#stream").AttrOr("hx-sse:connect", ""); strings.Contains(s, "rows=none") == ends {
			t.Errorf("%s: stream %q", query, s)
		}
		if at, ok := strings.CutPrefix(query, "?at="); ok {
			if id := page.Find(`.tl-at[aria-current="true"]`).AttrOr("id", ""); id != "e"+at && at != "123456" {
				t.Errorf("%s marks %q", query, id)
			}
			if at == "123456" && !strings.Contains(page.Find(".timeline").Text(), "Event #123456 is not there") {
				t.Errorf("%s does not say that it is not there", query)
			}
		}
		if from, ok := strings.CutPrefix(query, "?from="); ok && from == "201" && page.Find(`a[href="`+path+`?from=451#timeline"]`).Length() != 1 {
			t.Errorf("%s does not lead on", query)
		}
	}
	for _, query := range []string{"?at=-1", "?at=x", "?from=1e3"} {
		b.get(t, path+query).want(t, http.StatusUnprocessableEntity)
	}
}

// R-UI-1: a page that shows a part of the log stays live in its state, and no row is appended behind the gap.
func TestStreamWithoutRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	messages, stop := b.listen(t, "/runs/"+l.as.RunId+"/stream?after=0&rows=none")
	defer stop()
	first := next(t, messages)
	if strings.Contains(first.data, "tl-row") || !strings.Contains(first.data, "state-sentence") {
		t.Errorf("the first message is %.400s", first.data)
	}
	ack := l.plan(t)
	_, sent := upTo(t, messages, int64(ack.Run.Version))
	if strings.Contains(sent, "tl-row") || !strings.Contains(sent, "state-sentence") {
		t.Errorf("later messages are %.400s", sent)
	}
}

// R-UI-1: level and sort stand in the address, hold for every window of a long log, and go without a script.
// Field reports: temporalio/ui#2192, nasa/cumulus-dashboard#406.
func TestTimelineLevels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	_, run := w.waiting(t, w.worker(t, "one"))
	path := "/runs/" + run
	whole := rowsOf(t, b.get(t, path).page(t))
	if len(whole) < 10 || !slices.Equal(whole, span(1, len(whole))) {
		t.Fatalf("rows %v", whole)
	}
	raw := b.get(t, path+"?level=raw").page(t)
	if n := raw.Find("pre.tl-raw").Length(); n != len(whole) || !strings.Contains(raw.Find("pre.tl-raw").First().Text(), `"kind":"run_created"`) {
		t.Errorf("%d events are shown raw: %.300s", n, raw.Find("pre.tl-raw").First().Text())
	}
	if s := raw.Find("#stream").AttrOr("hx-sse:connect", ""); !strings.HasSuffix(s, "&level=raw") {
		t.Errorf("the stream of the level raw is %q", s)
	}
	people := b.get(t, path+"?show=human").page(t)
	if rows := rowsOf(t, people); len(rows) == 0 || len(rows) >= len(whole) || !strings.Contains(people.Find("#timeline-rows").Text(), "A person has to decide") {
		t.Errorf("what concerns people: %v", rows)
	}
	if s := people.Find("#stream").AttrOr("hx-sse:connect", ""); !strings.Contains(s, "rows=none") || !strings.Contains(people.Find(".timeline").Text(), "New events are not added") {
		t.Errorf("a part of the timeline grows: %q", s)
	}
	if text := b.get(t, path+"?show=cost&level=detailed").page(t).Find("#timeline-empty").Text(); !strings.Contains(text, "No limit was reached") {
		t.Errorf("without such an event the page says %q", text)
	}
	for _, query := range []string{"?level=loud", "?show=everything"} {
		b.get(t, path+query).want(t, http.StatusUnprocessableEntity)
	}

	// The buttons of a page lead to what they name and keep what else was chosen.
	page := b.get(t, path+"?level=detailed&show=human&at=3").page(t)
	inspect(t, "controls", page)
	for _, want := range []string{`form:first-of-type input[name=show][value=human]`, `form:first-of-type input[name=at][value="3"]`, `form:last-of-type input[name=level][value=detailed]`,
		`button[name=level][value=detailed][aria-pressed=true]`, `button[name=show][value=human][aria-pressed=true]`, `a[href="` + path + `"]`} {
		if page.Find(".tl-controls "+want).Length() != 1 {
			t.Errorf("the controls lack %s", want)
		}
	}

	// Of a long log a bounded part is looked through, and the rest is a link away.
	w.lengthen(t, run, 5000)
	long := b.get(t, path+"?show=failed&level=detailed").page(t)
	if next := long.Find(".window a").AttrOr("href", ""); next != path+"?from=2001&level=detailed&show=failed#timeline" || len(rowsOf(t, long)) != 0 {
		t.Errorf("the search goes on at %q, rows %v", next, rowsOf(t, long))
	}
	policy := rowsOf(t, b.get(t, path+"?show=policy&from=2001").page(t))
	if !slices.Equal(policy, span(2001, 2250)) {
		t.Errorf("policy from 2001: %v", policy)
	}
	if n := b.get(t, path+"?from=300").page(t).Find(".tl-fold").Length(); n != 1 {
		t.Errorf("%d folds in 250 quiet events", n)
	}
}
