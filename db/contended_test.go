package db_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// R-CAN-1: the worker's last word is taken however many people ask for the same cancel at that moment: what is refused
// because the run moved meanwhile would leave the lease to its end.
func TestLastWordAmongManyCancels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	const rounds, askers = 12, 12
	for n := range rounds {
		at := w.at(t, run.Executing)
		if _, err := w.Cancel(t.Context(), at.Ref); err != nil {
			t.Fatal(err)
		}
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range askers {
			wg.Go(func() {
				<-start
				_, _ = w.Cancel(t.Context(), at.Ref) // too late is an answer, too
			})
		}
		wg.Go(func() {
			<-start
			if _, err := at.Lease.Do(t.Context(), run.Release{Reason: "stopped"}); err != nil {
				t.Errorf("round %d: the worker's last word was refused: %v", n, err)
			}
		})
		close(start)
		wg.Wait()
		w.ended(t, at, run.Cancelled)
	}
	w.replays(t)
}

// R-CAN-1, R-RCV-3: an effect that is refused because a cancel came a moment before says so: a worker that hears instead that its
// lease is gone says nothing more, and the cancel waits for the end of the lease.
func TestEffectsRefusedByACancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	const rounds, effects = 10, 8
	refused := 0
	for n := range rounds {
		at := w.at(t, run.PRCreating)
		h := at.Lease.Holder()
		start := make(chan struct{})
		answers := make([]error, 2*effects)
		var wg sync.WaitGroup
		for i := range effects {
			name := fmt.Sprintf("push_branch:%d:%d", n, i)
			got(w.Store.Intend(t.Context(), h, "push_branch", name, nil))(t)
			wg.Go(func() {
				<-start
				_, answers[i] = w.Store.Intend(t.Context(), h, "push_branch", fmt.Sprintf("%s:later", name), nil)
			})
			wg.Go(func() {
				<-start
				_, answers[effects+i] = w.Store.Dispatch(t.Context(), h, name)
			})
		}
		wg.Go(func() {
			<-start
			if _, err := w.Cancel(t.Context(), at.Ref); err != nil {
				t.Error(err)
			}
		})
		close(start)
		wg.Wait()
		for _, err := range answers {
			if err == nil {
				continue
			}
			refused++
			if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != "run_cancelling" || f.State != string(run.Cancelling) {
				t.Errorf("round %d: an effect was refused with %v", n, err)
			}
		}
		got(at.Lease.Do(t.Context(), run.ConfirmCancel{}))(t)
	}
	t.Logf("%d of %d effects were refused", refused, rounds*2*effects)
}
