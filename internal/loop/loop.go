// Package loop runs one function again and again: at an interval, at once while there is more to do, and when woken.
//
// It owns time and nothing else. It refuses to know what the function does, to run it twice at once, and to stop
// because it failed. Whether one instance runs or ten must make no difference to correctness; that is the function's
// promise, not the loop's.
package loop

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"
)

// maxBackoff bounds the pause after failures; a shorter interval of the loop itself is kept until then.
const maxBackoff = 30 * time.Second

// Loop is a named, repeated piece of work. Its fields are set before Run and not changed after.
type Loop struct {
	// Name appears in the log.
	Name string
	// Every is the pause between two runs that found nothing to do; it varies by up to a tenth, so that replicas
	// started together drift apart. It must be positive.
	Every time.Duration
	// RunOnce does one batch and answers how many things it did. Above zero means that there may be more: it is called
	// again at once. It must return soon after ctx ends.
	RunOnce func(ctx context.Context) (int, error)
	// Log receives failures, nil for nothing.
	Log *slog.Logger
	// Ran is told of every run that was not broken off: how many things it did, how long it took, and its failure. Nil:
	// nobody is.
	Ran func(n int, took time.Duration, err error)

	once sync.Once
	wake chan struct{}
}

// Run works until ctx ends, beginning at once. A failure or a panic is logged and followed by a pause that doubles
// with each further failure, up to half a minute. It returns when no RunOnce is running any more.
func (l *Loop) Run(ctx context.Context) {
	log := l.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		n, err := l.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if l.Ran != nil {
			l.Ran(n, time.Since(began), err)
		}
		switch {
		case err != nil:
			failures++
			log.ErrorContext(ctx, "loop failed", "loop", l.Name, "failures", failures, "error", err)
		default:
			failures = 0
			if n > 0 {
				continue
			}
		}
		l.sleep(ctx, failures)
	}
}

// Wake asks for a run soon: at once when the loop is pausing, otherwise right after the run in progress. Waking often
// costs nothing; wakes between two runs are one. It never blocks and may be called before Run and from anywhere. It
// does not shorten the pause after a failure, or else a busy waker would defeat it.
func (l *Loop) Wake() {
	select {
	case l.bell() <- struct{}{}:
	default:
	}
}

func (l *Loop) bell() chan struct{} {
	l.once.Do(func() { l.wake = make(chan struct{}, 1) })
	return l.wake
}

func (l *Loop) sleep(ctx context.Context, failures int) {
	bell := l.bell()
	if failures > 0 {
		bell = nil
	}
	timer := time.NewTimer(jitter(l.pause(failures)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-bell:
	}
}

func (l *Loop) pause(failures int) time.Duration {
	d := l.Every
	for range failures {
		if d >= maxBackoff {
			break
		}
		d = min(2*d, maxBackoff)
	}
	return d
}

// runOnce turns a panic into an error: one bad row must not end the loop for all the others.
func (l *Loop) runOnce(ctx context.Context) (n int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return l.RunOnce(ctx)
}

// jitter varies d by up to a tenth either way.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}
