package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probeTarget tells the attempts what to reach for on the host. It comes as an
// argument, because a hostile payload is assumed to know all of it.
type probeTarget struct {
	WorkerPID   int
	CanaryFile  string // on the host, readable by everybody
	TCPAddr     string // a listener on the host's loopback
	Abstract    string // name of an abstract unix socket on the host
	UnixPath    string // path of a unix socket on the host
	EnvAllowed  []string
	FileAllowed []int // descriptors that may be open
}

// attempt is one try to get out. It returns nil when it got through and an
// error, the kernel's answer, when it was blocked. Attempts are harmless when
// they succeed: they open and look, they do not write.
type attempt struct {
	name string
	try  func(t probeTarget) error
}

// reached wraps what an attempt saw when it was not blocked.
type reachedError struct{ what string }

func (e *reachedError) Error() string { return e.what }

func reached(format string, args ...any) error { return &reachedError{fmt.Sprintf(format, args...)} }

// probeMain runs inside the box. It writes the probes as JSON to the report
// descriptor.
func probeMain(args []string, log io.Writer) int {
	var t probeTarget
	if len(args) != 1 {
		fmt.Fprintln(log, "probe: one argument expected")
		return 2
	}
	if err := json.Unmarshal([]byte(args[0]), &t); err != nil {
		fmt.Fprintln(log, "probe:", err)
		return 2
	}
	// The worker looks at who owns this from outside.
	if err := os.WriteFile(probeMark, []byte("probe"), 0o600); err != nil {
		fmt.Fprintln(log, "probe:", err)
		return 2
	}
	var probes []Probe
	for _, group := range [][]attempt{
		probeIdentity(), probeFiles(), probeNetwork(), probeKernel(), probeProcesses(),
	} {
		for _, a := range group {
			probes = append(probes, runAttempt(a, t))
		}
	}
	if err := json.NewEncoder(os.NewFile(fdReport, "report")).Encode(probes); err != nil {
		fmt.Fprintln(log, "probe:", err)
		return 2
	}
	return 0
}

func runAttempt(a attempt, t probeTarget) Probe {
	err := a.try(t)
	if err == nil {
		return Probe{Name: a.name, Detail: "succeeded"}
	}
	if r, ok := errors.AsType[*reachedError](err); ok {
		return Probe{Name: a.name, Detail: r.what}
	}
	return Probe{Name: a.name, OK: true, Detail: err.Error()}
}

// call is an attempt by one raw system call. Only answers that mean "you may
// not" count as blocked; EINVAL or EFAULT mean that the kernel looked at it.
// Arguments are ints, or strings that are passed by address.
func call(name string, nr uintptr, a ...any) attempt {
	return attempt{name, func(probeTarget) error {
		var args [6]uintptr
		var keep [6]*byte
		for i, v := range a {
			switch v := v.(type) {
			case int:
				args[i] = uintptr(v)
			case string:
				keep[i] = unsafe.StringData(v + "\x00")
				args[i] = uintptr(unsafe.Pointer(keep[i]))
			}
		}
		_, _, errno := unix.RawSyscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5])
		runtime.KeepAlive(keep)
		return refusal(errno)
	}}
}

func refusal(errno unix.Errno) error {
	switch errno {
	case unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EAFNOSUPPORT:
		return errno
	case 0:
		return nil
	default:
		return reached("the kernel answered %v", errno)
	}
}

// opening is an attempt to open a path; it closes what it got.
func opening(name, path string, flags int) attempt {
	return attempt{name, func(probeTarget) error {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		unix.Close(fd)
		if flags&unix.O_CREAT != 0 {
			_ = unix.Unlink(path)
		}
		return nil
	}}
}

func probeIdentity() []attempt {
	return []attempt{
		{"be uid 0 inside", func(probeTarget) error {
			if os.Getuid() == 0 || os.Geteuid() == 0 || os.Getgid() == 0 || os.Getegid() == 0 {
				return nil
			}
			return fmt.Errorf("uid %d gid %d", os.Getuid(), os.Getgid())
		}},
		{"become uid 0", func(probeTarget) error { return syscallErr(unix.SYS_SETUID, 0) }},
		{"become gid 0", func(probeTarget) error { return syscallErr(unix.SYS_SETGID, 0) }},
		{"keep the worker's groups", func(probeTarget) error {
			groups, err := os.Getgroups()
			if err != nil {
				return reached("groups cannot be read: %v", err)
			}
			for _, g := range groups {
				if g != os.Getgid() && g != 65534 {
					return reached("groups %v", groups)
				}
			}
			return errors.New("no other groups")
		}},
		statusLine("hold effective capabilities", "CapEff:", "0000000000000000"),
		statusLine("hold permitted capabilities", "CapPrm:", "0000000000000000"),
		statusLine("hold bounding capabilities", "CapBnd:", "0000000000000000"),
		statusLine("gain privileges by exec", "NoNewPrivs:", "1"),
		statusLine("run without a system call filter", "Seccomp:", "2"),
		{"inherit variables", func(t probeTarget) error {
			allowed := map[string]bool{}
			for _, name := range t.EnvAllowed {
				allowed[name] = true
			}
			for _, kv := range os.Environ() {
				if name, _, _ := strings.Cut(kv, "="); !allowed[name] {
					return reached("variable %s came in", name)
				}
			}
			return errors.New("only what was asked for")
		}},
		{"inherit descriptors", func(t probeTarget) error {
			allowed := map[int]bool{}
			for _, fd := range t.FileAllowed {
				allowed[fd] = true
			}
			for fd := range 256 {
				// The runtime's own epoll descriptors are ours, and close on exec.
				flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				if err == nil && flags&unix.FD_CLOEXEC == 0 && !allowed[fd] {
					return reached("descriptor %d came in", fd)
				}
			}
			return errors.New("only what was asked for")
		}},
		{"raise a limit", func(probeTarget) error {
			var have unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NPROC, &have); err != nil {
				return reached("limit cannot be read: %v", err)
			}
			if have.Max == unix.RLIM_INFINITY {
				return reached("processes are not limited")
			}
			return unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: have.Max + 1, Max: have.Max + 1})
		}},
	}
}

// statusLine expects a value in /proc/self/status.
func statusLine(name, key, want string) attempt {
	return attempt{name, func(probeTarget) error {
		raw, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			return reached("status cannot be read: %v", err)
		}
		for line := range strings.Lines(string(raw)) {
			if rest, ok := strings.CutPrefix(line, key); ok {
				if got := strings.TrimSpace(rest); got != want {
					return reached("%s %s", key, got)
				}
				return fmt.Errorf("%s %s", key, want)
			}
		}
		return reached("no line %s", key)
	}}
}

func syscallErr(nr uintptr, arg uintptr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := unix.RawSyscall(nr, arg, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func probeFiles() []attempt {
	const write, read, create = unix.O_WRONLY, unix.O_RDONLY, unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	return []attempt{
		opening("create a file in /", "/signalbox-probe", create),
		opening("create a file in /usr", "/usr/signalbox-probe", create),
		opening("create a file in /usr/bin", "/usr/bin/signalbox-probe", create),
		opening("create a file in /etc", "/etc/signalbox-probe", create),
		opening("create a file in /dev", "/dev/signalbox-probe", create),
		opening("create a file in /run", "/run/signalbox-probe", create),
		opening("create a file in /run/signalbox", "/run/signalbox/signalbox-probe", create),
		opening("create a file in /var", "/var/signalbox-probe", create),
		opening("write the sandbox init", initInside, write),
		opening("write /etc/passwd", "/etc/passwd", write),
		opening("write /etc/hosts", "/etc/hosts", write),
		opening("write kernel core_pattern", "/proc/sys/kernel/core_pattern", write),
		opening("write kernel modprobe path", "/proc/sys/kernel/modprobe", write),
		opening("write drop_caches", "/proc/sys/vm/drop_caches", write),
		opening("write sysrq-trigger", "/proc/sysrq-trigger", write),
		opening("write own network settings", "/proc/sys/net/ipv4/ip_forward", write),
		opening("read /etc/shadow", "/etc/shadow", read),
		opening("read root's home", "/root", read),
		opening("read /home", "/home", read),
		opening("read /var/lib", "/var/lib", read),
		opening("read /sys", "/sys/kernel", read),
		opening("write control groups", "/sys/fs/cgroup", read),
		opening("read kernel memory", "/proc/kcore", read),
		opening("read the kernel log", "/proc/kmsg", read),
		opening("read physical memory", "/dev/mem", read),
		opening("read the kernel log device", "/dev/kmsg", read),
		opening("use the hypervisor device", "/dev/kvm", read),
		opening("use the fuse device", "/dev/fuse", read),
		opening("use the controlling terminal", "/dev/tty", unix.O_RDWR|unix.O_NOCTTY),
		{"read a host file", func(t probeTarget) error {
			_, err := os.ReadFile(t.CanaryFile)
			return err
		}},
		{"read a host file through the worker's root", func(t probeTarget) error {
			_, err := os.ReadFile(fmt.Sprintf("/proc/%d/root%s", t.WorkerPID, t.CanaryFile))
			return err
		}},
		{"read a host file through init's root", func(t probeTarget) error {
			_, err := os.ReadFile("/proc/1/root" + t.CanaryFile)
			return err
		}},
		{"make a disk device", func(probeTarget) error {
			for _, dir := range []string{"/tmp", "/workspace", "."} {
				path := dir + "/probe-disk"
				if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0))); err == nil {
					_ = unix.Unlink(path)
					return nil
				}
			}
			return unix.EPERM
		}},
		{"fill shared memory past its size", func(probeTarget) error {
			const path, size = "/dev/shm/signalbox-probe", 17 << 20
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			defer os.Remove(path)
			defer f.Close()
			_, err = f.Write(make([]byte, size))
			return err
		}},
	}
}
