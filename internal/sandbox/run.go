package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	defaultGrace = 5 * time.Second
	// drainTime bounds how long a leaked pipe may hold up the end.
	drainTime = 2 * time.Second
	// receiverTime bounds how long the caller's writers may hold up the end.
	receiverTime = time.Minute
	// startTime bounds how long a box may take before the payload runs.
	startTime   = time.Minute
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"
)

func (b *box) Run(ctx context.Context, cmd Command) (Result, error) {
	if len(cmd.Argv) == 0 || cmd.Argv[0] == "" {
		return Result{}, errors.New("run in sandbox: empty command")
	}
	if err := ctx.Err(); err != nil {
		return Result{ExitCode: -1, Cancelled: true, Detail: "cancelled before it started"}, nil
	}
	if cmd.Grace <= 0 {
		cmd.Grace = defaultGrace
	}
	type outcome struct {
		res Result
		err error
	}
	done := make(chan outcome, 1)
	// The parent-death signal follows the thread, not the process: this
	// goroutine keeps its thread until the command has been waited for, and
	// gives the thread up with itself.
	go func() {
		runtime.LockOSThread()
		res, err := b.runLocked(ctx, cmd)
		done <- outcome{res, err}
		runtime.UnlockOSThread()
	}()
	out := <-done
	if out.err != nil {
		return out.res, fmt.Errorf("run %s in sandbox: %w", cmd.Argv[0], out.err)
	}
	return out.res, nil
}

func (b *box) runLocked(ctx context.Context, cmd Command) (res Result, err error) {
	s := &session{box: b, cmd: cmd, child: &child{pidfd: -1}}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := b.register(s.child); err != nil {
		return Result{}, err
	}
	// Until the payload runs nobody watches the time but these two.
	release := context.AfterFunc(ctx, s.child.kill)
	late := time.AfterFunc(startTime, s.child.kill)
	err = s.start(func() { release() })
	late.Stop()
	release()
	switch {
	case err != nil && ctx.Err() != nil:
		return Result{ExitCode: -1, Cancelled: true, Duration: time.Since(s.started), Detail: "cancelled while it started"}, nil
	case err != nil:
		return Result{}, err
	}
	return s.wait(ctx)
}

// session holds what one Run has to give back.
type session struct {
	box     *box
	cmd     Command
	child   *child
	exec    *exec.Cmd
	group   *cgroup
	files   []*os.File // ours, closed at the end
	status  *json.Decoder
	statusR *os.File
	streams []*stream
	early   *headWriter // first bytes of stderr: bubblewrap's own complaint
	meter   *meter
	started time.Time
}

func (s *session) pipe() (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err == nil {
		s.files = append(s.files, r, w)
	}
	return r, w, err
}

// start makes init and tells it what to run. It calls ready just before the telling: from then on there is a payload, which
// a cancel asks to end before anything kills it.
func (s *session) start(ready func()) error {
	b := s.box
	s.meter = &meter{limit: b.spec.Limits.Output}
	s.early = &headWriter{max: 4096}
	s.group = newCgroup(b.host.cgroups, cgroupPrefix+rand.Text()[:16], b.spec.Limits)
	s.child.group = s.group

	stdout, stderr, err := s.outputs()
	if err != nil {
		return err
	}
	reportW, err := s.stream(s.cmd.Report)
	if err != nil {
		return err
	}
	specR, specW, err := s.pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	statusR, statusW, err := s.pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	s.statusR = statusR
	s.status = json.NewDecoder(io.LimitReader(statusR, 64<<10))
	extra := []*os.File{reportW, specR, statusW}

	var jsonR *os.File
	if b.Tier() == TierBwrap {
		if s.exec, jsonR, extra, err = s.bwrapCommand(extra); err != nil {
			return err
		}
	} else {
		s.exec = exec.Command(b.host.init, initArg)
		s.exec.Dir = b.spec.Workspace
		s.exec.SysProcAttr = &syscall.SysProcAttr{
			Setsid: true, Pdeathsig: syscall.SIGTERM, Credential: b.credential(),
		}
	}
	s.exec.Env = []string{"GOMAXPROCS=1"}
	s.exec.ExtraFiles = extra
	s.exec.Stdin = s.cmd.Stdin
	s.exec.Stdout, s.exec.Stderr = stdout, stderr
	s.exec.WaitDelay = drainTime

	s.started = time.Now()
	if err := s.exec.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	s.child.mu.Lock()
	s.child.proc = s.exec.Process
	s.child.mu.Unlock()
	// Only the children's ends are theirs now; ours must not keep them open.
	for _, f := range append(extra, stdout, stderr) {
		f.Close()
	}
	if err := s.adopt(jsonR); err != nil {
		return s.abort(err)
	}
	ready()
	if err := s.send(specW); err != nil {
		return s.abort(err)
	}
	return nil
}

// adopt learns init's process id, holds on to it by descriptor and puts it in
// its control groups, all before init is told what to run.
func (s *session) adopt(jsonR *os.File) error {
	pid := s.exec.Process.Pid
	if err := s.group.add(pid); err != nil {
		return err
	}
	if jsonR != nil {
		var st struct {
			ChildPID int `json:"child-pid"`
		}
		if err := json.NewDecoder(jsonR).Decode(&st); err != nil || st.ChildPID == 0 {
			return errors.New("bubblewrap did not start")
		}
		pid = st.ChildPID
		if err := s.group.add(pid); err != nil {
			return err
		}
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("hold on to init: %w", err)
	}
	s.child.mu.Lock()
	s.child.pidfd = fd
	s.child.mu.Unlock()
	return nil
}

func (s *session) send(specW *os.File) error {
	b := s.box
	spec := initSpec{
		Argv:      s.cmd.Argv,
		Env:       b.environment(s.cmd.Env),
		Dir:       b.workDir(s.cmd.Dir),
		Report:    s.cmd.Report != nil,
		Namespace: b.Tier() == TierBwrap,
		Limits:    b.spec.Limits,
		DataLimit: !s.group.hasMemory,
	}
	if err := json.NewEncoder(specW).Encode(spec); err != nil {
		return fmt.Errorf("tell init the command: %w", err)
	}
	if err := specW.Close(); err != nil {
		return fmt.Errorf("tell init the command: %w", err)
	}
	return nil
}

// abort kills a half-started command and adds what it complained about.
func (s *session) abort(cause error) error {
	s.child.kill()
	_ = s.exec.Wait()
	s.child.reaped()
	s.child.gone()
	if err := s.drain(); err != nil {
		return errors.Join(cause, err)
	}
	return s.complaint(cause)
}

// complaint adds what was said on standard error to an error of the sandbox.
func (s *session) complaint(cause error) error {
	if said := strings.TrimSpace(s.early.String()); said != "" {
		return fmt.Errorf("%w: %s", cause, said)
	}
	return cause
}

// wait sees the command to its end, by itself or by force.
func (s *session) wait(ctx context.Context) (Result, error) {
	exited := make(chan struct{})
	stopped := make(chan stop, 1)
	go func() { stopped <- s.guard(ctx, exited) }()

	waitErr := s.exec.Wait()
	s.child.reaped()
	close(exited)
	how := <-stopped
	s.child.gone()
	s.child.closePidfd()

	res := Result{
		TimedOut: how.timedOut, Cancelled: how.cancelled, Killed: how.killed,
		Duration:  time.Since(s.started),
		OOMKilled: s.group.oomKilled(),
	}
	if s.box.Tier() == TierProcess && s.child.wasKilled() {
		// Before the streams are drained, for it may hold them.
		res.Leftovers = s.box.hunt(s.exec.Process.Pid)
	}
	drainErr := s.drain()
	res.OutputBytes, res.OutputDropped = s.meter.totals()

	end, statusErr := s.end()
	switch {
	case statusErr == nil:
		res.ExitCode, res.MaxRSS, res.Detail = end.ExitCode, end.MaxRSS, end.Detail
		res.Leftovers += end.Leftovers
		res.CPU = time.Duration(end.CPUMicros) * time.Microsecond
		if end.Signal != 0 {
			res.ExitCode, res.Signal = -1, syscall.Signal(end.Signal).String()
		}
	case s.child.wasKilled(), res.OOMKilled:
		res.ExitCode, res.Signal = -1, unix.SIGKILL.String()
	default:
		s.child.kill()
		if s.box.Tier() == TierProcess {
			s.box.hunt(s.exec.Process.Pid)
		}
		return res, s.complaint(fmt.Errorf("init ended without a result (%w, %v)", statusErr, waitErr))
	}
	return res, drainErr
}

// end reads what init says about the payload's end.
func (s *session) end() (initStatus, error) {
	if err := s.statusR.SetReadDeadline(time.Now().Add(drainTime)); err != nil {
		return initStatus{}, err
	}
	var st initStatus
	err := s.status.Decode(&st)
	return st, err
}

type stop struct{ timedOut, cancelled, killed bool }

// guard ends the command when its time or its context is over: TERM to the
// payload's group through init, then KILL of everything.
func (s *session) guard(ctx context.Context, exited <-chan struct{}) (how stop) {
	var timeout <-chan time.Time
	if s.cmd.Timeout > 0 {
		t := time.NewTimer(s.cmd.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-exited:
		return how
	case <-timeout:
		how.timedOut = true
	case <-ctx.Done():
		how.cancelled = true
	}
	s.child.signal(unix.SIGTERM)
	grace := time.NewTimer(s.cmd.Grace)
	defer grace.Stop()
	select {
	case <-exited:
	case <-grace.C:
		how.killed = true
		s.child.kill()
	}
	return how
}

func (s *session) close() error {
	s.child.closePidfd()
	s.box.unregister(s.child)
	for _, f := range s.files {
		f.Close()
	}
	if s.group != nil {
		return s.group.remove()
	}
	return nil
}

// workDir picks and translates the working directory.
func (b *box) workDir(dir string) string {
	if dir == "" {
		dir = WorkspaceDir
		if st, err := os.Lstat(filepath.Join(b.spec.Workspace, "repo")); err == nil && st.IsDir() {
			dir = RepoDir
		}
	}
	return b.Path(dir)
}

// environment is all the payload sees: a small default, the box's, the
// command's; nothing of the worker's own.
func (b *box) environment(extra map[string]string) []string {
	env := map[string]string{
		"PATH": defaultPath, "HOME": b.Path(HomeDir), "TMPDIR": "/tmp",
		"LANG": "C.UTF-8", "USER": "agent", "LOGNAME": "agent", "SIGNALBOX_WORKSPACE": b.Path(WorkspaceDir),
	}
	for _, m := range []map[string]string{b.spec.Env, extra} {
		for k, v := range m {
			env[k] = b.translate(v)
		}
	}
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}
