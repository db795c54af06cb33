package db_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-TRN-3: five hundred runs that a seeded generator drove through the store replay from their logs to exactly the
// stored rows, and between them they pass every state and nine in ten of the table's edges. One altered byte is found,
// and named by run and event.
func TestReplay(t *testing.T) {
	t.Parallel()
	const runs, seed = 500, 7
	w := newWorld(t, drive.Options{})
	g := drive.Generate(t, w.db, seed, runs)
	t.Logf("%d runs, %d events, %d refusals, left in %v", g.Runs, g.Events, g.Refused, g.Ends)
	c, err := w.Store.Replay(t.Context(), func(x db.Difference) { t.Errorf("run %s seq %d: %s", x.Run, x.Seq, x.Why) })
	if err != nil {
		t.Fatal(err)
	}
	if c.Runs != runs || c.Events != g.Events {
		t.Errorf("replayed %d runs and %d events, want %d and %d", c.Runs, c.Events, runs, g.Events)
	}
	for _, s := range run.States() {
		if c.States[s] == 0 {
			t.Errorf("no run passed %s", s)
		}
	}
	all, missing := len(drive.Pairs()), []string{}
	happened := map[string]bool{}
	for edge := range c.Edges {
		from, rest, _ := strings.Cut(edge, " ")
		kind, _, _ := strings.Cut(rest, " ")
		happened[from+" "+kind] = true
	}
	for _, p := range drive.Pairs() {
		if !happened[p] {
			missing = append(missing, p)
		}
	}
	t.Logf("%d of %d edges (%d with their targets told apart); missing: %s", all-len(missing), all, len(c.Edges), strings.Join(missing, ", "))
	if len(missing)*10 > all {
		t.Errorf("%d of %d edges did not happen, want at most a tenth", len(missing), all)
	}
	// And with one byte altered, exactly that run and event.
	conn := w.superuser(t)
	var victim uuid.UUID
	must(t, conn.QueryRow(t.Context(), `SELECT id FROM runs WHERE version > 9 ORDER BY id OFFSET 100 LIMIT 1`).Scan(&victim))
	_, err = conn.Exec(t.Context(), `UPDATE run_events SET body = set_byte(body, 40, get_byte(body, 40) # 1) WHERE run_id = $1 AND seq = 7`, victim)
	must(t, err)
	if found := w.differences(t); len(found) != 1 || found[0].Run != victim || found[0].Seq != 7 {
		t.Errorf("replay reports %+v, want run %s seq 7 alone", found, victim)
	}
}

func (w *world) differences(t testing.TB) []db.Difference {
	t.Helper()
	var found []db.Difference
	_, err := w.Store.Replay(t.Context(), func(d db.Difference) { found = append(found, d) })
	must(t, err)
	return found
}

// superuser connects past triggers, foreign keys and row-level security, as somebody with all rights could.
func (w *world) superuser(t testing.TB) *pgx.Conn {
	t.Helper()
	conn := got(pgx.Connect(t.Context(), w.db.SuperuserURL(t)))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err := conn.Exec(t.Context(), `SET session_replication_role = replica`)
	must(t, err)
	return conn
}

// R-TRN-3, R-ATT-4: whatever is altered in the recorded past, replay names the run and, where one event is at fault,
// that event.
func TestReplayNamesWhatWasAltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for range 3 {
		w.at(t, run.Succeeded)
	}
	victim := w.at(t, run.Succeeded).Ref.Run
	held := w.at(t, run.Executing).Ref.Run
	w.replays(t)
	last := w.count(t, `SELECT version FROM runs WHERE id = $1`, victim)
	conn := w.superuser(t)
	exec := func(sql string, args ...any) int64 {
		t.Helper()
		return got(conn.Exec(t.Context(), sql, args...))(t).RowsAffected()
	}
	exec(`CREATE TEMP TABLE kept_runs AS SELECT * FROM runs`)
	exec(`CREATE TEMP TABLE kept_events AS SELECT * FROM run_events`)
	for name, c := range map[string]struct {
		run uuid.UUID
		seq int64
		sql string
	}{
		"one byte of a body":          {victim, 5, `UPDATE run_events SET body = set_byte(body, length(body) / 2, get_byte(body, length(body) / 2) # 1) WHERE run_id = $1 AND seq = $2`},
		"one byte of the last body":   {victim, last, `UPDATE run_events SET body = set_byte(body, length(body) - 1, get_byte(body, length(body) - 1) # 1) WHERE run_id = $1 AND seq = $2`},
		"one byte of a hash":          {victim, 7, `UPDATE run_events SET hash = set_byte(hash, 31, get_byte(hash, 31) # 1) WHERE run_id = $1 AND seq = $2`},
		"body and hash together":      {victim, 5, `UPDATE run_events SET body = body || 'x'::bytea, hash = sha256((SELECT p.hash FROM run_events p WHERE p.run_id = $1 AND p.seq = $2 - 1) || body || 'x'::bytea) WHERE run_id = $1 AND seq = $2`},
		"the derived payload":         {victim, 6, `UPDATE run_events SET payload = jsonb_set(payload, '{by,name}', '"Somebody else"') WHERE run_id = $1 AND seq = $2`},
		"the derived kind":            {victim, 6, `UPDATE run_events SET kind = 'approved' WHERE run_id = $1 AND seq = $2`},
		"the derived target":          {victim, 4, `UPDATE run_events SET to_state = 'SUCCEEDED' WHERE run_id = $1 AND seq = $2`},
		"the derived author":          {victim, 3, `UPDATE run_events SET actor_id = 'me' WHERE run_id = $1 AND seq = $2`},
		"the derived time":            {victim, 3, `UPDATE run_events SET at = at + interval '1 hour' WHERE run_id = $1 AND seq = $2`},
		"the derived id":              {victim, 3, `UPDATE run_events SET event_id = 'other' WHERE run_id = $1 AND seq = $2`},
		"a missing event":             {victim, 8, `DELETE FROM run_events WHERE run_id = $1 AND seq = $2`},
		"a missing first event":       {victim, 1, `DELETE FROM run_events WHERE run_id = $1 AND seq = $2`},
		"a missing last event":        {victim, 0, `DELETE FROM run_events WHERE run_id = $1 AND seq = (SELECT version FROM runs WHERE id = $1) AND $2 = 0`},
		"no events at all":            {victim, 0, `DELETE FROM run_events WHERE run_id = $1 AND $2 = 0`},
		"the row's own head":          {victim, 0, `UPDATE runs SET head_hash = set_byte(head_hash, 0, get_byte(head_hash, 0) # 1) WHERE id = $1 AND $2 = 0`},
		"a number that events decide": {victim, 0, `UPDATE runs SET attempt_no = attempt_no + 1 WHERE id = $1 AND $2 = 0`},
		"a digest":                    {victim, 0, `UPDATE runs SET plan_digest = plan_digest || 'x' WHERE id = $1 AND $2 = 0`},
		"an instant":                  {victim, 0, `UPDATE runs SET finished_at = finished_at + interval '1 second' WHERE id = $1 AND $2 = 0`},
		"the state":                   {victim, 0, `UPDATE runs SET state = 'EXPIRED', reason_code = 'RUN_TIMEOUT' WHERE id = $1 AND $2 = 0`},
		"who holds the lease":         {held, 0, `UPDATE runs SET lease_worker = 'me' WHERE id = $1 AND $2 = 0`},
		"the limits":                  {held, 0, `UPDATE runs SET limits = jsonb_set(limits, '{max_attempts}', '99') WHERE id = $1 AND $2 = 0`},
	} {
		if n := exec(c.sql, c.run, c.seq); n == 0 {
			t.Fatalf("%s: nothing was altered", name)
		}
		found := w.differences(t)
		if len(found) == 0 {
			t.Errorf("%s: replay finds nothing", name)
		}
		for _, f := range found {
			if f.Run != c.run || f.Seq != c.seq {
				t.Errorf("%s: replay names run %s seq %d (%s), want run %s seq %d", name, f.Run, f.Seq, f.Why, c.run, c.seq)
			}
		}
		exec(`DELETE FROM run_events`)
		exec(`INSERT INTO run_events OVERRIDING SYSTEM VALUE SELECT * FROM kept_events`)
		exec(`DELETE FROM runs`)
		exec(`INSERT INTO runs SELECT * FROM kept_runs`)
	}
	w.replays(t)
}
