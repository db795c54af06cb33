package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"signalbox/api"
	"signalbox/db"
	"signalbox/internal/artifact"
	"signalbox/internal/egress"
	"signalbox/internal/fault"
	"signalbox/internal/feed"
	"signalbox/internal/forge"
	"signalbox/internal/money"
	"signalbox/internal/patch"
	"signalbox/internal/trail"
	"signalbox/static"
	"signalbox/web"
)

const apiPrefix = "/api"

// Options are what the handlers need. Store, Hub, Artifacts, PublicURL and SessionKey are required.
type Options struct {
	Store     *db.Store
	Hub       *feed.Hub
	Artifacts *artifact.Store
	// Forge is the git side of the local forge; nil where there is none.
	Forge *forge.Local
	// PublicURL is scheme and host that people use; requests for another host are refused.
	PublicURL string
	// Hosts are further host names to answer for.
	Hosts []string
	// SessionKey makes session cookies, at least 32 bytes. OldSessionKey did before: what was made under it lives on. Empty: none
	// did, and whoever signed in under another key signs in again.
	SessionKey, OldSessionKey []byte
	// ProviderAllow is what login providers may be reached at besides public addresses.
	ProviderAllow egress.Allow
	// Admin is an administrator whenever they sign in; the zero value is nobody.
	Admin Subject
	// DevPeople are shown on the login page of dev mode; nil otherwise.
	DevPeople []web.DevPerson
	// Wakeful wakes the loop that admits new runs; nil where nobody waits.
	Admit func()
	// Version of this program; a worker of another one is marked. Empty: none is.
	Version string
	// Tracer makes the spans of requests; nil: nothing is traced.
	Tracer trace.Tracer
	// Served is told of every answer: method, route pattern (empty for an address that does not exist), status and time;
	// nil: nobody is.
	Served func(method, route string, status int, took time.Duration)
	// Vitals is told what pages were like for their readers: route pattern, lcp, inp (seconds) or cls, and how much; nil: nobody is.
	Vitals func(route, vital string, value float64)
	// AuditFault says what is wrong with a tenant's audit log, empty for nothing; administrators read it on every page. Nil: nobody
	// looks.
	AuditFault func(tenant uuid.UUID) string
	// Rates bound what one caller may ask in a minute.
	Rates Rates
	// Proxies are the addresses of reverse proxies whose X-Forwarded-For is believed; none where clients connect themselves.
	Proxies []netip.Prefix
	// Currency is what costs are counted in; empty means USD.
	Currency money.Currency
	Log      *slog.Logger
}

// Subject is a person as an OpenID provider knows them.
type Subject struct{ Issuer, Subject string }

// server holds what every handler may use. There is one per process.
type server struct {
	store      *db.Store
	hub        *feed.Hub
	artifacts  *artifact.Store
	forge      *forge.Local
	log        *slog.Logger
	doc        *api.Document
	sessions   *sessionStore
	providers  *providers
	publicURL  *url.URL
	hosts      []string
	devPeople  []web.DevPerson
	admin      Subject
	admit      func()
	served     func(method, route string, status int, took time.Duration)
	vitals     func(route, vital string, value float64)
	auditFault func(tenant uuid.UUID) string
	pages      *chi.Mux
	health     health
	version    string
	tracer     trace.Tracer
	streams    streamCounter
	live       liveRuns
	rates      rates
	proxies    []netip.Prefix
	currency   money.Currency
	scanner    *patch.Scanner

	routeByOperation map[string]route

	// closing is closed when the server drains: streams and long polls end by themselves.
	closing   chan struct{}
	closeOnce sync.Once
}

// Handler serves the product. Drain ends streams and long polls so that a shutdown is not held up by them.
type Handler struct {
	http.Handler
	s *server
}

// Drain asks open streams and waiting claims to end. Clients come back by themselves.
func (h *Handler) Drain() { h.s.closeOnce.Do(func() { close(h.s.closing) }) }

// New builds the handler. It refuses a public URL without TLS that is not a loopback address, a route without an
// access rule, and an operation of the contract without a route.
func New(o Options) (*Handler, error) {
	u, err := url.Parse(strings.TrimSuffix(o.PublicURL, "/"))
	if err != nil || u.Host == "" || u.Path != "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, fmt.Errorf("public URL %q: want scheme and host alone", o.PublicURL)
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, fmt.Errorf("public URL %q: without TLS only a loopback address is served, because cookies would travel in the clear", o.PublicURL)
	}
	keys := [][]byte{o.SessionKey}
	if len(o.OldSessionKey) > 0 {
		keys = append(keys, o.OldSessionKey)
	}
	for _, key := range keys {
		if len(key) < 32 {
			return nil, errors.New("a session key has fewer than 32 bytes")
		}
	}
	doc, err := api.Parse()
	if err != nil {
		return nil, err
	}
	s := &server{
		store: o.Store, hub: o.Hub, artifacts: o.Artifacts, forge: o.Forge, log: o.Log, doc: doc, publicURL: u,
		hosts: append([]string{strings.ToLower(u.Host)}, o.Hosts...), devPeople: o.DevPeople, admin: o.Admin, admit: o.Admit, served: o.Served, vitals: o.Vitals, auditFault: o.AuditFault,
		version: o.Version, tracer: o.Tracer, providers: newProviders(o.ProviderAllow), scanner: patch.NewScanner(), rates: newRates(o.Rates), proxies: o.Proxies, currency: cmp.Or(o.Currency, money.USD),
		closing: make(chan struct{}), routeByOperation: map[string]route{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.log = slog.New(trail.Handler(s.log.Handler()))
	if s.admit == nil {
		s.admit = func() {}
	}
	if s.served == nil {
		s.served = func(string, string, int, time.Duration) {}
	}
	if s.vitals == nil {
		s.vitals = func(string, string, float64) {}
	}
	if s.auditFault == nil {
		s.auditFault = func(uuid.UUID) string { return "" }
	}
	s.sessions = newSessionStore(o.Store, keys, s.secure())
	h, err := s.mount(s.routes())
	if err != nil {
		return nil, err
	}
	return &Handler{Handler: h, s: s}, nil
}

func (s *server) secure() bool { return s.publicURL.Scheme == "https" }

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// mount puts the routes on two muxes: pages behind the cross-origin guard, the API beside them, blind to cookies.
func (s *server) mount(routes []route) (http.Handler, error) {
	pages, apis := chi.NewRouter(), chi.NewRouter()
	s.pages = pages
	for _, rt := range routes {
		if err := rt.complete(s); err != nil {
			return nil, err
		}
		mux, pattern := pages, rt.pattern
		if rt.operation != "" {
			s.routeByOperation[rt.operation] = rt
			mux = apis
		}
		if strings.HasPrefix(pattern, apiPrefix) {
			mux = apis
		}
		mux.Method(rt.method, pattern, s.handle(rt))
	}
	for _, op := range s.doc.Operations() {
		if _, ok := s.routeByOperation[op.OperationID]; !ok {
			return nil, fmt.Errorf("operation %s of the contract has no route", op.OperationID)
		}
	}
	pages.Handle(static.Prefix+"*", static.Handler())
	nothing := func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, s.recognised(r), fault.New(fault.NotFound, "There is nothing at this address."))
	}
	wrong := func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, s.recognised(r), fault.New(fault.NotFound, "There is nothing at this address for this method."))
	}
	for _, mux := range []*chi.Mux{pages, apis} {
		mux.NotFound(nothing)
		mux.MethodNotAllowed(wrong)
	}
	guarded := compressed(s.sameOrigin(pages))
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == apiPrefix || strings.HasPrefix(r.URL.Path, apiPrefix+"/") {
			apis.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	})
	return located(s.proxies, s.observe(s.protect(both))), nil
}

// handle wraps a route: body limit, who is calling, how often, may they, then the handler, then the answer of a failure.
func (s *server) handle(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := logged(r)
		l.route = rt.method + " " + rt.pattern
		r.Body = newTimedBody(w, http.MaxBytesReader(w, r.Body, rt.limit), rt.limit)
		if err := s.admitted(w, r, rt, l); err != nil {
			s.fail(w, r, err)
		}
	})
}

func (s *server) admitted(w http.ResponseWriter, r *http.Request, rt route, l *request) error {
	r = r.WithContext(context.WithValue(r.Context(), keyRoute, rt))
	// What anybody may ask (the way to a login, say) reads its query with rules of its own.
	if err := plainQuery(r); err != nil && !rt.access.anyone {
		return err
	}
	if err := s.rates.login(w, r, rt); err != nil {
		return err
	}
	p, err := s.authenticate(r, rt)
	if err != nil {
		if rt.access.anyone && fault.KindOf(err) != fault.Unauthenticated {
			s.note(r, err)
			p, err = &principal{}, nil
		}
		if err != nil {
			return s.rates.refused(w, r, err)
		}
	}
	l.who = p
	note(r, p)
	if err := s.rates.caller(w, r, rt, p); err != nil {
		return err
	}
	r = r.WithContext(context.WithValue(r.Context(), keyPrincipal, p))
	if err := authorise(p, rt); err != nil {
		s.fail(w, r, err)
		return nil
	}
	if err := rt.handler(w, r); err != nil {
		s.fail(w, r, err)
	}
	return nil
}

// recognised finds out who asks for a page that does not exist, so that its navigation is there. Failing is no matter.
func (s *server) recognised(r *http.Request) *http.Request {
	p, err := s.authenticate(r, route{})
	if err != nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), keyPrincipal, p))
}

func operationOf(r *http.Request) string {
	rt, _ := r.Context().Value(keyRoute).(route)
	return rt.operation
}
