package sandbox_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"signalbox/internal/sandbox"
)

func owner(t *testing.T, path string) uint32 {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Sys().(*syscall.Stat_t).Uid
}

func TestOwnDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not exercised: only root gives files away")
	}
	sb := open(t, sandbox.TierProcess)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, sub := range []string{"a/b", "c"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"a/dirlink": outside, "a/filelink": filepath.Join(outside, "file"), "loop": "."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := sb.Own(dir, slot(t)); err != nil {
		t.Fatal(err)
	}
	uid, _ := sb.User(slot(t))
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && owner(t, path) != uid {
			t.Errorf("%s belongs to %d", path, owner(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{outside, filepath.Join(outside, "file")} {
		if owner(t, path) != 0 {
			t.Errorf("%s was given away", path)
		}
	}
	if err := sb.Own(filepath.Join(dir, "a", "dirlink"), slot(t)); err == nil {
		t.Error("a link was accepted as the tree itself")
	}
}

func TestOwnRefusesSharedFiles(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not exercised: only root gives files away")
	}
	sb := open(t, sandbox.TierProcess)
	dir := t.TempDir()
	shared := filepath.Join(t.TempDir(), "mirror-object")
	if err := os.WriteFile(shared, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(shared, filepath.Join(dir, "object")); err != nil {
		t.Skipf("not exercised: %v", err)
	}
	if err := sb.Own(dir, slot(t)); err == nil {
		t.Error("a file with a second name elsewhere was given away")
	}
	if owner(t, shared) != 0 {
		t.Error("the shared file changed hands")
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	sb := open(t, sandbox.TierProcess)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tree")
	closed := filepath.Join(dir, "closed", "inner")
	if err := os.MkdirAll(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(closed, "f"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{closed, filepath.Dir(closed)} {
		if err := os.Chmod(d, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := sb.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Error("the tree is still there")
	}
	if _, err := os.Stat(filepath.Join(outside, "kept")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	if err := sb.Remove(dir); err != nil {
		t.Errorf("removing nothing: %v", err)
	}
	for _, bad := range []string{"/", "/tmp", "relative", "/tmp/../etc/x/..", ""} {
		if err := sb.Remove(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// As root a plain removal does most of it; the flattening must hold by itself.
func TestRemoveFlat(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tree")
	at := dir
	for range 50 {
		at = filepath.Join(at, "d")
		if err := os.MkdirAll(filepath.Join(at, ".removed-1"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(at, "link")); err != nil {
			t.Fatal(err)
		}
	}
	if err := sandbox.RemoveFlat(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Error("the tree is still there")
	}
	if _, err := os.Stat(filepath.Join(outside, "kept")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

// A payload can nest directories deeper than any path is long.
func TestDeepTrees(t *testing.T) {
	t.Parallel()
	sb := open(t, sandbox.TierBwrap)
	box := newBox(t, sandbox.TierBwrap, sandbox.Spec{})
	res, out := sh(t, box, `perl -e 'for (1..3000) { mkdir "d" x 9, 0700; chdir "d" x 9 or die }'`)
	if !res.OK() {
		t.Fatalf("%+v %.300s", res, out)
	}
	if err := sb.Own(box.Workspace(), slot(t)); err != nil {
		t.Errorf("own: %v", err)
	}
	if err := sb.Remove(box.Workspace()); err != nil {
		t.Errorf("remove: %v", err)
	}
}
