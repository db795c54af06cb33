package e2e_test

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/e2e/rig"
)

// fault does one thing and returns shortly after; what undoes it may come later.
func (c *chaos) fault(ctx context.Context) {
	kinds := []struct {
		name   string
		weight int
		do     func(context.Context)
	}{
		{"kill a worker", 20, c.killWorker}, {"stop a worker", 18, c.stopWorker},
		{"kill a server", 14, c.killServer}, {"stop a server", 10, c.stopServer},
		{"crash Postgres", 6, c.crashPostgres}, {"cut connections", 16, c.cutConnections},
		{"repeat calls", 12, c.confuse(repeats)}, {"delay calls", 10, c.confuse(delays)}, {"lose answers", 10, c.confuse(loses)},
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := c.rng.IntN(total)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			c.counts[k.name]++
			k.do(ctx)
			break
		}
	}
	_ = pause(ctx, c.between(100, 700))
}

func (c *chaos) between(low, high int) time.Duration {
	return time.Duration(low+c.rng.IntN(high-low)) * time.Millisecond
}

// later undoes a fault after a while, beside what goes on.
func (c *chaos) later(ctx context.Context, after time.Duration, undo func()) {
	c.wg.Go(func() {
		_ = pause(ctx, after)
		undo()
	})
}

// killWorker kills a worker, which is started again at once: same folder, same identity.
func (c *chaos) killWorker(context.Context) {
	n := c.rng.IntN(len(c.workers))
	c.workers[n].Kill()
	c.workers[n] = c.workers[n].Again()
}

// stopWorker stops a worker in its tracks, at times for longer than its leases last.
func (c *chaos) stopWorker(ctx context.Context) {
	w := c.workers[c.rng.IntN(len(c.workers))]
	w.Pause()
	c.later(ctx, c.between(200, 5000), w.Continue)
}

func (c *chaos) killServer(context.Context) {
	s := c.servers[c.rng.IntN(len(c.servers))]
	s.Kill()
	s.Launch()
}

func (c *chaos) stopServer(ctx context.Context) {
	s := c.servers[c.rng.IntN(len(c.servers))]
	pid := s.PID()
	send(c, s, pid, syscall.SIGSTOP)
	c.later(ctx, c.between(200, 3000), func() { send(c, s, pid, syscall.SIGCONT) })
}

// send signals a server unless it was killed meanwhile.
func send(c *chaos, s *rig.Process, pid int, sig syscall.Signal) {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		c.t.Errorf("signal %s to a server: %v", sig, err)
	}
}

// crashPostgres stops it as a power cut does, and starts it again. A server that finds none at its start ends; it is
// started again, as whatever supervises it would.
func (c *chaos) crashPostgres(ctx context.Context) {
	if err := c.Cluster.Crash(); err != nil {
		c.t.Errorf("crash: %v", err)
	}
	_ = pause(ctx, c.between(0, 1500))
	if err := c.Cluster.Again(context.WithoutCancel(ctx)); err != nil {
		c.t.Errorf("start again: %v", err)
	}
	c.supervise()
}

// supervise starts what ended by itself.
func (c *chaos) supervise() {
	for _, s := range c.servers {
		select {
		case <-s.Exited():
			s.Launch()
		default:
		}
	}
	for i, w := range c.workers {
		select {
		case <-w.Exited():
			c.workers[i] = w.Again()
		default:
		}
	}
}

// cutConnections ends about half of the product's connections to Postgres.
func (c *chaos) cutConnections(ctx context.Context) {
	c.supervise()
	conn, err := pgx.Connect(ctx, c.Database.SuperuserURL(c.t))
	if err != nil {
		c.t.Errorf("cut connections: %v", err)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'signalbox' AND random() < 0.5`); err != nil {
		c.t.Errorf("cut connections: %v", err)
	}
}

// confuse makes the messenger unreliable for a while.
func (c *chaos) confuse(how trouble) func(context.Context) {
	return func(ctx context.Context) {
		c.messages.mode.Store(how)
		_ = pause(ctx, c.between(300, 900))
		c.messages.mode.Store(faithful)
	}
}
