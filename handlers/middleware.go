package handlers

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/trail"
	"signalbox/internal/typeid"
)

type contextKey int

const (
	keyRequest contextKey = iota
	keyPrincipal
	keyRoute
)

// request is what the middleware knows about one request and what its log line will say.
type request struct {
	id      string
	route   string
	who     *principal
	err     error
	started time.Time
}

func logged(r *http.Request) *request {
	l, _ := r.Context().Value(keyRequest).(*request)
	return l
}

func requestID(r *http.Request) string {
	if l := logged(r); l != nil {
		return l.id
	}
	return ""
}

// recorder remembers status and size for the log line, and passes flushes through for event streams.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *recorder) WriteHeader(code int) {
	if w.status == 0 {
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach flush and deadlines.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush sends what was written, for a writer around this one that asks no http.ResponseController.
func (w *recorder) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Hijack is refused: no route takes over a connection.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// observe gives the request an id, writes one log line for it, and turns a panic into an answer.
func (s *server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := &request{id: rand.Text(), started: time.Now()}
		rec := &recorder{ResponseWriter: w}
		ctx := trail.Begin(context.WithValue(r.Context(), keyRequest, l), s.tracer)
		if strings.HasPrefix(r.URL.Path, apiPrefix+"/v1/") {
			ctx = trail.Extract(ctx, r.Header) // pages take no trace of strangers
		}
		ctx, span := trail.Start(ctx, r.Method, trace.SpanKindServer)
		r = r.WithContext(ctx)
		rec.Header().Set("X-Request-Id", l.id)
		defer func() {
			broken := false
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				l.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				if broken = rec.status != 0; !broken {
					s.fail(rec, r, l.err)
				}
			}
			span.Name(l.route)
			span.Set("http.response.status_code", strconv.Itoa(rec.status))
			span.End(l.err)
			s.logRequest(r, rec, l)
			_, pattern, _ := strings.Cut(l.route, " ")
			s.served(r.Method, pattern, rec.status, time.Since(l.started))
			if broken {
				panic(http.ErrAbortHandler) // a part of the answer was sent: without this it would end as if it were whole
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

// compressed shrinks pages, styles and scripts on their way. A page holds nothing secret whose length could tell something beside
// text that a stranger chose: no form has a token, and a token's page shows it once, as the answer of a post. Streams and
// downloads go as they are.
func compressed(next http.Handler) http.Handler {
	return middleware.Compress(5, "text/html", "text/css", "text/javascript", "image/svg+xml")(next)
}

// note puts what the address and the principal say into the chain of ids.
func note(r *http.Request, p *principal) {
	c := trail.Chain{}
	if p.tenant != uuid.Nil {
		c.Tenant = p.tenant.String()
	}
	if p.kind == worker {
		c.Worker = typeid.Format(typeid.Worker, p.credential)
	}
	for _, x := range []struct {
		to     *string
		prefix typeid.Prefix
		names  []string
	}{{&c.Run, typeid.Run, []string{"run_id", "id"}}, {&c.Task, typeid.Task, []string{"task_id", "id"}}} {
		for _, name := range x.names {
			// Only what is an id: the address is whatever somebody typed.
			if v := chi.URLParam(r, name); v != "" {
				if _, err := typeid.Parse(x.prefix, v); err == nil {
					*x.to = v
				}
			}
		}
	}
	trail.Add(r.Context(), c)
}

func (s *server) logRequest(r *http.Request, rec *recorder, l *request) {
	attrs := []slog.Attr{
		slog.String("request_id", l.id), slog.String("method", r.Method), slog.String("route", l.route),
		slog.String("path", db.HideTokens(r.URL.Path)), slog.Int("status", rec.status), slog.Int64("bytes", rec.bytes),
		slog.Int64("duration_ms", time.Since(l.started).Milliseconds()),
	}
	if a := clientAddress(r.Context()); a.IsValid() {
		attrs = append(attrs, slog.String("client", a.String()))
	}
	if l.who != nil {
		attrs = append(attrs, slog.String("actor", l.who.actorID()), slog.String("actor_kind", l.who.kind.String()), slog.String("tenant", l.who.tenantName))
	}
	level := slog.LevelInfo
	if l.err != nil {
		attrs = append(attrs, slog.String("error", l.err.Error()))
		if k := fault.KindOf(l.err); k == fault.Internal || k == fault.Unavailable {
			level = slog.LevelError
		}
		f, ok := errors.AsType[*fault.Error](l.err)
		if ok && f.Code == db.CodeStopping {
			level = slog.LevelInfo
		}
		if clientGone(r, l.err) {
			level = slog.LevelInfo
			attrs = append(attrs, slog.Bool("client_gone", true))
		}
	}
	s.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// statusGone is what the log says where nobody waited for the answer any more; nginx made the number known for it.
const statusGone = 499

// clientGone reports that the request broke off because its client went away. That is the client's own affair and no
// failure of ours (R-CAN-5); what broke for another reason meanwhile is still a failure.
func clientGone(r *http.Request, err error) bool {
	return errors.Is(err, context.Canceled) && errors.Is(r.Context().Err(), context.Canceled)
}

// fail answers in the form that the path speaks.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if clientGone(r, err) {
		s.note(r, err)
		w.WriteHeader(statusGone)
		return
	}
	if strings.HasPrefix(r.URL.Path, apiPrefix+"/") {
		s.failAPI(w, r, err)
		return
	}
	s.failPage(w, r, err)
}

const (
	contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; object-src 'none'"
	permissionsPolicy = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
	downloadPolicy    = "sandbox; default-src 'none'; frame-ancestors 'none'"
)

// protect sets the headers that hold for every answer and refuses requests for another host (B3).
func (s *server) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", permissionsPolicy)
		h.Set("Cache-Control", "private, no-cache")
		h.Add("Vary", "HX-Request, HX-History-Restore-Request")
		if s.secure() {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if strings.HasPrefix(r.URL.Path, apiPrefix+"/") {
			h.Set("Cache-Control", "no-store")
		}
		if !slices.Contains(s.hosts, strings.ToLower(r.Host)) && r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
			http.Error(w, "This server does not answer for that host name.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOrigin refuses forms that another site sent (B1). It has no bypass patterns: the API ignores cookies instead.
func (s *server) sameOrigin(next http.Handler) http.Handler {
	guard := http.NewCrossOriginProtection()
	if err := guard.AddTrustedOrigin(s.publicURL.Scheme + "://" + s.publicURL.Host); err != nil {
		s.log.Error("public URL is not usable as a trusted origin", slog.String("error", err.Error()))
	}
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.failPage(w, r, fault.New(fault.Forbidden, "Nothing was done: the form came from another site. Open the page here and send it again.").WithCode("cross_origin"))
	}))
	return guard.Handler(next)
}
