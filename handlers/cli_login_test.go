package handlers_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/wire"
)

// `signalbox login`: a person confirms in the browser, a one-time code goes to a port of their own machine, and only
// who holds the verifier gets the login.
func TestCommandLineLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, ana)
	verifier := strings.Repeat("v", 50)
	sum := sha256.Sum256([]byte(verifier))
	link := url.Values{"port": {"4711"}, "state": {"0123456789abcdef"}, "challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "name": {"laptop"}}
	confirm := func(t *testing.T) string {
		a := b.get(t, "/cli-login?"+link.Encode()).want(t, http.StatusOK)
		if csp := a.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' http://127.0.0.1:4711;") {
			t.Errorf("policy %q", csp)
		}
		to := b.post(t, "/cli-login", fields(a.page(t).Find("form[action='/cli-login']"))).want(t, http.StatusSeeOther).Header.Get("Location")
		u := got(url.Parse(to))(t)
		if u.Host != "127.0.0.1:4711" || u.Query().Get("state") != "0123456789abcdef" {
			t.Fatalf("the code goes to %q", to)
		}
		return u.Query().Get("code")
	}
	anonymous := client{w: w}
	code := confirm(t)
	m := into[wire.MintedToken](t, anonymous.call(t, "POST", "/login/exchange", wire.LoginExchange{Code: code, Verifier: verifier, Name: "laptop"}).want(t, http.StatusCreated))
	cli := client{w, m.Secret}
	p := into[wire.Principal](t, cli.call(t, "GET", "/me", nil).want(t, http.StatusOK))
	if p.Kind != wire.PrincipalPerson || p.Name != ana.name || p.AuthTime.IsZero() {
		t.Errorf("principal %+v", p)
	}
	t.Run("a code works once", func(t *testing.T) {
		anonymous.call(t, "POST", "/login/exchange", wire.LoginExchange{Code: code, Verifier: verifier}).want(t, http.StatusUnauthorized)
	})
	t.Run("a code without its verifier is worth nothing, and is gone", func(t *testing.T) {
		code := confirm(t)
		anonymous.call(t, "POST", "/login/exchange", wire.LoginExchange{Code: code, Verifier: strings.Repeat("w", 50)}).want(t, http.StatusUnauthorized)
		anonymous.call(t, "POST", "/login/exchange", wire.LoginExchange{Code: code, Verifier: verifier}).want(t, http.StatusUnauthorized)
	})
	t.Run("a link to elsewhere is refused", func(t *testing.T) {
		for name, change := range map[string]url.Values{
			"port": {"port": {"80"}}, "no port": {"port": {"x@evil.example"}}, "challenge": {"challenge": {"short"}}, "state": {"state": {"a b<c>0123456789"}},
		} {
			v := url.Values{}
			for k, list := range link {
				v[k] = list
			}
			for k, list := range change {
				v[k] = list
			}
			if a := b.get(t, "/cli-login?"+v.Encode()); a.StatusCode != http.StatusUnprocessableEntity {
				t.Errorf("%s: %d", name, a.StatusCode)
			}
		}
	})
	t.Run("logout ends it", func(t *testing.T) {
		cli.call(t, "POST", "/logout", nil).want(t, http.StatusNoContent)
		cli.call(t, "GET", "/me", nil).want(t, http.StatusUnauthorized)
	})
}

// S6, S10: tokens are shown once, stored as hashes, and make no other tokens.
func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	page := b.get(t, "/tokens").want(t, http.StatusOK)
	form := fields(page.page(t).Find("form[action='/tokens']"))
	form.Set("name", "ci")
	form.Set("days", "30")
	form["scopes"] = []string{"read", "tasks"}
	a := b.post(t, "/tokens", form).want(t, http.StatusOK)
	if a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control %q on a page with a secret", a.Header.Get("Cache-Control"))
	}
	at := strings.Index(a.body, "sbt_")
	if at < 0 {
		t.Fatal("the page does not show the secret")
	}
	secret := a.body[at : at+53]
	if again := b.get(t, "/tokens"); strings.Contains(again.body, secret) {
		t.Error("the secret is shown a second time")
	}
	c := client{w, secret}
	if p := into[wire.Principal](t, c.call(t, "GET", "/me", nil).want(t, http.StatusOK)); p.Kind != wire.PrincipalToken {
		t.Errorf("principal %+v", p)
	}
	c.call(t, "POST", "/tokens", wire.TokenCreate{Name: "x", Scopes: []wire.Scope{"read"}}).want(t, http.StatusForbidden)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var dump string
	must(t, conn.QueryRow(t.Context(), "SELECT string_agg(k::text, ' ') FROM api_tokens k").Scan(&dump))
	if strings.Contains(dump, secret) || strings.Contains(w.log.String(), secret) {
		t.Error("the secret is in the database or in the log")
	}
	t.Run("an expiry is required and bounded", func(t *testing.T) {
		form := fields(b.get(t, "/tokens").page(t).Find("form[action='/tokens']"))
		form.Set("name", "ci")
		form.Set("days", "366")
		form["scopes"] = []string{"read"}
		b.post(t, "/tokens", form).want(t, http.StatusUnprocessableEntity)
	})
	t.Run("revoked at once", func(t *testing.T) {
		revoke := b.get(t, "/tokens").page(t).Find("form[action$='/revoke']").First()
		action, _ := revoke.Attr("action")
		b.post(t, action, fields(revoke)).want(t, http.StatusSeeOther)
		c.call(t, "GET", "/me", nil).want(t, http.StatusUnauthorized)
	})
}
