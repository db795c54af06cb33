// Package coalesce turns concurrent calls into few batches: group commit for
// whatever is cheaper done together. A batch begins as soon as a worker is free,
// so a lone call waits for nobody, and under load a batch holds what arrived while
// the one before was on its way.
//
// The package refuses to know what the calls are about, and to answer a call
// before its batch is done.
package coalesce

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// ErrClosed is the answer to a call after Close: it was not carried out.
var ErrClosed = errors.New("coalesce: closed")

// ErrFull is the answer to a call while too many wait already: it was not carried out.
var ErrFull = errors.New("coalesce: too many calls are waiting")

// PanicError is the answer to every call of a batch whose work panicked. What was done of it is unknown. Its text holds the
// stack, for a log.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Result answers one call of a batch.
type Result[Out any] struct {
	Out Out
	Err error
}

// Options bound a Group. Zero values have working defaults.
type Options struct {
	// Workers is how many batches may be on their way at once; 0 means 1.
	Workers int
	// Most is how many calls one batch holds at most; 0 means 100.
	Most int
	// Waiting is how many calls may wait for a batch; 0 means 10,000. One more is ErrFull.
	Waiting int
	// Batch is told how many calls each batch holds, before it is carried out; nil: nobody is. It must not block.
	Batch func(calls int)
}

// Group collects calls and carries them out in batches. Its methods are safe for
// concurrent use.
type Group[Key comparable, In, Out any] struct {
	options Options
	key     func(In) Key
	do      func(context.Context, []In) []Result[Out]

	mu      sync.Mutex
	closed  bool
	workers int
	waiting []*call[Key, In, Out]
	busy    map[Key]bool // keys of the batches that are on their way
	idle    sync.Cond
}

type call[Key comparable, In, Out any] struct {
	ctx  context.Context
	in   In
	key  Key
	done chan Result[Out]
}

// New makes a Group over do, which must answer every call of a batch, in order; one that panics, or that answers fewer or more,
// gives all of them a PanicError. Two calls of the same key are never on their way at once: the later one waits until the batch
// of the earlier one is done. Without a key function any calls may go together. do gets a context with the values of the batch's
// first call that never ends: what several wait for is not broken off by one of them.
func New[Key comparable, In, Out any](o Options, key func(In) Key, do func(context.Context, []In) []Result[Out]) *Group[Key, In, Out] {
	if o.Workers == 0 {
		o.Workers = 1
	}
	if o.Most == 0 {
		o.Most = 100
	}
	if o.Waiting == 0 {
		o.Waiting = 10_000
	}
	g := &Group[Key, In, Out]{options: o, key: key, do: do, busy: map[Key]bool{}}
	g.idle.L = &g.mu
	return g
}

// Do carries the call out as part of a batch and returns its own answer. When ctx
// ends while the call waits, it is taken back; when its batch is on its way
// already, the outcome is unknown to the caller, as with any broken connection.
func (g *Group[Key, In, Out]) Do(ctx context.Context, in In) (Out, error) {
	c := &call[Key, In, Out]{ctx: ctx, in: in, done: make(chan Result[Out], 1)}
	if g.key != nil {
		c.key = g.key(in)
	}
	if err := g.enter(c); err != nil {
		var none Out
		return none, err
	}
	select {
	case r := <-c.done:
		return r.Out, r.Err
	case <-ctx.Done():
		var none Out
		return none, ctx.Err()
	}
}

func (g *Group[Key, In, Out]) enter(c *call[Key, In, Out]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return ErrClosed
	case len(g.waiting) >= g.options.Waiting:
		return ErrFull
	}
	g.waiting = append(g.waiting, c)
	if g.workers < g.options.Workers {
		g.workers++
		go g.work()
	}
	return nil
}

// work carries out batches until none is left that may go.
func (g *Group[Key, In, Out]) work() {
	for {
		batch := g.take()
		if len(batch) == 0 {
			return
		}
		results, err := g.carryOut(batch)
		for i, c := range batch {
			if err != nil {
				c.done <- Result[Out]{Err: err}
				continue
			}
			c.done <- results[i]
		}
		g.release(batch)
	}
}

// carryOut makes a panic an error of this batch: others wait behind it, and the process has more to do.
func (g *Group[Key, In, Out]) carryOut(batch []*call[Key, In, Out]) (out []Result[Out], err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	in := make([]In, len(batch))
	for i, c := range batch {
		in[i] = c.in
	}
	if g.options.Batch != nil {
		g.options.Batch(len(batch))
	}
	out = g.do(context.WithoutCancel(batch[0].ctx), in)
	if len(out) != len(in) {
		panic(fmt.Sprintf("coalesce: %d answers to %d calls", len(out), len(in)))
	}
	return out, nil
}

// take removes the next batch from those waiting: the oldest calls first, none
// whose key is on its way, none whose caller has gone. With nothing to take the
// worker ends, under the same lock, so that no call is left behind.
func (g *Group[Key, In, Out]) take() []*call[Key, In, Out] {
	g.mu.Lock()
	defer g.mu.Unlock()
	var batch []*call[Key, In, Out]
	left := g.waiting[:0]
	for _, c := range g.waiting {
		switch {
		case c.ctx.Err() != nil:
		case len(batch) == g.options.Most || !g.reserve(c.key):
			left = append(left, c)
		default:
			batch = append(batch, c)
		}
	}
	clear(g.waiting[len(left):])
	g.waiting = left
	if len(batch) == 0 {
		g.workers--
		g.idle.Broadcast()
	}
	return batch
}

// reserve marks the key of a call as on its way, unless it is already.
func (g *Group[Key, In, Out]) reserve(k Key) bool {
	if g.key == nil {
		return true
	}
	if g.busy[k] {
		return false
	}
	g.busy[k] = true
	return true
}

// release frees the keys of a batch. Calls that waited for them are taken by the
// same worker, which looks again.
func (g *Group[Key, In, Out]) release(batch []*call[Key, In, Out]) {
	if g.key == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range batch {
		delete(g.busy, c.key)
	}
}

// Waiting is how many calls wait for their batch now.
func (g *Group[Key, In, Out]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// Close refuses further calls and returns when those that were accepted are
// carried out and answered.
func (g *Group[Key, In, Out]) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for g.workers > 0 {
		g.idle.Wait()
	}
}
