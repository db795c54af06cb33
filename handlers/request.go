package handlers

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"signalbox/db"
	"signalbox/internal/fault"
)

// requestHash names the content of a request, so that a key used twice with other content is noticed (R-TRN-6).
// The address is part of it; the key itself is not.
func requestHash(r *http.Request, content any) ([]byte, error) {
	if values, ok := content.(url.Values); ok {
		rest := url.Values{}
		for name, list := range values {
			if name != "idempotency_key" {
				rest[name] = list
			}
		}
		content = rest.Encode()
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("hash request: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s\n%s", r.Method, r.URL.Path, raw))
	return sum[:], nil
}

// act is what a person's action is about, for the audit.
type act struct {
	action, object, id, reason string
}

// request describes who asks for something under which key, with its line in the audit.
func (s *server) request(r *http.Request, key string, content any, a act) (db.Request, error) {
	p := who(r)
	hash, err := requestHash(r, content)
	if err != nil {
		return db.Request{}, err
	}
	return db.Request{Tenant: p.tenant, By: p.actor(), Roles: p.roles, Key: key, Hash: hash, Audit: auditOf(r, a)}, nil
}

// auditOf is the line that the action leaves in the audit.
func auditOf(r *http.Request, a act) *db.Audit {
	p := who(r)
	channel := "page"
	if strings.HasPrefix(r.URL.Path, apiPrefix+"/") {
		channel = "api"
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return &db.Audit{
		Tenant: p.tenant, By: p.actor(), Channel: channel, RemoteAddr: host, RequestID: requestID(r), Action: a.action, ObjectType: a.object,
		ObjectID: a.id, Result: "recorded", Reason: a.reason,
	}
}

// formRequest reads a posted form with its key.
func (s *server) formRequest(r *http.Request, a act) (url.Values, db.Request, error) {
	values, err := form(r)
	if err != nil {
		return nil, db.Request{}, err
	}
	key, err := checkKey(values.Get("idempotency_key"), "idempotency_key")
	if err != nil {
		return nil, db.Request{}, err
	}
	if a.reason == "" {
		a.reason = values.Get("reason")
	}
	if len([]rune(a.reason)) > 2000 {
		return nil, db.Request{}, fault.New(fault.Invalid, "Nothing was done: the reason has more than 2,000 characters.").WithField("reason")
	}
	in, err := s.request(r, key, values, a)
	return values, in, err
}

// replayed marks a stored answer.
func replayed(w http.ResponseWriter, again bool) {
	if again {
		w.Header().Set("Idempotency-Replayed", "true")
	}
}
