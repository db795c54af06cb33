package devmode

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

const maxPause = 30 * time.Second

// supervisor keeps the worker running: one that ends without being asked is started again, ever more slowly, because
// a run must not be lost to a person who tries what happens when its worker is killed.
type supervisor struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	last  error // of the newest worker, nil while it runs
	err   error // of stopping
	tries int
}

// supervise starts the worker and fails where the first one does not start at all.
func supervise(binary string, env []string, logPath string, log *slog.Logger) (*supervisor, error) {
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the worker's log: %w", err)
	}
	first, err := startChild(binary, env, out)
	if err != nil {
		out.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &supervisor{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer out.Close()
		s.keep(ctx, first, func() (*child, error) { return startChild(binary, env, out) }, log)
	}()
	return s, nil
}

func (s *supervisor) keep(ctx context.Context, c *child, start func() (*child, error), log *slog.Logger) {
	pause := time.Second
	for {
		began := time.Now()
		select {
		case <-ctx.Done():
			err := c.stop(stopGrace)
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
			return
		case <-c.exited:
		}
		log.Error("the worker ended and will be started again", "error", c.err, "pause", pause)
		s.mu.Lock()
		s.last, s.tries = fmt.Errorf("the worker ended: %w", orEnded(c.err)), s.tries+1
		s.mu.Unlock()
		for {
			if time.Since(began) > time.Minute {
				pause = time.Second
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, maxPause)
			next, err := start()
			if err == nil {
				c = next
				break
			}
			log.Error("the worker was not started", "error", err)
		}
	}
}

func orEnded(err error) error {
	if err == nil {
		return fmt.Errorf("exit status 0")
	}
	return err
}

// patience is how many ends in a row are taken for bad luck: after a kill the worker before may hold its folder for
// the time it needs to drain.
const patience = 3

// broken says that the worker does not stay up, with the end of its log.
func (s *supervisor) broken(logPath string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tries < patience {
		return nil
	}
	return fmt.Errorf("%w; the end of its log (%s):\n%s", s.last, logPath, tail(logPath))
}

func (s *supervisor) stop() error {
	s.cancel()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// tail is the end of a file in whole lines, at most 2 KiB.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 2 << 10
	if len(text) > most {
		text = text[len(text)-most:]
		if _, rest, ok := strings.Cut(string(text), "\n"); ok {
			return rest
		}
	}
	return string(text)
}
