// Package egresstest is what the tests of goal S9 share: an inside that counts who reached it, a name server that changes its
// mind, and the corpus of addresses. No binary of the product links it; it refuses to touch any network but this machine's.
package egresstest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Outside plays the public address: the tests open it, and it alone.
const Outside = "127.0.0.2"

// Inside listens on every address of this machine and counts connections to any but Outside.
type Inside struct {
	// Port is where it listens, on all addresses.
	Port uint16
	hits atomic.Int64
}

// Listen starts an Inside.
func Listen(t testing.TB) *Inside {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	in := &Inside{Port: netip.MustParseAddrPort(l.Addr().String()).Port()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if to, err := netip.ParseAddrPort(c.LocalAddr().String()); err == nil && to.Addr().Unmap().String() != Outside {
				in.hits.Add(1)
			}
			_ = c.Close()
		}
	}()
	return in
}

// Hits is how many connections came to an address that is closed.
func (in *Inside) Hits() int { return int(in.hits.Load()) }

// Names is a name server. A name answers what Set gave it, one list for each time it is asked, the last one for good.
type Names struct {
	mu      sync.Mutex
	answers map[string][][]netip.Addr
	asked   map[string]int
	address string
}

// Serve starts a name server.
func Serve(t testing.TB) *Names {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	n := &Names{answers: map[string][][]netip.Addr{}, asked: map[string]int{}, address: conn.LocalAddr().String()}
	go func() {
		buf := make([]byte, 4096)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if out := n.answer(buf[:size]); out != nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return n
}

// Set says what a name answers: texts of addresses, one list for each look-up.
func (n *Names) Set(name string, lists ...[]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[name], n.answers[name] = 0, nil
	for _, list := range lists {
		var addrs []netip.Addr
		for _, text := range list {
			addrs = append(addrs, netip.MustParseAddr(text))
		}
		n.answers[name] = append(n.answers[name], addrs)
	}
}

// Resolver asks this name server and no other.
func (n *Names) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", n.address)
	}}
}

func (n *Names) answer(raw []byte) []byte {
	var in dnsmessage.Message
	if in.Unpack(raw) != nil || len(in.Questions) != 1 {
		return nil
	}
	q := in.Questions[0]
	out := dnsmessage.Message{Header: dnsmessage.Header{ID: in.ID, Response: true, Authoritative: true, RecursionAvailable: true}, Questions: in.Questions}
	head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
	for _, addr := range n.take(strings.TrimSuffix(q.Name.String(), "."), q.Type) {
		switch {
		case q.Type == dnsmessage.TypeA && addr.Is4():
			out.Answers = append(out.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}})
		case q.Type == dnsmessage.TypeAAAA && addr.Is6():
			out.Answers = append(out.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	packed, err := out.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// take counts a look-up once, though it asks for addresses of both kinds.
func (n *Names) take(name string, kind dnsmessage.Type) []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	lists := n.answers[name]
	if len(lists) == 0 {
		return nil
	}
	key := name + kind.String()
	at := min(n.asked[key], len(lists)-1)
	n.asked[key]++
	return lists[at]
}
