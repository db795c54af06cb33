package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/typeid"
)

// rows are the titles of a list, in order.
func rows(page *goquery.Document) string {
	var all []string
	page.Find(".table tbody th a").Each(func(_ int, s *goquery.Selection) { all = append(all, s.Text()) })
	return strings.Join(all, ", ")
}

// U13, U19: lists say how much there is and how much a filter hides; each saved view of the runs is a real question to the database.
// Field reports: buildkite/feedback#181, buildkite/feedback#351.
func TestListsCountAndView(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester, k := w.signedIn(t, rita), w.worker(t, "one")
	start := func(title string) *lease {
		requester.submit(t, "Replace one word.", "title", title)
		return k.claim(t, "execute")
	}
	waits := start("Waits")
	waits.plan(t)
	waits.handIn(t, diff("a.txt", "two"))
	k.claim(t, "verify").verify(t)
	start("Works")
	silent, failed, old := start("Silent"), start("Failed"), start("Failed long ago")
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	for sql, l := range map[string]*lease{
		"UPDATE run_leases SET expires_at = now() - interval '1 second' WHERE run_id = $1": silent,
		"WITH gone AS (DELETE FROM run_leases WHERE run_id = $1) UPDATE runs SET state = 'FAILED', failure_category = 'INFRASTRUCTURE', failure_code = 'WORKER_LOST', failure_retryable = true, lease_id = NULL, lease_phase = NULL, lease_worker = NULL, lease_boot = NULL, queued = NULL, finished_at = now() WHERE id = $1":                       failed,
		"WITH gone AS (DELETE FROM run_leases WHERE run_id = $1) UPDATE runs SET state = 'FAILED', failure_category = 'INFRASTRUCTURE', failure_code = 'WORKER_LOST', failure_retryable = true, lease_id = NULL, lease_phase = NULL, lease_worker = NULL, lease_boot = NULL, queued = NULL, finished_at = now() - interval '25 hours' WHERE id = $1": old,
	} {
		_, err := conn.Exec(t.Context(), "ALTER TABLE runs DISABLE TRIGGER USER") // the state is set past the guard
		must(t, err)
		_, err = conn.Exec(t.Context(), sql, got(typeid.Parse(typeid.Run, l.as.RunId))(t))
		must(t, err)
	}
	requester.submit(t, "Replace one word.", "title", "Queued")

	for query, want := range map[string][2]string{
		"":                         {"Queued, Failed long ago, Failed, Silent, Works, Waits", "6 of 6."},
		"?view=waiting":            {"Waits", "1 of 6, 5 hidden by filters."},
		"?view=running":            {"Works", "1 of 6, 5 hidden by filters."},
		"?view=failed":             {"Failed", "1 of 6, 5 hidden by filters."},
		"?view=stuck":              {"Silent", "1 of 6, 5 hidden by filters."},
		"?state=FAILED&q=LONG":     {"Failed long ago", "1 of 6, 5 hidden by filters."},
		"?view=failed&q=long":      {"", ""},
		"?view=stuck&state=FAILED": {"", ""},
	} {
		page := requester.get(t, "/runs"+query).want(t, http.StatusOK).page(t)
		if got, words := rows(page), page.Find(".pager p").Text(); got != want[0] || words != want[1] {
			t.Errorf("/runs%s shows %q and says %q, want %q", query, got, words, want)
		}
		if reset := page.Find(".filters a[href='/runs']").Length(); (reset == 1) != (query != "") {
			t.Errorf("/runs%s offers Reset %d times", query, reset)
		}
		if view, _, _ := strings.Cut(strings.TrimPrefix(query, "?view="), "&"); strings.HasPrefix(query, "?view=") {
			if here, _ := page.Find(".views [aria-current]").Attr("href"); here != "/runs?view="+view {
				t.Errorf("/runs%s says that the view is %q", query, here)
			}
		}
	}
	if got := requester.get(t, "/runs?view=failed&q=long").page(t).Find(".empty").Text(); !strings.Contains(got, "6 hidden by filters") {
		t.Errorf("an empty list says: %s", got)
	}
	requester.get(t, "/runs?view=nonsense").want(t, http.StatusUnprocessableEntity)
	requester.get(t, "/runs?state=nonsense").want(t, http.StatusUnprocessableEntity)
	if page := requester.get(t, "/tasks?q=failed").want(t, http.StatusOK).page(t); rows(page) != "Failed long ago, Failed" || page.Find(".pager p").Text() != "2 of 6, 4 hidden by filters." {
		t.Errorf("the tasks are %q, %q", rows(page), page.Find(".pager p").Text())
	}
}

// Keyset paging goes through a view as through a list, and counting ends at a thousand and says so.
// Field report: temporalio/ui#873.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	_, err := conn.Exec(t.Context(), "ALTER TABLE runs DISABLE TRIGGER USER")
	must(t, err)
	_, err = conn.Exec(t.Context(), `INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'state', 'FAILED', 'failure_category', 'INFRASTRUCTURE', 'failure_code', 'WORKER_LOST', 'failure_retryable', true, 'lease_id', NULL, 'queued', NULL,
		'created_at', r.created_at - n * interval '1 second', 'finished_at', clock_timestamp()))).* FROM runs r, generate_series(1, 1010) n`)
	must(t, err)
	for _, path := range []string{"/runs", "/runs?view=failed"} {
		seen := map[string]bool{}
		for next, n := path, 0; next != "" && n < 3; n++ {
			page := b.get(t, next).want(t, http.StatusOK).page(t)
			page.Find(".table tbody th code").Each(func(_ int, s *goquery.Selection) {
				if seen[s.Text()] {
					t.Errorf("%s shows %s again", next, s.Text())
				}
				seen[s.Text()] = true
			})
			if got := page.Find(".pager p").Text(); !strings.HasPrefix(got, "50 of more than 1000") || !strings.HasSuffix(got, "Counted up to 1000.") {
				t.Errorf("%s says %q", next, got)
			}
			next, _ = page.Find(".pager a[rel=next]").Attr("href")
		}
		if len(seen) != 150 {
			t.Errorf("%s: %d runs on three pages", path, len(seen))
		}
	}
	if got := fmt.Sprint(b.get(t, "/runs?state=QUEUED").page(t).Find(".pager p").Text()); got != "1 of more than 1000, others hidden by filters. Counted up to 1000." {
		t.Errorf("a filter that hides more than is counted says %q", got)
	}
}
