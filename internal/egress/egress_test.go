package egress_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"signalbox/internal/egress"
	"signalbox/internal/egress/egresstest"
)

func allow(t testing.TB, entries ...string) egress.Allow {
	t.Helper()
	a, err := egress.ParseAllow("THE_SETTING", entries)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// W10: each kind of address that is no public one is known, also those that the standard library's questions miss.
func TestClosedAddresses(t *testing.T) {
	t.Parallel()
	closed, open := egresstest.ClosedAddresses(), egresstest.OpenAddresses()
	for _, text := range closed {
		if egress.Closed(netip.MustParseAddr(text)) == "" {
			t.Errorf("%s is taken for a public address", text)
		}
	}
	for _, text := range open {
		if what := egress.Closed(netip.MustParseAddr(text)); what != "" {
			t.Errorf("%s is taken for %s", text, what)
		}
	}
	if len(closed) < 60 {
		t.Errorf("only %d closed addresses", len(closed))
	}
	t.Logf("W10: %d closed addresses and %d open ones", len(closed), len(open))
}

// S9 for calls by HTTP: no address, name, redirect or spelling leads to where it may not.
func TestNothingInsideIsReached(t *testing.T) {
	t.Parallel()
	in, names := egresstest.Listen(t), egresstest.Serve(t)
	g := egress.Guard{Purpose: "test", Resolver: names.Resolver(), Allow: allow(t, fmt.Sprintf("%s:%d", egresstest.Outside, in.Port), fmt.Sprintf(":%d", in.Port))}
	cases := 0
	refused := func(name, address string) {
		t.Helper()
		cases++
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			return // nothing was called
		}
		res, err := g.Client().Do(r)
		if err == nil {
			res.Body.Close()
			t.Errorf("%s: %s was answered", name, address)
		}
		if strings.Contains(name, "only") {
			if _, ok := errors.AsType[*egress.RefusedError](err); !ok {
				t.Errorf("%s: %s: %v", name, address, err)
			}
		}
	}
	for i, addr := range egresstest.ClosedAddresses() {
		refused("address only", egresstest.Address(addr, in.Port))
		name := fmt.Sprintf("n%d.example.org", i)
		for mode, lists := range map[string][][]string{
			"name only": {{addr}}, "second answer": {{egresstest.Outside, addr}}, "first answer": {{addr, egresstest.Outside}}, "rebound": {{egresstest.Outside}, {addr}},
		} {
			names.Set(name, lists...)
			refused(mode, egresstest.Address(name, in.Port))
			if mode == "rebound" {
				refused(mode, egresstest.Address(name, in.Port))
			}
		}
	}
	for _, spelling := range egresstest.Spellings() {
		refused("spelling", fmt.Sprintf(spelling, in.Port))
	}
	// Somebody who may be called sends on to where nobody may.
	l, err := net.Listen("tcp", egresstest.Outside+":0")
	if err != nil {
		t.Fatal(err)
	}
	sender := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusTemporaryRedirect)
	})}}
	sender.Start()
	t.Cleanup(sender.Close)
	g.Allow = allow(t, l.Addr().String(), fmt.Sprintf(":%d", in.Port))
	for _, addr := range egresstest.ClosedAddresses() {
		refused("redirect only", sender.URL+"/?to="+url.QueryEscape(egresstest.Address(addr, in.Port)))
	}
	if n := in.Hits(); n != 0 {
		t.Errorf("S9: %d connections came inside", n)
	}
	if cases < 300 {
		t.Errorf("only %d cases", cases)
	}
	t.Logf("S9, calls by HTTP: %d cases, %d internal hits", cases, in.Hits())

	// What is counted can be reached: with the guard open the same calls come in.
	g.Allow = allow(t, "127.0.0.0/8:*")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, egresstest.Address("127.0.0.1", in.Port), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := g.Client().Do(r); err == nil {
		res.Body.Close()
	}
	if in.Hits() == 0 {
		t.Error("the open guard reached nothing, so the count says nothing")
	}
}

// A refusal says what was refused, why, and which setting opens it.
func TestRefusalSaysTheWayOn(t *testing.T) {
	t.Parallel()
	a := allow(t, "10.1.0.0/16", "10.9.9.9:8443", "[fd00::/8]:8443", "fd11::1", ":9443", "127.0.0.1:*")
	for at, plain := range map[string]bool{"10.1.2.3:443": false, "10.1.2.3:80": true, "10.9.9.9:8443": true, "[fd12::1]:8443": false, "[fd11::1]:443": false, "1.1.1.1:9443": false, "1.1.1.1:443": false, "127.0.0.1:1": true, "[::ffff:10.1.2.3]:443": false} {
		if err := a.Check("test", netip.MustParseAddrPort(at), plain); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	for at, why := range map[string]string{
		"10.2.0.1:443": "a private network", "10.1.2.3:8443": "a private network", "10.9.9.9:443": "a private network", "[fd12::1]:443": "a private network", "10.2.0.1:9443": "a private network",
		"1.1.1.1:22": "the port is neither 80 nor 443", "169.254.169.254:80": "metadata service", "127.0.0.2:80": "this machine",
	} {
		err := a.Check("login provider", netip.MustParseAddrPort(at), false)
		refused, ok := errors.AsType[*egress.RefusedError](err)
		if !ok || !strings.Contains(err.Error(), why) || refused.Setting != "THE_SETTING" || !strings.Contains(err.Error(), "THE_SETTING") || !strings.Contains(err.Error(), at) || !strings.HasPrefix(err.Error(), "login provider: no connection was made") {
			t.Errorf("%s: %v", at, err)
		}
	}
	if err := a.Check("test", netip.MustParseAddrPort("1.1.1.1:80"), true); err == nil || !strings.Contains(err.Error(), "without TLS") {
		t.Errorf("plain http to a public address: %v", err)
	}
	for _, bad := range []string{"", ":", ":*", "0.0.0.0/0", "::/0", "10.0.0.0/33", "internal.example.org", "10.0.0.1:0", "10.0.0.1:70000", "10.0.0.1:x", "[fd00::/8", "[fd00::1]8443", "fe80::1%eth0", "::ffff:10.0.0.0/104"} {
		if _, err := egress.ParseAllow("THE_SETTING", []string{bad}); err == nil || !strings.Contains(err.Error(), "THE_SETTING") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Clients take neither proxies from the environment nor old TLS, and an answer ends.
func TestClientsAreBounded(t *testing.T) {
	t.Parallel()
	body := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<10))
		}
	})
	old := httptest.NewUnstartedServer(body)
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.StartTLS()
	t.Cleanup(old.Close)
	plain := httptest.NewServer(body)
	t.Cleanup(plain.Close)
	g := egress.Guard{Purpose: "test", MaxBody: 32 << 10, Allow: allow(t, "127.0.0.1:*")}
	res := must(g.Client().Get(plain.URL)) //nolint:noctx // a loopback server of this test
	t.Cleanup(func() { res.Body.Close() })
	if n, err := io.Copy(io.Discard, res.Body); err == nil || n > 32<<10 {
		t.Errorf("read %d bytes, %v", n, err)
	}
	origin := must(egress.Origin{Purpose: "test", URL: old.URL, TLS: &tls.Config{RootCAs: old.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, MinVersion: tls.VersionTLS10}}.Client())
	if res, err := origin.Get(old.URL); err == nil || !strings.Contains(err.Error(), "protocol version") { //nolint:noctx // a loopback server of this test
		t.Errorf("TLS 1.1: %v, %v", res, err)
	}
	// A client of one server calls no other.
	one := must(egress.Origin{Purpose: "server", URL: plain.URL}.Client())
	res, err := one.Get(plain.URL + "/x") //nolint:noctx // a loopback server of this test
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	for _, other := range []string{strings.Replace(plain.URL, "http:", "https:", 1), "http://127.0.0.3:1/", plain.URL + "0/"} {
		if res, err := one.Get(other); err == nil { //nolint:noctx // refused before it is made
			res.Body.Close()
			t.Errorf("%s was called", other)
		} else if _, ok := errors.AsType[*egress.RefusedError](err); !ok {
			t.Errorf("%s: %v", other, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:80", "ftp://x", "https://user@x", "https:///"} {
		if _, err := (egress.Origin{Purpose: "server", URL: bad}).Client(); err == nil {
			t.Errorf("%q is taken for a server", bad)
		}
	}
	if _, err := g.Resolve(context.Background(), "192.0.2.1", 443, false); err == nil {
		t.Error("a closed address was resolved")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
