package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// cells are a table's rows as text, each with its cells between bars.
func cells(page *goquery.Document, region string) []string {
	var rows []string
	page.Find("[aria-label='" + region + "'] tbody tr").Each(func(_ int, tr *goquery.Selection) {
		var line []string
		tr.Find("th, td").Each(func(_ int, c *goquery.Selection) { line = append(line, strings.Join(strings.Fields(c.Text()), " ")) })
		rows = append(rows, strings.Join(line, " | "))
	})
	return rows
}

// holds reports whether one of the rows begins so.
func holds(rows []string, begins string) bool {
	for _, r := range rows {
		if strings.HasPrefix(r, begins) {
			return true
		}
	}
	return false
}

// A11, R-UI-2: what somebody may do, by which group of which provider, what they can approve and why not, are read from one page;
// it says the same as the gate says to them.
func TestAPersonsRightsAreExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	both := idPerson{sub: "both", name: "Both", groups: []string{"requesters", "approvers", "choir"}}
	w.signedIn(t, both).submit(t, "Replace one word.")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	admin := w.signedIn(t, adam)
	page := func(p idPerson) *goquery.Document {
		return admin.get(t, "/admin/people/"+typeid.Format(typeid.User, w.user(t, p).User)).want(t, http.StatusOK).page(t)
	}
	rows := cells(page(both), "Table of roles")
	for _, want := range []string{"viewer | no | Would come from group viewers at test", "requester | Yes | Group requesters at test", "approver | Yes | Group approvers at test", "admin | no | Would come from group admins at test", "breakglass | no | No group gives it"} {
		if !holds(rows, want) {
			t.Errorf("%q is not among\n%s", want, strings.Join(rows, "\n"))
		}
	}
	told := func(p idPerson) string {
		return into[wire.Gate](t, w.cli(t, p).call(t, "GET", "/gates/"+gate, nil).want(t, http.StatusOK)).MayNotWhy
	}
	for _, p := range []idPerson{both, ana, vera} {
		rows := cells(page(p), "Table of open gates")
		if len(rows) != 1 {
			t.Fatalf("%s: %d gates", p.name, len(rows))
		}
		want := " | approver | Yes | nothing stands in the way"
		if why := told(p); why != "" {
			want = " | approver | no | “" + why + "”"
		} else if p.sub != ana.sub {
			t.Errorf("%s may approve", p.name)
		}
		if !strings.Contains(rows[0], want) {
			t.Errorf("%s: %s, want %s", p.name, rows[0], want)
		}
	}
	// The mapping was changed since: what is held, what ends and what comes are told apart.
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	id := typeid.Format(typeid.User, w.user(t, both).User)
	got(conn.Exec(t.Context(), "UPDATE group_roles SET role = 'viewer' WHERE group_name = 'approvers'"))(t)
	rows = cells(admin.get(t, "/admin/people/"+id).page(t), "Table of roles")
	if !holds(rows, "approver | Yes | The last sign-in; none of its groups") || !holds(rows, "viewer | no | Comes with the next sign-in: group approvers at test") {
		t.Errorf("after the mapping changed:\n%s", strings.Join(rows, "\n"))
	}
	// Nobody else sees any of it, and another tenant's administrator finds nobody.
	w.signedIn(t, both).get(t, "/admin/people/"+id).want(t, http.StatusForbidden)
	strangers := w.strangers(t, conn)
	strangers[0].cookie.get(t, "/admin/people/"+id).want(t, http.StatusNotFound)
	if list := strangers[0].cookie.get(t, "/admin/people").want(t, http.StatusOK); strings.Contains(list.body, both.name) || !strings.Contains(list.body, "Nina") {
		t.Error("the list of another tenant's people")
	}
}

// S6, S10, S11: an administrator sees the tokens of everybody, revokes them, and enrols and ends workers by pages alone; lists go on
// from page to page without a gap.
func TestAdminPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.signedIn(t, adam)
	theirs := w.token(t, rita, "read")
	send := func(path, form string) answer {
		t.Helper()
		f := admin.get(t, path).want(t, http.StatusOK).page(t).Find("form[action$='" + form + "']").First()
		action, ok := f.Attr("action")
		if !ok {
			t.Fatalf("%s has no form to %s", path, form)
		}
		return admin.post(t, action, fields(f))
	}
	if rows := cells(admin.get(t, "/admin/tokens").page(t), "Table of API tokens"); len(rows) != 1 || !strings.Contains(rows[0], rita.name) {
		t.Errorf("everybody's tokens: %v", rows)
	}
	send("/admin/tokens", "/revoke").want(t, http.StatusSeeOther)
	theirs.call(t, "GET", "/me", nil).want(t, http.StatusUnauthorized)

	// A worker, from the token that the page shows to the end of its credential.
	form := fields(admin.get(t, "/admin/workers").page(t).Find("form[action='/admin/workers']"))
	admin.post(t, "/admin/workers", form).want(t, http.StatusUnprocessableEntity)
	form.Set("name", "build-1")
	form["phases"] = []string{"verify"}
	shown := admin.post(t, "/admin/workers", form).want(t, http.StatusOK)
	token, _ := shown.page(t).Find("#secret").Attr("value")
	if again := admin.get(t, "/admin/workers"); shown.Header.Get("Cache-Control") != "no-store" || strings.Contains(again.body, token) || token == "" {
		t.Errorf("the token %q is kept or shown again", token)
	}
	admin.post(t, "/admin/workers", form).want(t, http.StatusSeeOther) // sent twice: made once
	k := client{w, into[wire.MintedToken](t, client{w: w}.call(t, "POST", "/workers/enrol", wire.WorkerEnrol{Token: token}).want(t, http.StatusCreated)).Secret}
	page := admin.get(t, "/admin/workers").page(t)
	if rows := cells(page, "Table of enrolment tokens"); len(rows) != 1 || !strings.Contains(rows[0], "build-1") || !strings.Contains(rows[0], "Used") {
		t.Errorf("enrolment tokens: %v", rows)
	}
	k.call(t, "GET", "/me", nil).want(t, http.StatusOK)
	send("/admin/workers", "/revoke").want(t, http.StatusSeeOther)
	k.call(t, "GET", "/me", nil).want(t, http.StatusUnauthorized)
	w.enrolment(t, "build-2")
	send("/admin/workers", "/revoke").want(t, http.StatusSeeOther)
	if rows := cells(admin.get(t, "/admin/workers").page(t), "Table of enrolment tokens"); !holds(rows, "build-2") || !strings.Contains(rows[0], "Withdrawn") {
		t.Errorf("after withdrawing: %v", rows)
	}
	// Who signs in and where from, and the index that leads there.
	if rows := cells(admin.get(t, "/admin/providers").page(t), "Table of groups of test"); !holds(rows, "approvers | approver") || len(rows) != 4 {
		t.Errorf("groups: %v", rows)
	}
	if body := admin.get(t, "/admin/providers").body; strings.Contains(body, ">secret<") || strings.Contains(body, `"secret"`) {
		t.Error("the provider's secret is shown")
	}
	places := map[string]bool{}
	admin.get(t, "/admin").page(t).Find("main table a").Each(func(_ int, a *goquery.Selection) {
		places[a.AttrOr("href", "")] = true
		admin.get(t, a.AttrOr("href", "")).want(t, http.StatusOK)
	})
	for _, want := range []string{"/policies", "/audit", "/repositories"} {
		if !places[want] {
			t.Errorf("the administration does not lead to %s", want)
		}
	}

	for i := range 120 {
		w.user(t, idPerson{sub: fmt.Sprint("p", i), name: fmt.Sprintf("Person %03d", i), groups: []string{"viewers"}})
	}
	seen, pages := map[string]bool{}, 0
	for path := "/admin/people?q=person"; path != ""; pages++ {
		page := admin.get(t, path).want(t, http.StatusOK).page(t)
		for _, row := range cells(page, "Table of people") {
			if seen[row[:10]] {
				t.Errorf("%s is listed twice", row)
			}
			seen[row[:10]] = true
		}
		path, _ = page.Find(".pager a[rel=next]").Attr("href")
	}
	if len(seen) != 120 || pages != 3 {
		t.Errorf("%d people on %d pages", len(seen), pages)
	}
	if empty := admin.get(t, "/admin/people?q=nobody-at-all").page(t); !strings.Contains(empty.Find("main").Text(), "Nobody.") {
		t.Error("an empty list says nothing")
	}
}
