package control_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/control"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// grace is how long workers may take to obey a stop, in every test.
const grace = 30 * time.Second

// patience is how long a test may take between two looks of the reaper without that being an outage.
const patience = time.Hour

// world is a driven store on a database of its own.
type world struct {
	*drive.World
	db dbtest.Database
}

func newWorld(t *testing.T, o drive.Options) *world {
	t.Helper()
	d := dbtest.New(t)
	w := &world{World: drive.New(t, d, o), db: d}
	got(w.Store.Beat(t.Context(), patience))(t)
	return w
}

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

func (w *world) at(t testing.TB, s run.State) drive.At {
	t.Helper()
	return got(w.To(t.Context(), s))(t)
}

func (w *world) info(t testing.TB, ref db.Ref) db.RunInfo {
	t.Helper()
	return got(w.Store.RunInfo(t.Context(), ref.Tenant, ref.Run))(t)
}

// is holds the run's state.
func (w *world) is(t testing.TB, ref db.Ref, s run.State) {
	t.Helper()
	if err := w.Is(t.Context(), ref, s); err != nil {
		t.Error(err)
	}
}

// pass makes time pass for the database.
func (w *world) pass(t testing.TB, d time.Duration) {
	t.Helper()
	dbtest.Advance(t, w.db, d)
}

// keep is the heartbeat that the worker sent while time passed.
func (w *world) keep(t testing.TB, ref db.Ref) {
	t.Helper()
	w.exec(t, `UPDATE run_leases SET expires_at = clock_timestamp() + interval '1 minute' WHERE run_id = $1`, ref.Run)
}

func (w *world) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := w.Owner.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) count(t testing.TB, query string, args ...any) int64 {
	t.Helper()
	var n int64
	must(t, w.Owner.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

// kinds is the run's log by kinds of event.
func (w *world) kinds(t testing.TB, ref db.Ref) []run.Kind {
	t.Helper()
	var out []run.Kind
	for _, e := range got(w.Store.Events(t.Context(), ref.Tenant, ref.Run, 0, 1000))(t) {
		out = append(out, e.Kind)
	}
	return out
}

// logged holds how often an event of the kind stands in the run's log.
func (w *world) logged(t testing.TB, ref db.Ref, k run.Kind, want int) {
	t.Helper()
	n := 0
	log := w.kinds(t, ref)
	for _, x := range log {
		if x == k {
			n++
		}
	}
	if n != want {
		t.Errorf("%d times %s in the log, want %d: %v", n, k, want, log)
	}
}

func (w *world) task(t testing.TB, at drive.At) db.TaskInfo {
	t.Helper()
	return got(w.Store.Task(t.Context(), w.Tenant, at.Task.Task))(t)
}

// once runs one look of a loop and holds how many things it did.
func once(t testing.TB, look func(context.Context) (int, error), want int) {
	t.Helper()
	if n, err := look(t.Context()); err != nil || n != want {
		t.Errorf("the loop did %d things (%v), want %d", n, err, want)
	}
}

// replicas runs as many looks at once, and holds that together they did as much as one.
func replicas(t *testing.T, want int, looks ...func(context.Context) (int, error)) {
	t.Helper()
	var wg sync.WaitGroup
	done, errs := make([]int, len(looks)), make([]error, len(looks))
	start := make(chan struct{})
	for i, look := range looks {
		wg.Go(func() {
			<-start
			done[i], errs[i] = look(t.Context())
		})
	}
	close(start)
	wg.Wait()
	total := 0
	for i, n := range done {
		total += n
		if errs[i] != nil {
			t.Errorf("replica %d: %v", i, errs[i])
		}
	}
	if total != want {
		t.Errorf("the replicas did %v things, want %d together", done, want)
	}
}

func many(n int, make func() func(context.Context) (int, error)) []func(context.Context) (int, error) {
	var out []func(context.Context) (int, error)
	for range n {
		out = append(out, make())
	}
	return slices.Clip(out)
}

func (w *world) admission() func(context.Context) (int, error) {
	return (&control.Admission{Store: w.Store}).RunOnce
}

func (w *world) reaper() func(context.Context) (int, error) {
	return (&control.Reaper{Store: w.Store, StopGrace: grace, Silent: 90 * time.Second, Patience: patience}).RunOnce
}

func (w *world) clocks() func(context.Context) (int, error) {
	return (&control.RunClocks{Store: w.Store, StopGrace: grace}).RunOnce
}

func (w *world) queueClock() func(context.Context) (int, error) {
	return (&control.QueueClock{Store: w.Store}).RunOnce
}

func (w *world) gates() func(context.Context) (int, error) {
	return (&control.GateClocks{Store: w.Store}).RunOnce
}

func (w *world) tasks() func(context.Context) (int, error) {
	return (&control.TaskClocks{Store: w.Store}).RunOnce
}

// superuser is a connection past every rule and right of the database.
func superuser(t testing.TB, d dbtest.Database) *pgx.Conn {
	t.Helper()
	c := got(pgx.Connect(t.Context(), d.SuperuserURL(t)))(t)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func (w *world) useClocks() func(context.Context) (int, error) {
	return (&control.UseClocks{Store: w.Store}).RunOnce
}
