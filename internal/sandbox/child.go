package sandbox

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// child is one running command as the worker sees it.
type child struct {
	mu     sync.Mutex
	proc   *os.Process
	pidfd  int // init's; -1 once closed
	group  *cgroup
	killed bool // by us
	waited bool // proc is gone
}

func (c *child) signal(sig unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd >= 0 {
		_ = unix.PidfdSendSignal(c.pidfd, sig, nil, 0)
	}
}

// kill ends init, and with it the namespace, then whatever is left of ours.
func (c *child) kill() {
	c.signal(unix.SIGKILL)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	if c.proc != nil && !c.waited {
		// A bubblewrap that dies while it starts leaves a child which has not
		// yet asked to die with it: hold it still, end its children, then it.
		if c.proc.Signal(unix.SIGSTOP) == nil {
			for _, pid := range childrenOf(c.proc.Pid) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		_ = c.proc.Kill()
	}
	if c.group != nil {
		c.group.kill()
	}
}

// reaped says that the process id may be somebody else's from now on.
func (c *child) reaped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited = true
}

// gone waits until init is gone; bubblewrap may be gone before it. The kernel
// lets the first process of a namespace end only after all the others.
func (c *child) gone() {
	c.mu.Lock()
	fd := c.pidfd
	c.mu.Unlock()
	if fd < 0 {
		return
	}
	deadline := time.Now().Add(drainTime)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(0, time.Until(deadline).Milliseconds())))
		if !errors.Is(err, unix.EINTR) || n > 0 {
			return
		}
	}
}

func (c *child) closePidfd() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
		c.pidfd = -1
	}
}

func (c *child) wasKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed
}

func (b *box) register(c *child) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errors.New("the box is closed")
	}
	if b.running == nil {
		b.running = map[*child]struct{}{}
	}
	b.running[c] = struct{}{}
	return nil
}

func (b *box) unregister(c *child) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, c)
}
