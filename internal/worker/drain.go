package worker

import (
	"sync"
	"time"
)

// Hurry ends the drain grace at once: what is under way is stopped and handed back, to be taken by others without costing
// the run an attempt. It may be called at any time and more than once.
func (w *Worker) Hurry() { w.hurryOnce.Do(func() { close(w.hurry) }) }

// drain lets the leases finish and, after the grace, asks them to stop.
func (w *Worker) drain(work *sync.WaitGroup) {
	w.mu.Lock()
	w.draining = true
	n := len(w.leases)
	w.mu.Unlock()
	w.beatNow()
	done := make(chan struct{})
	go func() {
		work.Wait()
		close(done)
	}()
	w.log.Info("worker draining", "leases", n, "grace", w.cfg.DrainGrace)
	timer := time.NewTimer(w.cfg.DrainGrace)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
	case <-w.hurry:
		w.log.Info("worker told to hurry: what is under way is handed back now")
	}
	w.mu.Lock()
	for _, l := range w.leases {
		l.interrupt(errDrain)
	}
	w.mu.Unlock()
	<-done
}
