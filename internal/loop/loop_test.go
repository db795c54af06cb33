package loop_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/loop"
)

// work counts its calls and remembers when they were; answer decides what each call returns.
type work struct {
	mu     sync.Mutex
	at     []time.Time
	answer func(call int) (int, error)
}

func (w *work) RunOnce(context.Context) (int, error) {
	w.mu.Lock()
	w.at = append(w.at, time.Now())
	call := len(w.at)
	w.mu.Unlock()
	return w.answer(call)
}

func (w *work) times() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.at)
}

func run(t *testing.T, l *loop.Loop, body func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	synctest.Wait()
	body()
	cancel()
	<-done
}

func TestRunsAtOnceThenAtTheInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &work{answer: func(int) (int, error) { return 0, nil }}
		run(t, &loop.Loop{Name: "t", Every: time.Minute, RunOnce: w.RunOnce}, func() {
			if len(w.times()) != 1 {
				t.Fatalf("%d runs at the start, want 1", len(w.times()))
			}
			time.Sleep(10 * time.Minute) // the bubble's clock: this costs no time
			synctest.Wait()
		})
		if len(w.times()) < 10 || len(w.times()) > 12 {
			t.Errorf("%d runs in ten intervals, want about 11", len(w.times()))
		}
		for i := 1; i < len(w.at); i++ {
			if gap := w.times()[i].Sub(w.times()[i-1]); gap < 54*time.Second || gap > 66*time.Second {
				t.Errorf("pause %d was %s, want a minute within a tenth", i, gap)
			}
		}
	})
}

func TestRunsAgainAtOnceWhileThereIsMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &work{answer: func(call int) (int, error) {
			if call < 5 {
				return 100, nil
			}
			return 0, nil
		}}
		began := time.Now()
		run(t, &loop.Loop{Name: "t", Every: time.Hour, RunOnce: w.RunOnce}, func() {
			if len(w.times()) != 5 {
				t.Errorf("%d runs, want 5", len(w.times()))
			}
			if waited := time.Since(began); waited != 0 {
				t.Errorf("it paused %s although there was more to do", waited)
			}
		})
	})
}

func TestWakeCutsThePauseAndIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &loop.Loop{Name: "t", Every: time.Hour}
		w := &work{}
		w.answer = func(call int) (int, error) {
			if call == 1 { // woken in the middle of a run, several times: one more run follows
				l.Wake()
				l.Wake()
				l.Wake()
			}
			return 0, nil
		}
		l.RunOnce = w.RunOnce
		run(t, l, func() {
			if len(w.times()) != 2 {
				t.Fatalf("%d runs after wakes during the first, want 2", len(w.times()))
			}
			l.Wake()
			synctest.Wait()
			if len(w.times()) != 3 {
				t.Errorf("%d runs after a wake in the pause, want 3", len(w.times()))
			}
		})
	})
}

func TestFailuresAndPanicsBackOffAndDoNotEndIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &loop.Loop{Name: "t", Every: time.Second}
		w := &work{answer: func(call int) (int, error) {
			switch {
			case call == 3:
				panic("boom")
			case call <= 8:
				return 5, errors.New("no database")
			default:
				return 0, nil
			}
		}}
		l.RunOnce = w.RunOnce
		run(t, l, func() {
			l.Wake() // in the pause after the first failure
			time.Sleep(5 * time.Minute)
			synctest.Wait()
		})
		if len(w.times()) < 12 {
			t.Fatalf("%d runs in five minutes: a failure ended the loop", len(w.times()))
		}
		// The wake did not cut a pause after a failure, and it was not lost either: it cut the first ordinary one.
		want := []time.Duration{2, 4, 8, 16, 30, 30, 30, 30, 0, 1}
		for i, seconds := range want {
			gap := w.times()[i+1].Sub(w.times()[i])
			if w := seconds * time.Second; gap < w*9/10 || gap > w*11/10 {
				t.Errorf("pause %d was %s, want %s within a tenth", i+1, gap, w)
			}
		}
	})
}

func TestStopsWithItsContextAndWaitsForTheRunInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		finished := false
		l := &loop.Loop{Name: "t", Every: time.Second, RunOnce: func(ctx context.Context) (int, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			finished = true
			return 0, ctx.Err()
		}}
		run(t, l, func() {})
		if !finished {
			t.Error("Run returned while RunOnce was running")
		}
	})
}
