package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

func (w *world) adminLink(t testing.TB, forced bool) (string, error) {
	t.Helper()
	secret := db.Mint(db.PrefixAdminLink)
	return secret, w.store.MakeAdminLink(t.Context(), secret, 10*time.Minute, forced, &db.Audit{Tenant: db.DefaultTenant, By: run.Actor{Kind: run.ControlPlane}, Action: "admin.link", ObjectType: "admin_link", Result: "recorded"})
}

// count reads one number as the database's owner.
func (w *world) count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	return w.countAs(t, w.data.OwnerURL, query, args...)
}

func (w *world) countAs(t testing.TB, url, query string, args ...any) (n int) {
	t.Helper()
	conn := got(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(t.Context())
	must(t, conn.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

var nora = idPerson{sub: "nora", name: "Nora Newcomer", groups: []string{"everybody"}}

// use opens the link and sends the form that its page shows.
func (b *browser) use(t testing.TB, link string) answer {
	t.Helper()
	b.get(t, "/become-admin/"+link).want(t, http.StatusSeeOther)
	form := fields(b.get(t, "/become-admin").want(t, http.StatusOK).page(t).Find("form[action='/become-admin']"))
	return b.post(t, "/become-admin", form)
}

// O18: the first administrator is made by a one-time link: whoever opens it and signs in has the role, also after the next sign-in,
// until it is taken back. It is kept as a hash, stands in no address on the way, works once, and is in the audit.
func TestFirstAdministratorByLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, nora)
	told := b.get(t, "/inbox").want(t, http.StatusForbidden).page(t).Find("main").Text()
	for _, want := range []string{"You are signed in as Nora Newcomer, and none of your groups", "sign out and in again", "signalbox admin link"} {
		if !strings.Contains(told, want) {
			t.Errorf("somebody without a role is not told %q: %s", want, told)
		}
	}
	link, err := w.adminLink(t, false)
	must(t, err)
	b = w.browser()
	b.get(t, "/become-admin").want(t, http.StatusGone)
	opened := b.get(t, "/become-admin/"+link).want(t, http.StatusSeeOther)
	if to := opened.Header.Get("Location"); to != "/become-admin" || opened.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the link leads to %s", to)
	}
	asked := b.get(t, "/become-admin").want(t, http.StatusSeeOther).Header.Get("Location")
	if asked != "/login?return_to=%2Fbecome-admin" {
		t.Errorf("who is not signed in is sent to %s", asked)
	}
	if a := b.post(t, "/become-admin", url.Values{"idempotency_key": {"0123456789"}}); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("nobody used the link: %d", a.StatusCode)
	}
	if to := b.login(t, nora, "/become-admin").want(t, http.StatusSeeOther).Header.Get("Location"); to != "/become-admin" {
		t.Errorf("after the login: %s", to)
	}
	form := fields(b.get(t, "/become-admin").want(t, http.StatusOK).page(t).Find("form[action='/become-admin']"))
	for range 2 { // a form that is sent twice does one thing
		b.post(t, "/become-admin", form).want(t, http.StatusSeeOther)
		b.get(t, "/become-admin/"+link)
	}
	b.get(t, "/admin").want(t, http.StatusOK)
	again := w.signedIn(t, nora)
	again.get(t, "/admin").want(t, http.StatusOK)
	if n := w.count(t, `SELECT count(*) FROM admin_links WHERE encode(hash, 'escape') LIKE '%' || $1 || '%'`, link) + w.count(t, `SELECT count(*) FROM login_states WHERE return_to LIKE '%sba_%'`); n != 0 || strings.Contains(w.log.String(), link) {
		t.Error("the link stands in the database or in the log")
	}
	for action, want := range map[string]int{"admin.link": 1, "admin.appoint": 1} {
		if n := w.count(t, `SELECT count(*) FROM audit_log WHERE action = $1`, action); n != want {
			t.Errorf("%d audit lines %s, want %d", n, action, want)
		}
	}

	// The link is worth nothing to anybody else, and no other is made while there is an administrator, unless somebody insists.
	other := w.signedIn(t, vera)
	other.get(t, "/become-admin/"+link).want(t, http.StatusSeeOther)
	other.get(t, "/become-admin").want(t, http.StatusGone)
	other.post(t, "/become-admin", url.Values{"idempotency_key": {"0123456789"}}).want(t, http.StatusGone)
	other.get(t, "/admin").want(t, http.StatusForbidden)
	if _, err := w.adminLink(t, false); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a second link without --force: %v", err)
	}
	insisted, err := w.adminLink(t, true)
	must(t, err)
	if to := other.use(t, insisted).want(t, http.StatusSeeOther).Header.Get("Location"); to != "/admin?done=admin-appointed" {
		t.Errorf("after the second: %s", to)
	}

	// What a link gave is taken back by another administrator; the last one stays.
	dismiss := func(by *browser, who idPerson) answer {
		return by.post(t, "/admin/people/"+typeid.Format(typeid.User, w.user(t, who).User)+"/dismiss", url.Values{"idempotency_key": {db.NewSecret()}})
	}
	page := other.get(t, "/admin/people/"+typeid.Format(typeid.User, w.user(t, nora).User)).page(t).Find("main").Text()
	if !strings.Contains(page, "A one-time link of the server's command line") || !strings.Contains(page, "Take back the role that the link gave") {
		t.Errorf("where the role comes from: %s", page)
	}
	dismiss(other, nora).want(t, http.StatusSeeOther)
	again.get(t, "/admin").want(t, http.StatusForbidden)
	dismiss(other, nora).want(t, http.StatusConflict)
	dismiss(other, vera).want(t, http.StatusConflict)
	other.get(t, "/admin").want(t, http.StatusOK)
}

// O18: of many who use one link at the same moment one becomes administrator.
func TestOneLinkMakesOneAdministrator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link, err := w.adminLink(t, false)
	must(t, err)
	const people = 6
	start, codes := make(chan struct{}), make([]int, people)
	var wg sync.WaitGroup
	for n := range people {
		b := w.signedIn(t, idPerson{sub: "p" + string(rune('a'+n)), name: "Person"})
		b.get(t, "/become-admin/"+link).want(t, http.StatusSeeOther)
		form := fields(b.get(t, "/become-admin").want(t, http.StatusOK).page(t).Find("form[action='/become-admin']"))
		wg.Go(func() {
			<-start
			codes[n] = b.post(t, "/become-admin", form).StatusCode
		})
	}
	close(start)
	wg.Wait()
	tally := map[int]int{}
	for _, c := range codes {
		tally[c]++
	}
	if tally[http.StatusSeeOther] != 1 || tally[http.StatusGone] != people-1 {
		t.Errorf("answers %v", tally)
	}
	if n := w.count(t, `SELECT count(*) FROM memberships WHERE 'admin' = ANY(roles)`); n != 1 {
		t.Errorf("%d administrators", n)
	}
	// Too old is as good as used.
	late, err := w.adminLink(t, true)
	must(t, err)
	w.sql(t, `UPDATE admin_links SET expires_at = now() - interval '1 second'`)
	b := w.signedIn(t, vera)
	b.get(t, "/become-admin/"+late)
	b.get(t, "/become-admin").want(t, http.StatusGone)
	b.post(t, "/become-admin", url.Values{"idempotency_key": {"0123456789"}}).want(t, http.StatusGone)
}

// O7, O18: the person whom the configuration names by issuer and subject is an administrator at each sign-in, audited once; the same
// subject at another provider is somebody else.
func TestConfiguredAdministrator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := idPerson{sub: "root", name: "Root", groups: []string{"viewers"}}
	for range 2 {
		w.signedIn(t, root).get(t, "/admin").want(t, http.StatusOK)
	}
	if n := w.count(t, `SELECT count(*) FROM audit_log WHERE action = 'admin.appoint' AND detail ->> 'by' = 'configuration'`); n != 1 {
		t.Errorf("%d audit lines of the appointment", n)
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var user uuid.UUID
	must(t, conn.QueryRow(t.Context(), `SELECT user_id FROM identities WHERE subject = 'root'`).Scan(&user))
	page := w.signedIn(t, adam).get(t, "/admin/people/"+typeid.Format(typeid.User, user)).page(t).Find("main").Text()
	if !strings.Contains(page, "The server's configuration, at each sign-in") {
		t.Errorf("where the role comes from: %s", page)
	}
	idp, id := w.otherProvider(t, "elsewhere", nil)
	idp.signInAs(root)
	b := w.browser()
	a := b.get(t, "/login/"+typeid.Format(typeid.Provider, id)+"?return_to=%2Fadmin").want(t, http.StatusFound)
	a = b.get(t, a.Header.Get("Location")).want(t, http.StatusFound)
	b.get(t, a.Header.Get("Location")).want(t, http.StatusSeeOther)
	b.get(t, "/admin").want(t, http.StatusForbidden)
}
