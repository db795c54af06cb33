package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// initInside is where the init binary is mounted.
const initInside = "/run/signalbox/sandbox-init"

// bwrapCommand builds the bubblewrap process. Paths go through a descriptor,
// so that no host path shows in a process list.
func (s *session) bwrapCommand(extra []*os.File) (cmd *exec.Cmd, jsonR *os.File, files []*os.File, err error) {
	b := s.box
	filter, err := seccompProgram()
	if err != nil {
		return nil, nil, nil, err
	}
	seccompFile, err := s.memFile("seccomp", filter)
	if err != nil {
		return nil, nil, nil, err
	}
	jsonR, jsonW, err := s.pipe()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	first := 3 + len(extra)
	argsFD, seccompFD, jsonFD := first, first+1, first+2
	args := b.bwrapArgs(seccompFD, jsonFD)
	argsFile, err := s.memFile("args", []byte(strings.Join(args, "\x00")+"\x00"))
	if err != nil {
		return nil, nil, nil, err
	}
	cmd = exec.Command(b.host.bwrap, "--args", strconv.Itoa(argsFD), "--", initInside, initArg)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: b.credential(),
	}
	return cmd, jsonR, append(extra, argsFile, seccompFile, jsonW), nil
}

// bwrapArgs is the profile. Order matters: later mounts lie on earlier ones,
// and what is remounted read-only must be complete.
func (b *box) bwrapArgs(seccompFD, jsonFD int) []string {
	var a []string
	add := func(args ...string) { a = append(a, args...) }
	add("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL",
		"--die-with-parent", "--new-session", "--as-pid-1", "--hostname", "sandbox",
		"--clearenv", "--setenv", "GOMAXPROCS", "1")
	add("--ro-bind", "/usr", "/usr")
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		path := "/" + name
		st, err := os.Lstat(path)
		switch {
		case err != nil:
		case st.Mode()&os.ModeSymlink != 0:
			if target, err := os.Readlink(path); err == nil {
				add("--symlink", target, path)
			}
		case st.IsDir():
			add("--ro-bind", path, path)
		}
	}
	add("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
	add("--dev", "/dev", "--size", "16777216", "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
	add("--size", strconv.FormatInt(b.spec.Limits.TmpSize, 10), "--tmpfs", "/tmp")
	for _, name := range []string{"passwd", "group", "hosts", "nsswitch.conf"} {
		add("--ro-bind", filepath.Join(b.dir, name), "/etc/"+name)
	}
	// What programs of the read-only system need to find themselves.
	for _, path := range []string{"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types"} {
		add("--ro-bind-try", path, path)
	}
	add("--ro-bind", b.host.init, initInside)
	add("--bind", b.spec.Workspace, WorkspaceDir, "--chdir", WorkspaceDir)
	// After the workspace, because a mount may lie inside it.
	for _, m := range b.spec.ReadOnly {
		add("--ro-bind", m.Host, m.Inside)
	}
	add("--remount-ro", "/", "--json-status-fd", strconv.Itoa(jsonFD), "--seccomp", strconv.Itoa(seccompFD))
	return a
}

// memFile is an unnamed file with content, positioned at its start.
func (s *session) memFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("signalbox-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make unnamed file: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	s.files = append(s.files, f)
	if _, err := bytes.NewReader(content).WriteTo(f); err != nil {
		return nil, fmt.Errorf("write unnamed file: %w", err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, fmt.Errorf("rewind unnamed file: %w", err)
	}
	return f, nil
}
