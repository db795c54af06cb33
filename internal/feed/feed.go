// Package feed owns the in-process fan-out of "look again": event streams and waiting claims subscribe, commits of this
// process and notifications of other replicas wake them. A wake-up carries no data and may be lost or come twice;
// whoever hears it reads from its own cursor, and polls slowly besides. The package refuses to read anything itself.
package feed

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/run"
)

// Pauses of the hub.
const (
	// notifyEvery bounds how often this replica tells the others.
	notifyEvery = 20 * time.Millisecond
	// reconnect is the pause after the listening connection was lost.
	reconnect = time.Second
)

// Hub wakes subscribers. Make it with New and let Run run.
type Hub struct {
	store *db.Store
	log   *slog.Logger

	mu    sync.Mutex
	runs  map[uuid.UUID]map[chan struct{}]bool
	ready map[run.Phase]map[chan struct{}]bool
	// own counts notifications of ours that our listener has not heard yet: they tell us nothing new. One of another
	// replica may be taken for ours; then ours, which comes later, wakes everybody instead.
	own int
	// dirty says that the other replicas have not been told yet.
	dirty chan struct{}
}

// New makes a hub over a store.
func New(store *db.Store, log *slog.Logger) *Hub {
	return &Hub{store: store, log: log, runs: map[uuid.UUID]map[chan struct{}]bool{}, ready: map[run.Phase]map[chan struct{}]bool{}, dirty: make(chan struct{}, 1)}
}

// Run fans changes out until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	stop := h.store.Watch(h.changed)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { h.tell(ctx) })
	wg.Go(func() { h.listen(ctx) })
	wg.Wait()
}

// changed is called by the committing goroutine and never blocks.
func (h *Hub) changed(c db.Change) {
	h.mu.Lock()
	wake(h.runs[c.Run])
	if c.Person != uuid.Nil {
		wake(h.runs[c.Person])
	}
	if c.Ready != "" {
		wake(h.ready[c.Ready])
	}
	h.mu.Unlock()
	select {
	case h.dirty <- struct{}{}:
	default:
	}
}

// tell notifies the other replicas, at most once per notifyEvery, in a statement of its own.
func (h *Hub) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.dirty:
		}
		h.count(1)
		if err := h.store.Notify(ctx); err != nil {
			h.count(-1)
			if ctx.Err() == nil {
				h.log.Warn("other replicas were not told; they look by themselves", slog.String("error", err.Error()))
			}
		}
		if !pause(ctx, notifyEvery) {
			return
		}
	}
}

// listen wakes everybody when another replica changed something, and after every reconnection, because what was
// missed meanwhile is not known.
func (h *Hub) listen(ctx context.Context) {
	for {
		err := h.store.Listen(ctx, h.heard)
		if ctx.Err() != nil {
			return
		}
		h.mu.Lock()
		h.own = 0
		h.mu.Unlock()
		h.log.Warn("listening for changes of other replicas was interrupted", slog.Any("error", err))
		if !pause(ctx, reconnect) {
			return
		}
		h.all()
	}
}

func (h *Hub) count(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.own = max(h.own+n, 0)
}

// heard is one notification: our own is dropped, any other wakes everybody, since it does not say what changed.
func (h *Hub) heard() {
	h.mu.Lock()
	ours := h.own > 0
	if ours {
		h.own--
	}
	h.mu.Unlock()
	if !ours {
		h.all()
	}
}

func (h *Hub) all() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, subs := range h.runs {
		wake(subs)
	}
	for _, subs := range h.ready {
		wake(subs)
	}
}

// wake never blocks: a subscriber that has not looked yet will look anyway.
func wake(subs map[chan struct{}]bool) {
	for c := range subs {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Subscribe wakes the channel when something about the run is new. cancel ends it.
func (h *Hub) Subscribe(id uuid.UUID) (changed <-chan struct{}, cancel func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	add(h.runs, id, c)
	h.mu.Unlock()
	return c, func() {
		h.mu.Lock()
		remove(h.runs, id, c)
		h.mu.Unlock()
	}
}

// SubscribePerson wakes the channel when a login of a person was ended, and whenever another replica changed something.
func (h *Hub) SubscribePerson(id uuid.UUID) (ended <-chan struct{}, cancel func()) {
	return h.Subscribe(id)
}

// SubscribeReady wakes the channel when the queue of one of the phases got an item. cancel ends it.
func (h *Hub) SubscribeReady(phases []run.Phase) (ready <-chan struct{}, cancel func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	for _, p := range phases {
		add(h.ready, p, c)
	}
	h.mu.Unlock()
	return c, func() {
		h.mu.Lock()
		for _, p := range phases {
			remove(h.ready, p, c)
		}
		h.mu.Unlock()
	}
}

func add[K comparable](m map[K]map[chan struct{}]bool, key K, c chan struct{}) {
	if m[key] == nil {
		m[key] = map[chan struct{}]bool{}
	}
	m[key][c] = true
}

func remove[K comparable](m map[K]map[chan struct{}]bool, key K, c chan struct{}) {
	delete(m[key], c)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
