package handlers_test

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/internal/wire"
)

// message is one server-sent event.
type message struct {
	id, event, data string
}

// listen opens a stream and hands out its messages; the channel closes when the server ends the stream.
func (b *browser) listen(t testing.TB, path string, headers ...string) (<-chan message, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r := got(http.NewRequestWithContext(ctx, http.MethodGet, b.w.url+path, nil))(t)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	// The client's own time-out would end the stream.
	res, err := (&http.Client{Jar: b.Jar}).Do(r)
	must(t, err)
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") || res.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("stream: %d %v", res.StatusCode, res.Header)
	}
	out := make(chan message, 100)
	go func() {
		defer close(out)
		defer res.Body.Close()
		var m message
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			switch line := lines.Text(); {
			case line == "":
				if m.data != "" || m.event != "" {
					out <- m
				}
				m = message{}
			case strings.HasPrefix(line, "id: "):
				m.id = line[4:]
			case strings.HasPrefix(line, "event: "):
				m.event = line[7:]
			case strings.HasPrefix(line, "data: "):
				m.data += line[6:] + "\n"
			}
		}
	}()
	return out, cancel
}

func next(t testing.TB, c <-chan message) message {
	t.Helper()
	select {
	case m, ok := <-c:
		if !ok {
			t.Fatal("the stream ended")
		}
		return m
	case <-time.After(time.Minute):
		t.Fatal("no message within a minute")
	}
	return message{}
}

// upTo reads messages until one is of the given version: a stream opens with the current state, and sends steps and
// artifacts without a new version.
func upTo(t testing.TB, c <-chan message, version int64) (last message, all string) {
	t.Helper()
	for {
		last = next(t, c)
		all += last.data
		if last.id == strconv.FormatInt(version, 10) {
			return last, all
		}
	}
}

// R-UI-1: the run page is live: what happened arrives without a poll, a reconnection goes on where it was, and misses
// nothing.
// Field report: sourcelens PR#4.
func TestRunStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	k := w.worker(t, "one")
	l := k.claim(t, "execute")
	version := func() int64 {
		return into[wire.Run](t, w.cli(t, rita).call(t, "GET", "/runs/"+l.as.RunId, nil)).Version
	}
	page := b.get(t, "/runs/"+l.as.RunId).want(t, http.StatusOK)
	if !strings.Contains(page.body, "/runs/"+l.as.RunId+"/stream?after="+strconv.FormatInt(version(), 10)) {
		t.Error("the page does not open its stream at its own version")
	}
	live, stop := b.listen(t, "/runs/"+l.as.RunId+"/stream?after="+strconv.FormatInt(version(), 10))
	l.do(t, wire.RunCommand{Command: wire.CmdStart})
	m, _ := upTo(t, live, version())
	if !strings.Contains(m.data, "prepares a sandbox") || !strings.Contains(m.data, `hx-target="#run-panel"`) {
		t.Errorf("message %q: %s", m.id, m.data)
	}
	stop()
	seen := m.id
	l.do(t, wire.RunCommand{Command: wire.CmdSandboxReady, SandboxReady: &wire.SandboxReady{Isolation: wire.Bwrap, BaseCommit: baseCommit}})
	l.do(t, wire.RunCommand{Command: wire.CmdContextReady, ContextReady: &wire.ContextReady{ArtifactId: l.store(t, wire.ArtifactKindContext, "{}")}})
	// Last-Event-ID wins over the address, which still names the page's own version.
	again, _ := b.listen(t, "/runs/"+l.as.RunId+"/stream?after=0", "Last-Event-ID", seen)
	m, all := upTo(t, again, version())
	if rows := strings.Count(all, `id="e`); strings.Contains(all, "prepares a sandbox") || rows != 2 {
		t.Errorf("after a reconnection %d rows: %s", rows, all)
	}
	t.Run("hostile names stay text", func(t *testing.T) {
		if strings.Contains(m.data, "<script") {
			t.Error("a message holds a script")
		}
	})
	t.Run("the end of the run ends the stream", func(t *testing.T) {
		w.cli(t, rita).call(t, "POST", "/runs/"+l.as.RunId+"/cancel", wire.Reason{Reason: "enough"}).want(t, 200)
		l.do(t, wire.RunCommand{Command: wire.CmdCancelConfirmed})
		for m := range again {
			if m.event == "ended" {
				return
			}
		}
		t.Error("the stream ended without saying so")
	})
	t.Run("another person's stream of nothing", func(t *testing.T) {
		b.get(t, "/runs/run_01m8m0mhmzfr1rq7ypkn5sq3rm/stream").want(t, http.StatusNotFound)
	})
}

// B9: one person holds ten streams at most, and a session that ended stops getting events.
func TestStreamLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	path := "/runs/" + l.as.RunId + "/stream?after=1000"
	for range 10 {
		b.listen(t, path)
	}
	b.get(t, path).want(t, http.StatusTooManyRequests)
}

// A gate's page learns that the gate moved; the form is never touched.
func TestGateStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	gate, run := w.waiting(t, w.worker(t, "one"))
	reader, decider := w.signedIn(t, ben), w.signedIn(t, ana)
	after := into[wire.Run](t, w.cli(t, ana).call(t, "GET", "/runs/"+run, nil)).Version
	live, _ := reader.listen(t, "/gates/"+gate+"/stream?revision=1&after="+strconv.FormatInt(after, 10))
	form := decider.gateForm(t, gate)
	form.Set("verdict", "approve")
	decider.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	m := next(t, live)
	if !strings.Contains(m.data, "Ana Approver approved this") || strings.Contains(m.data, "<form") {
		t.Errorf("message: %s", m.data)
	}
}

// R-CAN-5: a browser that goes away cancels nothing.
func TestDisconnectCancelsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	live, stop := b.listen(t, "/runs/"+l.as.RunId+"/stream?after=0")
	next(t, live)
	stop()
	for range live {
		// drained: the connection is gone
	}
	if ack := l.do(t, wire.RunCommand{Command: wire.CmdStart}); ack.Run.State != "PREPARING" {
		t.Errorf("run %s", ack.Run.State)
	}
}

// U12: pages, styles and scripts travel compressed where the browser takes that, and a stream goes as it is.
func TestPagesTravelCompressed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	k := w.worker(t, "one")
	b.submit(t, "Replace one word.")
	_, run := w.waiting(t, k)
	style, _ := b.get(t, "/inbox").page(t).Find("link[rel=stylesheet]").Attr("href")
	for path, want := range map[string]string{"/runs/" + run: "gzip", style: "gzip", "/runs/" + run + "/stream?after=0": "", "/runs/" + run + "/patch": ""} {
		req := got(http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil))(t)
		req.Header.Set("Accept-Encoding", "gzip") // and Go's client undoes nothing
		resp := got(b.Do(req))(t)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != want {
			t.Errorf("%s: %d, encoded %q, want %q", path, resp.StatusCode, resp.Header.Get("Content-Encoding"), want)
		}
		must(t, resp.Body.Close())
	}
}
