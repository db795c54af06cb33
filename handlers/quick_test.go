package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// quickForm reads the form that a row opens.
func (b *browser) quickForm(t testing.TB, gate string) url.Values {
	t.Helper()
	form := b.get(t, "/f/gates/"+gate+"/quick", "HX-Request", "true").want(t, http.StatusOK).page(t).Find("details.quick form")
	if form.Length() != 1 {
		t.Fatalf("%d forms to approve", form.Length())
	}
	v := fields(form)
	v.Set("verdict", "approve")
	return v
}

// 2.1, R-UI-2: a row of low risk opens to the whole patch with Approve at its end, as a fragment and as a page; approving
// there is a decision as on the gate's page, answered in the row.
func TestReadAndApproveInTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester, k, b := w.signedIn(t, rita), w.worker(t, "one"), w.signedIn(t, ana)
	requester.submit(t, "Replace one word.", "title", "One word", "risk", "LOW")
	gate, run := w.waiting(t, k)

	link := b.get(t, "/inbox").page(t).Find("#gate-" + gate + " a[hx-get]")
	if target := link.AttrOr("hx-target", ""); link.Length() != 1 || target != "#quick-"+gate || b.get(t, "/inbox").page(t).Find(target).Length() != 1 {
		t.Fatalf("%d links, into %q", link.Length(), target)
	}
	row := b.get(t, link.AttrOr("hx-get", ""), "HX-Request", "true").want(t, http.StatusOK).page(t)
	page := b.get(t, link.AttrOr("href", "")).want(t, http.StatusOK).page(t)
	inspect(t, "the page to read and approve", page)
	for name, doc := range map[string]string{"row": row.Text(), "page": page.Find("main").Text()} {
		if !strings.Contains(doc, "two") || !strings.Contains(doc, "Approve and open pull request") {
			t.Errorf("%s: %q", name, doc)
		}
	}
	if row.Find("main").Length() != 0 || row.Find("tr.dadd").Length() != 1 {
		t.Error("the row is not the patch alone")
	}

	// A stale form decides nothing, and the newest content stands above the button again.
	form := b.quickForm(t, gate)
	stale := without(form, "")
	stale["digest"] = []string{strings.Repeat("0", 64)}
	a := b.post(t, "/gates/"+gate+"/decisions", stale, "HX-Request", "true").want(t, http.StatusConflict)
	if doc := a.page(t); a.Header.Get("HX-Retarget") != "" || doc.Find("#quick-"+gate+" .outcome").Length() != 1 || doc.Find("tr.dadd").Length() != 1 || doc.Find("form").Length() != 1 {
		t.Errorf("a stale form is answered with %v %.300s", a.Header, a.body)
	}
	b.post(t, "/gates/"+gate+"/decisions", stale).want(t, http.StatusConflict)

	// What was written on the gate's page was not sent here, and is not lost.
	b.post(t, "/drafts/gate:"+gate, url.Values{"text": {"Not sent."}}).want(t, http.StatusNoContent)
	if doc := b.get(t, "/gates/"+gate+"/quick").page(t).Find("form").Text(); !strings.Contains(doc, "is not sent with this") {
		t.Errorf("nothing is said of the draft: %q", doc)
	}
	done := b.post(t, "/gates/"+gate+"/decisions", form, "HX-Request", "true").want(t, http.StatusOK).page(t)
	if doc := done.Find("details#quick-" + gate); !strings.Contains(doc.Text(), "Approved. The run goes on.") || doc.Find("form, table").Length() != 0 {
		t.Errorf("the row says %q", doc.Text())
	}
	if r := into[wire.Run](t, w.cli(t, ana).call(t, "GET", "/runs/"+run, nil)); r.State != "PR_CREATING" {
		t.Errorf("run %s", r.State)
	}
	if kept := b.get(t, "/gates/"+gate).page(t).Find("#f-kept").Text(); kept != "Not sent." {
		t.Errorf("the draft is %q", kept)
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var listed bool
	must(t, conn.QueryRow(t.Context(), "SELECT detail->>'from_list' = 'true' FROM audit_log WHERE action = 'gate.approve'").Scan(&listed))
	if !listed {
		t.Error("the audit does not say that it was approved from the list")
	}
	// A closed gate offers nothing, and says so.
	if doc := b.get(t, "/gates/"+gate+"/quick").want(t, http.StatusOK).page(t); doc.Find("main form[action$='/decisions']").Length() != 0 || !strings.Contains(doc.Text(), "It cannot be approved here") {
		t.Error("a closed gate is offered")
	}
}

// 2.1, A26, R-UI-2: a list does not offer what has more than a low risk, what it cannot show whole or what holds hidden
// characters, and the server takes no approval from there either, whatever the form ticks.
func TestWhatIsNotApprovedInTheList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ risk, patch, says string }{
		"risk":      {"MEDIUM", diff("a.txt", "two"), "Its risk is medium"},
		"too large": {"LOW", newFile("big.txt", repeated(401)...), "1 file is too large or no text"},
		"cut":       {"LOW", newFile("wide.txt", strings.Repeat("x", 3000)), "1 file is too large or no text"},
		"binary":    {"LOW", goneBinary("logo.png"), "1 file is too large or no text"},
		"hidden":    {"LOW", newFile("odd.txt", "admin \u202e} begin"), "hidden or text-reordering characters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.signedIn(t, rita).submit(t, "Change a file.", "risk", c.risk)
			gate, run := w.waitingWith(t, w.worker(t, "one"), c.patch)
			b := w.signedIn(t, ana)
			doc := b.get(t, "/gates/"+gate+"/quick").want(t, http.StatusOK).page(t)
			if doc.Find("main form[action$='/decisions'], main table").Length() != 0 || !strings.Contains(doc.Text(), c.says) || doc.Find("details.quick a[href='/gates/"+gate+"']").Length() != 1 {
				t.Errorf("the page says %q", doc.Find("details.quick").Text())
			}
			form := b.gateForm(t, gate)
			form.Set("verdict", "approve")
			form.Set("quick", "1")
			form["reviewed_elsewhere"] = []string{"too_large", "binary", "hidden_text"}
			for _, htmx := range []string{"", "true"} {
				a := b.post(t, "/gates/"+gate+"/decisions", form, "HX-Request", htmx).want(t, http.StatusConflict)
				if words := a.page(t).Find(".outcome").Text(); !strings.Contains(words, "Nothing was approved from the list. ") || !strings.Contains(words, c.says) {
					t.Errorf("the answer says %q", words)
				}
			}
			if r := into[wire.Run](t, w.cli(t, ana).call(t, "GET", "/runs/"+run, nil)); r.State != "WAITING_FOR_APPROVAL" {
				t.Errorf("run %s", r.State)
			}
			form.Del("quick")
			b.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
		})
	}
}

// 2.1, A26: a plan is approved in the list where the list says all that it says, and without hidden characters, escaped ones
// too.
func TestAPlanIsReadAndApprovedInTheList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ plan, says string }{
		"whole":           {planJSON, ""},
		"an unknown":      {strings.Replace(planJSON, "{", `{"also":"rm -rf","summary2":1,`, 1), "The plan says more"},
		"a field twice":   {strings.Replace(planJSON, "{", `{"Steps":["Something else."],`, 1), "The plan says more"},
		"hidden, escaped": {strings.Replace(planJSON, "one word.", "\\u202eone", 1), "hidden or text-reordering characters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cli(t, rita).call(t, "POST", "/tasks", wire.TaskCreate{Title: "T", Goal: "G", RepositoryId: typeid.Format(typeid.Repo, w.repo), PlanGate: true, Risk: "LOW"}).want(t, http.StatusCreated)
			l := w.worker(t, "one").claim(t, wire.Execute)
			l.planned(t, c.plan)
			b := w.signedIn(t, ana)
			gate := into[wire.GateList](t, w.cli(t, ana).call(t, "GET", "/gates?run_id="+l.as.RunId, nil).want(t, http.StatusOK)).Items[0].Id
			if c.says == "" {
				if doc := b.get(t, "/gates/"+gate+"/quick").page(t); doc.Find("details.quick .plansteps li, details.quick .plan").Length() == 0 || doc.Find("details.quick textarea").Length() != 0 {
					t.Errorf("the page says %q", doc.Find("details.quick").Text())
				}
				b.post(t, "/gates/"+gate+"/decisions", b.quickForm(t, gate)).want(t, http.StatusSeeOther)
				return
			}
			form := b.gateForm(t, gate)
			form.Set("verdict", "approve")
			form.Set("quick", "1")
			doc := b.post(t, "/gates/"+gate+"/decisions", form, "HX-Request", "true").want(t, http.StatusConflict).page(t)
			if doc.Find("form, .plan").Length() != 0 || !strings.Contains(doc.Find(".outcome").Text(), c.says) {
				t.Errorf("the answer says %q", doc.Text())
			}
		})
	}
}

// 2.1: the risk that counts is that of the moment of the decision, also where the page that offered it is older.
func TestTheRiskRisesUnderAnOpenRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.", "risk", "LOW")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	b := w.signedIn(t, ana)
	form := b.quickForm(t, gate)
	got(w.store.SavePolicy(t.Context(), db.DefaultTenant, "version: two\npaths:\n  protected: [a.txt]\n"))(t)
	a := b.post(t, "/gates/"+gate+"/decisions", form, "HX-Request", "true").want(t, http.StatusConflict)
	if doc := a.page(t); doc.Find("form, table").Length() != 0 || !strings.Contains(doc.Find(".outcome").Text(), "Its risk is high") {
		t.Errorf("the row says %q", doc.Text())
	}
	if n := b.get(t, "/inbox").page(t).Find("#gate-" + gate + " a[hx-get]").Length(); n != 0 {
		t.Error("the row still offers it")
	}
}
