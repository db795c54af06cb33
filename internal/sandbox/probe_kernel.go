package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func probeNetwork() []attempt {
	dial := func(name, network string, addr func(probeTarget) string) attempt {
		return attempt{name, func(t probeTarget) error {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, addr(t))
			if err != nil {
				return err
			}
			return conn.Close()
		}}
	}
	fixed := func(addr string) func(probeTarget) string { return func(probeTarget) string { return addr } }
	socket := func(name string, family, kind, proto int) attempt {
		return attempt{name, func(probeTarget) error {
			fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, proto)
			if err != nil {
				return err
			}
			unix.Close(fd)
			return nil
		}}
	}
	return []attempt{
		dial("connect to the host's loopback", "tcp", func(t probeTarget) string { return t.TCPAddr }),
		// A datagram socket "connects" where there is a route and sends nothing:
		// looking for a way out must not itself talk to strangers.
		dial("find a route to the internet", "udp4", fixed("192.0.2.1:443")),
		dial("find a route by IPv6", "udp6", fixed("[2001:db8::1]:443")),
		dial("find a route to the cloud metadata service", "udp4", fixed("169.254.169.254:80")),
		dial("connect to an abstract socket of the host", "unix", func(t probeTarget) string { return "@" + t.Abstract }),
		dial("connect to a socket file of the host", "unix", func(t probeTarget) string { return t.UnixPath }),
		dial("connect to the docker socket", "unix", fixed("/var/run/docker.sock")),
		{"connect by MPTCP", func(t probeTarget) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			_, port, _ := net.SplitHostPort(t.TCPAddr)
			n, _ := strconv.Atoi(port)
			return unix.Connect(fd, &unix.SockaddrInet4{Port: n, Addr: [4]byte{127, 0, 0, 1}})
		}},
		socket("open a VSOCK socket", unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		socket("open a NETLINK socket", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE),
		socket("open a PACKET socket", unix.AF_PACKET, unix.SOCK_RAW, 0),
		socket("open an ALG socket", unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		socket("open an XDP socket", unix.AF_XDP, unix.SOCK_RAW, 0),
		socket("open a raw IPv4 socket", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		{"see a network interface", func(probeTarget) error {
			raw, err := os.ReadFile("/proc/net/dev")
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(raw)) {
				name, _, ok := strings.Cut(line, ":")
				if !ok {
					continue
				}
				switch name = strings.TrimSpace(name); name {
				case "lo":
				case "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0":
					// Fallback tunnels of every fresh namespace; they are down.
				default:
					return reached("interface %s", name)
				}
			}
			return errors.New("loopback only")
		}},
	}
}

func probeKernel() []attempt {
	const none = -1 // no such process or descriptor: harmless if reached
	return append([]attempt{
		call("make a user namespace", unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		call("make a mount namespace", unix.SYS_UNSHARE, unix.CLONE_NEWNS),
		call("make a network namespace", unix.SYS_UNSHARE, unix.CLONE_NEWNET),
		call("enter a namespace", unix.SYS_SETNS, none, 0),
		{"fork into a user namespace", func(probeTarget) error {
			pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{
				Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER},
			})
			if err != nil {
				return err
			}
			_, _ = unix.Wait4(pid, nil, 0, nil)
			return nil
		}},
		call("fork by clone3, whose flags no filter sees", unix.SYS_CLONE3, 0, 0),
		call("mount a file system", unix.SYS_MOUNT, "none", "/tmp", "tmpfs", 0, 0),
		call("remount /usr writable", unix.SYS_MOUNT, "none", "/usr", 0, unix.MS_REMOUNT|unix.MS_BIND, 0),
		call("unmount /proc/sys", unix.SYS_UMOUNT2, "/proc/sys", unix.MNT_DETACH),
		call("pivot the root", unix.SYS_PIVOT_ROOT, "/tmp", "/tmp"),
		call("change the root", unix.SYS_CHROOT, "/tmp"),
		call("open a mount tree", unix.SYS_OPEN_TREE, none, "/", 1),
		call("move a mount", unix.SYS_MOVE_MOUNT, none, "/", none, "/tmp", 0),
		call("open a file system by the new interface", unix.SYS_FSOPEN, "tmpfs", 0),
		call("change mount attributes", unix.SYS_MOUNT_SETATTR, none, "/", 0, 0, 0),
		call("trace a process", unix.SYS_PTRACE, unix.PTRACE_SEIZE, none, 0, 0),
		call("read another process's memory", unix.SYS_PROCESS_VM_READV, 1, 0, 0, 0, 0, 0),
		call("write another process's memory", unix.SYS_PROCESS_VM_WRITEV, 1, 0, 0, 0, 0, 0),
		call("take another process's descriptor", unix.SYS_PIDFD_GETFD, none, 0, 0),
		call("use kernel keyrings", unix.SYS_KEYCTL, 0, -4, 0),
		call("add a kernel key", unix.SYS_ADD_KEY, "user", "probe", "x", 1, none),
		call("set up io_uring", unix.SYS_IO_URING_SETUP, 1, 0),
		call("open a performance counter", unix.SYS_PERF_EVENT_OPEN, 0, 0, none, none, 0),
		call("load a BPF program", unix.SYS_BPF, 5, 0, 0),
		call("handle page faults", unix.SYS_USERFAULTFD, 0),
		call("open a file by handle", unix.SYS_OPEN_BY_HANDLE_AT, none, 0, 0),
		call("load a kernel module", unix.SYS_FINIT_MODULE, none, "", 0),
		call("load a kernel", unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
		call("set the clock", unix.SYS_SETTIMEOFDAY, 0, 0),
		call("set the host name", unix.SYS_SETHOSTNAME, "probe", 5),
		call("read the kernel log by call", unix.SYS_SYSLOG, 10, 0, 0),
		call("push input into a terminal", unix.SYS_IOCTL, 0, unix.TIOCSTI, "x"),
		call("push input with high bits set", unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, "x"),
		call("use the console's selection", unix.SYS_IOCTL, 0, unix.TIOCLINUX, "\x02"),
	}, archAttempts()...)
}

// archAttempts are about second system call tables.
func archAttempts() []attempt {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	return []attempt{
		call("use the x32 system call table", unix.SYS_GETPID|0x40000000),
		{"use the i386 system call table", func(probeTarget) error {
			path := "/tmp/signalbox-probe-i386-" + strconv.Itoa(os.Getpid())
			if err := os.WriteFile(path, exit7i386(), 0o700); err != nil {
				return reached("the program cannot be written: %v", err)
			}
			defer os.Remove(path)
			err := exec.Command(path).Run()
			if ee, ok := errors.AsType[*exec.ExitError](err); ok && ee.ExitCode() == 7 {
				return reached("a 32-bit program ran")
			}
			return err
		}},
	}
}

// exit7i386 is the smallest 32-bit program: exit(7) through int 0x80.
func exit7i386() []byte {
	const base = 0x08048000
	code := []byte{0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80}
	le32 := func(v uint32) []byte { return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)} }
	le16 := func(v uint16) []byte { return []byte{byte(v), byte(v >> 8)} }
	var b []byte
	add := func(parts ...[]byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
	}
	const head = 52 + 32
	add([]byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	add(le16(2), le16(3), le32(1), le32(base+head), le32(52), le32(0), le32(0))
	add(le16(52), le16(32), le16(1), le16(0), le16(0), le16(0))
	size := uint32(head + len(code))
	add(le32(1), le32(0), le32(base), le32(base), le32(size), le32(size), le32(5), le32(0x1000))
	return append(b, code...)
}

func probeProcesses() []attempt {
	return []attempt{
		{"see host processes", func(probeTarget) error {
			for _, pid := range append(allPIDs(), 1) {
				raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if err == nil && len(raw) > 0 && !strings.Contains(string(raw), initArg) {
					return reached("process %d is %.60q", pid, raw)
				}
			}
			return errors.New("only the box's own")
		}},
		{"signal the worker", func(t probeTarget) error {
			if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", t.WorkerPID)); err == nil && strings.Contains(string(raw), initArg) {
				return errors.New("that number is the box's own")
			}
			return unix.Kill(t.WorkerPID, 0)
		}},
		{"read the worker's variables", func(t probeTarget) error {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
			if err == nil && len(raw) == 0 {
				return errors.New("empty")
			}
			return err
		}},
		{"open init's descriptors", func(probeTarget) error {
			_, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", os.Getppid()))
			return err
		}},
		{"write init's memory", func(probeTarget) error {
			f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", os.Getppid()), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			return f.Close()
		}},
		{"change init's priority of being killed", func(probeTarget) error {
			f, err := os.OpenFile(fmt.Sprintf("/proc/%d/oom_score_adj", os.Getppid()), os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			return f.Close()
		}},
	}
}
