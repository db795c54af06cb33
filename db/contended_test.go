package db_test

import (
	"sync"
	"testing"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-CAN-1: the worker's last word is taken however many people ask for the same cancel at that moment: what is refused
// because the run moved meanwhile would leave the lease to its end.
func TestLastWordAmongManyCancels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	const rounds, askers = 40, 12
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
