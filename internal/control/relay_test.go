package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/control"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

func passed() db.VerificationRecord { return db.VerificationRecord{Passed: true} }

// seen records what was delivered, in order.
type seen struct {
	mu sync.Mutex
	of map[uuid.UUID][]int64
}

func (s *seen) deliver(_ context.Context, e db.Effect) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[uuid.UUID][]int64{}
	}
	s.of[e.Ref.Run] = append(s.of[e.Ref.Run], e.ID)
	return nil
}

// R-TRN-10: every effect is delivered, once where nothing fails, those of one run in the order of its events, by
// however many replicas; and nothing is left.
func TestRelayDeliversInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 12})
	for range 3 {
		at := w.at(t, run.AwaitingVerification)
		got(w.Post(t.Context(), at.Ref, run.Attestor, run.AttestationAcceptedEvent{Statement: "Seen."}))(t)
	}
	total := int(w.count(t, `SELECT count(*) FROM outbox`))
	if total < 9 {
		t.Fatalf("%d effects", total)
	}
	var s seen
	relay := func(ctx context.Context) (int, error) { return w.Store.Relay(ctx, 100, 8, s.deliver) }
	replicas(t, total, relay, relay, relay)
	n := 0
	for r, ids := range s.of {
		n += len(ids)
		if !slices.IsSorted(ids) {
			t.Errorf("run %s: effects came in the order %v", r, ids)
		}
	}
	if n != total {
		t.Errorf("%d deliveries of %d effects", n, total)
	}
	if left, notices := w.count(t, `SELECT count(*) FROM outbox`), w.count(t, `SELECT count(*) FROM notices`); left != 0 || notices != int64(total) {
		t.Errorf("%d effects left, %d notices of %d", left, notices, total)
	}
}

// R-TRN-10: what cannot be delivered is tried again after a growing delay, keeps the order of its run, and stays as a
// dead letter in the end; the other runs' effects go on all the while.
func TestRelayGivesUpOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	bad, good := w.at(t, run.WaitingForApproval), w.at(t, run.WaitingForApproval)
	got(w.Cancel(t.Context(), bad.Ref))(t)
	first := w.count(t, `SELECT min(id) FROM outbox WHERE run_id = $1`, bad.Ref.Run)
	others := int(w.count(t, `SELECT count(*) FROM outbox WHERE run_id = $1`, good.Ref.Run))
	rest := int(w.count(t, `SELECT count(*) FROM outbox WHERE run_id = $1 AND id <> $2`, bad.Ref.Run, first))
	if rest == 0 {
		t.Fatal("the run has one effect only")
	}
	var s seen
	tries := 0
	relay := func(ctx context.Context) (int, error) {
		return w.Store.Relay(ctx, 100, 4, func(ctx context.Context, e db.Effect) error {
			if e.ID != first {
				return s.deliver(ctx, e)
			}
			if tries++; tries == 2 {
				panic("a bug in the delivery")
			}
			return errors.New("no\x00 connection \xff")
		})
	}
	before := got(w.Store.Now(t.Context()))(t)
	once(t, relay, others+1)
	if len(s.of[good.Ref.Run]) != others || len(s.of[bad.Ref.Run]) != 0 {
		t.Errorf("delivered %v", s.of)
	}
	for try, delay := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if tries != try+1 {
			t.Fatalf("tried %d times, want %d", tries, try+1)
		}
		// By the database's clock: whatever else the machine does meanwhile, the delay is what it should be.
		after := got(w.Store.Now(t.Context()))(t)
		if n := w.count(t, `SELECT count(*) FROM outbox WHERE id = $1 AND next_at BETWEEN $2::timestamptz + $4 AND $3::timestamptz + $4`, first, before, after, delay); n != 1 {
			t.Errorf("after try %d the effect is not put off for %s", try+1, delay)
		}
		w.pass(t, delay)
		before = got(w.Store.Now(t.Context()))(t)
		want := 1
		if try == 2 { // given up: what it held back comes
			want += rest
		}
		once(t, relay, want)
	}
	if tries != 4 || len(s.of[bad.Ref.Run]) != rest {
		t.Errorf("tried %d times; delivered %v", tries, s.of)
	}
	if n := w.count(t, `SELECT count(*) FROM outbox WHERE id = $1 AND dead AND attempts = 4 AND last_error <> ''`, first); n != 1 {
		t.Error("the dead letter is not kept")
	}
	w.pass(t, day)
	once(t, relay, 0)
}

// An effect that the database itself refuses to store as a notice holds up its own run only.
func TestPoisonedEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	bad, good := w.at(t, run.WaitingForApproval), w.at(t, run.WaitingForApproval)
	w.exec(t, fmt.Sprintf(`ALTER TABLE notices ADD CONSTRAINT poison CHECK (run_id <> '%s')`, bad.Ref.Run))
	others := int(w.count(t, `SELECT count(*) FROM outbox WHERE run_id = $1`, good.Ref.Run))
	relay := (&control.Relay{Store: w.Store, Log: slog.New(slog.DiscardHandler)}).RunOnce
	once(t, relay, others+1)
	if n := w.count(t, `SELECT count(*) FROM notices WHERE run_id = $1`, good.Ref.Run); n != int64(others) {
		t.Errorf("%d notices, want %d", n, others)
	}
	for range 7 {
		w.pass(t, 2*time.Minute)
		_, err := relay(t.Context())
		must(t, err)
	}
	var last string
	must(t, w.Owner.QueryRow(t.Context(), `SELECT last_error FROM outbox WHERE run_id = $1 AND dead ORDER BY id LIMIT 1`, bad.Ref.Run).Scan(&last))
	if last == "" || strings.Contains(last, "poison") {
		t.Errorf("the dead letter says %q", last)
	}
}
