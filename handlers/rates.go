package handlers

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/httprate"

	"signalbox/internal/fault"
)

// Rates bound what one caller may ask of this server in a minute (L5). They protect it from a script that runs away; they
// are no quota of work, which policy has. Each server counts for itself. Negative: no bound; 0: the default.
type Rates struct {
	// Requests of one person or token; 0 means 3,000. What costs much counts as many: see costly. Workers have no bound: they
	// ask as often as there is work.
	Requests int
	// Logins is how often one address may begin or end a login, and how many of its tokens may be refused; 0 means 300. A
	// company's people often share an address.
	Logins int
}

const (
	rateWindow      = time.Minute
	defaultRequests = 3000
	defaultLogins   = 300
	// costlyCounts is for how many requests one counts that searches, exports or simulates.
	costlyCounts = 25
)

// effort says how a route's requests are counted. The zero value is an ordinary one, which counts once for who sends it.
type effort int

const (
	// costly requests read much: they count costlyCounts times. So does a request to any route that searches (q).
	costly effort = iota + 1
	// entrance is a step of a login or logout; nobody is known yet, so it counts for its address.
	entrance
)

func (e effort) of(rt route) route {
	rt.effort = e
	return rt
}

// rates counts requests by who sent them, and by address where that is not known.
type rates struct {
	callers, strangers *httprate.RateLimiter
}

func newRates(o Rates) rates {
	limiter := func(limit, usual int) *httprate.RateLimiter {
		if limit < 0 {
			return nil
		}
		if limit == 0 {
			limit = usual
		}
		// The answer is ours, and says nothing about the bound to whoever tries it out.
		return httprate.NewRateLimiter(limit, rateWindow, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
	}
	return rates{callers: limiter(o.Requests, defaultRequests), strangers: limiter(o.Logins, defaultLogins)}
}

// caller counts a request of a person or token.
func (l rates) caller(w http.ResponseWriter, r *http.Request, rt route, p *principal) error {
	if l.callers == nil || p.kind == nobody || p.kind == worker {
		return nil
	}
	key := p.user.String()
	if p.kind == token {
		key = p.credential.String()
	}
	if rt.effort == costly || r.URL.Query().Get("q") != "" {
		r = r.WithContext(httprate.WithIncrement(r.Context(), costlyCounts))
	}
	if l.callers.OnLimit(w, r, key) {
		return fault.New(fault.TooMany, "Nothing was done: there were too many requests of yours within a minute. Wait a minute, and make fewer at a time.").
			WithCode("too_many_requests").WithRetryAfter(rateWindow)
	}
	return nil
}

// login counts a step of a login for its address.
func (l rates) login(w http.ResponseWriter, r *http.Request, rt route) error {
	if rt.effort == entrance && l.stranger(w, r, "login") {
		return fault.New(fault.TooMany, "Nobody was signed in or out: too many logins came from your network address within a minute. Wait a minute and try again.").
			WithCode("too_many_logins").WithRetryAfter(rateWindow)
	}
	return nil
}

// refused counts a token that was not accepted. It is looked up all the same: good ones may come from the same address.
func (l rates) refused(w http.ResponseWriter, r *http.Request, err error) error {
	if fault.KindOf(err) == fault.Unauthenticated && l.stranger(w, r, "token") {
		return fault.New(fault.TooMany, "Nothing was done: the token is unknown, expired or revoked, and too many such tokens came from your network address within a minute. Stop whatever sends them, or give it a new token.").
			WithCode("too_many_bad_tokens").WithRetryAfter(rateWindow)
	}
	return err
}

func (l rates) stranger(w http.ResponseWriter, r *http.Request, what string) bool {
	return l.strangers != nil && l.strangers.OnLimit(w, r, what+" "+network(clientAddress(r.Context())))
}

// network is what counts as one sender: an IPv4 address, and the /64 that an IPv6 network gives to each of its customers.
func network(a netip.Addr) string {
	if !a.IsValid() {
		return "unknown"
	}
	if a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}

// clientAddress is where the request comes from; invalid where a trusted proxy sent something unreadable.
func clientAddress(ctx context.Context) netip.Addr { return middleware.GetClientIPAddr(ctx) }

// located finds out where requests come from: the connection's other end, and where that is one of our own proxies, the
// last address in X-Forwarded-For that is not (L5).
func located(proxies []netip.Prefix, next http.Handler) http.Handler {
	if len(proxies) == 0 {
		return middleware.ClientIPFromRemoteAddr(next)
	}
	var trusted []string
	for _, p := range proxies {
		trusted = append(trusted, p.String())
	}
	return middleware.ClientIPFromXFF(trusted...)(next)
}
