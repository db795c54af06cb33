package sandbox

import (
	"bytes"
	"encoding/binary"
	"fmt"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// seccompProgram builds the system call filter of a box as bubblewrap reads it.
// It denies with EPERM what a build has no use for and an escape has; the rest
// is allowed, because payloads are arbitrary programs.
func seccompProgram() ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	deny := seccomp.SyscallGroup{Action: seccomp.ActionErrno}
	for _, name := range deniedSyscalls() {
		// Names differ between architectures; what does not exist needs no rule.
		if _, ok := info.SyscallNames[name]; ok {
			deny.Names = append(deny.Names, name)
		}
	}
	conditional := seccomp.SyscallGroup{Action: seccomp.ActionErrno}
	onArg := func(name string, conds ...seccomp.Condition) {
		if _, ok := info.SyscallNames[name]; ok {
			conditional.NamesWithCondtions = append(conditional.NamesWithCondtions,
				seccomp.NameWithConditions{Name: name, Conditions: conds})
		}
	}
	for _, flag := range []uint64{
		unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWPID, unix.CLONE_NEWNET,
		unix.CLONE_NEWIPC, unix.CLONE_NEWUTS, unix.CLONE_NEWCGROUP,
	} {
		onArg("clone", seccomp.Condition{Argument: 0, Operation: seccomp.BitsSet, Value: flag})
	}
	// Everything but local, IPv4 and IPv6 sockets: VSOCK reaches the
	// hypervisor, ALG and NETLINK the kernel, and no network namespace helps.
	for _, name := range []string{"socket", "socketpair"} {
		onArg(name,
			seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: unix.AF_UNIX},
			seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: unix.AF_INET},
			seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: unix.AF_INET6},
		)
	}
	policy := seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{
			deny,
			conditional,
			// glibc falls back to clone, whose flags can be looked at.
			{Names: []string{"clone3"}, Action: seccomp.Action(uint32(seccomp.ActionErrno) | uint32(unix.ENOSYS))},
		},
	}
	insts, err := policy.Assemble()
	if err != nil {
		return nil, fmt.Errorf("assemble seccomp filter: %w", err)
	}
	head, err := headFilter(info)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(append(head, insts...))
	if err != nil {
		return nil, fmt.Errorf("encode seccomp filter: %w", err)
	}
	var buf bytes.Buffer
	for _, ins := range raw {
		// struct sock_filter { u16 code; u8 jt; u8 jf; u32 k; }
		_ = binary.Write(&buf, binary.NativeEndian, ins.Op)
		buf.WriteByte(ins.Jt)
		buf.WriteByte(ins.Jf)
		_ = binary.Write(&buf, binary.NativeEndian, ins.K)
	}
	return buf.Bytes(), nil
}

// headFilter comes before the library's program. The library lets calls of a
// foreign architecture (int 0x80 on amd64) through to its default action, which
// here would be "allow"; they end the process instead. And ioctl requests are
// compared by their low half, as the kernel reads them.
func headFilter(info *arch.Info) ([]bpf.Instruction, error) {
	ioctl, ok := info.SyscallNames["ioctl"]
	if !ok {
		return nil, fmt.Errorf("seccomp filter: no ioctl on %s", info.Name)
	}
	const (
		offNr, offArch, offArg1Low = 0, 4, 16 + 8 // little endian: low half first
	)
	errno := uint32(seccomp.ActionErrno) | uint32(unix.EPERM)
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionKillProcess)},
		bpf.LoadAbsolute{Off: offNr, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(ioctl), SkipTrue: 4},
		bpf.LoadAbsolute{Off: offArg1Low, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.TIOCLINUX, SkipTrue: 1},
		bpf.RetConstant{Val: errno},
	}, nil
}

// deniedSyscalls are refused whatever their arguments.
func deniedSyscalls() []string {
	return []string{
		// namespaces and mounts
		"unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree",
		"open_tree_attr", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
		// other processes
		"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd",
		// kernel surface with a record of escapes
		"keyctl", "add_key", "request_key", "io_uring_setup", "io_uring_enter", "io_uring_register",
		"bpf", "perf_event_open", "userfaultfd", "open_by_handle_at", "name_to_handle_at", "lookup_dcookie",
		"fanotify_init", "vmsplice",
		// the machine itself
		"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot",
		"swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "iopl", "ioperm", "settimeofday",
		"clock_settime", "clock_adjtime", "adjtimex", "syslog", "nfsservctl", "vhangup", "sethostname",
		"setdomainname", "uselib", "ustat", "sysfs", "_sysctl",
	}
}
