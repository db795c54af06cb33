package handlers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"signalbox/internal/typeid"
)

// heard waits for a message of a stream that says something.
func heard(t *testing.T, stream <-chan message, words string) message {
	t.Helper()
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	for {
		select {
		case m, open := <-stream:
			if !open {
				t.Fatalf("the stream ended before it said %q", words)
			}
			if strings.Contains(m.data, words) {
				return m
			}
		case <-patience.C:
			t.Fatalf("the stream never said %q", words)
		}
	}
}

// A23, cancel rule 7, ux.md 2.1: My turn says while it is open what came and what waits no more, row by row, and again to whoever
// comes back.
func TestInboxIsLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asker, reader, other := w.signedIn(t, rita), w.signedIn(t, ana), w.signedIn(t, ben)
	k := w.worker(t, "one")
	asker.submit(t, "Replace one word.")
	first, _ := w.waiting(t, k)
	page := reader.get(t, "/inbox").want(t, http.StatusOK).page(t)
	path, ok := page.Find("#stream").Attr("hx-sse:connect")
	if !ok || !strings.HasSuffix(path, "rows="+first) || page.Find("#news-"+first).Length() != 1 || page.Find("#inbox-news").Length() != 1 {
		t.Fatalf("the page is not live: %q", path)
	}
	stream, stop := reader.listen(t, path)

	asker.submit(t, "Replace another word.")
	second, run := w.waiting(t, k)
	if m := heard(t, stream, "Show 1 new item"); strings.Contains(m.data, "news-"+first) {
		t.Errorf("what waits as before is said again: %s", m.data)
	}
	form := other.gateForm(t, first)
	form.Set("verdict", "approve")
	other.post(t, "/gates/"+first+"/decisions", form).want(t, http.StatusSeeOther)
	m := heard(t, stream, ben.name+" approved this at ")
	if !strings.Contains(m.data, `hx-target="#news-`+first+`"`) {
		t.Errorf("it is not said in its row: %s", m.data)
	}
	stop()

	// Whoever comes back hears all of it again; a run that is cancelled takes its gate out of every list.
	again, _ := reader.listen(t, path, "Last-Event-ID", m.id)
	if m := heard(t, again, "Show 1 new item"); !strings.Contains(m.data, ben.name+" approved this") {
		t.Errorf("after a reconnection: %s", m.data)
	}
	asker.post(t, "/runs/"+run+"/cancel", map[string][]string{"idempotency_key": {"cancel-it-once-please"}}).want(t, http.StatusSeeOther)
	if m := heard(t, again, "#inbox-news"); strings.Contains(m.data, "new item") {
		t.Errorf("a cancelled run's gate %s is still offered: %s", second, m.data)
	}
	rows, _ := reader.listen(t, "/inbox/stream?rows="+first+"."+second)
	if m := heard(t, rows, "The run was cancelled at "); !strings.Contains(m.data, "news-"+second) || !strings.Contains(m.data, ben.name+" approved this") {
		t.Errorf("both rows: %s", m.data)
	}

	for name, rows := range map[string]string{
		"no gate": "run_1", "too many": strings.TrimSuffix(strings.Repeat(first+".", 201), "."), "nobody's": typeid.Format(typeid.Gate, typeid.New()),
	} {
		if a := reader.get(t, "/inbox/stream?rows="+rows); a.StatusCode != http.StatusUnprocessableEntity && a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
}
