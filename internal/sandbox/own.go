package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MakeLayout makes the folders of a workspace that a payload expects: home and
// input. The checkout in repo is the caller's. Call Own afterwards.
func MakeLayout(workspace string) error {
	for _, dir := range []string{workspace, filepath.Join(workspace, "home"), filepath.Join(workspace, "input")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("lay out workspace: %w", err)
		}
	}
	return nil
}

// Own walks by directory descriptors and never by path, so that a payload
// which swaps a directory for a link while we walk gains nothing.
func (h *host) Own(dir string, slot int) error {
	if err := sane(dir); err != nil {
		return fmt.Errorf("own workspace: %w", err)
	}
	if !h.root {
		return nil
	}
	uid, gid := h.User(slot)
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("own workspace: open %s: %w", dir, err)
	}
	root := os.NewFile(uintptr(fd), dir)
	defer root.Close()
	if err := ownTree(root, int(uid), int(gid)); err != nil {
		return fmt.Errorf("own workspace: %w", err)
	}
	return nil
}

func ownTree(dir *os.File, uid, gid int) error {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir.Name(), err)
	}
	for _, name := range names {
		if err := ownEntry(dir, name, uid, gid); err != nil {
			return err
		}
	}
	// Last, so that the payload's user cannot move things below us meanwhile.
	if err := unix.Fchown(int(dir.Fd()), uid, gid); err != nil {
		return fmt.Errorf("chown %s: %w", dir.Name(), err)
	}
	return nil
}

func ownEntry(dir *os.File, name string, uid, gid int) error {
	path := filepath.Join(dir.Name(), name)
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return fmt.Errorf("look at %s: %w", path, err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFDIR {
		fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		sub := os.NewFile(uintptr(fd), path)
		defer sub.Close()
		return ownTree(sub, uid, gid)
	}
	if int(st.Uid) == uid && int(st.Gid) == gid {
		return nil
	}
	// A second name may lie outside the workspace (a mirror, a shared cache):
	// giving the file away here would give it away there.
	if kind == unix.S_IFREG && st.Nlink > 1 {
		return fmt.Errorf("%s has %d hard links and is not the payload's: copy it instead of linking it", path, st.Nlink)
	}
	if err := unix.Fchownat(int(dir.Fd()), name, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("chown %s: %w", path, err)
	}
	return nil
}

// Remove deletes by descriptors, never by path. What a plain removal cannot do
// (directories closed by their owner, nesting deeper than descriptors last) is
// flattened first.
func (h *host) Remove(dir string) error {
	if err := sane(dir); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	if os.RemoveAll(dir) == nil {
		return nil
	}
	if err := removeFlat(dir); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	return nil
}

func sane(dir string) error {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || filepath.Dir(dir) == "/" {
		return fmt.Errorf("%q is not a clean absolute path below the first level", dir)
	}
	return nil
}

// removeFlat moves every directory up to the top before it empties it, so that
// it needs two descriptors however deep the tree is.
func removeFlat(dir string) error {
	top, err := openDirAt(unix.AT_FDCWD, dir)
	if err != nil {
		return err
	}
	defer top.Close()
	for moved := 0; ; {
		names, err := top.Readdirnames(-1)
		if err != nil {
			return fmt.Errorf("list %s: %w", dir, err)
		}
		if len(names) == 0 {
			break
		}
		for _, name := range names {
			err := unix.Unlinkat(int(top.Fd()), name, 0)
			if err == nil || errors.Is(err, unix.ENOENT) {
				continue
			}
			if moved, err = emptyInto(top, name, moved); err != nil {
				return err
			}
		}
		if _, err := top.Seek(0, 0); err != nil {
			return fmt.Errorf("list %s again: %w", dir, err)
		}
	}
	return os.Remove(dir)
}

// emptyInto removes a directory of top after moving its directories to top
// under names of our own.
func emptyInto(top *os.File, name string, moved int) (int, error) {
	dir, err := openDirAt(int(top.Fd()), name)
	if err != nil {
		return moved, err
	}
	defer dir.Close()
	entries, err := dir.Readdirnames(-1)
	if err != nil {
		return moved, fmt.Errorf("list %s: %w", name, err)
	}
	for _, e := range entries {
		if unix.Unlinkat(int(dir.Fd()), e, 0) == nil {
			continue
		}
		// A directory that may not be written to cannot be moved either.
		if sub, err := openDirAt(int(dir.Fd()), e); err == nil {
			sub.Close()
		}
		for {
			moved++
			err = unix.Renameat2(int(dir.Fd()), e, int(top.Fd()), fmt.Sprintf(".removed-%d", moved), unix.RENAME_NOREPLACE)
			if !errors.Is(err, unix.EEXIST) {
				break
			}
		}
		if err != nil {
			return moved, fmt.Errorf("move %s: %w", e, err)
		}
	}
	if err := unix.Unlinkat(int(top.Fd()), name, unix.AT_REMOVEDIR); err != nil {
		return moved, fmt.Errorf("remove %s: %w", name, err)
	}
	return moved, nil
}

// openDirAt opens a directory for listing and opens it up to its owner, without
// following a link at any point.
func openDirAt(at int, name string) (*os.File, error) {
	hold, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(hold)
	self := fmt.Sprintf("/proc/self/fd/%d", hold)
	if err := unix.Chmod(self, 0o700); err != nil {
		return nil, fmt.Errorf("open up %s: %w", name, err)
	}
	fd, err := unix.Open(self, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
