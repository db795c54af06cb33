package handlers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"signalbox/handlers"
	"signalbox/internal/egress"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// rated is a second handler over the same world, asked without a network so that a request can come from anywhere.
type rated struct {
	http.Handler
	w *world
}

func (w *world) rated(t *testing.T, limits handlers.Rates, proxies ...string) rated {
	t.Helper()
	o := handlers.Options{Store: w.store, Hub: w.hub, Artifacts: w.artifacts, PublicURL: w.url, SessionKey: bytes.Repeat([]byte("k"), 32), Rates: limits}
	for _, p := range proxies {
		o.Proxies = append(o.Proxies, netip.MustParsePrefix(p))
	}
	o.ProviderAllow = got(egress.ParseAllow("test", []string{"127.0.0.1:*"}))(t)
	h := got(handlers.New(o))(t)
	t.Cleanup(h.Drain)
	return rated{h, w}
}

// ask sends a request from an address; a token may be empty, and headers are name, value, …
func (h rated) ask(t *testing.T, method, path, from, token string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, h.w.url+path, nil)
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(from), 4711).String()
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer
}

// until asks as often as it is answered otherwise than with 429, at most n times, and says how often that was.
func (h rated) until(t *testing.T, n int, ask func(i int) *httptest.ResponseRecorder) int {
	t.Helper()
	for i := range n {
		if a := ask(i); a.Code == http.StatusTooManyRequests {
			if a.Header().Get("Retry-After") != "60" {
				t.Errorf("429 with Retry-After %q, want 60", a.Header().Get("Retry-After"))
			}
			return i
		}
	}
	return n
}

// L5: logins are counted for the address that they come from; no header raises the limit, unless a proxy of ours wrote it.
func TestLoginsFromOneAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	login := "/login/" + typeid.Format(typeid.Provider, w.provider)
	h := w.rated(t, handlers.Rates{Logins: 5})
	direct := h.until(t, 20, func(i int) *httptest.ResponseRecorder {
		return h.ask(t, "GET", login, "203.0.113.7", "", "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i), "X-Real-Ip", fmt.Sprintf("198.51.100.%d", i), "Forwarded", fmt.Sprintf("for=198.51.100.%d", i))
	})
	if direct != 5 {
		t.Errorf("%d logins of an address that changed its headers, want 5", direct)
	}
	if a := h.ask(t, "GET", login, "203.0.113.8", ""); a.Code != http.StatusSeeOther && a.Code != http.StatusFound {
		t.Errorf("another address: %d", a.Code)
	}
	if a := h.ask(t, "GET", login, "203.0.113.7", ""); a.Code != http.StatusTooManyRequests || !strings.Contains(a.Body.String(), "too many logins came from your network address") {
		t.Errorf("the page says %d %s", a.Code, a.Body)
	}
	// Pages that cost nothing are there all the same.
	if a := h.ask(t, "GET", "/login", "203.0.113.7", ""); a.Code != http.StatusOK {
		t.Errorf("the page of logins: %d", a.Code)
	}
	six := h.until(t, 20, func(i int) *httptest.ResponseRecorder {
		return h.ask(t, "GET", login, fmt.Sprintf("2001:db8:1:2::%x", i+1), "")
	})
	if six != 5 {
		t.Errorf("%d logins of one IPv6 network, want 5", six)
	}

	behind := w.rated(t, handlers.Rates{Logins: 5}, "10.0.0.0/8")
	for name, c := range map[string]struct {
		from string
		xff  func(i int) string
		want int
	}{
		"a client behind the proxy, with words of its own before it": {"10.1.2.3", func(i int) string { return fmt.Sprintf("198.51.100.%d, 203.0.113.20", i) }, 5},
		"a client behind two proxies":                                {"10.1.2.3", func(i int) string { return fmt.Sprintf("198.51.100.%d, 203.0.113.21, 10.9.9.9", i) }, 5},
		"many clients behind the proxy":                              {"10.1.2.3", func(i int) string { return fmt.Sprintf("198.51.100.%d", i+100) }, 20},
		"somebody who is no proxy":                                   {"203.0.113.22", func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }, 5},
		"what no proxy writes":                                       {"10.1.2.3", func(i int) string { return fmt.Sprintf("198.51.100.%d, nonsense", i) }, 5},
	} {
		if n := behind.until(t, 20, func(i int) *httptest.ResponseRecorder {
			return behind.ask(t, "GET", login, c.from, "", "X-Forwarded-For", c.xff(i))
		}); n != c.want {
			t.Errorf("%s: %d logins, want %d", name, n, c.want)
		}
	}
}

// L5: whoever tries tokens is told to slow down, and who has a good one works on beside them.
func TestRefusedTokensFromOneAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.token(t, rita, "read").token
	h := w.rated(t, handlers.Rates{Logins: 5})
	const runs = "/api/v1/runs"
	if n := h.until(t, 20, func(int) *httptest.ResponseRecorder {
		a := h.ask(t, "GET", runs, "203.0.113.7", "sbt_nothing")
		if a.Code != http.StatusUnauthorized && a.Code != http.StatusTooManyRequests {
			t.Fatalf("a bad token: %d", a.Code)
		}
		return a
	}); n != 5 {
		t.Errorf("%d bad tokens were heard, want 5", n)
	}
	var p wire.Problem
	must(t, json.Unmarshal(h.ask(t, "GET", runs, "203.0.113.7", "sbt_nothing").Body.Bytes(), &p))
	if p.Code != "too_many_bad_tokens" || p.RetryAfter != 60 {
		t.Errorf("answer %+v", p)
	}
	for range 20 {
		if a := h.ask(t, "GET", runs, "203.0.113.7", good); a.Code != http.StatusOK {
			t.Fatalf("a good token of the same address: %d %s", a.Code, a.Body)
		}
	}
}

// L5: requests are counted for the person or token, wherever they come from; a search counts for 25, a worker is not counted.
func TestRequestsOfOneCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.rated(t, handlers.Rates{Requests: 100})
	asks := func(token, path string) int {
		return h.until(t, 150, func(i int) *httptest.ResponseRecorder {
			return h.ask(t, "GET", path, fmt.Sprintf("203.0.113.%d", i), token)
		})
	}
	for name, c := range map[string]struct {
		token, path string
		want        int
	}{
		"a token":            {w.token(t, rita, "read").token, "/api/v1/runs", 100},
		"another token":      {w.token(t, rita, "read").token, "/api/v1/runs", 100},
		"a token's searches": {w.token(t, rita, "read").token, "/api/v1/me?q=x", 4},
		"a person's login":   {w.cli(t, rita).token, "/api/v1/runs", 100},
		"a worker":           {w.worker(t, "busy").token, "/api/v1/me", 150},
	} {
		if n := asks(c.token, c.path); n != c.want {
			t.Errorf("%s: %d answers, want %d", name, n, c.want)
		}
	}
}
