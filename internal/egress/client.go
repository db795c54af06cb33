package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Guard makes clients that reach public addresses and what an administrator opened, and nothing else.
type Guard struct {
	// Purpose is what the calls are for, in words for a refusal.
	Purpose string
	Allow   Allow
	// Timeout bounds a whole call; 0 means 10 seconds.
	Timeout time.Duration
	// MaxBody bounds an answer's body, in bytes; 0 means 1 MiB.
	MaxBody int64
	// Resolver looks names up; nil is the machine's own.
	Resolver *net.Resolver
}

// Client is an HTTP client under the guard.
func (g Guard) Client() *http.Client {
	if g.Timeout <= 0 {
		g.Timeout = 10 * time.Second
	}
	if g.MaxBody <= 0 {
		g.MaxBody = 1 << 20
	}
	return &http.Client{
		Timeout: g.Timeout, CheckRedirect: g.noRedirect,
		Transport: &guarded{guard: g, tls: g.transport(false), plain: g.transport(true)},
	}
}

// noRedirect refuses to be sent elsewhere: whoever answers is not the one who decides where we call.
func (g Guard) noRedirect(r *http.Request, _ []*http.Request) error {
	return &RefusedError{Purpose: g.Purpose, Address: strings.ToValidUTF8(r.URL.Host, "?"), Why: "the answer was a redirect, and none is followed"}
}

func (g Guard) transport(plain bool) *http.Transport {
	dialer := &net.Dialer{
		Timeout: g.Timeout, Resolver: g.Resolver,
		// It sees the address that the connection is opened to, whatever the name said before.
		Control: func(network, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || network != "tcp4" && network != "tcp6" {
				return &RefusedError{Purpose: g.Purpose, Address: address, Why: "it is no address of TCP"}
			}
			return g.Allow.Check(g.Purpose, to, plain)
		},
	}
	t := bare()
	t.DialContext = dialer.DialContext
	t.MaxResponseHeaderBytes = 64 << 10
	return t
}

// bare is what all transports have in common: no proxy from the environment, and no TLS that is broken.
func bare() *http.Transport {
	return &http.Transport{
		Proxy: nil, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, ExpectContinueTimeout: time.Second,
		MaxIdleConns: 100, MaxIdleConnsPerHost: 16,
	}
}

type guarded struct {
	guard      Guard
	tls, plain http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := rebuild(r.URL); err != nil || r.Host != "" && r.Host != r.URL.Host {
		if err == nil {
			err = errors.New("the request names another host than its address")
		}
		return nil, &RefusedError{Purpose: t.guard.Purpose, Address: fmt.Sprintf("%q", r.URL.Redacted()), Why: err.Error()}
	}
	next := t.tls
	if r.URL.Scheme == "http" {
		next = t.plain
	}
	res, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = http.MaxBytesReader(nil, res.Body, t.guard.MaxBody)
	return res, nil
}

// Resolve looks a host up for a program that connects by itself and answers the open addresses alone; that program has to
// be held to them. Where none is open the error is a *RefusedError.
func (g Guard) Resolve(ctx context.Context, host string, port uint16, plain bool) ([]netip.Addr, error) {
	resolver := g.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	all := []netip.Addr{}
	if addr, err := netip.ParseAddr(host); err == nil {
		all = append(all, addr)
	} else if all, err = resolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, fmt.Errorf("%s: %w", g.Purpose, err)
	}
	var open []netip.Addr
	var refused error = &RefusedError{Purpose: g.Purpose, Address: host, Why: "the name has no address"}
	for _, addr := range all {
		if err := g.Allow.Check(g.Purpose, netip.AddrPortFrom(addr, port), plain); err != nil {
			refused = err
			continue
		}
		open = append(open, addr.Unmap())
	}
	if len(open) == 0 {
		return nil, refused
	}
	return open, nil
}

// Origin makes clients of the one server that the configuration names: whoever configured it may name any address, and no
// call goes to another.
type Origin struct {
	// Purpose is what the calls are for, in words for a refusal.
	Purpose string
	// URL is the server's address; only scheme, host and port count.
	URL string
	// Timeout bounds a whole call; 0 does not, for calls that wait.
	Timeout time.Duration
	// Proxied takes the environment's proxy, as a person's own program does. A server's never does.
	Proxied bool
	// TLS is for a server with a certificate of its own authority; nil for the machine's authorities.
	TLS *tls.Config
}

// Client is an HTTP client for that server alone.
func (o Origin) Client() (*http.Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("%s: the address is none of a web server, for example https://signalbox.example.org", o.Purpose)
	}
	t := bare()
	t.DialContext = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	if o.Proxied {
		t.Proxy = http.ProxyFromEnvironment
	}
	if o.TLS != nil {
		t.TLSClientConfig = o.TLS.Clone()
		t.TLSClientConfig.MinVersion = max(t.TLSClientConfig.MinVersion, tls.VersionTLS12)
	}
	return &http.Client{
		Timeout: o.Timeout, Transport: only{o.Purpose, u.Scheme, u.Host, t},
		// The answer itself is what the caller gets: following it would carry the credential elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

type only struct {
	purpose, scheme, host string
	next                  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t only) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != t.scheme || r.URL.Host != t.host || r.Host != "" && r.Host != t.host {
		return nil, &RefusedError{Purpose: t.purpose, Address: fmt.Sprintf("%q", r.URL.Redacted()), Why: "only " + t.scheme + "://" + t.host + " is called"}
	}
	return t.next.RoundTrip(r)
}
