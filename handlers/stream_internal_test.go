package handlers

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// U9: a stream on which nothing happens is heard of twice before its page calls itself stale, by an event and not by a comment, which
// no script is told of; and with the second until the page looks, that is 35 seconds after the last byte.
// Field reports: claudecode_webui#1960, sourcelens PR#4.
func TestAQuietStreamIsHeardOf(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../static/app.js")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`staleAfter = (\d+);`).FindSubmatch(script)
	if m == nil {
		t.Fatal("the script does not say after how long a page is stale")
	}
	ms, err := strconv.Atoi(string(m[1]))
	if stale := time.Duration(ms) * time.Millisecond; err != nil || 2*streamPing >= stale || stale+time.Second > 35*time.Second {
		t.Errorf("a page is stale after %s, and something comes every %s", stale, streamPing)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { newEventStream(w).ping() }))
	t.Cleanup(server.Close)
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if sent, err := io.ReadAll(resp.Body); err != nil || !bytes.HasSuffix(sent, []byte("\n\nevent: ping\ndata: \n\n")) {
		t.Errorf("sent is %q, %v", sent, err)
	}
}
