package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one postmaster. It leads its own process group, so that a Ctrl-C at the terminal reaches us and not it,
// and it is killed by the kernel when we die.
type process struct {
	pid    int
	exited chan struct{}
	state  *os.ProcessState // set before exited is closed
	stop1  sync.Once
}

// startProcess starts it from a goroutine that keeps its thread until the process has ended: the kernel's parent-death
// signal follows the thread that forked, not the process, and Go ends threads as it likes.
func startProcess(program string, args []string, who identity, logPath string) (*process, error) {
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open its log: %w", err)
	}
	defer logFile.Close()
	if err := who.own(logPath); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.Env = cleanEnvironment()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential(), Setpgid: true}
	dieWithUs(cmd.SysProcAttr)

	p := &process{exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		_ = cmd.Wait()
		p.state = cmd.ProcessState
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// stop asks for a fast shutdown and kills the whole group when ctx ends first.
func (p *process) stop(ctx context.Context) error {
	var err error
	p.stop1.Do(func() {
		select {
		case <-p.exited:
			return
		default:
		}
		if e := syscall.Kill(p.pid, syscall.SIGINT); e != nil && e != syscall.ESRCH {
			err = fmt.Errorf("stop postgres (pid %d): %w", p.pid, e)
			return
		}
		select {
		case <-p.exited:
		case <-ctx.Done():
			_ = syscall.Kill(-p.pid, syscall.SIGKILL)
			<-p.exited
			err = fmt.Errorf("postgres (pid %d) did not stop in time and was killed; the next start recovers its data: %w", p.pid, ctx.Err())
		}
	})
	return err
}

// leaving is how long a server that nobody owns any more may take to end: when its starter was killed, it is shutting
// down at that moment and needs a checkpoint for it.
const leaving = 15 * time.Second

// awaitFolder returns when no server runs on the folder. One that belongs to a living program is refused at once; an
// orphan, whose starter was killed, is waited for.
func (s *Server) awaitFolder(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.refuseSecondServer()
		running, ok := errors.AsType[*runningError](err)
		if !ok || !s.isOrphan(running.pid) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// runningError says that a folder has a server.
type runningError struct {
	pid  int
	data string
}

func (e *runningError) Error() string {
	return fmt.Sprintf("postgres was not started: a server (pid %d) is already running on %s; stop it first, or use another folder", e.pid, e.data)
}

// isOrphan says whether the server has lost the program that started it. A server is always a direct child of its
// starter, whose process id it notes; an orphan's parent is whoever collects orphans on this system.
func (s *Server) isOrphan(pid int) bool {
	starter, err := os.ReadFile(s.starterFile())
	if err != nil {
		return true // killed before it could note itself
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true // it has just ended
	}
	// The name in parentheses may hold anything; the fields after the last one are: state, parent.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return len(fields) > 1 && fields[1] != strings.TrimSpace(string(starter))
}

// refuseSecondServer looks at postmaster.pid. A live server there is somebody else's; a file left behind by a kill is
// removed, because its process id may meanwhile belong to a stranger, on which Postgres itself would refuse to start.
func (s *Server) refuseSecondServer() error {
	path := filepath.Join(s.data(), "postmaster.pid")
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err == nil && pid > 0 && isPostgres(pid, s.data()) {
		return &runningError{pid: pid, data: s.data()}
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the stale %s: %w", path, err)
	}
	return nil
}

// isPostgres says whether pid is a living postmaster of this data folder, by its command line, where the system shows
// it, otherwise by its mere existence, which errs on the side of refusing.
func isPostgres(pid int, data string) bool {
	if err := syscall.Kill(pid, 0); err == syscall.ESRCH {
		return false
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		_, procErr := os.Stat("/proc/self/cmdline")
		return procErr != nil
	}
	return strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), data)
}
