package db_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a driven store on a database of its own.
type world struct {
	*drive.World
	db dbtest.Database
}

func newWorld(t *testing.T, o drive.Options) *world {
	t.Helper()
	d := dbtest.New(t)
	return &world{World: drive.New(t, d, o), db: d}
}

// must ends the test where a step of its own preparation failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func got[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// at drives a fresh run to the state.
func (w *world) at(t testing.TB, s run.State) drive.At {
	t.Helper()
	return got(w.To(t.Context(), s))(t)
}

func (w *world) info(t testing.TB, ref db.Ref) db.RunInfo {
	t.Helper()
	return got(w.Store.RunInfo(t.Context(), ref.Tenant, ref.Run))(t)
}

// count reads one number.
func (w *world) count(t testing.TB, query string, args ...any) int64 {
	t.Helper()
	var n int64
	must(t, w.Owner.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

// refusal holds that err is a fault of the kind whose sentence begins as given.
func refusal(t testing.TB, err error, kind fault.Kind, begins string) *fault.Error {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		t.Fatalf("error %v, want a %s fault", err, kind)
	}
	if f.Kind != kind || !strings.HasPrefix(f.Sentence, begins) {
		t.Errorf("refused with %s %q (%s), want %s %q…", f.Kind, f.Sentence, f.Code, kind, begins)
	}
	return f
}

// replays holds that every log replays to its row.
func (w *world) replays(t testing.TB) db.Coverage {
	t.Helper()
	c, err := w.Store.Replay(context.WithoutCancel(t.Context()), func(d db.Difference) {
		t.Errorf("replay: run %s seq %d: %s", d.Run, d.Seq, d.Why)
	})
	must(t, err)
	return c
}
