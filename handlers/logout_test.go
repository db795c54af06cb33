package handlers_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"

	"signalbox/internal/typeid"
)

const logoutEvent = "http://schemas.openid.net/event/backchannel-logout"

// logoutToken is a token as the provider signs it, with one thing changed.
func (p *idp) logoutToken(t *testing.T, change func(map[string]any)) string {
	t.Helper()
	claims := map[string]any{
		"iss": p.url, "aud": clientID, "iat": time.Now().Unix(), "exp": time.Now().Add(2 * time.Minute).Unix(), "jti": uuid.NewString(),
		"events": map[string]any{logoutEvent: map[string]any{}},
	}
	if change != nil {
		change(claims)
	}
	return p.signed(t, jose.RS256, p.key, got(json.Marshal(claims))(t))
}

// tell sends a logout token as a provider does: no browser, no cookie, no Origin.
func (w *world) tell(t *testing.T, token string) answer {
	t.Helper()
	return w.browser().post(t, "/auth/oidc/"+typeid.Format(typeid.Provider, w.provider)+"/backchannel-logout", url.Values{"logout_token": {token}})
}

// with signs in while the provider names its session.
func (w *world) with(t *testing.T, p idPerson, sid string) *browser {
	t.Helper()
	w.idp.misbehave(func(c map[string]any) { c["sid"] = sid })
	defer w.idp.misbehave(nil)
	return w.as(t, p, firefox)
}

// O14, R-UI-4: a provider's word that somebody signed out there ends their logins here, by the provider's session or by the
// person, once; what it names and nobody knows ends nothing.
func TestBackChannelLogout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two, other := w.with(t, ana, "s-1"), w.with(t, ana, "s-2"), w.with(t, rita, "s-3")
	cli := w.cli(t, ana)
	unknown := w.idp.logoutToken(t, func(c map[string]any) { c["sid"] = "nobody's" })
	if a := w.tell(t, unknown).want(t, http.StatusOK); a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control %q", a.Header.Get("Cache-Control"))
	}
	w.tell(t, w.idp.logoutToken(t, func(c map[string]any) { c["sub"], c["sid"] = "rita", "s-1" })).want(t, http.StatusOK)
	if !one.signedIn(t) || !two.signedIn(t) || !other.signedIn(t) {
		t.Fatal("a token that names nobody's session ended one")
	}
	ended, forget := w.hub.SubscribePerson(w.user(t, ana).User)
	defer forget()
	byOne := w.idp.logoutToken(t, func(c map[string]any) { c["sid"] = "s-1" })
	w.tell(t, byOne).want(t, http.StatusOK)
	if one.signedIn(t) || !two.signedIn(t) || !other.signedIn(t) {
		t.Error("want the named session ended, and no other")
	}
	select {
	case <-ended:
	default:
		t.Error("open streams were not told")
	}
	one = w.with(t, ana, "s-1")
	w.tell(t, byOne).want(t, http.StatusBadRequest)
	if !one.signedIn(t) {
		t.Error("a token worked twice")
	}
	w.tell(t, w.idp.logoutToken(t, func(c map[string]any) { c["sub"] = "ana" })).want(t, http.StatusOK)
	if one.signedIn(t) || two.signedIn(t) || cli.call(t, "GET", "/me", nil).StatusCode != http.StatusUnauthorized {
		t.Error("a login of the person goes on")
	}
	if !other.signedIn(t) {
		t.Error("another person's login ended")
	}
	nameless := w.as(t, ana, firefox) // the provider never named its session, so the person is all there is to go by
	w.tell(t, w.idp.logoutToken(t, func(c map[string]any) { c["sub"], c["sid"] = "ana", "s-9" })).want(t, http.StatusOK)
	if nameless.signedIn(t) {
		t.Error("a session without a name goes on")
	}
}

// O14: only a logout token of this provider for this program ends anything.
func TestHostileLogoutTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.with(t, ana, "s-1")
	stranger := newIDP(t)
	of := func(change func(map[string]any)) string {
		return w.idp.logoutToken(t, func(c map[string]any) { c["sub"] = "ana"; change(c) })
	}
	set := func(claim string, v any) string { return of(func(c map[string]any) { c[claim] = v }) }
	for name, token := range map[string]string{
		"ID token": w.idp.signed(t, jose.RS256, w.idp.key, got(json.Marshal(map[string]any{
			"iss": w.idp.url, "sub": "ana", "aud": clientID, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "nonce": "n",
		}))(t)),
		"with a nonce":           set("nonce", "n"),
		"without an event":       of(func(c map[string]any) { delete(c, "events") }),
		"another event":          set("events", map[string]any{"http://schemas.openid.net/event/other": map[string]any{}}),
		"without a name":         of(func(c map[string]any) { delete(c, "jti") }),
		"names nobody":           of(func(c map[string]any) { delete(c, "sub") }),
		"for another program":    set("aud", "other"),
		"of another issuer":      set("iss", "https://evil.example"),
		"expired":                set("exp", time.Now().Add(-10*time.Minute).Unix()),
		"never ends":             of(func(c map[string]any) { delete(c, "exp") }),
		"ends in a year":         set("exp", time.Now().Add(365*24*time.Hour).Unix()),
		"signed by a stranger":   stranger.signed(t, jose.RS256, stranger.key, got(json.Marshal(map[string]any{"iss": w.idp.url, "aud": clientID, "sub": "ana", "jti": "x", "exp": time.Now().Add(time.Minute).Unix(), "events": map[string]any{logoutEvent: map[string]any{}}}))(t)),
		"signed with public key": w.idp.signed(t, jose.HS256, w.idp.key.PublicKey.N.Bytes(), []byte(`{"sub":"ana"}`)),
		"empty":                  "",
		"no token":               "a.b.c",
	} {
		if a := w.tell(t, token); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
		if !b.signedIn(t) {
			t.Fatalf("%s: somebody was signed out", name)
		}
	}
	w.tell(t, strings.Repeat("A", 65<<10)).want(t, http.StatusRequestEntityTooLarge)
	if !b.signedIn(t) {
		t.Error("somebody was signed out")
	}
}

// O15: tokens with keys that do not exist, from whomever, do not make us ask the provider for its keys each time, and keep nobody from
// signing in for whom those keys have to be fetched.
func TestUnknownKeysAreNotFetchedEachTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.idp.mu.Lock()
	before := w.idp.fetched
	w.idp.mu.Unlock()
	const tokens = 100
	began := time.Now()
	for range tokens {
		signer := got(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: w.idp.key}, (&jose.SignerOptions{}).WithHeader("kid", uuid.NewString())))(t)
		claims := got(json.Marshal(map[string]any{"iss": w.idp.url, "aud": clientID, "sub": "ana", "jti": "x", "exp": time.Now().Add(time.Hour).Unix(), "events": map[string]any{logoutEvent: map[string]any{}}}))(t)
		w.tell(t, got(got(signer.Sign(claims))(t).CompactSerialize())(t)).want(t, http.StatusBadRequest)
	}
	w.idp.mu.Lock()
	fetched := w.idp.fetched - before
	w.idp.mu.Unlock()
	// Twenty at once and one every three seconds.
	if fetched > 21+int(time.Since(began)/(3*time.Second)) || fetched == 0 {
		t.Errorf("%d tokens made %d fetches", tokens, fetched)
	}
	key := got(rsa.GenerateKey(rand.Reader, 2048))(t) // the provider changes its key
	w.idp.mu.Lock()
	w.idp.key = key
	w.idp.mu.Unlock()
	w.signedIn(t, ana)
}

// O14: signing out here leads to the provider, if it has an address for that, with the token that it gave and a way back that
// nothing in the request decides; a provider without one is left alone.
func TestLogoutAtTheProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	if at := b.post(t, "/logout", nil).want(t, http.StatusSeeOther).Header.Get("Location"); at != "/login?why=signed-out" {
		t.Errorf("a provider without an address: sent to %q", at)
	}
	p, at := w.otherProvider(t, "signs out", func(d map[string]any) { d["end_session_endpoint"] = "https://idp.example/end?x=1" })
	p.signInAs(adam)
	b = w.browser()
	b.walk(t, at, nil).want(t, http.StatusSeeOther)
	a := b.post(t, "/logout?post_logout_redirect_uri=https://evil.example", url.Values{"post_logout_redirect_uri": {"https://evil.example"}}).want(t, http.StatusOK)
	u := got(url.Parse(strings.TrimPrefix(a.Header.Get("Refresh"), "0; url=")))(t)
	q := u.Query()
	if u.Host != "idp.example" || u.Path != "/end" || q.Get("x") != "1" || q.Get("post_logout_redirect_uri") != w.url+"/" || q.Get("client_id") != clientID || len(strings.Split(q.Get("id_token_hint"), ".")) != 3 {
		t.Errorf("sent to %s", u)
	}
	if link := a.page(t).Find("main a").AttrOr("href", ""); link != u.String() {
		t.Errorf("the page links to %q", link)
	}
	if a.Header.Get("Clear-Site-Data") == "" || a.Header.Get("Cache-Control") != "no-store" || !strings.Contains(a.body, "You are signed out.") {
		t.Errorf("headers %v", a.Header)
	}
	if b.signedIn(t) {
		t.Error("somebody is signed in")
	}
	if strings.Contains(w.log.String(), q.Get("id_token_hint")) {
		t.Error("the log holds the ID token")
	}
	p, at = w.otherProvider(t, "signs out by script", func(d map[string]any) { d["end_session_endpoint"] = "javascript:alert(1)" })
	p.signInAs(adam)
	b = w.browser()
	b.walk(t, at, nil).want(t, http.StatusSeeOther)
	b.post(t, "/logout", nil).want(t, http.StatusSeeOther)
}
