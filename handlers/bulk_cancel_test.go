package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/typeid"
)

// bulkForm reads the form of the question as a browser would send it, with each run.
func bulkForm(page *goquery.Document) url.Values {
	v := url.Values{}
	page.Find("form[action='/runs/cancel'] input").Each(func(_ int, s *goquery.Selection) {
		name, _ := s.Attr("name")
		value, _ := s.Attr("value")
		v.Add(name, value)
	})
	return v
}

// outcomes are the lines of a result table: title and what became of it.
func outcomes(page *goquery.Document, table string) string {
	var all []string
	page.Find(table + " tbody tr").Each(func(_ int, s *goquery.Selection) {
		all = append(all, strings.TrimSpace(s.Find("th").Text())+": "+s.Find("td").Last().Text())
	})
	return strings.Join(all, " | ")
}

// R-UI-6, R-CAN-3: several runs are cancelled with one question, each as by itself; what cannot be cancelled is named and holds
// nothing back, and the same form sent again answers the same and changes nothing.
// cancel rule 11: by ids or filter, split by what they do, with a result for each.
// Field reports: riverui#545, dagster#27748, dagster#3259.
func TestBulkCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester, k := w.signedIn(t, rita), w.worker(t, "one")
	requester.submit(t, "Replace one word.", "title", "Waiting")
	w.waiting(t, k)
	requester.submit(t, "Replace one word.", "title", "Working")
	working := k.claim(t, "execute")
	requester.submit(t, "Replace one word.", "title", "Ended")
	ended := k.claim(t, "execute").as.RunId
	requester.submit(t, "Replace one word.", "title", "Queued")
	requester.submit(t, "Replace one word.", "title", "Not asked")

	// The list offers a box for each; the two last ones come to their end before and after the question.
	list := requester.get(t, "/runs").page(t)
	query := url.Values{}
	list.Find("input[name=run]").Each(func(_ int, s *goquery.Selection) {
		if id, _ := s.Attr("value"); !strings.Contains(s.Parent().Text(), "Not asked") {
			query.Add("run", id)
		}
	})
	asked := requester.get(t, "/runs/cancel?"+query.Encode()).want(t, http.StatusOK).page(t)
	if got := asked.Find("main").Text(); !strings.Contains(got, "Cancel 4 runs?") || !strings.Contains(got, "1 queued, 2 running, 1 waiting for a person.") {
		t.Errorf("the question: %s", got)
	}
	form := bulkForm(asked)
	requester.post(t, "/runs/"+ended+"/cancel", url.Values{"idempotency_key": {"the-other-tab"}, "reason": {"First."}}).want(t, http.StatusSeeOther)
	foreign := typeid.Format(typeid.Run, typeid.New())
	form.Add("run", foreign)
	form.Set("reason", "Wrong repository.")
	for n := range 2 {
		result := requester.post(t, "/runs/cancel", form).want(t, http.StatusOK).page(t)
		if got := result.Find("h1").Text(); got != "Cancellation recorded for 3 runs" {
			t.Errorf("time %d: %s", n+1, got)
		}
		if got := outcomes(result, "[aria-label='Table of the runs that are cancelled']"); got != "Queued: It ended. | Working: Its worker is told to stop. | Waiting: It ended." {
			t.Errorf("time %d: cancelled %s", n+1, got)
		}
		if got := outcomes(result, "[aria-label='Table of the runs that are left out']"); got != "Ended: It is being cancelled already: Rita Requester asked first. | "+foreign+": There is no such run here." {
			t.Errorf("time %d: skipped %s", n+1, got)
		}
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var states, reasons string
	must(t, conn.QueryRow(t.Context(), `SELECT string_agg(t.title || ' ' || r.state, ', ' ORDER BY t.title), string_agg(DISTINCT r.cancel_reason, ', ' ORDER BY r.cancel_reason)
		FROM runs r JOIN tasks t ON t.id = r.task_id`).Scan(&states, &reasons))
	if states != "Ended CANCELLING, Not asked QUEUED, Queued CANCELLED, Waiting CANCELLED, Working CANCELLING" || reasons != "First., Wrong repository." {
		t.Errorf("the runs are %s, for %s", states, reasons)
	}
	var events int
	must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM run_events WHERE kind = 'cancel_requested' AND run_id = $1", got(typeid.Parse(typeid.Run, working.as.RunId))(t)).Scan(&events))
	if events != 1 {
		t.Errorf("asking twice with one form recorded %d requests", events)
	}
}

// Somebody else's run asks for a reason, more than fifty ask for their number, and two hundred are the most; a role that may cancel
// nothing sees no box and is refused, as is a form from another site. Nothing is cancelled by any of these.
// cancel rule 11: above fifty the number is typed.
func TestBulkCancelIsHeldBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester := w.signedIn(t, rita)
	requester.submit(t, "Replace one word.", "title", "Queued")
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	active := func() (n int) {
		must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM runs WHERE state = 'QUEUED'").Scan(&n))
		return n
	}
	admin := w.signedIn(t, adam)
	form := bulkForm(admin.get(t, "/runs/cancel?all=1&state=QUEUED").want(t, http.StatusOK).page(t))
	form.Set("reason", " ")
	if page := admin.post(t, "/runs/cancel", form).want(t, http.StatusUnprocessableEntity); !strings.Contains(page.body, "Say why") {
		t.Errorf("without a reason: %s", page.body)
	}
	form.Set("reason", "Enough.")
	requester.post(t, "/runs/cancel", form, "Sec-Fetch-Site", "cross-site").want(t, http.StatusForbidden)
	viewer := w.signedIn(t, vera)
	viewer.post(t, "/runs/cancel", form).want(t, http.StatusForbidden)
	if n := viewer.get(t, "/runs").page(t).Find("input[name=run]").Length(); n != 0 {
		t.Errorf("a viewer is offered %d boxes", n)
	}

	_, err := conn.Exec(t.Context(), `INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'created_at', r.created_at - n * interval '1 second'))).*
		FROM runs r, generate_series(1, 250) n`)
	must(t, err)
	page := requester.get(t, "/runs/cancel?all=1&q=queued").want(t, http.StatusOK).page(t)
	text := page.Find("main").Text()
	for _, want := range []string{"Cancel 200 runs?", "More runs match than one request cancels.", "at most 200 runs", "190 more runs", "Type 200 to confirm"} {
		if !strings.Contains(text, want) {
			t.Errorf("the question does not say %q: %s", want, text)
		}
	}
	form = bulkForm(page)
	for _, count := range []string{"", "199", "all"} {
		form.Set("count", count)
		requester.post(t, "/runs/cancel", form).want(t, http.StatusUnprocessableEntity)
	}
	form.Set("count", "201")
	form.Add("run", typeid.Format(typeid.Run, typeid.New()))
	requester.post(t, "/runs/cancel", form).want(t, http.StatusUnprocessableEntity)
	requester.post(t, "/runs/cancel", url.Values{"idempotency_key": {"nothing-selected"}}).want(t, http.StatusUnprocessableEntity)
	if got := fmt.Sprint(requester.get(t, "/runs/cancel").want(t, http.StatusOK).page(t).Find("h1").Text()); got != "No run to cancel" {
		t.Errorf("nothing selected: %s", got)
	}
	if n := active(); n != 251 {
		t.Errorf("%d runs are left, want all 251", n)
	}
}
