package devmode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// workerBinary is the worker beside this program; it is never looked up in PATH, where another version may be.
func workerBinary() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's own folder: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", fmt.Errorf("find this program's own folder: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), "signalbox-worker")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("nothing was started: %s is missing, and without a worker no task would move; build both with: make build", path)
	}
	return path, nil
}

// child is the worker process. It leads its own group, so that a Ctrl-C reaches us alone and we stop it in order, and
// it is told to end when we die.
type child struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // set before exited is closed
}

// startChild starts a program; the goroutine keeps its thread, because the parent-death signal follows the thread.
func startChild(program string, env []string, out io.Writer) (*child, error) {
	cmd := exec.Command(program)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
	c := &child{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		c.err = cmd.Wait()
		close(c.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return c, nil
}

// stop asks it to drain and kills its group when that takes longer than grace.
func (c *child) stop(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := syscall.Kill(c.cmd.Process.Pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop the worker: %w", err)
	}
	select {
	case <-c.exited:
		return nil
	case <-ctx.Done():
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		<-c.exited
		return fmt.Errorf("the worker (pid %d) did not stop within %s and was killed; its leases run out by themselves", c.cmd.Process.Pid, grace)
	}
}
