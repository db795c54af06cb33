package handlers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/handlers"
	"signalbox/internal/wire"
)

// R-CAN-5, R-OBS-1: a client that goes away before the answer is no failure of the server's, in the log as in the numbers;
// a server that stops says so to the clients that are there.
func TestClientThatWentAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.worker(t, "one")
	// A replica of its own, which nothing but these calls keeps open.
	replica := got(db.Open(t.Context(), db.Options{URL: w.data.EngineURL, AppURL: w.data.AppURL, MaxConns: 4, Keys: keys(t)}))(t)
	t.Cleanup(replica.Close)
	served := []int{}
	log := &syncBuffer{}
	h := got(handlers.New(handlers.Options{
		Store: replica, Hub: w.hub, Artifacts: w.artifacts, PublicURL: w.url, SessionKey: bytes.Repeat([]byte("k"), 32), Log: slog.New(slog.NewJSONHandler(log, nil)),
		Served: func(_, _ string, status int, _ time.Duration) { served = append(served, status) },
	}))(t)
	beat := got(json.Marshal(wire.Heartbeat{BootId: k.boot, Leases: []wire.HeldLease{}}))(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	person := w.token(t, rita, "read")
	call := func(ctx context.Context, token, method, path, body string) int {
		r := httptest.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		return rec.Code
	}
	if code := call(t.Context(), k.token, http.MethodPost, "/api/v1/workers/heartbeat", string(beat)); code != http.StatusOK {
		t.Fatalf("a client that waits is answered %d", code)
	}
	for _, x := range []struct{ token, method, path, body string }{
		{k.token, http.MethodPost, "/api/v1/workers/heartbeat", string(beat)},
		{person.token, http.MethodGet, "/api/v1/runs", ""},
	} {
		if code := call(gone, x.token, x.method, x.path, x.body); code != 499 {
			t.Errorf("%s: %d, want 499", x.path, code)
		}
	}
	if strings.Contains(log.String(), `"level":"ERROR"`) || strings.Count(log.String(), `"client_gone":true`) != 2 {
		t.Errorf("the log calls it a failure:\n%s", log)
	}
	replica.Close()
	if code := call(t.Context(), k.token, http.MethodPost, "/api/v1/workers/heartbeat", string(beat)); code != http.StatusServiceUnavailable {
		t.Errorf("a server that stops answers %d", code)
	}
	if strings.Contains(log.String(), `"level":"ERROR"`) {
		t.Errorf("the log calls a stop a failure:\n%s", log)
	}
	for _, code := range served {
		if code >= 500 && code != http.StatusServiceUnavailable {
			t.Errorf("counted as %d", code)
		}
	}
}
