package interleave

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Session is something that goes through its own gate. Its first request is its first step.
type Session struct {
	Name string
	Gate *Gate
	Do   func(ctx context.Context)
}

// Explorer says which orders are tried.
type Explorer struct {
	// Watch is a connection past the gates, of somebody who sees every lock of the database.
	Watch *pgx.Conn
	// Preemptions is how often a session that could go on may be interrupted; negative: any number.
	Preemptions int
	// Most bounds how many orders are tried; 0 is no bound. Where it is reached, the test says so.
	Most int
}

// Explored counts what was tried.
type Explored struct {
	Orders int
	Steps  int // of the longest order
	// Waited counts orders in which a session waited for another's lock.
	Waited int
	// Cut says that the bound was reached.
	Cut bool
}

// choice is one moment of an order: who could go, who went before, who went.
type choice struct {
	able      []int
	last, now int
}

func (c choice) preempts(next int) int {
	if next != c.last && slices.Contains(c.able, c.last) {
		return 1
	}
	return 0
}

// Run tries every order within the bounds. set makes a fresh situation and its sessions; check looks at how it ended.
// order names the sessions in the order of their steps.
func (e Explorer) Run(t testing.TB, set func() []Session, check func(order string)) Explored {
	t.Helper()
	var out Explored
	todo := [][]int{nil}
	for len(todo) > 0 && !t.Failed() {
		if e.Most > 0 && out.Orders >= e.Most {
			out.Cut = true
			break
		}
		prefix := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		sessions := set()
		trace, waited := e.once(t, sessions, prefix)
		out.Orders++
		out.Steps = max(out.Steps, len(trace))
		if waited {
			out.Waited++
		}
		check(words(sessions, trace))
		todo = append(todo, e.others(trace, len(prefix))...)
	}
	return out
}

// others are the orders that part from this one after the given number of steps.
func (e Explorer) others(trace []choice, from int) [][]int {
	var out [][]int
	spent := 0
	for i, c := range trace {
		if i >= from {
			for _, next := range c.able {
				if next == c.now || e.Preemptions >= 0 && spent+c.preempts(next) > e.Preemptions {
					continue
				}
				prefix := make([]int, 0, i+1)
				for _, before := range trace[:i] {
					prefix = append(prefix, before.now)
				}
				out = append(out, append(prefix, next))
			}
		}
		spent += c.preempts(c.now)
	}
	return out
}

func words(sessions []Session, trace []choice) string {
	var b strings.Builder
	for i, c := range trace {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(sessions[c.now].Name)
	}
	return b.String()
}

// state of a session.
type state int

const (
	runs  state = iota // its request is with the server, or its code goes on
	stays              // at its gate
	ended
)

// order is one execution.
type order struct {
	mu     sync.Mutex
	states []state
	gos    []chan struct{}
	free   chan struct{} // closed when the order is over, whatever happened
	news   chan struct{}
}

func (o *order) set(n int, s state) {
	o.mu.Lock()
	o.states[n] = s
	o.mu.Unlock()
	select {
	case o.news <- struct{}{}:
	default:
	}
}

// at lists the sessions in a state.
func (o *order) at(s state) (out []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n, x := range o.states {
		if x == s {
			out = append(out, n)
		}
	}
	return out
}

func (e Explorer) once(t testing.TB, sessions []Session, prefix []int) (trace []choice, waited bool) {
	t.Helper()
	o := &order{states: make([]state, len(sessions)), news: make(chan struct{}, 1), free: make(chan struct{})}
	// All of them before the first session moves: its gate reads the list.
	for range sessions {
		o.gos = append(o.gos, make(chan struct{}))
	}
	var wg sync.WaitGroup
	for n, s := range sessions {
		s.Gate.set(func() {
			o.set(n, stays)
			select {
			case <-o.gos[n]:
			case <-o.free:
			}
		})
		wg.Go(func() {
			s.Do(t.Context())
			o.set(n, ended)
		})
	}
	defer func() {
		for _, s := range sessions {
			s.Gate.set(nil)
		}
		close(o.free)
		wg.Wait()
	}()
	last := -1
	for began := time.Now(); ; {
		blocked := e.still(t, o)
		waited = waited || blocked
		able := o.at(stays)
		if len(able) == 0 {
			if len(o.at(ended)) == len(sessions) {
				return trace, waited
			}
			if time.Since(began) > time.Minute {
				t.Fatal("interleave: everybody waits for a lock, for a minute")
			}
			continue // the server resolves that
		}
		c := choice{able: able, last: last, now: able[0]}
		switch {
		case len(trace) < len(prefix) && slices.Contains(able, prefix[len(trace)]):
			c.now = prefix[len(trace)]
		case slices.Contains(able, last):
			c.now = last
		}
		trace, last = append(trace, c), c.now
		o.set(c.now, runs)
		o.gos[c.now] <- struct{}{}
	}
}

// still returns when nothing moves any more, and whether somebody waits for a lock.
func (e Explorer) still(t testing.TB, o *order) bool {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		running := len(o.at(runs))
		if running == 0 {
			return false
		}
		select {
		case <-o.news:
			continue
		case <-look.C:
		case <-limit.C:
			t.Fatal("interleave: nothing moves and nobody waits for a lock")
		}
		var waiting int
		if err := e.Watch.QueryRow(context.WithoutCancel(t.Context()), `SELECT count(DISTINCT l.pid) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE NOT l.granted AND a.datname = current_database()`).Scan(&waiting); err != nil {
			t.Fatalf("interleave: look at the locks: %v", err)
		}
		// Who moved while we looked is asked about again.
		if waiting > 0 && waiting == len(o.at(runs)) {
			return true
		}
	}
}
