package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSlot is the last slot, and with it the size of a worker's user range.
const maxSlot = 65535

// host is what boxes of one sandbox share: where init lies, who payloads are.
type host struct {
	opts     Options
	root     bool
	bwrap    string
	state    string
	ownState bool
	// rangeGiven says that the user range was chosen for this worker.
	rangeGiven bool
	lock       *os.File // held while this process is the state directory's only user
	init       string   // host path of the init binary, readable by payload users
	cgroups    []cgroupMount
}

func findBwrap(path string) (string, error) {
	if path == "" {
		path = "bwrap"
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return "", &UnavailableError{Tier: TierBwrap, Reason: "bubblewrap is not installed (apt-get install bubblewrap)"}
	}
	return found, nil
}

func (h *host) Tier() Tier { return h.opts.Tier }

func (h *host) User(slot int) (uid, gid uint32) {
	if !h.root {
		return uint32(os.Geteuid()), uint32(os.Getegid())
	}
	id := h.opts.UIDBase + uint32(slot)
	return id, id
}

// installInit makes the running executable available to payload users, because
// it is the init of every box. It is copied when a parent directory is closed
// to others (a clone in root's home, a test binary in a private temp folder).
func (h *host) installInit() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the running executable: %w", err)
	}
	uid, gid := h.User(0)
	if readable(self, uid, gid) == nil {
		h.init = self
		return nil
	}
	dst := filepath.Join(h.state, "init-"+rand.Text()[:12])
	if err := copyFile(dst, "/proc/self/exe"); err != nil {
		return fmt.Errorf("copy the sandbox init to %s: %w", dst, err)
	}
	if err := readable(dst, uid, gid); err != nil {
		return fmt.Errorf("sandbox state directory cannot be used: %w", err)
	}
	h.init = dst
	return nil
}

func copyFile(dst, src string) (err error) {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	// A child forked while the copy is open for writing would hold it open
	// until it executes, and starting the copy would fail with "text file busy".
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Chmod(0o755)
}

// tidy removes what a killed worker left in the state directory. It does so
// only as the directory's single user.
func (h *host) tidy() error {
	f, err := os.OpenFile(filepath.Join(h.state, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock sandbox state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return f.Close() // another worker uses it as well
	}
	h.lock = f
	if h.root && !h.ownState && h.rangeGiven {
		// Killed with its worker in the middle of starting, a bubblewrap can
		// stay behind; see child.kill.
		killUsers(h.opts.UIDBase, h.opts.UIDBase+maxSlot)
	}
	entries, err := os.ReadDir(h.state)
	if err != nil {
		return fmt.Errorf("tidy sandbox state directory: %w", err)
	}
	for _, e := range entries {
		for _, prefix := range []string{"box-", "init-", "probe-"} {
			if strings.HasPrefix(e.Name(), prefix) {
				if err := h.Remove(filepath.Join(h.state, e.Name())); err != nil {
					return fmt.Errorf("tidy sandbox state directory: %w", err)
				}
			}
		}
	}
	return nil
}

// readable says whether a user may read the path, and names the first parent
// that is in the way.
func readable(path string, uid, gid uint32) error {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", path, err)
	}
	parts := strings.Split(strings.TrimPrefix(resolved, "/"), "/")
	at := "/"
	for i := range parts {
		at = filepath.Join(at, parts[i])
		var st unix.Stat_t
		if err := unix.Stat(at, &st); err != nil {
			return fmt.Errorf("look at %s: %w", at, err)
		}
		isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
		need := uint32(0o4)
		if isDir {
			need = 0o1
			if i == len(parts)-1 {
				need = 0o5
			}
		}
		have := st.Mode & 0o7
		switch {
		case st.Uid == uid:
			have = st.Mode >> 6 & 0o7
		case st.Gid == gid:
			have = st.Mode >> 3 & 0o7
		}
		if uid != 0 && have&need != need {
			return fmt.Errorf("%s is closed to user %d by the mode %03o of %s", path, uid, st.Mode&0o777, at)
		}
	}
	return nil
}

func (h *host) Open(ctx context.Context, spec Spec) (Box, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open sandbox: %w", err)
	}
	if !filepath.IsAbs(spec.Workspace) || filepath.Clean(spec.Workspace) != spec.Workspace {
		return nil, fmt.Errorf("open sandbox: workspace %q is not a clean absolute path", spec.Workspace)
	}
	if spec.Slot < 0 || spec.Slot > maxSlot {
		return nil, fmt.Errorf("open sandbox: slot %d is outside 0..%d", spec.Slot, maxSlot)
	}
	uid, gid := h.User(spec.Slot)
	if uid == 0 {
		return nil, errors.New("open sandbox: a payload may never run as uid 0")
	}
	var st unix.Stat_t
	if err := unix.Lstat(spec.Workspace, &st); err != nil {
		return nil, fmt.Errorf("open sandbox: look at workspace: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, fmt.Errorf("open sandbox: workspace %s is not a directory", spec.Workspace)
	}
	if st.Uid != uid {
		return nil, fmt.Errorf("open sandbox: workspace %s belongs to uid %d, not to %d: Own was not called", spec.Workspace, st.Uid, uid)
	}
	if err := readable(spec.Workspace, uid, gid); err != nil {
		return nil, fmt.Errorf("open sandbox: %w", err)
	}
	for i, m := range spec.ReadOnly {
		if m.Inside == "" {
			spec.ReadOnly[i].Inside, m.Inside = m.Host, m.Host
		}
		if !filepath.IsAbs(m.Host) || !filepath.IsAbs(m.Inside) {
			return nil, fmt.Errorf("open sandbox: mount %s at %s needs absolute paths", m.Host, m.Inside)
		}
		if err := readable(m.Host, uid, gid); err != nil {
			return nil, fmt.Errorf("open sandbox: mount: %w", err)
		}
	}
	spec.Limits = spec.Limits.withDefaults()
	b := &box{host: h, spec: spec, uid: uid, gid: gid}
	dir, err := os.MkdirTemp(h.state, "box-")
	if err != nil {
		return nil, fmt.Errorf("open sandbox: make its directory: %w", err)
	}
	b.dir = dir
	if err := b.writeEtc(); err != nil {
		return nil, errors.Join(fmt.Errorf("open sandbox: write generated files: %w", err), os.RemoveAll(dir))
	}
	return b, nil
}

func (h *host) Close() error {
	if h.lock != nil {
		defer h.lock.Close()
	}
	if h.ownState {
		if err := os.RemoveAll(h.state); err != nil {
			return fmt.Errorf("remove sandbox state: %w", err)
		}
		return nil
	}
	if strings.HasPrefix(filepath.Base(h.init), "init-") && filepath.Dir(h.init) == h.state {
		if err := os.Remove(h.init); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove sandbox init: %w", err)
		}
	}
	return nil
}

// box is one open sandbox of either tier.
type box struct {
	host     *host
	spec     Spec
	uid, gid uint32
	dir      string

	mu      sync.Mutex
	closed  bool
	running map[*child]struct{}
}

func (b *box) Tier() Tier        { return b.host.opts.Tier }
func (b *box) Workspace() string { return b.spec.Workspace }

func (b *box) Path(inside string) string {
	if b.Tier() == TierBwrap {
		return inside
	}
	for _, m := range b.spec.ReadOnly {
		if rest, ok := below(inside, m.Inside); ok {
			return filepath.Join(m.Host, rest)
		}
	}
	if rest, ok := below(inside, WorkspaceDir); ok {
		return filepath.Join(b.spec.Workspace, rest)
	}
	return inside
}

func below(path, dir string) (rest string, ok bool) {
	if path == dir {
		return "", true
	}
	if rest, ok := strings.CutPrefix(path, dir+"/"); ok {
		return rest, true
	}
	return "", false
}

// translate maps inside paths in a variable's value: the whole of it, parts of
// a list (by colon or comma), what follows an equals sign or "file://".
func (b *box) translate(value string) string {
	if b.Tier() == TierBwrap || !strings.Contains(value, "/") {
		return value
	}
	var out strings.Builder
	for value != "" {
		end := strings.IndexAny(value, ":,=")
		part, sep := value, ""
		if end >= 0 {
			part, sep = value[:end], value[end:end+1]
			value = value[end+1:]
		} else {
			value = ""
		}
		if rest, ok := strings.CutPrefix(part, "///"); ok && strings.HasSuffix(out.String(), "file:") {
			out.WriteString("//")
			part = "/" + rest
		}
		out.WriteString(b.Path(part) + sep)
	}
	return out.String()
}

func (b *box) writeEtc() error {
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return err
	}
	files := map[string]string{
		"passwd":        fmt.Sprintf("agent:x:%d:%d:agent:%s:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", b.uid, b.gid, HomeDir),
		"group":         fmt.Sprintf("agent:x:%d:\nnogroup:x:65534:\n", b.gid),
		"hosts":         "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	}
	for name, content := range files {
		path := filepath.Join(b.dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
		// The umask of the worker must not decide what the payload can read.
		if err := os.Chmod(path, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (b *box) Close() error {
	b.mu.Lock()
	b.closed = true
	for c := range b.running {
		c.kill()
	}
	b.mu.Unlock()
	if b.Tier() == TierProcess && b.host.root {
		// The slot's user is nobody else's: what still runs as it is ours.
		killUser(b.uid)
	}
	if err := os.RemoveAll(b.dir); err != nil {
		return fmt.Errorf("close sandbox: %w", err)
	}
	return nil
}

// credential drops to the payload's user; nil when the worker is not root.
func (b *box) credential() *syscall.Credential {
	if !b.host.root {
		return nil
	}
	return &syscall.Credential{Uid: b.uid, Gid: b.gid, Groups: []uint32{}}
}
