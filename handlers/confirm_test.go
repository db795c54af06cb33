package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/typeid"
)

// A24, S5, O12: a decision of high risk needs a login of the last quarter of an hour. Whoever has an older one is sent to the
// provider and comes back to the form; nothing is submitted on the way, the note is kept, and the session has a new name.
func TestConfirmLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.", "risk", "HIGH")
	l := w.worker(t, "one").claim(t, "execute")
	l.plan(t)
	id := got(typeid.Parse(typeid.Run, l.as.RunId))(t)
	gate := typeid.Format(typeid.Gate, got(w.store.GatesOfRun(t.Context(), db.DefaultTenant, id, 1))(t)[0].ID)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	decided := func() (n int) {
		must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM decisions").Scan(&n))
		return n
	}
	age := func(by string) {
		got(conn.Exec(t.Context(), "UPDATE sessions SET auth_time = now() - $1::interval", by))(t)
	}
	b := w.signedIn(t, ana)
	page := "/gates/" + gate
	approve := func() answer {
		form := b.gateForm(t, gate)
		form.Set("verdict", "approve")
		form.Set("text", "Looks right to me.")
		return b.post(t, page+"/decisions", form)
	}
	age("16 minutes")
	a := approve().want(t, http.StatusForbidden)
	if decided() != 0 {
		t.Fatal("an old login decided")
	}
	link := a.page(t).Find(`a[href^="/login/confirm"]`)
	if link.Length() != 1 || !strings.Contains(a.body, "Confirm it is you, then press Approve again. Your note is kept.") {
		t.Fatalf("%d links to confirm", link.Length())
	}
	sid := func() string {
		for _, c := range b.Jar.Cookies(got(url.Parse(w.url))(t)) {
			if c.Name == "sid" {
				return c.Value
			}
		}
		return ""
	}
	confirm := func(as idPerson, claims func(map[string]any)) answer {
		w.idp.signInAs(as)
		w.idp.misbehave(claims)
		defer w.idp.misbehave(nil)
		to := b.get(t, link.AttrOr("href", "")).want(t, http.StatusFound).Header.Get("Location")
		if got(url.Parse(to))(t).Query().Get("max_age") != "600" {
			t.Errorf("sent to %s", to)
		}
		return b.get(t, b.get(t, to).want(t, http.StatusFound).Header.Get("Location"))
	}
	for name, c := range map[string]struct {
		as     idPerson
		claims func(map[string]any)
	}{
		"another person":        {ben, nil},
		"the provider says not": {ana, func(c map[string]any) { delete(c, "auth_time") }},
		"asked long ago":        {ana, func(c map[string]any) { c["auth_time"] = time.Now().Add(-time.Hour).Unix() }},
	} {
		before := sid()
		if a := confirm(c.as, c.claims); a.StatusCode != http.StatusUnauthorized || !strings.Contains(a.body, "Nothing was confirmed") {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
		if sid() != before || !b.signedIn(t) {
			t.Errorf("%s: the login of before is another, or has ended", name)
		}
		if approve().StatusCode != http.StatusForbidden {
			t.Fatalf("%s: approved", name)
		}
	}
	before := sid()
	back := confirm(ana, nil).want(t, http.StatusSeeOther).Header.Get("Location")
	if back != page+"?done=confirmed" || sid() == before || decided() != 0 {
		t.Errorf("back at %q, %d decisions, the same session: %t", back, decided(), sid() == before)
	}
	again := b.get(t, back).want(t, http.StatusOK)
	if text := again.page(t).Find("#f-text").Text(); text != "Looks right to me." {
		t.Errorf("the form has %q", text)
	}
	if !strings.Contains(again.body, "It is you. Press Approve again; your note is kept.") {
		t.Error("the page does not say how to go on")
	}
	age("14 minutes")
	approve().want(t, http.StatusSeeOther)
	if decided() != 1 {
		t.Errorf("%d decisions", decided())
	}
}

// S5: a rejection takes nothing over that anybody could misuse, so an old login may give it; and a policy may
// ask nobody.
func TestConfirmLoginIsForApprovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester, k := w.signedIn(t, rita), w.worker(t, "one")
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	approver := w.signedIn(t, ana)
	for _, verdict := range []string{"reject", "approve"} {
		if verdict == "approve" {
			got(w.store.SavePolicy(t.Context(), db.DefaultTenant, "version: two\ngates:\n  confirm_login: []\n"))(t)
		}
		requester.submit(t, "Replace one word.", "risk", "HIGH")
		l := k.claim(t, "execute")
		l.plan(t)
		id := got(typeid.Parse(typeid.Run, l.as.RunId))(t)
		gate := typeid.Format(typeid.Gate, got(w.store.GatesOfRun(t.Context(), db.DefaultTenant, id, 1))(t)[0].ID)
		got(conn.Exec(t.Context(), "UPDATE sessions SET auth_time = '0001-01-01'"))(t)
		form := approver.gateForm(t, gate)
		form.Set("verdict", verdict)
		form.Set("text", "Because.")
		approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	}
}
