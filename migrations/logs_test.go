package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/dbtest"
	"signalbox/migrations"
)

// Logs that were stored before lines were counted are counted by the migration, whatever bytes they hold.
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
	if want := "1 1 7, 2 3 13, 0 3 13, 1 4 14"; got != want {
		t.Errorf("lines, line ends and bytes are %s, want %s", got, want)
	}
}
