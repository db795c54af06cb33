package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

const (
	maxJSON = 1 << 20
	maxForm = 256 << 10
)

// decode reads a JSON body into a wire type. The contract's own schema decides what is acceptable: a member that it
// does not name, a wrong type, a value out of range is a fault of the caller, each named with its field (T11).
func decode[T any](s *server, r *http.Request) (T, error) {
	var body T
	op, ok := s.doc.Operation(operationOf(r))
	if !ok {
		return body, fault.Newf(fault.Internal, "no operation for %s", r.URL.Path)
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return body, fault.New(fault.Invalid, "Nothing was stored: the body must be sent as application/json.").WithCode("content_type")
	}
	raw, err := readAll(r.Body)
	if err != nil {
		return body, err
	}
	if !utf8.Valid(raw) {
		return body, fault.New(fault.Malformed, "Nothing was stored: the body is not valid UTF-8.").WithCode("not_utf8")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return body, fault.Wrap(fault.Malformed, err, "Nothing was stored: the body is not valid JSON.").WithCode("not_json")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return body, fault.New(fault.Malformed, "Nothing was stored: something follows the JSON value.").WithCode("not_json")
	}
	if name, twice := memberTwice(raw); twice {
		return body, fault.Newf(fault.Malformed, "Nothing was stored: the member %.80q stands twice in one object of the body, and it is not known which one counts.", name).WithCode("member_twice")
	}
	if found := s.doc.Check(op.BodySchema(), value); len(found) > 0 {
		var fields []wire.FieldError
		for _, v := range found {
			fields = append(fields, wire.FieldError{Field: v.Field, Message: v.Message})
		}
		return body, invalidFields(fields)
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&body); err != nil {
		return body, fault.Wrap(fault.Invalid, err, "Nothing was stored: a value of the body has the wrong form.").WithCode("invalid_body")
	}
	return body, nil
}

// memberTwice names a member that an object of valid JSON has twice. What is checked would be the last of them, and what is
// read all of them together.
func memberTwice(raw []byte) (name string, twice bool) {
	type object struct {
		seen  map[string]bool // nil for a list
		named bool            // a member's name was read, its value comes next
	}
	var open []object
	for d := json.NewDecoder(bytes.NewReader(raw)); ; {
		token, err := d.Token()
		if err != nil {
			return "", false // the end
		}
		if n := len(open) - 1; n >= 0 && open[n].seen != nil {
			if name, ok := token.(string); ok && !open[n].named {
				if open[n].seen[name] {
					return name, true
				}
				open[n].seen[name], open[n].named = true, true
				continue
			}
			open[n].named = false
		}
		switch token {
		case json.Delim('{'):
			open = append(open, object{seen: map[string]bool{}})
		case json.Delim('['):
			open = append(open, object{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
	}
}

// readAll reads a bounded body; the bound was set by the route.
func readAll(body io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(body)
	if err == nil {
		return raw, nil
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fault.Newf(fault.TooLarge, "Nothing was stored: the body is larger than %d bytes.", tooLarge.Limit).WithCode("too_large")
	}
	return nil, fault.Wrap(fault.Malformed, err, "Nothing was stored: the body did not arrive as a whole.")
}

// form reads a posted form; an unknown content type or a broken encoding is refused.
func form(r *http.Request) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, fault.New(fault.Malformed, "Nothing was done: the form was not sent as a form.")
	}
	raw, err := readAll(r.Body)
	if err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(raw))
	if err != nil {
		return nil, fault.Wrap(fault.Malformed, err, "Nothing was done: the form could not be read.")
	}
	for name, list := range values {
		if len(list) > 1 && !severalTimes(name) {
			return nil, fault.Newf(fault.Invalid, "Nothing was done: the field %.40q stands in the form %d times, and it is not known which one counts.", name, len(list)).WithField(name)
		}
		for i, v := range list {
			// A browser sends CRLF; the text is kept as the person wrote it.
			v = strings.ReplaceAll(v, "\r\n", "\n")
			if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
				return nil, fault.New(fault.Invalid, "Nothing was done: a field holds characters that cannot be stored.").WithField(name)
			}
			list[i] = v
		}
	}
	return values, nil
}

// severalTimes are fields that one form or address may have more than once. Of any other, two readers might each take another.
func severalTimes(name string) bool {
	return slices.Contains([]string{"run", "gate", "scopes", "phases", "reviewed_elsewhere", "note"}, name)
}

// plainQuery refuses an address whose query holds what no text of ours holds: the database would refuse it later, as a
// fault of the server.
func plainQuery(r *http.Request) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fault.Wrap(fault.Malformed, err, "Nothing was done: the address could not be read.").WithCode("bad_query")
	}
	for name, list := range values {
		if len(list) > 1 && !severalTimes(name) {
			return fault.Newf(fault.Malformed, "Nothing was done: the address names %.40q %d times, and it is not known which one counts.", name, len(list)).WithCode("bad_query")
		}
		for _, v := range append(list, name) {
			if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
				return fault.New(fault.Malformed, "Nothing was done: the address holds characters that no text has.").WithCode("bad_query")
			}
		}
	}
	return nil
}

// pathID reads an id of the path.
func pathID(r *http.Request, name string, prefix typeid.Prefix) (uuid.UUID, error) {
	return typeid.Parse(prefix, chi.URLParam(r, name))
}

// queryInt reads a whole number of the query within bounds; absent is fallback.
func queryInt(r *http.Request, name string, fallback, low, high int64) (int64, error) {
	raw := r.URL.Query().Get(name)
	if raw == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || n < low || n > high {
		return 0, fault.Newf(fault.Invalid, "Nothing is shown: %s must be a whole number from %d to %d.", name, low, high).WithField(name)
	}
	return n, nil
}

func queryLimit(r *http.Request) (int32, error) {
	n, err := queryInt(r, "limit", 50, 1, 500)
	return int32(n), err
}

// idempotencyKey reads the header that makes a repeated request harmless (R-TRN-6).
func idempotencyKey(r *http.Request) (string, error) {
	return checkKey(r.Header.Get("Idempotency-Key"), "Idempotency-Key")
}

func checkKey(key, field string) (string, error) {
	if len(key) < 8 || len(key) > 200 || strings.ContainsFunc(key, func(c rune) bool { return c < '!' || c > '~' }) {
		return "", fault.Newf(fault.Invalid, "Nothing was done: %s must be 8 to 200 visible characters, made by the sender and repeated only with the same request.", field).
			WithField(field).WithCode("idempotency_key")
	}
	return key, nil
}
