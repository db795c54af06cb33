package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"signalbox/internal/fault"
	"signalbox/internal/wire"
	"signalbox/web"
)

// status is the one mapping from kinds of failure to HTTP (D-20).
func status(kind fault.Kind) int {
	switch kind {
	case fault.Malformed:
		return http.StatusBadRequest
	case fault.Unauthenticated:
		return http.StatusUnauthorized
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Gone:
		return http.StatusGone
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.Invalid:
		return http.StatusUnprocessableEntity
	case fault.TooMany:
		return http.StatusTooManyRequests
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// title is the kind of failure in words.
func title(kind fault.Kind) string {
	switch kind {
	case fault.Malformed:
		return "The request could not be read"
	case fault.Unauthenticated:
		return "No usable login or token"
	case fault.Forbidden:
		return "Not allowed"
	case fault.NotFound:
		return "Not found"
	case fault.Conflict:
		return "The request came too late or does not fit"
	case fault.Gone:
		return "No longer possible"
	case fault.TooLarge:
		return "Too large"
	case fault.Invalid:
		return "The request is not acceptable as it is"
	case fault.TooMany:
		return "Too many requests"
	case fault.Unavailable:
		return "Not available now"
	default:
		return "A failure on our side"
	}
}

// invalid is a refused body with everything that is wrong with it.
type invalid struct {
	fields []wire.FieldError
	cause  *fault.Error
}

func (e *invalid) Error() string { return e.cause.Error() }
func (e *invalid) Unwrap() error { return e.cause }

func invalidFields(fields []wire.FieldError) error {
	sentence := "Nothing was stored: the request does not match its description."
	if len(fields) > 0 {
		sentence = "Nothing was stored: " + where(fields[0]) + fields[0].Message
	}
	return &invalid{fields, fault.New(fault.Invalid, sentence).WithCode("invalid_body")}
}

func where(f wire.FieldError) string {
	if f.Field == "" {
		return ""
	}
	return f.Field + ": "
}

// problem builds the RFC 9457 answer. The cause of a failure never leaves the log.
func problem(r *http.Request, err error) wire.Problem {
	kind := fault.KindOf(err)
	p := wire.Problem{
		Type: "about:blank", Title: title(kind), Status: status(kind),
		Detail: fault.Sentence(err), Instance: requestID(r), Code: kind.String(),
	}
	if f, ok := fault.Find(err); ok {
		if f.Code != "" {
			p.Code = f.Code
		}
		p.Stop, p.State = f.Stop, wire.RunState(f.State)
		p.RetryAfter = seconds(f.RetryAfter)
		if f.Field != "" {
			p.Errors = []wire.FieldError{{Field: f.Field, Message: fault.Sentence(err)}}
		}
	}
	if list, ok := errors.AsType[*invalid](err); ok {
		p.Errors = list.fields
	}
	return p
}

func seconds(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	return int((d + time.Second - 1) / time.Second)
}

// failAPI answers a failure of the JSON API.
func (s *server) failAPI(w http.ResponseWriter, r *http.Request, err error) {
	s.note(r, err)
	p := problem(r, err)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="signalbox"`)
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	body, marshalErr := json.Marshal(p)
	if marshalErr != nil {
		body = []byte(`{"type":"about:blank","title":"A failure on our side","status":500}`)
	}
	w.WriteHeader(p.Status)
	s.write(w, r, body)
}

// failPage answers a failure of a page, with the same shell around it as any page.
func (s *server) failPage(w http.ResponseWriter, r *http.Request, err error) {
	s.note(r, err)
	kind := fault.KindOf(err)
	if kind == fault.Unauthenticated {
		s.askLogin(w, r, err)
		return
	}
	data := web.ErrorPageData{Shell: s.shell(r), Status: status(kind), Sentence: fault.Sentence(err), RequestID: requestID(r)}
	if f, ok := fault.Find(err); ok {
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(seconds(f.RetryAfter)))
		}
		if missing, ok := errors.AsType[*missingRole](err); ok {
			data.Missing, data.GrantedBy = missing.role, s.grantedBy(r, missing.roles...)
			data.NoRole = s.noRole(r)
		}
	}
	if r.Method == http.MethodGet && data.Status >= 500 {
		data.RetryURL = r.URL.RequestURI()
	}
	data.Back = unfiltered(r, kind)
	if r.Method != http.MethodGet {
		data.Back = cameFrom(r)
	}
	page := web.ErrorPage(data)
	if r.Header.Get("HX-Request") != "" && r.Header.Get("HX-History-Restore-Request") == "" {
		// The page stays as it is; the failure is added to it, and its text is not lost.
		w.Header().Set("HX-Retarget", "#toasts")
		w.Header().Set("HX-Reswap", "beforeend")
		page = web.ErrorToast(data)
	}
	if renderErr := s.render(w, r, data.Status, page); clientGone(r, renderErr) {
		w.WriteHeader(statusGone)
	} else if renderErr != nil {
		s.log.ErrorContext(r.Context(), "error page not rendered", slog.String("error", renderErr.Error()))
		http.Error(w, fault.Generic, http.StatusInternalServerError)
	}
}

// cameFrom is the page whose form was sent, as the browser names it; nil where that is not one of ours.
func cameFrom(r *http.Request) *web.Link {
	from, err := url.Parse(r.Referer())
	if err != nil || from.Host == "" || from.Host != r.Host {
		return nil
	}
	return &web.Link{Text: "Back to the page", Href: returnPath(from.RequestURI())}
}

// note keeps an error for the request's one log line; only failures of ours are errors.
func (s *server) note(r *http.Request, err error) {
	if l := logged(r); l != nil {
		l.err = err
	}
}

// render writes a component. One that flushes nothing is written when it was rendered as a whole, so that a failure never
// leaves half a page.
func (s *server) render(w http.ResponseWriter, r *http.Request, code int, c templ.Component) error {
	p := &paging{s: s, w: w, r: r, code: code}
	if err := c.Render(r.Context(), p); err != nil {
		if p.sent {
			s.log.ErrorContext(r.Context(), "page broken off", slog.String("error", err.Error()), slog.String("request_id", requestID(r)))
			panic(http.ErrAbortHandler) // what follows cannot be another page; the browser is told that this one is not whole
		}
		return fmt.Errorf("render: %w", err)
	}
	p.send()
	return nil
}

// paging sends a page in as many parts as its template flushes, each as Reveal shows it. Nothing is sent before the first of
// them is whole, so that a page which cannot be rendered can still be answered with another one.
type paging struct {
	s    *server
	w    http.ResponseWriter
	r    *http.Request
	code int
	sent bool
	part bytes.Buffer
}

// Write implements io.Writer.
func (p *paging) Write(b []byte) (int, error) { return p.part.Write(b) }

// Flush implements http.Flusher, which is what a template looks for.
func (p *paging) Flush() {
	p.send()
	// Where it cannot be sent early it comes with the rest.
	_ = http.NewResponseController(p.w).Flush()
}

func (p *paging) send() {
	if !p.sent {
		p.sent = true
		p.w.Header().Set("Content-Type", "text/html; charset=utf-8")
		p.w.WriteHeader(p.code)
	}
	p.s.write(p.w, p.r, web.Reveal(p.part.Bytes()))
	p.part.Reset()
}

// answer writes a JSON body.
func (s *server) answer(w http.ResponseWriter, r *http.Request, code int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	s.write(w, r, body)
	return nil
}

// write sends the body. A client that went away is its own affair and cancels nothing (R-CAN-5).
func (s *server) write(w http.ResponseWriter, r *http.Request, body []byte) {
	if _, err := w.Write(body); err != nil {
		s.log.DebugContext(r.Context(), "client went away", slog.String("request_id", requestID(r)))
	}
}

// see answers a post with the page to look at next.
func see(w http.ResponseWriter, r *http.Request, to string) error {
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}
