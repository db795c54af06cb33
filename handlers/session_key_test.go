package handlers_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"signalbox/handlers"
)

// S5: the key of the cookies is changed and nobody is signed out while the old one stands beside it; a login is under the first key.
// Without the old one the same cookie is that of nobody, in words and not as a failure.
func TestSessionKeyRotates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serve := func(key, old string) string {
		s := httptest.NewUnstartedServer(nil)
		h := got(handlers.New(handlers.Options{Store: w.store, Hub: w.hub, Artifacts: w.artifacts, PublicURL: "http://" + s.Listener.Addr().String(), Rates: unbounded,
			SessionKey: []byte(strings.Repeat(key, 32)), OldSessionKey: []byte(strings.Repeat(old, 32))}))(t)
		s.Config.Handler = h
		s.Start()
		t.Cleanup(func() { h.Drain(); s.Close() })
		return s.URL
	}
	b := w.signedIn(t, rita)
	beside, alone, without := serve("n", "k"), serve("k", ""), serve("n", "")
	if a := b.get(t, alone+"/inbox"); a.StatusCode != http.StatusOK {
		t.Errorf("a login is not under the first of two keys: %d", a.StatusCode)
	}
	if page := b.get(t, beside+"/sessions").want(t, http.StatusOK).page(t); !strings.Contains(page.Find("tbody").Text(), "This browser") {
		t.Errorf("under the old key it does not know which login asks: %s", page.Find("tbody").Text())
	}
	for _, path := range []string{"/inbox", "/runs", "/sessions", "/tasks/new", "/inbox/stream", "/login", "/"} {
		for _, cookie := range []bool{true, false} {
			asks := b
			if !cookie {
				asks = w.browser()
			}
			a := asks.get(t, without+path)
			if want := w.browser().get(t, w.url+path).StatusCode; a.StatusCode != want || a.StatusCode >= http.StatusInternalServerError {
				t.Errorf("without the old key %s is answered %d with a cookie: %v, and %d to nobody", path, a.StatusCode, cookie, want)
			}
		}
	}
	// It is ended where the key is the old one, and is ended everywhere.
	r := got(http.NewRequestWithContext(t.Context(), http.MethodPost, beside+"/logout", nil))(t)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if a := b.do(t, r); a.StatusCode >= http.StatusBadRequest {
		t.Errorf("signing out under the old key: %d", a.StatusCode)
	}
	if n := w.count(t, `SELECT count(*) FROM sessions`); n != 0 {
		t.Errorf("%d logins are left", n)
	}
}

// A short key is refused, also as the old one.
func TestShortSessionKeys(t *testing.T) {
	t.Parallel()
	long, short := []byte(strings.Repeat("k", 32)), []byte("short")
	for _, keys := range [][2][]byte{{short, nil}, {long, short}} {
		if _, err := handlers.New(handlers.Options{PublicURL: "http://127.0.0.1:1", SessionKey: keys[0], OldSessionKey: keys[1]}); err == nil {
			t.Errorf("%q is taken", keys)
		}
	}
}
