package handlers_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// as signs in with the name of a program.
func (w *world) as(t *testing.T, p idPerson, agent string) *browser {
	t.Helper()
	b := w.browser()
	b.Transport = named{agent}
	b.login(t, p, "/inbox").want(t, http.StatusSeeOther)
	return b
}

type named struct{ agent string }

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("User-Agent", n.agent)
	return http.DefaultTransport.RoundTrip(r)
}

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
	chrome  = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)

// end sends the form of a page that has a name in its row.
func (b *browser) end(t *testing.T, action string) answer {
	t.Helper()
	f := b.get(t, "/sessions").want(t, http.StatusOK).page(t).Find(`form[action="` + action + `"]`)
	if f.Length() != 1 {
		t.Fatalf("%d forms to %s", f.Length(), action)
	}
	return b.post(t, action, url.Values{"idempotency_key": {f.Find("input[name=idempotency_key]").AttrOr("value", "")}})
}

// actionOf is where the form in the row of a name leads.
func actionOf(t *testing.T, page *goquery.Document, name string) string {
	t.Helper()
	row := page.Find("tr").FilterFunction(func(_ int, s *goquery.Selection) bool { return strings.Contains(s.Find("th").Text(), name) })
	if row.Length() != 1 {
		t.Fatalf("%d rows are of %q in %s", row.Length(), name, page.Find("main").Text())
	}
	return row.Find("form").AttrOr("action", "")
}

func (b *browser) signedIn(t *testing.T) bool {
	t.Helper()
	return b.get(t, "/inbox").StatusCode == http.StatusOK
}

// R-UI-4, S5: a person sees where they are signed in, ends one login or all others, and nobody else's.
func TestOwnSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there, third := w.as(t, rita, firefox), w.as(t, rita, chrome), w.as(t, rita, `<b>curl</b>`)
	cli, other := w.cli(t, rita), w.as(t, ana, firefox)
	page := here.get(t, "/sessions").want(t, http.StatusOK).page(t)
	text := page.Find("main").Text()
	for _, want := range []string{"Firefox on Linux", "Chrome on Windows", "Another program", "Command line"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not name %s:\n%s", want, text)
		}
	}
	if n := page.Find("tbody tr").Length(); n != 4 {
		t.Errorf("%d logins, want 4", n)
	}
	mine := page.Find("tr").FilterFunction(func(_ int, s *goquery.Selection) bool { return strings.Contains(s.Text(), "This browser") })
	if mine.Length() != 1 || !strings.Contains(mine.Text(), "Firefox on Linux") || mine.Find("form").Length() != 0 {
		t.Errorf("this browser is not marked as it should be: %q", mine.Text())
	}
	here.end(t, actionOf(t, page, "Chrome on Windows")).want(t, http.StatusSeeOther)
	if there.signedIn(t) {
		t.Error("a login that was ended goes on")
	}
	if !here.signedIn(t) || !third.signedIn(t) {
		t.Error("another login ended with it")
	}
	// Another person's is as unknown as one that never was.
	theirs := other.get(t, "/sessions").page(t)
	if n := theirs.Find("tbody tr").Length(); n != 1 {
		t.Errorf("somebody else sees %d logins", n)
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var id uuid.UUID
	must(t, conn.QueryRow(t.Context(), "SELECT s.id FROM sessions s JOIN users u ON u.id = s.user_id WHERE u.name = $1", ana.name).Scan(&id))
	here.post(t, "/sessions/"+typeid.Format(typeid.Session, id)+"/end", url.Values{"idempotency_key": {"0123456789"}}).want(t, http.StatusNotFound)
	if !other.signedIn(t) {
		t.Error("somebody ended another person's login")
	}
	// What one of them asked for a moment before, for a command line, ends with it.
	verifier := strings.Repeat("v", 50)
	sum := sha256.Sum256([]byte(verifier))
	link := url.Values{"port": {"4711"}, "state": {"0123456789abcdef"}, "challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "name": {"laptop"}}
	ask := fields(third.get(t, "/cli-login?"+link.Encode()).want(t, http.StatusOK).page(t).Find("form[action='/cli-login']"))
	back := got(url.Parse(third.post(t, "/cli-login", ask).want(t, http.StatusSeeOther).Header.Get("Location")))(t)
	here.end(t, "/sessions/others/end").want(t, http.StatusSeeOther)
	client{w: w}.call(t, "POST", "/login/exchange", wire.LoginExchange{Code: back.Query().Get("code"), Verifier: verifier, Name: "laptop"}).want(t, http.StatusUnauthorized)
	if third.signedIn(t) || cli.call(t, "GET", "/me", nil).StatusCode != http.StatusUnauthorized {
		t.Error("another login of the person goes on")
	}
	if !here.signedIn(t) || !other.signedIn(t) {
		t.Error("the login that asked, or another person's, ended")
	}
	var audited int
	must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM audit_log WHERE action IN ('session.end', 'session.end_others')").Scan(&audited))
	if audited != 2 {
		t.Errorf("%d lines in the audit, want 2", audited)
	}
}

// O10, S2: an administrator ends all logins of a person in the administrator's tenant, and nobody else does.
func TestAdministratorEndsSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two, elsewhere := w.as(t, ana, firefox), w.as(t, ana, chrome), w.as(t, ana, "x")
	cli, requester, admin := w.cli(t, ana), w.as(t, rita, firefox), w.as(t, adam, firefox)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	got(conn.Exec(t.Context(), `WITH t AS (INSERT INTO tenants (id, name) VALUES ($1, 'other') RETURNING id), m AS (
			INSERT INTO memberships (tenant_id, user_id, roles) SELECT t.id, u.id, '{viewer}' FROM t, users u WHERE u.name = $2)
		UPDATE sessions SET tenant_id = t.id FROM t WHERE browser = 'Another program'`, uuid.New(), ana.name))(t)
	if text := requester.get(t, "/sessions").want(t, http.StatusOK).body; strings.Contains(text, ana.name) {
		t.Error("somebody who is no administrator sees who is signed in")
	}
	action := actionOf(t, admin.get(t, "/sessions").want(t, http.StatusOK).page(t), ana.name)
	requester.post(t, action, url.Values{"idempotency_key": {"0123456789"}}).want(t, http.StatusForbidden)
	if !one.signedIn(t) {
		t.Error("somebody who is no administrator ended a login")
	}
	admin.end(t, action).want(t, http.StatusSeeOther)
	if one.signedIn(t) || two.signedIn(t) || cli.call(t, "GET", "/me", nil).StatusCode != http.StatusUnauthorized {
		t.Error("a login goes on")
	}
	if !elsewhere.signedIn(t) || !admin.signedIn(t) || !requester.signedIn(t) {
		t.Error("a login in another tenant or of another person ended")
	}
	w.as(t, ana, firefox) // no right was taken
}

// O14, B9: what is open ends with the login that opened it, at once and not with the next ping; that of another login goes on.
func TestEndedSessionEndsItsStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.as(t, rita, firefox), w.as(t, rita, chrome)
	here.submit(t, "Replace one word.")
	_, run := w.waiting(t, w.worker(t, "one"))
	ends, stop := there.listen(t, "/runs/"+run+"/stream")
	defer stop()
	goesOn, stopToo := here.listen(t, "/runs/"+run+"/stream")
	defer stopToo()
	next(t, ends)
	next(t, goesOn)
	woken, forget := w.hub.SubscribePerson(w.user(t, rita).User)
	defer forget()
	here.end(t, actionOf(t, here.get(t, "/sessions").page(t), "Chrome on Windows")).want(t, http.StatusSeeOther)
	for m := next(t, ends); m.event != "reauth"; m = next(t, ends) {
		if strings.Contains(m.data, "Replace") {
			t.Error("a login that had ended was told something")
		}
	}
	select {
	case <-woken:
	default:
		t.Error("nobody was told that a login has ended; streams would go on until their next ping")
	}
	select {
	case m, open := <-goesOn:
		if !open || m.event == "reauth" {
			t.Error("the stream of a login that goes on has ended")
		}
	default:
	}
}
