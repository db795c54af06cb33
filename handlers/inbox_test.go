package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/typeid"
)

// turns are the titles of a list of "My turn", in order.
func turns(page *goquery.Document, section string) string {
	var all []string
	page.Find("section[aria-labelledby=" + section + "] .turn h3").Each(func(_ int, s *goquery.Selection) { all = append(all, s.Text()) })
	return strings.Join(all, ", ")
}

// A21: "My turn" says whose turn it is and why, the most urgent first; each person sees their own.
func TestMyTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester, k := w.signedIn(t, rita), w.worker(t, "one")
	var gates []string
	for _, task := range [][2]string{{"First low", "LOW"}, {"High", "HIGH"}, {"Second low", "LOW"}} {
		requester.submit(t, "Replace one word.", "title", task[0], "risk", task[1])
		l := k.claim(t, "execute")
		l.plan(t)
		if task[1] == "LOW" { // the other one waits with its plan
			l.handIn(t, diff("a.txt", "two"))
			k.claim(t, "verify").verify(t)
		}
		id := got(typeid.Parse(typeid.Run, l.as.RunId))(t)
		open := got(w.store.GatesOfRun(t.Context(), db.DefaultTenant, id, 1))(t)
		gates = append(gates, typeid.Format(typeid.Gate, open[0].ID))
	}
	// The second of the two small ones is nearly over, and asks for two people.
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	last := got(typeid.Parse(typeid.Gate, gates[2]))(t)
	_, err := conn.Exec(t.Context(), "UPDATE gates SET opened_at = now() - interval '80 hours', expires_at = now() + interval '20 hours', quorum = 2 WHERE id = $1", last)
	must(t, err)
	_, err = w.store.SavePolicy(t.Context(), db.DefaultTenant, "version: two\ngates:\n  patch: {quorum: 2}\n")
	must(t, err)

	approver := w.signedIn(t, ana)
	page := approver.get(t, "/inbox").want(t, http.StatusOK).page(t)
	if got := turns(page, "mine"); got != "High, Second low, First low" {
		t.Errorf("waiting for the approver: %s", got)
	}
	row := page.Find("#gate-" + gates[2])
	for _, want := range []string{"You hold the role approver.", "asked by Rita Requester", "0 of 2", "As the task says.", "1 file", "Waiting since3 d ago", "in 19 h", "Most of its time has gone."} {
		if !strings.Contains(row.Text(), want) {
			t.Errorf("the row does not say %q: %s", want, row.Text())
		}
	}
	if n := page.Find(".turn .chip-warn").Length(); n != 1 {
		t.Errorf("%d rows are marked as nearly over, want 1", n)
	}
	grouped := approver.get(t, "/inbox?group=risk").want(t, http.StatusOK).page(t)
	if got := grouped.Find(".turns-group").Text(); got != "High risk 1Low risk 2" {
		t.Errorf("grouped by risk: %s", got)
	}
	if here, _ := grouped.Find(".groupings a[aria-current=true]").Attr("href"); here != "/inbox?group=risk" {
		t.Errorf("the grouping in force is %q", here)
	}

	for who, want := range map[*browser]string{requester: "You asked for this change, so another person", w.signedIn(t, vera): "It waits for somebody with the role approver."} {
		page := who.get(t, "/inbox").want(t, http.StatusOK).page(t)
		if mine, others := turns(page, "mine"), turns(page, "others"); mine != "" || others != "High, Second low, First low" || !strings.Contains(page.Text(), want) {
			t.Errorf("mine %q, others %q, or not %q", mine, others, want)
		}
		if got := page.Find(".empty").Text(); !strings.Contains(got, "Nothing needs you.") || !strings.Contains(got, "3 items wait for others.") {
			t.Errorf("nothing to do reads: %s", got)
		}
	}

	// Whoever approved has done their part; the other approver is still asked.
	form := approver.gateForm(t, gates[2])
	form.Set("verdict", "approve")
	approver.post(t, "/gates/"+gates[2]+"/decisions", form).want(t, http.StatusSeeOther)
	page = approver.get(t, "/inbox").want(t, http.StatusOK).page(t)
	if mine, others := turns(page, "mine"), turns(page, "others"); mine != "High, First low" || others != "Second low" || !strings.Contains(page.Text(), "You approved this; it waits for another person") {
		t.Errorf("after one of two approvals: mine %q, others %q", mine, others)
	}
	if got := turns(w.signedIn(t, ben).get(t, "/inbox").page(t), "mine"); got != "High, Second low, First low" {
		t.Errorf("waiting for the other approver: %s", got)
	}
}
