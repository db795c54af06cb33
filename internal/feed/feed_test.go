package feed_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/feed"
	"signalbox/internal/run"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// hub runs a hub over a store until the test ends.
func hub(t *testing.T, s *db.Store) *feed.Hub {
	t.Helper()
	h := feed.New(s, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return h
}

func wakes(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s was not woken", what)
	}
}

// A commit wakes who waits for that run or that queue, in this process and in another replica.
func TestCommitsWake(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	w := drive.New(t, d, drive.Options{})
	other, err := db.Open(t.Context(), db.Options{URL: d.EngineURL, AppURL: d.AppURL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	here, there := hub(t, w.Store), hub(t, other)
	ref, err := w.Run(t.Context(), drive.Ordinary())
	if err != nil {
		t.Fatal(err)
	}
	mine, stop := here.Subscribe(ref.Run)
	defer stop()
	strangers, stop2 := here.Subscribe(uuid.New())
	defer stop2()
	afar, stop3 := there.Subscribe(ref.Run)
	defer stop3()
	if _, err := w.Cancel(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	wakes(t, mine, "the run's own subscriber")
	wakes(t, afar, "another replica's subscriber")
	select {
	case <-strangers:
		t.Error("a commit of this process woke the subscriber of another run")
	default:
	}
	ready, stop4 := here.SubscribeReady([]run.Phase{run.PhaseVerify, run.PhaseExecute})
	defer stop4()
	if _, err := w.Run(t.Context(), drive.Ordinary()); err != nil {
		t.Fatal(err)
	}
	wakes(t, ready, "a claim that waits")
}

// A subscriber that does not look holds nobody up, and one that has gone is woken no more.
func TestSlowSubscriber(t *testing.T) {
	t.Parallel()
	w := drive.New(t, dbtest.New(t), drive.Options{})
	h := hub(t, w.Store)
	ref, err := w.Run(t.Context(), drive.Ordinary())
	if err != nil {
		t.Fatal(err)
	}
	deaf, stopDeaf := h.Subscribe(ref.Run)
	gone, stopGone := h.Subscribe(ref.Run)
	stopGone()
	l, err := w.Claim(t.Context(), w.Workers[0], run.PhaseExecute)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	wakes(t, deaf, "the subscriber")
	stopDeaf()
	select {
	case <-gone:
		t.Error("a subscriber that has gone was woken")
	default:
	}
}
