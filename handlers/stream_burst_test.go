package handlers_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/internal/wire"
)

// ux.md 6.2, rule 13: when many events of a run come at once, each viewer gets at most four messages a second, and every event once.
func TestStreamOfABurst(t *testing.T) {
	t.Parallel()
	const (
		burst = 40
		gap   = 250 * time.Millisecond
		poll  = 5 * time.Second // looks by itself, whatever came before
	)
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	id := w.worker(t, "one").claim(t, "execute").as.RunId
	before := int(into[wire.Run](t, w.cli(t, rita).call(t, http.MethodGet, "/runs/"+id, nil)).Version)
	began := time.Now()
	live, _ := b.listen(t, "/runs/"+id+"/stream?after="+strconv.Itoa(before))
	for n := range burst {
		w.lengthen(t, id, before+n+1)
		must(t, w.store.Notify(t.Context())) // as another replica tells it
	}
	messages, rows := 0, 0
	for last := ""; last != strconv.Itoa(before+burst); {
		m := next(t, live)
		if m.event != "" {
			continue
		}
		messages, rows, last = messages+1, rows+strings.Count(m.data, `<li class="tl-row`), m.id
	}
	took := time.Since(began)
	// One when the stream opens, and one for a gap that had begun before.
	if most := 2 + int(took/gap) + int(took/poll); messages > most {
		t.Errorf("%d messages in %v, at most %d are allowed", messages, took, most)
	}
	if rows != burst {
		t.Errorf("%d rows for %d events", rows, burst)
	}
}
