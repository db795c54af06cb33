package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/dbtest"
	"signalbox/migrations"
)

// Logs that were stored before lines were counted are counted by the migration, whatever bytes they hold, and so are those that
// a server of the version before stores after it.
func TestOldLogsAreCounted(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	ctx := t.Context()
	if err := migrations.DownTo(ctx, d.OwnerURL, 22); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(ctx, d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	// The run itself is nobody's concern here.
	if _, err := c.Exec(ctx, `ALTER TABLE log_chunks DROP CONSTRAINT log_chunks_run_fk;
		INSERT INTO log_chunks (tenant_id, run_id, attempt_no, lease_id, stream, call_id, data)
		SELECT gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 1, '00000000-0000-7000-8000-000000000002', 'agent', call_id, data
		FROM (VALUES ('a', 'one\012two'::bytea), ('b', 'b\012'), ('a', '\012\000\377\\\012x'), ('a', ''), ('a', '\012')) v (call_id, data)`); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Up(ctx, d.OwnerURL); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := c.QueryRow(ctx, `SELECT string_agg(concat_ws(' ', lines, line_end, byte_end), ', ' ORDER BY id) FROM log_chunks WHERE call_id = 'a'`).Scan(&got); err != nil {
		t.Fatal(err)
	}
	const before = "1 1 7, 2 3 13, 0 3 13, 1 4 14"
	if got != before {
		t.Errorf("lines, line ends and bytes are %s, want %s", got, before)
	}
	if _, err := c.Exec(ctx, `INSERT INTO log_chunks (tenant_id, run_id, attempt_no, lease_id, stream, call_id, data)
		SELECT (SELECT tenant_id FROM log_chunks LIMIT 1), '00000000-0000-7000-8000-000000000001', 1, '00000000-0000-7000-8000-000000000002', 'agent', call_id, data
		FROM (VALUES ('a', 'x\012\012'::bytea), ('b', '\012'), ('a', '\012y')) v (call_id, data)`); err != nil {
		t.Fatal(err)
	}
	if err := c.QueryRow(ctx, `SELECT string_agg(concat_ws(' ', lines, line_end, byte_end), ', ' ORDER BY id) FROM log_chunks WHERE call_id = 'a'`).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if want := before + ", 2 6 17, 1 7 19"; got != want {
		t.Errorf("after an older server they are %s, want %s", got, want)
	}
}
