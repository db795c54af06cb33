package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"signalbox/api"
	"signalbox/internal/fault"
	"signalbox/internal/wire"
)

// FuzzReturnPath: whatever somebody asks to come back to, it is a path of this server, for every way in which a browser reads it, and
// asking for what came out gives the same (O13).
func FuzzReturnPath(f *testing.F) {
	for _, s := range []string{"/runs?state=FAILED", "//evil.example", `/\evil.example`, "/%2f/evil", "/%5cevil", "/\tevil", "https:evil", "/a/..//evil", "/login", "/%09/e", "/?x=//evil", "/a#b", "/%2e%2e//x", "/;@evil"} {
		f.Add(s)
	}
	base, _ := url.Parse("https://signalbox.example/login")
	f.Fuzz(func(t *testing.T, raw string) {
		path := returnPath(raw)
		u, err := base.Parse(path)
		if err != nil || u.Host != base.Host || u.Scheme != "https" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t\x00") {
			t.Errorf("%q leads to %q", raw, path)
		}
		if decoded, err := url.PathUnescape(path); err == nil && (strings.HasPrefix(decoded, "//") || strings.HasPrefix(decoded, `/\`)) {
			t.Errorf("%q leads to %q, which is %q", raw, path, decoded)
		}
		if again := returnPath(path); again != path && again != "/" {
			t.Errorf("%q leads to %q, and that to %q", raw, path, again)
		}
	})
}

// FuzzCursor: a place in a list is one that was given out, or is refused; what is read is written as it stands for.
func FuzzCursor(f *testing.F) {
	f.Add("", "7")
	f.Add("MjAyNi0xMS0zMFQxNDowMDowMFogMDE5MjAwMDAtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDAx", "-1")
	f.Add("eyJhIjoxfQ", "99999999999999999999")
	f.Fuzz(func(t *testing.T, text, event string) {
		c, err := readCursor(text)
		if err == nil && text != "" {
			again, err := readCursor(cursor(c))
			if err != nil || !again.At.Equal(c.At) || again.ID != c.ID {
				t.Errorf("%q is %v, and then %v, %v", text, c, again, err)
			}
		}
		r := httptest.NewRequest(http.MethodGet, "/runs/x/stream", http.NoBody)
		r.Header.Set("Last-Event-ID", event)
		if n, err := lastSeen(r); err != nil || n < 0 {
			t.Errorf("Last-Event-ID %q is %d, %v", event, n, err)
		}
	})
}

// FuzzClientAddress: what a client writes into X-Forwarded-For never makes it one of our own proxies, and without a proxy never anybody
// but the connection's other end (L5).
func FuzzClientAddress(f *testing.F) {
	for _, s := range []string{"1.2.3.4", "1.2.3.4, 10.0.0.1", "::1, 10.0.0.2", "10.0.0.1,10.0.0.2", "[2001:db8::1]:80", "1.2.3.4:80, x", "", ",,,", "::ffff:10.0.0.1", "fe80::1%eth0"} {
		f.Add(s)
	}
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	ask := func(proxies []netip.Prefix, remote, header string) (a netip.Addr) {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = remote
		r.Header.Set("X-Forwarded-For", header)
		located(proxies, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { a = clientAddress(r.Context()) })).ServeHTTP(httptest.NewRecorder(), r)
		return a
	}
	f.Fuzz(func(t *testing.T, header string) {
		if strings.ContainsAny(header, "\r\n") {
			return
		}
		if a := ask(nil, "192.0.2.7:1234", header); a.String() != "192.0.2.7" {
			t.Errorf("without proxies %q makes it %s", header, a)
		}
		if a := ask(proxies, "10.0.0.9:1234", header); a.IsValid() && proxies[0].Contains(a.Unmap()) && strings.Contains(header, ".") && !onlyOurs(header, proxies[0]) {
			t.Errorf("behind a proxy %q makes it %s, one of our own", header, a)
		}
		// What stands before the last address that is not ours is the client's own word.
		if a := ask(proxies, "10.0.0.9:1234", header+", 198.51.100.4"); a.String() != "198.51.100.4" {
			t.Errorf("%q before the true address makes it %s", header, a)
		}
	})
}

func onlyOurs(header string, ours netip.Prefix) bool {
	for part := range strings.SplitSeq(header, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(part))
		if err != nil || !ours.Contains(a.Unmap()) {
			return false
		}
	}
	return true
}

// FuzzBodies: whatever the contract's schema accepts is read into the type that was generated from it, and nothing that stands in the
// body is lost; whatever else is sent is refused in words (T11).
func FuzzBodies(f *testing.F) {
	doc, err := api.Parse()
	if err != nil {
		f.Fatal(err)
	}
	s := &server{doc: doc}
	readers := map[string]func(*http.Request) (any, error){
		"createTask": func(r *http.Request) (any, error) { return decode[wire.TaskCreate](s, r) }, "decideGate": func(r *http.Request) (any, error) { return decode[wire.DecisionCreate](s, r) },
		"postRunCommand": func(r *http.Request) (any, error) { return decode[wire.RunCommand](s, r) }, "claim": func(r *http.Request) (any, error) { return decode[wire.Claim](s, r) },
		"createToken": func(r *http.Request) (any, error) { return decode[wire.TokenCreate](s, r) }, "cancelRun": func(r *http.Request) (any, error) { return decode[wire.Reason](s, r) },
		"simulatePolicy": func(r *http.Request) (any, error) { return decode[wire.PolicyDraft](s, r) }, "postRunSteps": func(r *http.Request) (any, error) { return decode[wire.StepBatch](s, r) },
	}
	for operation := range readers {
		for _, body := range []string{`{}`, `{"reason":"x"}`, `{"name":"x","scopes":["read"]}`, `{"command":"start","lease_id":"lease_01h455vb4pex5vsknk084sn02q","fencing_token":1}`, `{"reason":"a","reason":"b"}`, `{"document":"version: a","last":5}`} {
			f.Add(operation, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, operation string, raw []byte) {
		read, ok := readers[operation]
		if !ok {
			return
		}
		r := httptest.NewRequest(http.MethodPost, "/", io.NopCloser(bytes.NewReader(raw)))
		r.Header.Set("Content-Type", "application/json")
		r = r.WithContext(context.WithValue(r.Context(), keyRoute, route{operation: operation}))
		body, err := read(r)
		if err != nil {
			// The schema was asked before the type.
			if f, ok := errors.AsType[*fault.Error](err); fault.KindOf(err) == fault.Internal || ok && strings.Contains(f.Sentence, "has the wrong form") {
				t.Errorf("%s: %s: %v", operation, raw, err)
			}
			return
		}
		again, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(again))
		second, err := read(r)
		if err != nil || !reflect.DeepEqual(body, second) {
			t.Errorf("%s: %s is read as %s, which is read as %+v, %v", operation, raw, again, second, err)
		}
	})
}
