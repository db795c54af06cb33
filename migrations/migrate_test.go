package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/dbtest"
	"signalbox/migrations"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// Up, down and up again: every migration can be taken back and repeated.
func TestUpDownUp(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	ctx := t.Context()
	for range 2 {
		if err := migrations.DownTo(ctx, d.OwnerURL, 0); err != nil {
			t.Fatal(err)
		}
		if n := tables(t, d.OwnerURL); n != 0 {
			t.Fatalf("%d tables left after the way down", n)
		}
		if err := migrations.Up(ctx, d.OwnerURL); err != nil {
			t.Fatal(err)
		}
	}
	if n := tables(t, d.OwnerURL); n < 40 {
		t.Fatalf("only %d tables after the way up", n)
	}
}

func tables(t *testing.T, url string) int {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var n int
	const q = `SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public' AND table_name <> 'goose_db_version'`
	if err := c.QueryRow(t.Context(), q).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
