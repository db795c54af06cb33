package handlers_test

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/api"
	"signalbox/handlers"
	"signalbox/internal/policy"
)

// bad is one request that is wrong in at least one way.
type bad struct {
	what, method, path, kind, body string
	headers                        map[string]string
}

// sender sends bad requests and counts the answers.
type sender struct {
	*world
	// bare is a client without cookies.
	bare  *browser
	codes map[int]int
	sent  int
}

// S5: every route gets everything that is wrong with requests, from somebody who may call it: no answer of 5xx, no panic, no goroutine
// left behind, bounded memory, and nothing changed by what was refused. It runs alone, because it counts the process's goroutines.
func TestBadInputOverEveryRoute(t *testing.T) {
	w := &sender{world: newWorld(t), codes: map[int]int{}}
	w.bare = w.browser()
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	there := w.existing(t)
	there[policyVersion] = policy.DefaultVersion
	all := idPerson{sub: "all", name: "All", groups: []string{"viewers", "requesters", "approvers", "admins"}}
	who := map[string]caller{
		"page": {cookie: w.signedIn(t, all)}, "person": {token: w.cli(t, all).token}, "worker": {token: w.worker(t, "bad").token},
		"token": {token: w.token(t, all, "read", "tasks", "repositories").token},
	}
	// When a credential was used last is noted once a minute by whoever asks who is calling, before any route.
	for _, change := range []string{"sessions SET last_seen_at", "api_tokens SET last_used_at", "worker_credentials SET last_used_at"} {
		got(conn.Exec(t.Context(), "UPDATE "+change+" = now() + interval '1 hour'"))(t)
	}
	c := corpus{doc: got(api.Parse())(t), fields: formFields(t)}
	goroutines, memory := w.goroutines(), resident(t)

	routes := 0
	before := w.rows(t, conn, "")
	for _, r := range w.routes(t) {
		if strings.HasSuffix(r.Pattern, "/logout") || strings.HasSuffix(r.Pattern, "/end") {
			continue // whoever gets through is nobody for the rest; below
		}
		routes++
		accepted := w.worse(t, who, r, c.of(r, there))
		if r.Method == http.MethodGet && !r.Anyone || accepted == 0 {
			after := w.rows(t, conn, "")
			if !maps.Equal(before, after) {
				t.Errorf("%s %s:", r.Method, r.Pattern)
				same(t, before, after)
			}
			before = after
		} else {
			before = w.rows(t, conn, "")
		}
	}
	for _, r := range w.routes(t) {
		if strings.HasSuffix(r.Pattern, "/logout") || strings.HasSuffix(r.Pattern, "/end") {
			routes++
			who["page"], who["person"] = caller{cookie: w.signedIn(t, all)}, caller{token: w.cli(t, all).token}
			w.worse(t, who, r, c.of(r, there))
		}
	}
	raw := w.malformed(t)
	left := w.goroutines()
	grown := resident(t)
	t.Logf("S5: %d routes, %d bad requests and %d that are no HTTP; answers %v; goroutines %d before, %d after; the most memory resident %d MiB before, %d MiB after",
		routes, w.sent, raw, w.codes, goroutines, left, memory>>20, grown>>20)
	for code, n := range w.codes {
		if code >= 500 || code < 100 {
			t.Errorf("%d answers of %d", n, code)
		}
	}
	if strings.Contains(w.log.String(), "panic") {
		t.Error("the server's log speaks of a panic")
	}
	if left > goroutines {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after\n%s", goroutines, left, stacks[:runtime.Stack(stacks, true)])
	}
	if grown > memory+600<<20 {
		t.Errorf("memory grew from %d to %d bytes", memory, grown)
	}
	if w.sent < 10_000 && !testing.Short() {
		t.Errorf("%d requests", w.sent)
	}
	// All is as it was for whoever asks well.
	w.signedIn(t, all).get(t, "/inbox").want(t, http.StatusOK)
}

// worse sends the requests of one route and returns how many of those that may change something were accepted.
func (w *sender) worse(t *testing.T, who map[string]caller, r handlers.Route, requests []bad) (accepted int) {
	t.Helper()
	c := who["page"]
	if strings.HasPrefix(r.Pattern, "/api/") {
		c = who["person"]
		if !r.Anyone && !slices.Contains(r.Kinds, "person") {
			c = who[r.Kinds[0]]
		}
	}
	for n, b := range requests {
		if testing.Short() && n%8 != 0 {
			continue
		}
		w.sent++
		code, body := w.send(t, c, b)
		w.codes[code]++
		switch {
		case code >= 500:
			t.Errorf("%s %.120s, %s: %d %.300s", b.method, b.path, b.what, code, body)
		case code < 400 && (b.method != http.MethodGet && b.method != http.MethodHead || r.Anyone):
			accepted++
			if strings.Contains(b.what, "twice") && !r.Anyone {
				t.Errorf("%s %s, %s: %d", b.method, r.Pattern, b.what, code)
			}
		}
		for _, inside := range []string{"SQLSTATE", "goroutine ", "runtime error", ".go:"} {
			if code >= 400 && strings.Contains(body, inside) {
				t.Errorf("%s %.120s, %s: the answer shows our inside: %.300s", b.method, b.path, b.what, body)
			}
		}
	}
	return accepted
}

// send asks and reads no more of a stream than its beginning.
func (w *sender) send(t *testing.T, c caller, b bad) (int, string) {
	t.Helper()
	browser := c.cookie
	if browser == nil {
		browser = w.bare
	}
	req, err := http.NewRequestWithContext(t.Context(), b.method, w.url, strings.NewReader(b.body))
	must(t, err)
	// As it stands: the client is not to mend it.
	req.URL.Opaque = strings.TrimPrefix(w.url, "http:") + b.path
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if b.kind != "" {
		req.Header.Set("Content-Type", b.kind)
	}
	req.Header.Set("Idempotency-Key", rand.Text())
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	for name, value := range b.headers {
		req.Header.Set(name, value)
	}
	res, err := browser.Do(req)
	if err != nil {
		t.Errorf("%s %.120s, %s: no answer: %v", b.method, b.path, b.what, err)
		return 0, ""
	}
	defer res.Body.Close()
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return res.StatusCode, ""
	}
	body, err := io.ReadAll(res.Body)
	if err != nil && res.StatusCode < 400 {
		t.Errorf("%s %.120s, %s: %v", b.method, b.path, b.what, err)
	}
	return res.StatusCode, string(body)
}

// corpus makes what is wrong.
type corpus struct {
	doc    *api.Document
	fields []string
}

var (
	badIDs = []string{
		"run_", "0", "-1", "%00", "%2e%2e%2f%2e%2e", "run_01h455vb4pex5vsknk084sn02q%0a", "'%20OR%201=1--", strings.Repeat("a", 3000), "run_00000000000000000000000000",
		"run_zzzzzzzzzzzzzzzzzzzzzzzzzz", "%ff%fe", "%e2%80%ae", "9999999999999999999999", "%ED%A0%80", "task_%2500", "%F0%9F%92%A9",
	}
	badQueries = []string{
		"cursor=%00", "cursor=" + strings.Repeat("A", 6000), "cursor=eyJhIjoxfQ", "cursor=-1", "after=%ff", "before=abc", "before=-1", "before=99999999999999999999", "limit=-1", "limit=0", "limit=1e9", "limit=x", "limit=%00",
		"limit=1&limit=2", "page=1&page=2", "%zz=1", "a;b=1", "q=%00", "q=%ff%fe", "q=" + strings.Repeat("%F0%9F%92%A9", 900), "state=NOWHERE", "since=yesterday", "since=9999999-01-01", "zone=..%2F..%2Fetc%2Fpasswd", "sort=id;drop%20table%20runs",
		"return_to=%2F%2Fevil.example", "return_to=%5C%5Cevil", "from=%00&to=%ff", "line=-5&lines=1e99", "repository=%27%3B--", "tenant_id=00000000-0000-0000-0000-000000000000", "%5B%5D=1&x[]=2&x[a][b]=3", "offset=-9223372036854775809",
		"user=%25%5F%5C", "done=%3Cscript%3E&notes=-1", "phase=execute&phase=verify", strings.Repeat("a=1&", 2000),
	}
	badHeaders = []map[string]string{
		{"Last-Event-ID": "-1"}, {"Last-Event-ID": "99999999999999999999999999"}, {"Last-Event-ID": "\xff\xfe"}, {"Last-Event-ID": strings.Repeat("7", 8000)}, {"Last-Event-ID": "1:2:3; DROP"},
		{"Idempotency-Key": ""}, {"Idempotency-Key": strings.Repeat("k", 5000)}, {"Idempotency-Key": "\xff\xfe\xff\xfe\xff\xfe\xff\xfe"}, {"Idempotency-Key": "short"},
		{"Accept": "image/webp;q=9,*;;;"}, {"Accept-Encoding": "gzip;q=x, br;;, " + strings.Repeat("a,", 3000)}, {"Range": "bytes=-1-,5-2,99999999999999999999-"}, {"If-None-Match": strings.Repeat(`"x",`, 4000)},
		{"If-Modified-Since": "not a day"}, {"Cookie": strings.Repeat("a=b; ", 3000)}, {"Cookie": "__Host-sid=\xff; sid=%00; sid=sid"}, {"X-HTTP-Method-Override": "DELETE"}, {"Content-Encoding": "gzip"},
		{"X-Forwarded-For": strings.Repeat("1.2.3.4,", 2000)}, {"X-Forwarded-For": "::1, %00, [fe80::1%eth0], 999.1.1.1"}, {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "javascript"}, {"Forwarded": `for="_gazonk";proto=;by=`},
		{"Traceparent": "00-" + strings.Repeat("z", 32) + "-1-1"}, {"HX-Request": "true", "HX-Target": "<img src=x onerror=alert(1)>", "HX-Current-URL": "javascript:alert(1)"}, {"Authorization": "Bearer"}, {"Authorization": "Basic Og=="},
		{"Authorization": "Bearer " + strings.Repeat("sbt_", 2000)}, {"Authorization": "Bearer \xff"}, {"Origin": "null", "Sec-Fetch-Site": "cross-site"}, {"Content-Length-Hint": "-1", "Expect": "200-maybe"}, {"User-Agent": "\xff" + strings.Repeat("u", 9000)},
	}
	badMethods = []string{"PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "GETT", "get", "POST", "GET"}
	badValues  = []any{nil, true, -1, 1e308, "", "\x00", "\ufffe\u202e", []any{}, []any{[]any{}}, map[string]any{}, strings.Repeat("x", 70_000)}
	badForms   = []string{"\x00", "\xff\xfe", "\u202e\u2066", strings.Repeat("y", 60_000), "-1", "9223372036854775808", "1e309", "run_zzzzzzzzzzzzzzzzzzzzzzzzzz", "on\r\nSet-Cookie: a=b", "{{.}}${7*7}", "' OR '1'='1", "../../etc/passwd", " "}
)

const formKind, jsonKind = "application/x-www-form-urlencoded", "application/json"

// of are the bad requests for one route.
func (c corpus) of(r handlers.Route, there ids) (all []bad) {
	good, js := there.into(r.Pattern), strings.HasPrefix(r.Pattern, "/api/v1/")
	kind, body := formKind, "x=1"
	if js {
		kind, body = jsonKind, `{"unheard_of":1}`
	}
	if r.Method == http.MethodGet {
		kind, body = "", ""
	}
	if n := strings.Count(r.Pattern, "{"); n > 0 {
		for at := range n {
			for _, id := range badIDs {
				all = append(all, bad{what: "a bad id", method: r.Method, path: nth(r.Pattern, at, id, there), kind: kind, body: body})
			}
		}
	}
	for _, q := range badQueries {
		all = append(all, bad{what: "a bad query", method: r.Method, path: good + "?" + q, kind: kind, body: body})
	}
	for _, h := range badHeaders {
		all = append(all, bad{what: "bad headers", method: r.Method, path: good, kind: kind, body: body, headers: h})
	}
	for _, m := range badMethods {
		if m != r.Method {
			all = append(all, bad{what: "another method", method: m, path: good, kind: kind, body: body})
		}
	}
	if r.Method == http.MethodGet {
		return append(all, bad{what: "a body", method: r.Method, path: good, kind: jsonKind, body: strings.Repeat("[", 10_000)})
	}
	if js {
		return append(all, c.jsonBodies(r, good)...)
	}
	return append(all, c.forms(r, good)...)
}

// jsonBodies are bodies that are no JSON, no such object, or have a member of another kind than it should be.
func (c corpus) jsonBodies(r handlers.Route, path string) (all []bad) {
	add := func(what, kind, body string) {
		all = append(all, bad{what: what, method: r.Method, path: path, kind: kind, body: body})
	}
	for what, b := range map[string][2]string{
		"nothing": {jsonKind, ""}, "not JSON": {jsonKind, "{"}, "a number": {jsonKind, "7"}, "a list": {jsonKind, "[]"}, "null": {jsonKind, "null"}, "two values": {jsonKind, "{} {}"}, "a comment": {jsonKind, "{/*x*/}"},
		"deep nesting": {jsonKind, strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)}, "deep lists": {jsonKind, strings.Repeat("[", 100_000)}, "huge numbers": {jsonKind, `{"fencing_token":1e999,"sequence":-99999999999999999999999999}`},
		"a huge body": {jsonKind, `{"goal":"` + strings.Repeat("a", 3<<20) + `"}`}, "no UTF-8": {jsonKind, "{\"title\":\"\xff\xfe\"}"}, "a lone surrogate": {jsonKind, `{"unheard_of":"\ud800"}`}, "members again": {jsonKind, `{"reason":"a","reason":"b","name":1,"name":2}`},
		"text": {"text/plain", `{}`}, "a form": {formKind, "title=x"}, "no type": {"", `{}`}, "another charset": {jsonKind + "; charset=utf-16", "\xfe\xff\x00{\x00}"}, "a bad type": {"application/json; charset=\"", "{}"}, "multipart": {"multipart/form-data", "--"},
		"XML": {"application/xml", `<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>`}, "a prototype": {jsonKind, `{"__proto__":{"admin":true},"constructor":1}`}, "a byte order mark": {jsonKind, "\ufeff{}"},
	} {
		add(what, b[0], b[1])
	}
	op, ok := c.doc.Operation(r.Operation)
	if !ok || op.BodySchema() == "" {
		return all
	}
	for _, field := range c.doc.Components.Schemas.Map[op.BodySchema()].Properties.Keys {
		add("a member twice, "+field, jsonKind, fmt.Sprintf(`{%q:"a",%q:"b"}`, field, field))
		for n, v := range badValues {
			raw, err := json.Marshal(map[string]any{field: v, "unheard_of": n})
			if err == nil {
				add("the member "+field, jsonKind, string(raw))
			}
		}
	}
	return all
}

// forms are forms that are none, and those in which every field that any page has holds the same bad value.
func (c corpus) forms(r handlers.Route, path string) (all []bad) {
	add := func(what, kind, body string) {
		all = append(all, bad{what: what, method: r.Method, path: path, kind: kind, body: body})
	}
	for what, b := range map[string][2]string{
		"nothing": {formKind, ""}, "bad escapes": {formKind, "reason=%zz&%=&=%"}, "semicolons": {formKind, "a=1;b=2"}, "JSON": {jsonKind, `{"reason":"x"}`}, "no type": {"", "reason=x"}, "multipart without a boundary": {"multipart/form-data", "--x"},
		"multipart": {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"reason\"; filename=\"../../x\"\r\n\r\n\x00\r\n--x--"}, "a huge form": {formKind, "text=" + strings.Repeat("z", 3<<20)},
		"a hundred thousand fields": {formKind, strings.Repeat("a&", 100_000)}, "another charset": {formKind + "; charset=utf-7", "reason=+ADw-script+AD4-"}, "a bad type": {formKind + "; charset=\"", "reason=x"},
	} {
		add(what, b[0], b[1])
	}
	for _, v := range badForms {
		with, alone, twice := url.Values{}, url.Values{}, url.Values{}
		for _, f := range c.fields {
			with[f], alone[f], twice[f] = []string{v}, []string{v}, []string{v, "other"}
		}
		with.Set("idempotency_key", rand.Text())
		add(fmt.Sprintf("every field %.20q", v), formKind, with.Encode())
		add(fmt.Sprintf("every field %.20q, the key, too", v), formKind, alone.Encode())
		add(fmt.Sprintf("every field twice, %.20q and another", v), formKind, twice.Encode())
	}
	return all
}

// nth fills in a pattern with what exists, but for one place.
func nth(pattern string, at int, id string, there ids) string {
	n := -1
	marked := regexp.MustCompile(`\{\w+\}`).ReplaceAllStringFunc(pattern, func(m string) string {
		if n++; n == at {
			return "\x01"
		}
		return m
	})
	return strings.Replace(there.into(marked), "\x01", id, 1)
}

// formFields are the names of all fields of all pages.
func formFields(t *testing.T) []string {
	t.Helper()
	seen := map[string]bool{"idempotency_key": true}
	for _, dir := range []string{"../web", "../web/ui"} {
		for _, e := range got(os.ReadDir(dir))(t) {
			if strings.HasSuffix(e.Name(), ".templ") {
				for _, m := range regexp.MustCompile(`\bname="([a-z_]+)"`).FindAllStringSubmatch(string(got(os.ReadFile(dir+"/"+e.Name()))(t)), -1) {
					seen[m[1]] = true
				}
			}
		}
	}
	if len(seen) < 40 {
		t.Fatalf("only %d fields", len(seen))
	}
	return slices.Sorted(maps.Keys(seen))
}

// malformed sends what is hardly HTTP, each over a connection of its own.
func (w *sender) malformed(t *testing.T) int {
	t.Helper()
	host := strings.TrimPrefix(w.url, "http://")
	lines := func(l ...string) string { return strings.Join(l, "\r\n") + "\r\n\r\n" }
	all := []string{
		"\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", strings.Repeat("A", 200_000), lines("GET / HTTP/1.1"), lines("GET / HTTP/1.1", "Host:"),
		lines("GET / HTTP/1.1", "Host: a", "Host: b"), lines("GET / HTTP/1.1", "Host: evil.example"), lines("GET http://evil.example/ HTTP/1.1", "Host: "+host), lines("GET // HTTP/1.1", "Host: "+host), lines("GET /\x00 HTTP/1.1", "Host: "+host),
		lines("GET /inbox HTTP/1.1", "Host: "+host, "X: a\x00b"), lines("GET /inbox HTTP/1.1", "Host: "+host, "X : a"), lines("GET /inbox HTTP/1.1", "Host: "+host, " folded"), lines("GET /inbox HTTP/1.1", "Host: "+host, "no colon"),
		lines("GET /inbox HTTP/1.1", "Host: "+host, "X: "+strings.Repeat("h", 2<<20)), lines(append([]string{"GET /inbox HTTP/1.1", "Host: " + host}, slices.Repeat([]string{"X: y"}, 50_000)...)...),
		lines("POST /tasks HTTP/1.1", "Host: "+host, "Content-Length: -1"), lines("POST /tasks HTTP/1.1", "Host: "+host, "Content-Length: 1", "Content-Length: 2"), lines("POST /tasks HTTP/1.1", "Host: "+host, "Content-Length: 99999999999999999999"),
		lines("POST /tasks HTTP/1.1", "Host: "+host, "Transfer-Encoding: chunked", "Content-Length: 3") + "zz\r\n", lines("POST /api/v1/tasks HTTP/1.1", "Host: "+host, "Transfer-Encoding: chunked") + "ffffffffffffffffff\r\n",
		lines("POST /api/v1/tasks HTTP/1.1", "Host: "+host, "Transfer-Encoding: chunked") + "5;" + strings.Repeat("e", 100_000) + "\r\n", lines("GET * HTTP/1.1", "Host: "+host), lines("OPTIONS * HTTP/1.1", "Host: "+host),
		lines("CONNECT evil.example:443 HTTP/1.1", "Host: evil.example:443"), lines("GET /%zz HTTP/1.1", "Host: "+host), lines("GET /a?b=%zz HTTP/1.1", "Host: "+host), lines("GET /../../etc/passwd HTTP/1.1", "Host: "+host), lines("GET /static/..%2f..%2fgo.mod HTTP/1.1", "Host: "+host),
		lines("GET /static/%00 HTTP/1.1", "Host: "+host), lines("GET /"+strings.Repeat("a/", 20_000)+" HTTP/1.1", "Host: "+host), lines("GET /inbox HTTP/1.1", "Host: "+host, "Connection: "+strings.Repeat("close,", 5000)),
	}
	for _, request := range all {
		conn := got((&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "tcp", host))(t)
		must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		// The server may have hung up already.
		_, _ = io.WriteString(conn, request)
		_ = conn.(*net.TCPConn).CloseWrite()
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			w.codes[res.StatusCode]++
			_ = res.Body.Close()
			if res.StatusCode >= 500 && res.StatusCode != http.StatusNotImplemented && res.StatusCode != http.StatusHTTPVersionNotSupported {
				t.Errorf("%.80q: %d", request, res.StatusCode)
			}
		}
		_ = conn.Close()
	}
	return len(all)
}

// quietGoroutines is how many goroutines there are when all answers are over.
func (w *sender) goroutines() (n int) {
	w.t.Helper()
	w.bare.CloseIdleConnections()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	least := runtime.NumGoroutine()
	for calm := 0; calm < 50; calm++ {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-w.t.Context().Done():
		}
		if n = runtime.NumGoroutine(); n < least {
			least, calm = n, 0
		}
	}
	return least
}

// resident is the most memory that this process has had at once.
func resident(t *testing.T) (bytes int) {
	t.Helper()
	for line := range strings.Lines(string(got(os.ReadFile("/proc/self/status"))(t))) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			got(fmt.Sscanf(rest, "%d kB", &bytes))(t)
		}
	}
	return bytes << 10
}
