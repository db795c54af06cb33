package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/typeid"
)

// R-UI-4: a whole code flow with PKCE, and back to where the person wanted to go.
func TestLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	a := b.get(t, "/tasks?state=READY").want(t, http.StatusSeeOther)
	if loc := a.Header.Get("Location"); loc != "/login?return_to=%2Ftasks%3Fstate%3DREADY" {
		t.Fatalf("redirected to %q", loc)
	}
	page := b.get(t, a.Header.Get("Location")).want(t, http.StatusOK).page(t)
	link, _ := page.Find("a.button-primary").Attr("href")
	if !strings.HasPrefix(link, "/login/idp_") {
		t.Fatalf("login page links to %q", link)
	}
	end := b.login(t, rita, "/tasks?state=READY").want(t, http.StatusSeeOther)
	if loc := end.Header.Get("Location"); loc != "/tasks?state=READY" {
		t.Errorf("ended at %q", loc)
	}
	b.get(t, "/tasks?state=READY").want(t, http.StatusOK)
	if got := w.idp.challenges; len(got) != 1 || got[0] != "S256" {
		t.Errorf("code challenge methods %v, want S256", got)
	}
	// Somebody who is signed in is not sent round again.
	if loc := b.get(t, "/login?return_to=/runs").want(t, http.StatusSeeOther).Header.Get("Location"); loc != "/runs" {
		t.Errorf("a second login leads to %q", loc)
	}
}

// S1, S2, O12: what the cookie is, what the database knows of it, and what it is worth before and after.
func TestSessionCookie(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	u := got(url.Parse(w.url))(t)
	fixed := &http.Cookie{Name: "sid", Value: strings.Repeat("x", 43)}
	b.Jar.SetCookies(u, []*http.Cookie{fixed})
	a := b.login(t, rita, "/").want(t, http.StatusSeeOther)
	var set string
	for _, c := range a.Header.Values("Set-Cookie") {
		if strings.HasPrefix(c, "sid=") {
			set = c
		}
	}
	value, attributes, _ := strings.Cut(set, ";")
	if attributes != " Path=/; HttpOnly; SameSite=Lax" {
		t.Errorf("Set-Cookie attributes %q", attributes)
	}
	value = strings.TrimPrefix(value, "sid=")
	if value == fixed.Value || len(value) != 43 {
		t.Errorf("session name %q: fixed by the caller or of the wrong length", value)
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var dump string
	must(t, conn.QueryRow(t.Context(), "SELECT coalesce(string_agg(s::text, ' '), '') FROM sessions s").Scan(&dump))
	if dump == "" || strings.Contains(dump, value) {
		t.Error("the database holds the cookie, or no session")
	}
	if strings.Contains(w.log.String(), value) {
		t.Error("the log holds the cookie")
	}
	// A captured cookie is worth nothing after the logout.
	b.get(t, "/inbox").want(t, http.StatusOK)
	out := b.post(t, "/logout", nil).want(t, http.StatusSeeOther)
	if out.Header.Get("Clear-Site-Data") == "" {
		t.Error("logout does not clear site data")
	}
	captured := w.browser()
	captured.Jar.SetCookies(u, []*http.Cookie{{Name: "sid", Value: value}})
	captured.get(t, "/inbox").want(t, http.StatusSeeOther)
}

// A second login of the same browser deletes the session before it.
func TestLoginRotatesTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := got(url.Parse(w.url))(t)
	first := w.signedIn(t, rita)
	var old string
	for _, c := range first.Jar.Cookies(u) {
		if c.Name == "sid" {
			old = c.Value
		}
	}
	// The person begins a login in a second tab while the first session still lives, then is signed out there.
	second := w.browser()
	second.Jar.SetCookies(u, []*http.Cookie{{Name: "sid", Value: old}})
	w.idp.signInAs(ana)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	fresh := w.browser()
	start := fresh.get(t, "/login/"+typeid.Format(typeid.Provider, w.provider)).want(t, http.StatusFound)
	fresh.Jar.SetCookies(u, []*http.Cookie{{Name: "sid", Value: old}})
	cb := fresh.get(t, start.Header.Get("Location")).want(t, http.StatusFound)
	fresh.get(t, cb.Header.Get("Location")).want(t, http.StatusSeeOther)
	second.get(t, "/inbox").want(t, http.StatusSeeOther)
	fresh.get(t, "/inbox").want(t, http.StatusOK)
}

// O1: a state that is missing, foreign, used or of another browser signs nobody in.
func TestLoginState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	provider := typeid.Format(typeid.Provider, w.provider)
	callback := func(t *testing.T, b *browser) string {
		w.idp.signInAs(rita)
		a := b.get(t, "/login/"+provider).want(t, http.StatusFound)
		return b.get(t, a.Header.Get("Location")).want(t, http.StatusFound).Header.Get("Location")
	}
	nobody := func(t *testing.T, b *browser) {
		t.Helper()
		if a := b.get(t, "/inbox"); a.StatusCode != http.StatusSeeOther {
			t.Errorf("somebody is signed in: %d", a.StatusCode)
		}
	}
	t.Run("missing", func(t *testing.T) {
		b := w.browser()
		u := got(url.Parse(callback(t, b)))(t)
		u.RawQuery = url.Values{"code": {u.Query().Get("code")}}.Encode()
		b.get(t, u.String()).want(t, http.StatusBadRequest)
		nobody(t, b)
	})
	t.Run("used twice", func(t *testing.T) {
		b := w.browser()
		at := callback(t, b)
		b.get(t, at).want(t, http.StatusSeeOther)
		other := w.browser()
		other.get(t, at).want(t, http.StatusBadRequest)
		nobody(t, other)
	})
	t.Run("another browser's", func(t *testing.T) {
		at := callback(t, w.browser())
		b := w.browser()
		callback(t, b)
		b.get(t, at).want(t, http.StatusBadRequest)
		nobody(t, b)
	})
	t.Run("of another provider's callback", func(t *testing.T) {
		b := w.browser()
		at := callback(t, b)
		b.get(t, strings.Replace(at, provider, typeid.Format(typeid.Provider, typeid.New()), 1)).want(t, http.StatusBadRequest)
		nobody(t, b)
	})
	t.Run("expired", func(t *testing.T) {
		b := w.browser()
		at := callback(t, b)
		conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
		defer conn.Close(t.Context())
		got(conn.Exec(t.Context(), "UPDATE login_states SET expires_at = now() - interval '1 second'"))(t)
		b.get(t, at).want(t, http.StatusBadRequest)
		nobody(t, b)
	})
	t.Run("two tabs both work", func(t *testing.T) {
		b := w.browser()
		one, two := callback(t, b), callback(t, b)
		b.get(t, one).want(t, http.StatusSeeOther)
		b.get(t, two).want(t, http.StatusSeeOther)
		b.get(t, "/inbox").want(t, http.StatusOK)
	})
	t.Run("many tabs leave few cookies", func(t *testing.T) {
		b := w.browser()
		for range 12 {
			callback(t, b)
		}
		n := 0
		for _, c := range b.Jar.Cookies(got(url.Parse(w.url))(t)) {
			if strings.HasPrefix(c.Name, "login-") {
				n++
			}
		}
		if n > 5 {
			t.Errorf("%d login cookies", n)
		}
	})
}

// O16: half a minute of skew between two clocks is no reason to refuse anybody; TestMalformedLogins has what is too much.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, claims := range map[string]func(map[string]any){
		"behind": func(c map[string]any) { c["exp"] = time.Now().Add(-30 * time.Second).Unix() },
		"ahead": func(c map[string]any) {
			c["iat"], c["auth_time"] = time.Now().Add(30*time.Second).Unix(), time.Now().Add(30*time.Second).Unix()
		},
	} {
		w.idp.misbehave(claims)
		if a := w.browser().login(t, rita, "/"); a.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
}

// O7, O9, O10: the subject identifies, groups are matched exactly and only when they are really there.
func TestRolesComeFromGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	roles := func(t *testing.T, p idPerson) string {
		b := w.browser()
		b.login(t, p, "/").want(t, http.StatusSeeOther)
		a := b.get(t, "/inbox")
		if a.StatusCode == http.StatusForbidden {
			return ""
		}
		return strings.Join(strings.Fields(a.want(t, 200).page(t).Find(".user-roles, .usermenu .muted").First().Text()), " ")
	}
	if a := roles(t, idPerson{sub: "p1", name: "P", groups: []string{"Approvers", "approvers2", "app"}}); a != "" {
		t.Errorf("groups that only look alike gave access: %q", a)
	}
	same := idPerson{sub: "ana-2", name: ana.name, email: "ana@example.test", groups: nil}
	w.user(t, ana)
	if w.user(t, same).User == w.user(t, ana).User {
		t.Error("two subjects with one name are one person")
	}
	t.Run("a group that is gone takes its role at the next login", func(t *testing.T) {
		b := w.signedIn(t, ana)
		b.get(t, "/inbox").want(t, http.StatusOK)
		w.signedIn(t, idPerson{sub: "ana", name: ana.name, groups: []string{"viewers"}})
		// The older session has the new rights at once.
		cli := w.cli(t, idPerson{sub: "ana", name: ana.name, groups: []string{"viewers"}})
		if p := into[struct{ Roles []string }](t, cli.call(t, "GET", "/me", nil)); len(p.Roles) != 1 || p.Roles[0] != "viewer" {
			t.Errorf("roles %v", p.Roles)
		}
	})
	t.Run("a claim that is only pointed to gives nothing", func(t *testing.T) {
		w.idp.misbehave(func(c map[string]any) {
			delete(c, "groups")
			c["_claim_names"] = map[string]any{"groups": "src1"}
			c["_claim_sources"] = map[string]any{"src1": map[string]any{"endpoint": "https://graph.example/groups"}}
		})
		defer w.idp.misbehave(nil)
		b := w.browser()
		b.login(t, idPerson{sub: "over", name: "O"}, "/").want(t, http.StatusSeeOther)
		b.get(t, "/inbox").want(t, http.StatusForbidden)
	})
	t.Run("user info is asked where the token has no groups", func(t *testing.T) {
		w.idp.misbehave(func(c map[string]any) { delete(c, "groups") })
		defer w.idp.misbehave(nil)
		w.idp.mu.Lock()
		w.idp.userinfo = map[string]any{"sub": "uwe", "groups": []string{"viewers"}}
		w.idp.mu.Unlock()
		w.signedIn(t, idPerson{sub: "uwe", name: "Uwe"}).get(t, "/inbox").want(t, http.StatusOK)
		w.idp.mu.Lock()
		w.idp.userinfo = map[string]any{"sub": "somebody-else", "groups": []string{"admins"}}
		w.idp.mu.Unlock()
		w.browser().login(t, idPerson{sub: "eve", name: "Eve"}, "/").want(t, http.StatusUnauthorized)
	})
}

// An outage of the provider signs nobody in and nobody out (O15).
func TestProviderOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	w.idp.mu.Lock()
	w.idp.sign = func(t *testing.T, _ []byte) string { return strings.Repeat("A", 3<<20) }
	w.idp.mu.Unlock()
	if a := w.browser().login(t, ana, "/"); a.StatusCode < 400 {
		t.Errorf("an answer of three megabytes was accepted: %d", a.StatusCode)
	}
	b.get(t, "/inbox").want(t, http.StatusOK)
}

// A client secret that no key opens keeps people from that provider, and from no other: the login page is there, and says it of the one
// that they choose.
func TestALostKeyKeepsNobodyFromOtherProviders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, lost := w.otherProvider(t, "elsewhere", nil)
	w.sql(t, `UPDATE providers SET client_secret_sealed = replace(client_secret_sealed, 'v1.', 'v1.gone-') WHERE name = 'elsewhere'`)
	b := w.browser()
	if n := b.get(t, "/login").want(t, http.StatusOK).page(t).Find("a[href^='/login/idp_']").Length(); n != 2 {
		t.Errorf("%d providers on the login page", n)
	}
	b.get(t, "/login/"+typeid.Format(typeid.Provider, lost)).want(t, http.StatusServiceUnavailable)
	w.signedIn(t, rita).get(t, "/runs").want(t, http.StatusOK)
}
