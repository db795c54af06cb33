package db_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/dbtest/throwaway"
	"signalbox/internal/run"
)

// R-TRN-10: a writer that is slow to commit holds the feed back instead of being skipped: nothing after it is given
// out before it is there. Naive reading by id would have lost it for ever. The feed's horizon spans the cluster, so the
// test has its own.
func TestFeedWaitsForASlowWriter(t *testing.T) {
	t.Parallel()
	d, _ := dbtest.NewCluster(t, throwaway.Options{})
	w := &world{World: drive.New(t, d, drive.Options{}), db: d}
	slow, fast := w.at(t, run.Queued), w.at(t, run.Queued)
	cursor := db.FeedCursor{}
	read := func() []db.FeedEvent {
		t.Helper()
		es, next, err := w.Store.Feed(t.Context(), cursor, 100)
		must(t, err)
		cursor = next
		return es
	}
	if n := len(read()); n != 4 {
		t.Fatalf("%d events at the beginning, want 4", n)
	}
	tx := got(w.Owner.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	var slowID int64
	must(t, tx.QueryRow(t.Context(), `INSERT INTO run_events (tenant_id, run_id, seq, schema, event_id, kind, actor_kind, actor_id, from_state, to_state, attempt_no, at, body, payload, hash)
		SELECT tenant_id, run_id, 1000, schema, 'slow', kind, actor_kind, actor_id, from_state, to_state, attempt_no, at, body, payload, hash
		FROM run_events WHERE run_id = $1 AND seq = 1 RETURNING id`, slow.Ref.Run).Scan(&slowID))
	got(w.Cancel(t.Context(), fast.Ref))(t)
	if fastID := w.count(t, `SELECT max(id) FROM run_events`); fastID <= slowID {
		t.Fatalf("the fast event's id %d is not after the slow one's %d", fastID, slowID)
	}
	if es := read(); len(es) != 0 {
		t.Errorf("the feed gave out %+v past a writer that had not committed", es)
	}
	must(t, tx.Commit(t.Context()))
	es := read()
	if len(es) != 2 || es[0].Cursor.ID != slowID || es[1].Ref != fast.Ref || es[1].Kind != run.KindCancelRequested || es[1].To != run.Cancelled {
		t.Errorf("the feed gave out %+v", es)
	}
	if es := read(); len(es) != 0 {
		t.Errorf("given out twice: %+v", es)
	}
	// A reader that begins now sees what comes and nothing of the past.
	begin := got(w.Store.FeedHorizon(t.Context()))(t)
	third := w.at(t, run.Queued)
	late, _, err := w.Store.Feed(t.Context(), begin, 100)
	must(t, err)
	if len(late) != 2 || late[0].Ref != third.Ref {
		t.Errorf("from the horizon on: %+v", late)
	}
}

// R-TRN-10: readers with any page size that run beside many writers get every event exactly once.
func TestFeedLosesNothingUnderLoad(t *testing.T) {
	t.Parallel()
	d, _ := dbtest.NewCluster(t, throwaway.Options{})
	w := &world{World: drive.New(t, d, drive.Options{MaxConns: 16}), db: d}
	stop := make(chan struct{})
	type reading struct {
		seen map[int64]int
		err  error
	}
	readings := make(chan reading, 3)
	for i := range 3 {
		go func() {
			r := reading{seen: map[int64]int{}}
			defer func() { readings <- r }()
			cursor, last := db.FeedCursor{}, false
			for {
				es, next, err := w.Store.Feed(t.Context(), cursor, 1+i*7)
				if err != nil {
					r.err = err
					return
				}
				cursor = next
				for _, e := range es {
					r.seen[e.Cursor.ID]++
				}
				select {
				case <-stop:
					if last && len(es) == 0 {
						return
					}
					last = true
				default:
				}
			}
		}()
	}
	for _, err := range all(6, func(i int) error {
		for n := range 12 {
			ref, err := w.Run(t.Context(), drive.Ordinary())
			if err != nil {
				return err
			}
			if n%2 == 0 {
				if _, err := w.Cancel(t.Context(), ref); err != nil && !db.Lost(err) {
					return err
				}
			}
			if _, err := w.Claim(t.Context(), w.Workers[i%2]); err != nil {
				return err
			}
		}
		return nil
	}) {
		must(t, err)
	}
	close(stop)
	total := w.count(t, `SELECT count(*) FROM run_events`)
	for range 3 {
		r := <-readings
		must(t, r.err)
		if int64(len(r.seen)) != total {
			t.Errorf("a reader saw %d of %d events", len(r.seen), total)
		}
		for id, n := range r.seen {
			if n != 1 {
				t.Errorf("event %d was given out %d times", id, n)
			}
		}
	}
}

// effect is one outbox row as the log says it must be.
type effect struct {
	Run   uuid.UUID
	Seq   int64
	Topic string
}

// expected folds every log and lists the effects that its events ask for.
func (w *world) expected(t testing.TB) []effect {
	t.Helper()
	rows, err := w.Owner.Query(t.Context(), `SELECT run_id, payload FROM run_events ORDER BY run_id, seq`)
	must(t, err)
	var out []effect
	runs := map[uuid.UUID]run.Run{}
	for rows.Next() {
		var id uuid.UUID
		var raw json.RawMessage
		must(t, rows.Scan(&id, &raw))
		res := got(run.Reduce(runs[id], got(run.Decode(run.Schema, raw))(t)))(t)
		runs[id] = res.Run
		for _, e := range res.Effects {
			switch e := e.(type) {
			case run.CleanUp:
				out = append(out, effect{id, res.Run.Version, "cleanup"})
			case run.Notify:
				out = append(out, effect{id, res.Run.Version, e.What})
			case run.FollowUp:
				if e.What != run.FollowUpReconcile {
					out = append(out, effect{id, res.Run.Version, e.What})
				}
			}
		}
	}
	must(t, rows.Err())
	return out
}

// outboxFits holds that what was sent is exactly what the logs ask for, nothing lost and nothing for what never
// happened. Follow-ups about effects in doubt depend on more than the log and are left out.
func (w *world) outboxFits(t testing.TB, sent []effect) {
	t.Helper()
	order := func(a, b effect) int {
		if c := slices.Compare(a.Run[:], b.Run[:]); c != 0 {
			return c
		}
		return int(a.Seq - b.Seq)
	}
	want := w.expected(t)
	slices.SortStableFunc(want, order)
	slices.SortStableFunc(sent, order)
	if d := cmp.Diff(want, sent); d != "" {
		t.Errorf("effects (-the logs ask for +were sent):\n%s", d)
	}
}

func (w *world) outbox(t testing.TB) []effect {
	t.Helper()
	rows, err := w.Owner.Query(t.Context(), `SELECT run_id, seq, topic FROM outbox WHERE topic <> 'reconcile_effects' ORDER BY id`)
	must(t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[effect])
	must(t, err)
	return out
}

// R-TRN-10: the outbox holds an effect for every event that asks for one, in the transaction of the event: none is lost
// under races, and none is there for what was rolled back.
func TestOutboxHoldsExactlyWhatHappened(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	for range 4 {
		at := w.at(t, run.WaitingForApproval)
		for range 2 {
			for _, err := range all(6, func(i int) (err error) {
				switch i % 3 {
				case 0:
					err = w.Approve(t.Context(), at.Ref)
				case 1:
					_, err = w.Cancel(t.Context(), at.Ref)
				default:
					_, err = w.Claim(t.Context(), w.Workers[0])
				}
				return err
			}) {
				_ = err // who lost was refused; what counts is what was written
			}
		}
	}
	// An action whose audit cannot be written does not happen (fail closed).
	at := w.at(t, run.Queued)
	before := w.info(t, at.Ref).Version
	in := db.Intent{Key: "k", Hash: drive.Hash("k"), By: w.Requester.Actor(), Payload: run.CancelRequestedEvent{Reason: "x"},
		Audit: &db.Audit{Tenant: uuid.New(), By: w.Requester.Actor(), Action: "run.cancel"}}
	if _, err := w.Store.Apply(t.Context(), at.Ref, in); err == nil {
		t.Error("an action was carried out without its audit")
	}
	if now := w.info(t, at.Ref); now.Version != before || now.State != run.Queued {
		t.Errorf("the run is %s at version %d", now.State, now.Version)
	}
	if n := w.count(t, `SELECT count(*) FROM idempotency_keys WHERE key = 'k'`); n != 0 {
		t.Error("the key was kept")
	}
	w.outboxFits(t, w.outbox(t))
	w.replays(t)
}

// R-TRN-10: relays deliver everything, once into the product's own notices, and each run's effects in the order of its
// events, however many relays there are and whatever fails in between.
func TestRelays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	for range 3 {
		w.at(t, run.Succeeded)
		w.at(t, run.Cancelled)
		w.at(t, run.AwaitingVerification)
	}
	want := w.outbox(t)
	var mu sync.Mutex
	delivered := []effect{}
	failed := map[int64]bool{}
	deliver := func(_ context.Context, e db.Effect) error {
		mu.Lock()
		defer mu.Unlock()
		if e.ID%4 == 0 && !failed[e.ID] {
			failed[e.ID] = true
			return errors.New("the other side did not answer")
		}
		delivered = append(delivered, effect{e.Ref.Run, e.Seq, e.Topic})
		return nil
	}
	for round := 0; w.count(t, `SELECT count(*) FROM outbox`) > 0; round++ {
		if round > 50 {
			t.Fatal("the outbox is never empty")
		}
		for _, err := range all(4, func(int) error { _, err := w.Store.Relay(t.Context(), 5, 8, deliver); return err }) {
			must(t, err)
		}
		_, err := w.Owner.Exec(t.Context(), `UPDATE outbox SET next_at = clock_timestamp() WHERE attempts > 0`)
		must(t, err)
	}
	seq := map[uuid.UUID]int64{}
	for _, e := range delivered {
		if e.Seq < seq[e.Run] {
			t.Errorf("run %s: effect of event %d was delivered after that of %d", e.Run, e.Seq, seq[e.Run])
		}
		seq[e.Run] = e.Seq
	}
	if len(delivered) != len(want) || len(failed) == 0 {
		t.Errorf("%d effects delivered (%d after a failure), want %d", len(delivered), len(failed), len(want))
	}
	if n := w.count(t, `SELECT count(*) FROM notices`); n != int64(len(want)) {
		t.Errorf("%d notices, want %d", n, len(want))
	}
	w.outboxFits(t, slices.Clone(delivered))
}

// R-TRN-10: what cannot be delivered is tried again with growing delays, then kept as a dead letter that does not hold
// up the rest, with a sentence and not with a secret of the other side.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	w.at(t, run.Cancelled) // finished, cleanup
	total := w.count(t, `SELECT count(*) FROM outbox`)
	first := w.count(t, `SELECT min(id) FROM outbox`)
	deliver := func(_ context.Context, e db.Effect) error {
		if e.ID == first {
			return fmt.Errorf("password=hunter2 refused")
		}
		return nil
	}
	for tries := range 3 {
		got(w.Store.Relay(t.Context(), 10, 3, deliver))(t)
		if n := w.count(t, `SELECT count(*) FROM notices`); tries < 2 && n != 0 {
			t.Errorf("%d effects overtook the one before them", n)
		}
		if n := w.count(t, `SELECT attempts FROM outbox WHERE id = $1`, first); n != int64(tries+1) {
			t.Errorf("%d attempts, want %d", n, tries+1)
		}
		if tries < 2 && w.count(t, `SELECT count(*) FROM outbox WHERE id = $1 AND next_at > clock_timestamp()`, first) != 1 {
			t.Error("it is tried again at once")
		}
		dbtest.Advance(t, w.db, 1<<40)
	}
	got(w.Store.Relay(t.Context(), 10, 3, deliver))(t)
	if n := w.count(t, `SELECT count(*) FROM notices`); n != total-1 {
		t.Errorf("%d notices, want %d", n, total-1)
	}
	var words string
	must(t, w.Owner.QueryRow(t.Context(), `SELECT last_error FROM outbox WHERE dead`).Scan(&words))
	if words == "" || words == "password=hunter2 refused" {
		t.Errorf("the dead letter says %q", words)
	}
}
