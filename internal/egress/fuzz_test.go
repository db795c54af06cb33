package egress_test

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"signalbox/internal/egress"
	"signalbox/internal/egress/egresstest"
)

// FuzzClosed: both spellings of an IPv4 address mean the same, what embeds one is closed, and whatever the standard library
// knows not to be public is closed here.
func FuzzClosed(f *testing.F) {
	for _, text := range append(egresstest.ClosedAddresses(), egresstest.OpenAddresses()...) {
		a := netip.MustParseAddr(text).As16()
		f.Add(a[:])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) != 16 {
			return
		}
		addr := netip.AddrFrom16([16]byte(raw))
		closed := egress.Closed(addr) != ""
		if closed != (egress.Closed(addr.Unmap()) != "") {
			t.Errorf("%s means two things", addr)
		}
		if u := addr.Unmap(); !closed && (u.IsPrivate() || u.IsLoopback() || u.IsLinkLocalUnicast() || u.IsMulticast() || u.IsUnspecified() || !u.IsGlobalUnicast()) {
			t.Errorf("%s is taken for a public address", addr)
		}
		var v4 [4]byte
		copy(v4[:], raw)
		for _, prefix := range [][]byte{{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0}} {
			if embeds := netip.AddrFrom16([16]byte(append(prefix, v4[:]...))); egress.Closed(embeds) == "" {
				t.Errorf("%s hides %s and is open", embeds, netip.AddrFrom4(v4))
			}
		}
	})
}

// FuzzParseURL: what is accepted has one host, whoever reads it: the rebuilt text, net/url, and a reader that only cuts.
func FuzzParseURL(f *testing.F) {
	for _, s := range egresstest.Spellings() {
		f.Add(fmt.Sprintf(s, 443))
	}
	for _, s := range []string{"https://example.org/a?b=c", "http://10.0.0.1:8080/x", "https://[2606:4700::1111]/", "https://a.b-c.example:1/%2e%2e/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := egress.ParseURL(raw)
		if err != nil {
			return
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Host != u.Host || again.Scheme != u.Scheme || again.User != nil || !egress.Host(u.Hostname()) {
			t.Fatalf("%q became %q, which is read as %q: %v", raw, u, again, err)
		}
		_, rest, ok := strings.Cut(raw, "://")
		if end := strings.IndexAny(rest, "/?#\\"); end >= 0 {
			rest = rest[:end]
		}
		rest = rest[strings.LastIndexByte(rest, '@')+1:]
		if !ok || rest != u.Host {
			t.Fatalf("%q: one reader calls %q, another %q", raw, u.Host, rest)
		}
		if twice, err := egress.ParseURL(u.String()); err != nil || twice.String() != u.String() {
			t.Fatalf("%q is not stable: %v, %v", raw, twice, err)
		}
	})
}
