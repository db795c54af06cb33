package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// U5, U6, A4, A5, A6: fifty clients decide about one gate at once, some about what it never showed, some for changes: none of the
// stale approvals counts, one decision takes effect, and there is one piece of work.
// Field reports: atlantis#6280, flowwink PR#504, loopover PR#2992.
func TestFiftyDecideAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	const clients = 50
	browsers, forms, codes := make([]*browser, clients), make([]url.Values, clients), make([]int, clients)
	var each sync.WaitGroup
	for i := range clients {
		browsers[i] = w.signedIn(t, idPerson{sub: fmt.Sprintf("a%d", i), name: fmt.Sprintf("Approver %d", i), groups: []string{"approvers"}})
	}
	seen := browsers[0].gateForm(t, gate)
	for i := range clients {
		forms[i] = url.Values{}
		for name, v := range seen {
			forms[i][name] = v
		}
		forms[i].Set("idempotency_key", fmt.Sprintf("key-of-client-%d", i))
		forms[i].Set("verdict", "approve")
		switch i % 5 {
		case 0:
			forms[i].Set("digest", strings.Repeat("0", 64))
		case 1:
			forms[i].Set("revision", "2")
		case 2:
			forms[i].Set("verdict", "request_changes")
			forms[i].Set("text", "Name the test.")
		}
	}
	for i, b := range browsers {
		each.Go(func() { codes[i] = b.post(t, "/gates/"+gate+"/decisions", forms[i]).StatusCode })
	}
	each.Wait()
	answers := map[string]int{}
	for i, code := range codes {
		kind := []string{"stale digest", "other revision", "changes", "approve", "approve"}[i%5]
		answers[fmt.Sprintf("%s %d", kind, code)]++
		if i%5 < 2 && code != http.StatusConflict || code != http.StatusSeeOther && code != http.StatusConflict {
			t.Errorf("client %d, %s: %d", i, kind, code)
		}
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var decided, queued, stale int
	must(t, conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM run_events WHERE kind IN ('approved', 'changes_requested')), (SELECT count(*) FROM run_queue),
		(SELECT count(*) FROM decisions d JOIN gates g ON g.id = d.gate_id WHERE d.digest_seen <> g.digest OR d.revision <> g.revision)`).Scan(&decided, &queued, &stale))
	if decided != 1 || queued != 1 || stale != 0 {
		t.Errorf("%d decisions took effect, %d pieces of work, %d stale decisions stored; want 1, 1, 0", decided, queued, stale)
	}
	t.Logf("%d clients: %v", clients, answers)
}
