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

// Remove deletes by descriptors (os.RemoveAll does) after opening directories
// that the payload has closed, such as a module cache.
func (h *host) Remove(dir string) error {
	if err := sane(dir); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	if !h.root {
		if err := openTree(dir); err != nil {
			return fmt.Errorf("remove workspace: %w", err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
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

// openTree makes every directory searchable and writable for its owner. The
// mode is changed through a descriptor that was opened without following.
func openTree(dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return fmt.Errorf("open %s: %w", dir, err)
	}
	return openTreeAt(fd, dir)
}

func openTreeAt(pathFD int, name string) error {
	defer unix.Close(pathFD)
	self := fmt.Sprintf("/proc/self/fd/%d", pathFD)
	if err := unix.Chmod(self, 0o700); err != nil {
		return fmt.Errorf("open up %s: %w", name, err)
	}
	fd, err := unix.Open(self, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return fmt.Errorf("list %s: %w", name, err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		sub, err := unix.Openat(fd, e.Name(), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", filepath.Join(name, e.Name()), err)
		}
		if err := openTreeAt(sub, filepath.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
