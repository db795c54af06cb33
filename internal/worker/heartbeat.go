package worker

import (
	"context"
	"time"

	"signalbox/internal/wire"
)

// heartbeats speaks for all leases at once. A tick that is not answered in time is followed by the next one: the
// leases know by themselves how long they may trust the last answer.
func (w *Worker) heartbeats(ctx context.Context) {
	tick := time.NewTicker(w.beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.wake:
		}
		if err := w.heartbeatOnce(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("heartbeat not answered", "error", err)
		}
	}
}

func (w *Worker) beatNow() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Worker) heartbeatOnce(ctx context.Context) error {
	w.mu.Lock()
	b := wire.Heartbeat{BootId: w.boot.BootId, State: wire.WorkerReady, Leases: []wire.HeldLease{}}
	if w.draining {
		b.State = wire.WorkerDraining
	}
	held := make(map[string]*lease, len(w.leases))
	for id, l := range w.leases {
		held[id] = l
		b.Leases = append(b.Leases, wire.HeldLease{LeaseId: id, FencingToken: l.as.FencingToken, RunId: l.as.RunId, Stopping: l.stopping()})
	}
	w.mu.Unlock()
	return w.beatFor(ctx, b, held)
}

func (w *Worker) beatFor(ctx context.Context, b wire.Heartbeat, held map[string]*lease) error {
	// Shorter than the lease: an answer that comes later is worth nothing.
	each, cancel := context.WithTimeout(ctx, max(w.ttl/3, 200*time.Millisecond))
	defer cancel()
	sent := time.Now()
	ack, err := w.api.heartbeat(each, b)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.paused = ack.Drain
	w.mu.Unlock()
	for _, s := range ack.Leases {
		if l, ok := held[s.LeaseId]; ok {
			l.signal(s, sent, w.ttl)
		}
	}
	return nil
}
