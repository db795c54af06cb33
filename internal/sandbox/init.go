package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// initArg is the hidden first argument that turns a binary into the init of a
// box. It is not a secret: started by hand it only waits for a descriptor.
const initArg = "__sandbox-init"

// Descriptors of init. The payload sees 0, 1, 2 and, where asked for, 3.
const (
	fdReport = 3 + iota
	fdSpec
	fdStatus
)

// initSpec is what the worker tells init through fdSpec.
type initSpec struct {
	Argv      []string
	Env       []string
	Dir       string
	Report    bool
	Namespace bool // init is process 1 of its own namespace
	Limits    Limits
	DataLimit bool // bound Memory by RLIMIT_DATA: there is no control group
}

// initStatus is what init tells the worker through fdStatus at the end.
type initStatus struct {
	ExitCode  int    `json:",omitempty"`
	Signal    int    `json:",omitempty"`
	CPUMicros int64  `json:",omitempty"`
	MaxRSS    int64  `json:",omitempty"`
	Leftovers int    `json:",omitempty"`
	Detail    string `json:",omitempty"`
}

// InitMain must be the first call of main (and of TestMain) of every binary
// that opens boxes. It returns at once in a normal start. In a process that
// was started as the init of a box it never returns.
func InitMain() {
	if len(os.Args) < 2 || os.Args[1] != initArg {
		return
	}
	// Some properties (no_new_privs) belong to the thread that forks.
	runtime.LockOSThread()
	if len(os.Args) > 2 && os.Args[2] == probeArg {
		os.Exit(probeMain(os.Args[3:], os.Stdout))
	}
	os.Exit(superviseMain())
}

func superviseMain() int {
	// Same user as the payload: without this it could open init's descriptors
	// through /proc and forge its own result.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return initFail("make init undumpable", err)
	}
	for _, fd := range []int{fdReport, fdSpec, fdStatus} {
		unix.CloseOnExec(fd)
	}
	// Whatever else came in is nobody's business here.
	if err := unix.CloseRange(fdStatus+1, ^uint(0)>>1&0x7fffffff, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return initFail("close other descriptors", err)
	}
	worker := os.Getppid()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)

	specFile := os.NewFile(fdSpec, "spec")
	raw, err := io.ReadAll(specFile)
	if err != nil {
		return initFail("read command", err)
	}
	specFile.Close()
	var spec initSpec
	if err := json.Unmarshal(raw, &spec); err != nil {
		return initFail("parse command", err)
	}
	status := json.NewEncoder(os.NewFile(fdStatus, "status"))
	if !spec.Namespace {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return initFail("become subreaper", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return initFail("set no_new_privs", err)
	}
	path, code, err := lookPath(spec.Argv[0], spec.Env, spec.Dir)
	if err != nil {
		return finish(status, initStatus{ExitCode: code, Detail: err.Error()})
	}
	if err := setLimits(spec); err != nil {
		return initFail("set limits", err)
	}
	files := []uintptr{0, 1, 2}
	if spec.Report {
		files = append(files, fdReport)
	}
	attr := &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true}}
	if !spec.Namespace {
		attr.Sys.Pdeathsig = syscall.SIGKILL
	}
	pid, err := syscall.ForkExec(path, spec.Argv, attr)
	if err != nil {
		return finish(status, initStatus{ExitCode: 126, Detail: fmt.Sprintf("start %s: %v", path, err)})
	}
	syscall.Close(fdReport)
	if spec.DataLimit {
		// On the payload alone, for init could not live within it; what it gets
		// before this line is too little to matter.
		lim := &unix.Rlimit{Cur: uint64(spec.Limits.Memory), Max: uint64(spec.Limits.Memory)}
		if err := unix.Prlimit(pid, unix.RLIMIT_DATA, lim, nil); err != nil && !errors.Is(err, unix.ESRCH) {
			_ = unix.Kill(-pid, unix.SIGKILL)
			return initFail("limit memory", err)
		}
	}
	go func() {
		for range signals {
			if !spec.Namespace && os.Getppid() != worker {
				// Nobody is left who would follow TERM with KILL.
				for _, pid := range leftoverPIDs(false) {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
			// To the group, so that a shell's children hear it as well.
			_ = unix.Kill(-pid, unix.SIGTERM)
		}
	}()
	end := awaitPayload(pid)
	end.Leftovers = killLeftovers(spec.Namespace)
	return finish(status, end)
}

// awaitPayload reaps until the payload ends; orphans are reaped on the way.
func awaitPayload(pid int) initStatus {
	for {
		var ws unix.WaitStatus
		var ru unix.Rusage
		got, err := unix.Wait4(-1, &ws, unix.WALL, &ru)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return initStatus{ExitCode: 255, Detail: fmt.Sprintf("wait: %v", err)}
		}
		if got != pid || (!ws.Exited() && !ws.Signaled()) {
			continue
		}
		end := initStatus{
			ExitCode:  ws.ExitStatus(),
			CPUMicros: ru.Utime.Sec*1e6 + ru.Utime.Usec + ru.Stime.Sec*1e6 + ru.Stime.Usec,
			MaxRSS:    ru.Maxrss * 1024,
		}
		if ws.Signaled() {
			end.Signal = int(ws.Signal())
		}
		return end
	}
}

// killLeftovers ends what the payload left behind and says how many there were.
func killLeftovers(namespace bool) int {
	found := map[int]bool{}
	deadline := time.Now().Add(2 * time.Second)
	for time.Now().Before(deadline) {
		for _, pid := range leftoverPIDs(namespace) {
			found[pid] = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if namespace {
			_ = unix.Kill(-1, unix.SIGKILL)
		}
		for {
			var ws unix.WaitStatus
			pid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return len(found)
			}
			if err != nil || pid == 0 {
				break
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return len(found)
}

// leftoverPIDs lists live processes: all others in a namespace, else those
// that descend from init.
func leftoverPIDs(namespace bool) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	self := os.Getpid()
	parents := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == self {
			continue
		}
		state, ppid, ok := readStat(pid)
		if !ok {
			continue
		}
		if state == 'Z' || state == 'X' {
			continue
		}
		parents[pid] = ppid
	}
	var out []int
	for pid := range parents {
		if namespace || descends(pid, self, parents) {
			out = append(out, pid)
		}
	}
	return out
}

func descends(pid, ancestor int, parents map[int]int) bool {
	for range 64 {
		parent, ok := parents[pid]
		if !ok {
			return false
		}
		if parent == ancestor {
			return true
		}
		pid = parent
	}
	return false
}

// readStat reads state and parent from /proc/pid/stat; the name in it may hold
// spaces and brackets, so parsing starts after the last bracket.
func readStat(pid int) (state byte, ppid int, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	i := strings.LastIndexByte(string(raw), ')')
	if i < 0 {
		return 0, 0, false
	}
	fields := strings.Fields(string(raw[i+1:]))
	if len(fields) < 2 {
		return 0, 0, false
	}
	ppid, err = strconv.Atoi(fields[1])
	return fields[0][0], ppid, err == nil
}

func setLimits(spec initSpec) error {
	l := spec.Limits
	limits := []struct {
		what  int
		value uint64
	}{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_CPU, max(1, uint64(l.CPU/time.Second))},
		{unix.RLIMIT_FSIZE, uint64(l.FileSize)},
		{unix.RLIMIT_NOFILE, uint64(l.Files)},
		// Init's own threads are counted with the payload's.
		{unix.RLIMIT_NPROC, uint64(l.Procs) + 16},
	}
	for _, lim := range limits {
		var have syscall.Rlimit
		if err := syscall.Getrlimit(lim.what, &have); err != nil {
			return err
		}
		want := min(lim.value, have.Max)
		// Both, so that the payload cannot raise it again.
		if err := syscall.Setrlimit(lim.what, &syscall.Rlimit{Cur: want, Max: want}); err != nil {
			return fmt.Errorf("limit %d to %d: %w", lim.what, want, err)
		}
	}
	return nil
}

// lookPath finds an executable the way a shell does, in the payload's own PATH
// and with the shell's exit codes.
func lookPath(name string, env []string, dir string) (path string, code int, err error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return executable(name)
	}
	list := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			list = v
		}
	}
	for _, d := range filepath.SplitList(list) {
		if !filepath.IsAbs(d) {
			continue
		}
		if path, _, err := executable(filepath.Join(d, name)); err == nil {
			return path, 0, nil
		}
	}
	return "", 127, fmt.Errorf("%s: not found in PATH %s", name, list)
}

func executable(path string) (string, int, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", 127, fmt.Errorf("%s: not found", path)
	}
	if st.IsDir() || st.Mode()&0o111 == 0 {
		return "", 126, fmt.Errorf("%s: not executable", path)
	}
	return path, 0, nil
}

func finish(status *json.Encoder, end initStatus) int {
	if err := status.Encode(end); err != nil {
		return 254
	}
	return 0
}

func initFail(what string, err error) int {
	fmt.Fprintf(os.Stderr, "sandbox init: %s: %v\n", what, err)
	return 254
}
