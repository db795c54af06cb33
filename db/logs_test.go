package db_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// printed stores a text in chunks of random sizes, up to three in a batch, and returns the next free batch number.
func printed(t *testing.T, s *db.Store, h db.Holder, seq int64, call, text string, most int) int64 {
	t.Helper()
	random := rand.New(rand.NewPCG(7, uint64(seq))) //nolint:gosec // sizes of test data
	for len(text) > 0 {
		var chunks []db.Chunk
		for len(text) > 0 && len(chunks) < 3 {
			n := min(1+random.IntN(most), len(text))
			chunks = append(chunks, db.Chunk{Stream: "agent", CallID: call, Data: []byte(text[:n])})
			text = text[n:]
		}
		got(s.Append(t.Context(), h, db.Batch{Sequence: seq, Chunks: chunks}))(t)
		seq++
	}
	return seq
}

// R-LEASE-5: each log counts its own lines over all batches, and any line is found without reading what stands before it.
func TestLogsCountTheirLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	h := at.Lease.Holder()
	texts := map[string]string{"": "agent\nsays\n", "c1": strings.Repeat("a line\n", 300) + "open", "c2": "\n\nx"}
	seq := int64(1)
	for part := range 3 { // interleaved, as programs print
		for _, call := range []string{"", "c1", "c2"} {
			n := len(texts[call])
			seq = printed(t, w.Store, h, seq, call, texts[call][n*part/3:n*(part+1)/3], 40)
		}
	}
	for call, want := range map[string]db.LogInfo{"": {Ends: 2}, "c1": {Ends: 300, Open: true}, "c2": {Ends: 2, Open: true}} {
		key := db.LogKey{Tenant: w.Tenant, Run: at.Ref.Run, Lease: h.Lease.ID, Call: call}
		info := got(w.Store.Log(t.Context(), key))(t)
		if info.Ends != want.Ends || info.Open != want.Open || info.Bytes != int64(len(texts[call])) || !info.Live || info.Attempt != 1 || info.Phase != run.PhaseExecute {
			t.Errorf("%q: %+v", call, info)
		}
		var all strings.Builder
		for after := (db.LogPlace{}); ; {
			parts := got(w.Store.LogParts(t.Context(), key, after, 2))(t)
			if len(parts) == 0 {
				break
			}
			for _, p := range parts {
				if n := strings.Count(string(p.Data), "\n"); p.Lines != n || p.Ends != int64(strings.Count(all.String(), "\n")+n) {
					t.Errorf("%q: a chunk with %d line ends is %+v", call, n, p)
				}
				all.Write(p.Data)
				after = db.LogPlace{Line: p.Ends, ID: p.ID}
			}
		}
		if all.String() != texts[call] {
			t.Errorf("%q reads %.80q", call, all.String())
		}
	}
	list := got(w.Store.LogList(t.Context(), w.Tenant, at.Ref.Run, 10))(t)
	if len(list) != 3 || list[0].Call != "" || list[1].Lines() != 301 || list[2].Call != "c2" {
		t.Errorf("listed: %+v", list)
	}
	_, err := w.Store.Log(t.Context(), db.LogKey{Tenant: w.Tenant, Run: at.Ref.Run, Lease: at.Ref.Run})
	refusal(t, err, fault.NotFound, "There is no such log here")
}

// What a window of a log costs depends neither on where it lies nor on how much was printed before, beside or behind it.
func TestAWindowOfALogCostsTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	h := at.Lease.Holder()
	conn := got(pgx.Connect(t.Context(), w.db.EngineURL))(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	seq := printed(t, w.Store, h, 1, "c1", "x\n", 10)
	printed(t, w.Store, h, seq, "c2", "x\n", 10)
	got(w.Owner.Exec(t.Context(), `INSERT INTO log_chunks (tenant_id, run_id, attempt_no, lease_id, stream, call_id, data, lines, line_end, byte_end)
		SELECT tenant_id, run_id, attempt_no, lease_id, stream, call_id, convert_to(repeat(E'some line\n', 10), 'UTF8'), 10, line_end + 10 * n, byte_end + 100 * n
		FROM log_chunks, generate_series(1, 20000) n WHERE run_id = $1`, at.Ref.Run))(t)
	got(w.Owner.Exec(t.Context(), `ANALYZE log_chunks`))(t)
	key := db.LogKey{Tenant: w.Tenant, Run: at.Ref.Run, Lease: h.Lease.ID, Call: "c1"}
	if info := got(w.Store.Log(t.Context(), key))(t); info.Ends != 200_001 {
		t.Fatalf("%d lines", info.Ends)
	}
	for _, line := range []int64{0, 1000, 100_000, 199_990} {
		var plan []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		must(t, conn.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT id, data FROM log_chunks
			WHERE tenant_id = $1 AND run_id = $2 AND lease_id = $3 AND call_id = $4 AND (line_end, id) > ($5::bigint, 0) ORDER BY line_end, id LIMIT 50`,
			w.Tenant, at.Ref.Run, h.Lease.ID, "c1", line).Scan(&plan))
		if n := plan[0].Plan.Hit + plan[0].Plan.Read; n > 60 {
			t.Errorf("from line %d: %d pages", line, n)
		}
		parts := got(w.Store.LogParts(t.Context(), key, db.LogPlace{Line: line}, 1))(t)
		if len(parts) != 1 || parts[0].Ends < line || parts[0].Ends-int64(parts[0].Lines) > line {
			t.Errorf("from line %d: %s", line, fmt.Sprint(parts))
		}
	}
}
