package handlers

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// R-UI-2: a page that breaks after a part of it was sent does not look whole, so that nobody decides on what is missing in it; it is
// logged all the same. One that breaks before is answered.
func TestAPanicEndsNoAnswerAsIfItWereWhole(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"identity", "gzip"} {
		var log bytes.Buffer
		served := 0
		s := &server{log: slog.New(slog.NewTextHandler(&log, nil)), served: func(string, string, int, time.Duration) { served++ }}
		page := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<form>approve</form>")
			_ = http.NewResponseController(w).Flush()
			panic("no patch")
		}
		srv := httptest.NewUnstartedServer(s.observe(compressed(http.HandlerFunc(page))))
		srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		srv.Start()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", encoding)
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err == nil || len(body) == 0 || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, %d bytes that end with %v", encoding, resp.StatusCode, len(body), err)
		}
		_ = resp.Body.Close()
		srv.Close() // waits for the handler, and with it for the log
		if served != 1 || !strings.Contains(log.String(), "panic: no patch") || !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("%s: counted %d times, logged: %s", encoding, served, log.String())
		}
	}
}
