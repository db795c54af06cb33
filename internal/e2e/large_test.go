package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/pgserver"
	"signalbox/internal/typeid"
)

// working keeps what held up the page for longer than 50 ms, in ms, with what happened before.
const working = `(() => {
	const w = window.working = [];
	new PerformanceObserver((list) => list.getEntries().forEach((e) => w.push(Math.round(e.duration)))).observe({type: "longtask", buffered: true});
	return true;
})()`

// A patch of 20,000 lines and a run of 100,000 events (with SIGNALBOX_TEST_LONG; a tenth and a fiftieth else) leave a browser on a slow
// machine free to answer: what is typed arrives, and the page holds a bounded number of elements. How long it was held up is printed.
func TestLargePagesDoNotFreeze(t *testing.T) {
	t.Parallel()
	lines, events := 40, 2_000
	if os.Getenv("SIGNALBOX_TEST_LONG") != "" {
		lines, events = 400, 100_000
	}
	r := rig.New(t, rig.Options{Durable: true, Timing: db.Timing{LeaseTTL: time.Minute}, Patience: 3 * time.Minute,
		Policy: "schema: 1\nversion: large-1\nlimits: {diff_lines: 50000, patch_bytes: 8388608}\n"})
	script := fmt.Sprintf(`for f in $(seq 50); do seq -f "func line%%.0f() error { return nil } // of file $f" %d > generated$f.go; done`, lines)
	_, run := r.Person("rita").Submit(rig.Task{Repository: r.Repository("acme/large", rig.Shop()), Title: "A large patch", Goal: rig.Recipe("Much.", rig.Act{Do: "sh", New: script})})
	gate := r.AwaitGate(run)
	moreEvents(t, r, run, events)
	ana := newTab(r, t, "ana")
	ana.signIn("ana")
	ana.do("be slow", slow)
	for _, p := range []struct {
		name, path, there string
		act               func()
		most              int // elements
	}{
		{fmt.Sprintf("patch of %d lines", 50*lines), "/gates/" + gate, "#diff", func() {
			ana.write("#f-text", "Say why.")
			ana.until("what was typed", `document.querySelector("#f-text").value === "Say why."`)
		}, 60_000},
		{fmt.Sprintf("run of %d events", events), "/runs/" + run, "#timeline", func() {
			ana.click("#pause")
			ana.until("the pause", `document.querySelector("#live").dataset.live === "paused"`)
		}, 10_000},
	} {
		began := time.Now()
		ana.open(p.path)
		ana.until(p.name+" is there", `document.querySelector("`+p.there+`")`)
		eval[bool](ana, working)
		there := time.Since(began)
		acted := time.Now()
		p.act()
		answered := time.Since(acted)
		await(ana, painted)
		elements := eval[int](ana, `document.getElementsByTagName("*").length`)
		if elements > p.most {
			t.Errorf("%s holds %d elements, more than %d", p.name, elements, p.most)
		}
		fmt.Printf("U11 %s: there after %d ms, an action answered after %d ms, tasks over 50 ms: %v ms, %d elements (4 times slower, 10 Mbit/s, 20 ms)\n",
			p.name, there.Milliseconds(), answered.Milliseconds(), eval[[]int](ana, `window.working`), elements)
	}
}

// moreEvents gives a run further events until the test ends, past the rules that only the server's own writes keep.
func moreEvents(t *testing.T, r *rig.Rig, run string, count int) {
	t.Helper()
	id, err := typeid.Parse(typeid.Run, run)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context()) // the events go away after the test
	conn, err := pgx.Connect(ctx, r.Cluster.Server().URL(pgserver.Superuser, r.Database.Name))
	if err != nil {
		t.Fatal(err)
	}
	do := func(statement string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(ctx, statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	var version int64
	if err := conn.QueryRow(ctx, `SELECT version FROM runs WHERE id = $1`, id).Scan(&version); err != nil {
		t.Fatal(err)
	}
	do(`SET session_replication_role = replica`)
	do(`INSERT INTO run_events (tenant_id, run_id, seq, schema, event_id, kind, actor_kind, actor_id, actor_name, from_state, to_state, attempt_no, at, body, payload, hash)
		SELECT tenant_id, run_id, $2::bigint + n, schema, 'more-' || n, kind, actor_kind, actor_id, actor_name, from_state, to_state, attempt_no, at + n * interval '1 ms', body, payload, hash
		FROM run_events, generate_series(1, $3::int) n WHERE run_id = $1 AND seq = 2`, id, version, count)
	do(`UPDATE runs SET version = $2 WHERE id = $1`, id, version+int64(count))
	t.Cleanup(func() {
		do(`DELETE FROM run_events WHERE run_id = $1 AND seq > $2`, id, version)
		do(`UPDATE runs SET version = $2 WHERE id = $1`, id, version)
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
