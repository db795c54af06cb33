package static_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"signalbox/static"
)

// used lists every name that pages ask for.
var used = []string{"app.css", "app.js", "keys.js", "log.js", "times.js", "htmx.min.js", "hx-sse.min.js", "logo.svg", "favicon.svg"}

func get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	static.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

func TestHashedNamesAreServedForEver(t *testing.T) {
	t.Parallel()
	for _, name := range used {
		url := static.URL(name)
		w := get(t, url)
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: %d, %d bytes", url, w.Code, w.Body.Len())
		}
		if cc := w.Header().Get("Cache-Control"); !strings.Contains(cc, "immutable") {
			t.Errorf("%s: Cache-Control %q", url, cc)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Content-Type") == "" {
			t.Errorf("%s: headers %v", url, w.Header())
		}
	}
}

func TestOnlyPrintedNamesAreAnswered(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/static/app.css", "/static/", "/static/../static.go", "/static/vendor/htmx.min.js", static.URL("nothing.js")} {
		if w := get(t, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	static.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, static.URL("app.js"), nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// TestNothingIsFetchedFromElsewhere: no third party sees who looks at a page.
func TestNothingIsFetchedFromElsewhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"app.css", "app.js", "keys.js", "log.js", "times.js"} {
		body := get(t, static.URL(name)).Body.String()
		for _, bad := range []string{"http://", "https://", "@import", "url("} {
			if strings.Contains(body, bad) {
				t.Errorf("%s contains %s", name, bad)
			}
		}
	}
}

// Scripts are served without indentation and comments; a text over several lines would lose its own.
func TestTextsOfScriptsEndOnTheirLine(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"app.js", "keys.js", "log.js", "times.js"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(raw), "\n") {
			if strings.Count(line, "`")%2 != 0 || strings.HasSuffix(line, "\\") || strings.HasPrefix(strings.TrimSpace(line), "/*") {
				t.Errorf("%s:%d goes on on the next line: %s", name, n+1, line)
			}
		}
		if served := get(t, static.URL(name)).Body.String(); strings.Contains(served, "\n//") || strings.Contains(served, "\n\t") || !strings.Contains(served, "use strict") {
			t.Errorf("%s is served as it is written", name)
		}
	}
}

// TestWeight holds the budget of a first view, compressed: 15 kB of styles, 25 kB of scripts.
func TestWeight(t *testing.T) {
	t.Parallel()
	for limit, names := range map[int][]string{15_000: {"app.css"}, 25_000: {"app.js", "keys.js", "log.js", "times.js", "htmx.min.js", "hx-sse.min.js"}} {
		var all bytes.Buffer
		for _, name := range names {
			z := gzip.NewWriter(&all)
			if _, err := z.Write(get(t, static.URL(name)).Body.Bytes()); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if all.Len() > limit {
			t.Errorf("%v: %d bytes compressed, budget %d", names, all.Len(), limit)
		}
	}
}
