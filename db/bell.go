package db

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"signalbox/internal/run"
)

// Change says that something about a run is new. It is a hint and never data:
// whoever hears it looks from its own cursor.
type Change struct {
	Tenant uuid.UUID
	Run    uuid.UUID
	// Person lost logins: what is sent to them is to be looked at again. Run is nil then.
	Person  uuid.UUID
	Version int64
	// Ready names the phase whose queue got an item, or is empty.
	Ready run.Phase
	// Moves are the events that were committed, where it was a transition of this process.
	Moves []Movement
}

// bell rings in this process after a commit.
type bell struct {
	mu   sync.Mutex
	next int
	ears map[int]func(Change)
}

// Watch calls ear after every commit of this Store, from the committing
// goroutine: ear must not block. The returned function ends it.
func (s *Store) Watch(ear func(Change)) (stop func()) {
	s.bell.mu.Lock()
	defer s.bell.mu.Unlock()
	if s.bell.ears == nil {
		s.bell.ears = map[int]func(Change){}
	}
	s.bell.next++
	id := s.bell.next
	s.bell.ears[id] = ear
	return func() {
		s.bell.mu.Lock()
		defer s.bell.mu.Unlock()
		delete(s.bell.ears, id)
	}
}

func (s *Store) ring(cs ...Change) {
	s.bell.mu.Lock()
	ears := make([]func(Change), 0, len(s.bell.ears))
	for _, e := range s.bell.ears {
		ears = append(ears, e)
	}
	s.bell.mu.Unlock()
	for _, c := range cs {
		if c.Ready != "" {
			s.waiters.ready(c.Ready)
		}
		for _, e := range ears {
			e(c)
		}
	}
}

// Notify tells other replicas to look. It is a statement of its own, never part
// of a transition: NOTIFY inside one halves throughput. It does not wait for the
// disk, for which the transitions that come next would wait as well; a hint that a
// crash loses is lost with those who would have heard it.
func (s *Store) Notify(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, notifyStatement)
	return err
}

const notifyStatement = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('signalbox_changed', '')"

// Listen calls ear for every notification of another replica until ctx ends. It
// holds one connection. Hints may be lost; rows are not.
func (s *Store) Listen(ctx context.Context, ear func()) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "LISTEN signalbox_changed"); err != nil {
		return err
	}
	for {
		if _, err := conn.Conn().WaitForNotification(ctx); err != nil {
			return err
		}
		ear()
	}
}
