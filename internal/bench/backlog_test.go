package bench_test

import (
	"strings"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
)

// copies of a row and what differs in each: columns of the table with an expression, in which n is the number of the
// copy. The table's own name is that of the row.
type copies struct {
	table, where string
	columns      map[string]string
}

// insert makes the copies from..to. The keys of other tables are those of the row that is copied, so that they are not
// looked up a million times.
func (p *product) insert(c copies, from, to int, args ...any) {
	p.b.Helper()
	ctx := p.b.Context()
	var names []string
	p.must(p.root.QueryRow(ctx, `SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''`, c.table).Scan(&names), "read the columns")
	values := make([]string, len(names))
	for i, n := range names {
		if values[i] = c.columns[n]; values[i] == "" {
			values[i] = c.table + "." + n
		}
	}
	conn, err := p.root.Acquire(ctx)
	p.must(err, "connect")
	defer conn.Release()
	for _, s := range []struct {
		text string
		args []any
	}{
		{`SET session_replication_role = replica`, nil},
		{`INSERT INTO ` + c.table + ` (` + strings.Join(names, ", ") + `) SELECT ` + strings.Join(values, ", ") + ` FROM ` + c.table + `, generate_series($1::int, $2::int) n WHERE ` + c.where, append([]any{from, to}, args...)},
		{`RESET session_replication_role`, nil},
	} {
		_, err := conn.Exec(ctx, s.text, s.args...)
		p.must(err, s.text)
	}
}

// numbered is the id of copy n, in the order of n as ids are in the order of their making.
const numbered = `('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`

// backlog fills a world's queue to n items: one run that was submitted, and copies of its rows.
func (p *product) backlog(w *drive.World, n int) {
	p.b.Helper()
	ctx := p.b.Context()
	p.hurried(func() {
		var ref db.Ref
		ref, err := w.Run(ctx, drive.Ordinary())
		p.must(err, "submit")
		var have int
		p.must(p.root.QueryRow(ctx, `SELECT count(*) FROM run_queue WHERE tenant_id = $1`, w.Tenant).Scan(&have), "count")
		p.copyRun(ref.Run, n-have)
	})
}

// copyRun copies a waiting run with its task and its item.
func (p *product) copyRun(id uuid.UUID, count int) {
	p.b.Helper()
	from, to := p.copied+1, p.copied+count
	p.copied = to
	p.insert(copies{"tasks", "tasks.id = (SELECT task_id FROM runs WHERE id = $3)", map[string]string{"id": numbered, "active_run_id": numbered}}, from, to, id)
	p.insert(copies{"runs", "runs.id = $3", map[string]string{"id": numbered, "task_id": numbered}}, from, to, id)
	p.insert(copies{"run_queue", "run_queue.run_id = $3", map[string]string{"run_id": numbered, "rank": "run_queue.rank + n * interval '1 microsecond'"}}, from, to, id)
}
