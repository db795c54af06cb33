package db

import (
	"slices"
	"sync"

	"signalbox/internal/run"
)

// waiters are the claims that wait for work, those that have waited longest first. An item that gets ready wakes one of
// them, not all: k items wake k waiters. One that may not take what it was woken for passes the turn on.
type waiters struct {
	mu   sync.Mutex
	all  []*waiter
	news int64 // counts items that got ready
}

type waiter struct {
	phases []run.Phase
	bell   chan struct{}
	// seen is the newest item that this waiter was woken for; turn says that it holds the turn for it.
	seen int64
	turn run.Phase
}

func (ws *waiters) join(phases []run.Phase) *waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	// What got ready before is found by the look that every waiter begins with.
	w := &waiter{phases: phases, bell: make(chan struct{}, 1), seen: ws.news}
	ws.all = append(ws.all, w)
	return w
}

// leave ends a wait. A turn that was not used goes to the next.
func (ws *waiters) leave(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all = slices.DeleteFunc(ws.all, func(x *waiter) bool { return x == w })
	ws.give(w)
}

// pass gives the turn on, if the waiter holds one.
func (ws *waiters) pass(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.give(w)
}

func (ws *waiters) give(w *waiter) {
	if w.turn != "" {
		phase := w.turn
		w.turn = ""
		ws.next(phase, w.seen)
	}
}

// ready wakes one waiter for an item of the phase.
func (ws *waiters) ready(phase run.Phase) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.news++
	ws.next(phase, ws.news)
}

// next wakes the first waiter that takes the phase, holds no turn and was not woken for this item or a newer one.
func (ws *waiters) next(phase run.Phase, item int64) {
	for _, w := range ws.all {
		if w.seen < item && w.turn == "" && slices.Contains(w.phases, phase) {
			w.seen, w.turn = item, phase
			select {
			case w.bell <- struct{}{}:
			default:
			}
			return
		}
	}
}
