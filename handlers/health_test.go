package handlers_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/handlers"
)

type probed struct {
	Ready  bool `json:"ready"`
	Checks []struct {
		Name   string `json:"name"`
		OK     bool   `json:"ok"`
		Detail string `json:"detail"`
	} `json:"checks"`
}

func (w *world) handler() *handlers.Handler {
	w.t.Helper()
	return got(handlers.New(handlers.Options{Store: w.store, Hub: w.hub, Artifacts: w.artifacts, PublicURL: w.url, SessionKey: bytes.Repeat([]byte("k"), 32)}))(w.t)
}

func probe(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://elsewhere"+path, nil))
	return rec.Code, rec.Body.String()
}

// R-OBS-1: alive says nothing of the database; ready names the condition that fails, without a login, the same on both
// listeners, and shows nothing else.
func TestProbes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fails := func(t *testing.T, h http.Handler, name, detail string) {
		t.Helper()
		code, body := probe(t, h, "/readyz")
		var p probed
		must(t, json.Unmarshal([]byte(body), &p))
		if code != http.StatusServiceUnavailable || p.Ready || len(p.Checks) != 3 {
			t.Fatalf("%d %s", code, body)
		}
		for _, c := range p.Checks {
			if c.OK == (c.Name == name) && !(name == "database" && c.Name == "schema") || c.Name == name && !strings.Contains(c.Detail, detail) {
				t.Errorf("check %+v", c)
			}
		}
		if code, body := probe(t, h, "/healthz"); code != http.StatusOK || body != "{\"status\":\"ok\"}\n" {
			t.Errorf("alive: %d %s", code, body)
		}
	}
	h := w.handler()
	for _, listener := range []http.Handler{h, h.Probes()} {
		if code, body := probe(t, listener, "/readyz"); code != http.StatusOK || body != `{"ready":true,"checks":[{"name":"database","ok":true},{"name":"schema","ok":true},{"name":"draining","ok":true}]}`+"\n" {
			t.Errorf("ready: %d %s", code, body)
		}
	}
	if code, _ := probe(t, h.Probes(), "/inbox"); code != http.StatusNotFound {
		t.Errorf("the second listener serves pages: %d", code)
	}
	h.Drain()
	fails(t, h, "draining", "stopping")
	fails(t, h.Probes(), "draining", "stopping")

	owner := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer owner.Close(t.Context())
	_, err := owner.Exec(t.Context(), "DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)")
	must(t, err)
	fails(t, w.handler(), "schema", "signalbox migrate")
	_, err = owner.Exec(t.Context(), "DROP FUNCTION schema_version()")
	must(t, err)
	fails(t, w.handler(), "schema", "signalbox migrate")

	gone := got(db.Open(t.Context(), db.Options{URL: w.data.EngineURL, AppURL: w.data.AppURL, MaxConns: 1}))(t)
	away := got(handlers.New(handlers.Options{Store: gone, Hub: w.hub, Artifacts: w.artifacts, PublicURL: w.url, SessionKey: bytes.Repeat([]byte("k"), 32)}))(t)
	gone.Close()
	fails(t, away, "database", "no answer")
}

// R-OBS-1: the line of a worker's request names run, lease, token, worker and boot under the fixed keys.
func TestRequestLogCarriesTheChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Say hello")
	w.waiting(t, w.worker(t, "harbour-1"))
	var commands, claims int
	for line := range strings.Lines(w.log.String()) {
		var said map[string]any
		must(t, json.Unmarshal([]byte(line), &said))
		has := func(keys ...string) (n int) {
			for _, k := range keys {
				if v, _ := said[k].(string); v != "" {
					n++
				}
			}
			return n
		}
		switch said["route"] {
		case "POST /api/v1/runs/{run_id}/commands":
			commands++
			if has("run_id", "lease_id", "fencing_token", "worker_id") != 4 {
				t.Errorf("ids are missing: %s", line)
			}
		case "POST /api/v1/workers/claims":
			claims++
			if has("worker_id", "boot_id") != 2 {
				t.Errorf("ids are missing: %s", line)
			}
		}
	}
	if commands == 0 || claims == 0 {
		t.Errorf("%d commands and %d claims were logged", commands, claims)
	}
}
