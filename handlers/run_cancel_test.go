package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// rungs are the steps of a cancellation as the page shows them: mark and words, with a time where there is one.
func rungs(page *goquery.Document) (all []string) {
	page.Find("#run-panel .ladder li").Each(func(_ int, li *goquery.Selection) {
		at := ""
		if li.Find("time").Length() > 0 {
			at = " @"
		}
		words := strings.TrimSpace(li.Clone().Children().Remove().End().Text())
		all = append(all, strings.TrimPrefix(li.AttrOr("class", ""), "ladder-")+" "+words+at)
	})
	return all
}

func (l *lease) beat(t testing.TB, stopping bool) wire.LeaseSignalSignal {
	t.Helper()
	held := wire.HeldLease{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, RunId: l.as.RunId, Stopping: stopping}
	ack := into[wire.HeartbeatAck](t, l.call(t, "POST", "/workers/heartbeat", wire.Heartbeat{BootId: l.boot, Leases: []wire.HeldLease{held}}).want(t, http.StatusOK))
	return ack.Leases[0].Signal
}

// askedEarlier moves the request to cancel, and the deadline of its lease with it, into the past, as if somebody had waited.
func (w *world) askedEarlier(t testing.TB, id, by string) {
	t.Helper()
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	_, err := conn.Exec(t.Context(), `UPDATE runs SET cancel_at = cancel_at - $2::interval WHERE id = $1`, got(typeid.Parse(typeid.Run, id))(t), by)
	must(t, err)
}

// climbed are the stored times at which the worker was told and said that it is stopping.
func (w *world) climbed(t testing.TB, id string) string {
	t.Helper()
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var times string
	must(t, conn.QueryRow(t.Context(), `SELECT cancel_told_at::text || ' ' || stopping_at::text FROM (SELECT run_id, cancel_told_at, stopping_at FROM run_leases
		UNION ALL SELECT run_id, cancel_told_at, stopping_at FROM ended_leases) l WHERE run_id = $1`, got(typeid.Parse(typeid.Run, id))(t)).Scan(&times))
	return times
}

func cancelForm(b *browser, t testing.TB, run string) url.Values {
	t.Helper()
	return fields(b.get(t, "/runs/"+run+"/cancel").want(t, http.StatusOK).page(t).Find("form[action$='/cancel']"))
}

func wantRungs(t testing.TB, b *browser, run string, want ...string) {
	t.Helper()
	if all := rungs(b.get(t, "/runs/"+run).want(t, http.StatusOK).page(t)); strings.Join(all, " | ") != strings.Join(want, " | ") {
		t.Errorf("the ladder is %q, want %q", all, want)
	}
}

// cancel rule 3: the page changes at once, each step of the cancellation has its time, and the ladder stays through reloads and
// after the end. cancel rule 4: it says by when it ends. cancel rule 5: whoever asks again, with the same form or as somebody
// else, gets the same ladder, which names who asked first.
// U10: what the request changes is on the very next page, whatever the worker does, and says by when it is over.
// Field reports: prefect#4490, prefect#18585, prefect#18840, dagster#13155, temporalio/ui#325.
func TestCancelLadder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	run := l.as.RunId
	form := cancelForm(b, t, run)
	form.Set("reason", "Wrong repository.")
	for range 2 { // the second click
		b.post(t, "/runs/"+run+"/cancel", form).want(t, http.StatusSeeOther)
	}
	wantRungs(t, b, run, "done Requested by you @", "now Worker told", "todo Stopping", "todo Cancelled")
	panel := b.get(t, "/runs/"+run).page(t).Find("#run-panel").Text()
	if !strings.Contains(panel, "asked by you") || !strings.Contains(panel, "It always ends: by ") || strings.Contains(panel, "Force stop") {
		t.Errorf("the panel says %s", panel)
	}

	// Somebody else asks, too.
	admin := w.signedIn(t, adam)
	page := admin.get(t, "/runs/"+run+"/cancel").want(t, http.StatusOK).page(t).Find("main").Text()
	if !strings.Contains(page, "Rita Requester asked first") {
		t.Errorf("the second person reads %s", page)
	}
	second := url.Values{"idempotency_key": {"the-second-person"}, "reason": {"Me too."}}
	if at := admin.post(t, "/runs/"+run+"/cancel", second).want(t, http.StatusSeeOther).Header.Get("Location"); at != "/runs/"+run+"?done=cancel-asked-before" {
		t.Errorf("the second person is sent to %s", at)
	}
	wantRungs(t, admin, run, "done Requested by Rita Requester @", "now Worker told", "todo Stopping", "todo Cancelled")

	if s := l.beat(t, false); s != wire.SignalCancelRequested {
		t.Fatalf("the worker hears %s", s)
	}
	wantRungs(t, b, run, "done Requested by you @", "done Worker told @", "now Stopping", "todo Cancelled")
	l.beat(t, true)
	first := w.climbed(t, run)
	l.beat(t, true)
	wantRungs(t, b, run, "done Requested by you @", "done Worker told @", "done Stopping @", "now Cancelled")
	l.do(t, wire.RunCommand{Command: wire.CmdCancelConfirmed})
	wantRungs(t, b, run, "done Requested by you @", "done Worker told @", "done Stopping @", "done Cancelled @")
	after := b.get(t, "/runs/"+run).page(t)
	if last := w.climbed(t, run); last != first {
		t.Errorf("the times were %s and are %s", first, last)
	}
	// cancel rule 9: cancelled is neutral, and the sentence says by whom.
	if words := after.Find("#run-panel").Text(); !strings.Contains(words, "Cancelled by Rita Requester") || after.Find("#run-panel .statepanel.tone-cancelled").Length() != 1 {
		t.Errorf("after the end: %s", words)
	}
	inspect(t, "cancelled", after)
}

// A run that nobody works on ends at once: its ladder has two steps. A worker that stopped before its next heartbeat skipped none.
func TestShortLadders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	b.post(t, "/runs/"+l.as.RunId+"/cancel", url.Values{"idempotency_key": {"stop-this-one"}}).want(t, http.StatusSeeOther)
	l.do(t, wire.RunCommand{Command: wire.CmdCancelConfirmed})
	wantRungs(t, b, l.as.RunId, "done Requested by you @", "done Worker told @", "done Stopping @", "done Cancelled @")

	b.submit(t, "Replace one word.")
	queued := b.get(t, "/runs?state=QUEUED").page(t).Find("input[name=run]").AttrOr("value", "")
	b.post(t, "/runs/"+queued+"/cancel", url.Values{"idempotency_key": {"stop-the-other"}}).want(t, http.StatusSeeOther)
	wantRungs(t, b, queued, "done Requested by you @", "done Cancelled @")
}

// cancel rule 1: two verbs. Force stop is offered to an administrator, and to others only when the worker has left the cancel
// unanswered for 30 seconds; it has a page of its own, and nothing but a run that is being cancelled is stopped by it.
// Field reports: temporalio/ui#802, temporalio/web#210.
func TestForceStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, admin, k := w.signedIn(t, rita), w.signedIn(t, adam), w.worker(t, "one")
	b.submit(t, "Replace one word.")
	l := k.claim(t, "execute")
	stop := "/runs/" + l.as.RunId + "/stop"
	offered := func(b *browser) bool {
		return b.get(t, "/runs/"+l.as.RunId).want(t, http.StatusOK).page(t).Find(`#run-panel a[href="`+stop+`"]`).Length() == 1
	}
	form := url.Values{"idempotency_key": {"force-it-to-stop"}, "reason": {"It burns money."}}
	if offered(admin) {
		t.Error("force stop is offered for a run that nobody cancelled")
	}
	admin.post(t, stop, form).want(t, http.StatusConflict)
	b.post(t, "/runs/"+l.as.RunId+"/cancel", url.Values{"idempotency_key": {"stop-this-one"}}).want(t, http.StatusSeeOther)
	if offered(b) || !offered(admin) {
		t.Errorf("right after the cancel: requester %t, administrator %t", offered(b), offered(admin))
	}
	if page := b.post(t, stop, form).want(t, http.StatusConflict); !strings.Contains(page.body, "given 30 seconds") {
		t.Errorf("the requester is told %s", page.body)
	}
	w.signedIn(t, vera).post(t, stop, form).want(t, http.StatusForbidden)
	admin.post(t, stop, url.Values{"idempotency_key": {"no-reason-given"}}).want(t, http.StatusUnprocessableEntity)
	w.askedEarlier(t, l.as.RunId, "31 seconds")
	if !offered(b) {
		t.Error("after 31 seconds without an answer the requester is offered nothing")
	}
	page := b.get(t, stop).want(t, http.StatusOK).page(t)
	inspect(t, "stop", page)
	form = fields(page.Find("form[action='" + stop + "']"))
	for range 2 {
		b.post(t, stop, form).want(t, http.StatusSeeOther)
	}
	wantRungs(t, b, l.as.RunId, "done Requested by you @", "skip Worker told: not seen", "skip Stopping: not seen", "done Stopped by force by Rita Requester @")
	if s := l.beat(t, true); s != wire.SignalLost {
		t.Errorf("the worker hears %s", s)
	}
	l.post(t, wire.RunCommand{Command: wire.CmdCancelConfirmed}).want(t, http.StatusConflict)

	// A worker that was told is stopping: only an administrator takes the run from it.
	b.submit(t, "Replace one word.")
	l = k.claim(t, "execute")
	stop = "/runs/" + l.as.RunId + "/stop"
	b.post(t, "/runs/"+l.as.RunId+"/cancel", url.Values{"idempotency_key": {"stop-the-next"}}).want(t, http.StatusSeeOther)
	l.beat(t, true)
	w.askedEarlier(t, l.as.RunId, "31 seconds")
	if offered(b) || !offered(admin) {
		t.Errorf("with a worker that answered: requester %t, administrator %t", offered(b), offered(admin))
	}
	b.post(t, stop, form).want(t, http.StatusConflict)
}
