package handlers_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"signalbox/handlers"
	"signalbox/internal/egress"
	"signalbox/internal/typeid"
)

// S1: at a public address with TLS browsers are told to stay with it, and cookies are that host's alone.
func TestPublicAddressWithTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := got(handlers.New(handlers.Options{
		Store: w.store, Hub: w.hub, Artifacts: w.artifacts, PublicURL: "https://signalbox.example", SessionKey: bytes.Repeat([]byte("k"), 32),
		ProviderAllow: got(egress.ParseAllow("test", []string{"127.0.0.1:*"}))(t),
	}))(t)
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://signalbox.example/login/"+typeid.Format(typeid.Provider, w.provider), nil))
	if answer.Code != http.StatusFound || !strings.HasPrefix(answer.Header().Get("Strict-Transport-Security"), "max-age=31536000") {
		t.Errorf("answered %d with %v", answer.Code, answer.Header())
	}
	cookies := answer.Result().Cookies()
	if len(cookies) == 0 {
		t.Error("a login begins without a cookie")
	}
	for _, c := range cookies {
		if !strings.HasPrefix(c.Name, "__Host-") || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
			t.Errorf("cookie %s", c.Raw)
		}
	}
}

// S5: a session ends after its idle time, at its absolute end, and with its person's access.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, end := range []string{
		"UPDATE sessions SET idle_expires_at = now() - interval '1 second'", "UPDATE sessions SET expires_at = now() - interval '1 second'", "UPDATE users SET disabled_at = now()",
	} {
		b := w.signedIn(t, rita)
		b.get(t, "/inbox").want(t, http.StatusOK)
		w.sql(t, end)
		if a := b.get(t, "/inbox"); a.StatusCode != http.StatusSeeOther || !strings.Contains(a.Header.Get("Location"), "/login") {
			t.Errorf("after %s: answered %d", end, a.StatusCode)
		}
	}
}
