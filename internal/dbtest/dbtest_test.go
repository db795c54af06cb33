package dbtest_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// Two tests never see each other's rows, and each role is who it says.
func TestEachTestHasItsOwnDatabase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one", "two", "three", "four"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			d := dbtest.New(t)
			t.Logf("cloned in %s", time.Since(began).Round(time.Millisecond))
			conn, err := pgx.Connect(t.Context(), d.OwnerURL)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			if _, err := conn.Exec(t.Context(), `CREATE TABLE only_here (n int)`); err != nil {
				t.Fatalf("the database is shared, or is not the owner's: %v", err)
			}
			for role, url := range map[string]string{"signalbox_engine": d.EngineURL, "signalbox_app": d.AppURL} {
				conn, err := pgx.Connect(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				var got string
				if err := conn.QueryRow(t.Context(), `SELECT current_user`).Scan(&got); err != nil || got != role {
					t.Errorf("connected as %q (%v), want %s", got, err, role)
				}
				_ = conn.Close(t.Context())
			}
		})
	}
}

func TestAdvanceMovesEveryInstant(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	conn, err := pgx.Connect(t.Context(), d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	age := func() (age time.Duration) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), `SELECT clock_timestamp() - created_at FROM tenants WHERE name = 'default'`).Scan(&age); err != nil {
			t.Fatal(err)
		}
		return age
	}
	before := age()
	dbtest.Advance(t, d, 90*time.Minute)
	if passed := age() - before; passed < 90*time.Minute || passed > 91*time.Minute {
		t.Errorf("%s passed, want 90 minutes", passed)
	}
}
