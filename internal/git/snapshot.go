package git

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git's object names; nothing is trusted because of them
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Limits bound what is read from a work tree. Zero fields take the defaults.
type Limits struct {
	Entries    int   // files and directories looked at; default 400,000
	FileBytes  int64 // one changed file; default 64 MiB
	TotalBytes int64 // all changed files; default 256 MiB
	PatchBytes int64 // the patch itself; default 64 MiB
}

func (l Limits) withDefaults() Limits {
	if l.Entries <= 0 {
		l.Entries = 400_000
	}
	if l.FileBytes <= 0 {
		l.FileBytes = 64 << 20
	}
	if l.TotalBytes <= 0 {
		l.TotalBytes = 256 << 20
	}
	if l.PatchBytes <= 0 {
		l.PatchBytes = 64 << 20
	}
	return l
}

// Skip is something in a work tree that cannot be part of a change, and why.
type Skip struct {
	Path string
	Why  string
}

// Snapshot is the tree that a work tree amounts to.
type Snapshot struct {
	Tree    string
	Skipped []Skip
}

// Snapshot stores the files of a work tree as a tree that starts from base. The work tree may have been written by an
// enemy, so git never sees it: this code walks it below an os.Root, follows no link, opens only regular files without
// blocking, ignores every .git, and honours .gitignore files from private copies. Call it after the last process that
// could write there has ended; a file that changes while it is read is CodeWorkspaceMoving.
func (r *Repo) Snapshot(ctx context.Context, base, workdir string, limits Limits) (Snapshot, error) {
	entries, err := r.Tree(ctx, base)
	if err != nil {
		return Snapshot{}, err
	}
	root, err := openWorkdir(workdir)
	if err != nil {
		return Snapshot{}, err
	}
	defer root.Close()
	w := &walk{ctx: ctx, root: root, limits: limits.withDefaults(), base: make(map[string]Entry, len(entries)), parents: map[string]bool{}, seen: map[string]bool{}}
	w.hash = sha1.New
	for _, e := range entries {
		w.base[e.Path] = e
		for dir := path.Dir(e.Path); dir != "." && !w.parents[dir]; dir = path.Dir(dir) {
			w.parents[dir] = true
		}
		if len(e.Object) == 64 {
			w.hash = sha256.New
		}
	}
	w.ignore = &ignorer{repo: r, ctx: ctx, root: root, done: map[string]bool{}}
	defer w.ignore.close()
	if err := w.dir(root, ""); err != nil {
		return Snapshot{}, err
	}
	tree, err := r.store(ctx, base, w)
	if err != nil {
		return Snapshot{}, err
	}
	slices.SortFunc(w.skipped, func(a, b Skip) int { return strings.Compare(a.Path, b.Path) })
	return Snapshot{Tree: tree, Skipped: w.skipped}, nil
}

// openWorkdir opens a work tree whose last component may have been replaced: a link in its place is refused, wherever
// it leads. The folder above it is ours.
func openWorkdir(workdir string) (*os.Root, error) {
	parent, err := os.OpenRoot(filepath.Dir(workdir))
	if err != nil {
		return nil, fmt.Errorf("work tree: %w", err)
	}
	defer parent.Close()
	name := filepath.Base(workdir)
	info, err := parent.Lstat(name)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("work tree: %w", err)
	}
	if err != nil || !info.IsDir() {
		return nil, refuse(CodeWorkspaceMoving, "snapshot", "the work tree is gone, or something else is in its place")
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("work tree: %w", err)
	}
	return root, nil
}

// change is a file that differs from base.
type change struct {
	path   string
	mode   string
	object string
	size   int64
	link   string // symbolic links: the target is the content
}

type walk struct {
	ctx     context.Context
	root    *os.Root
	limits  Limits
	base    map[string]Entry
	parents map[string]bool // directories that hold files of base
	seen    map[string]bool // files of base that are still there in some form
	hash    func() hash.Hash
	ignore  *ignorer
	changes []change
	skipped []Skip
	count   int
	total   int64
	failure atomic.Pointer[error] // of the streaming goroutine
}

// maxSkips bounds the list: an agent could make a million pipes.
const maxSkips = 200

func (w *walk) skip(path, why string) {
	if len(w.skipped) < maxSkips {
		w.skipped = append(w.skipped, Skip{Path: path, Why: why})
	}
}

func (w *walk) dir(at *os.Root, prefix string) error {
	if strings.Count(prefix, "/") > 256 || len(prefix) > 4000 {
		return refuse(CodeWorkspaceLarge, "snapshot", "the work tree is nested too deeply")
	}
	d, err := at.Open(".")
	if err != nil {
		return fmt.Errorf("work tree %q: %w", prefix, err)
	}
	names, err := d.Readdirnames(w.limits.Entries - w.count + 1)
	_ = d.Close()
	if err != nil && err != io.EOF {
		return fmt.Errorf("work tree %q: %w", prefix, err)
	}
	if w.count += len(names); w.count > w.limits.Entries {
		return refuse(CodeWorkspaceLarge, "snapshot", "more than %d files and directories", w.limits.Entries)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return stopped(w.ctx)
		}
		if err := w.entry(at, name, prefix+name); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(at *os.Root, name, full string) error {
	if why := unusable(name); why != "" {
		if full != ".git" {
			w.skip(full, why)
		}
		return nil
	}
	if e, ok := w.base[full]; ok && e.Mode == "160000" {
		w.seen[full] = true // a submodule stays the commit that it was
		return nil
	}
	info, err := at.Lstat(name)
	if os.IsNotExist(err) {
		return refuse(CodeWorkspaceMoving, "snapshot", "the work tree changed while it was read")
	}
	if err != nil {
		return fmt.Errorf("work tree %q: %w", full, err)
	}
	_, tracked := w.base[full]
	if !tracked && !w.parents[full] && (info.IsDir() || info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0) {
		ignored, err := w.ignore.match(full, info.IsDir())
		if err != nil || ignored {
			return err
		}
	}
	switch {
	case info.IsDir():
		sub, err := at.OpenRoot(name)
		if err != nil {
			return fmt.Errorf("work tree %q: %w", full, err)
		}
		defer sub.Close()
		return w.dir(sub, full+"/")
	case info.Mode()&fs.ModeSymlink != 0:
		return w.symlink(at, name, full)
	case info.Mode().IsRegular():
		return w.file(at, name, full)
	}
	w.skip(full, "neither a file nor a directory nor a link")
	return nil
}

// unusable says why a name can be in no commit: git refuses names that some file system would take for .git, and one
// planted name must not spoil a whole change.
func unusable(name string) string {
	if strings.Contains(name, `\`) {
		return "the name holds a backslash"
	}
	plain := strings.Map(func(r rune) rune {
		if (r >= 0x200c && r <= 0x200f) || (r >= 0x202a && r <= 0x202e) || (r >= 0x206a && r <= 0x206f) || r == 0xfeff {
			return -1
		}
		return r
	}, strings.ToLower(name))
	plain, _, _ = strings.Cut(plain, ":")
	plain = strings.TrimRight(plain, " .")
	if plain == ".git" || plain == "git~1" {
		return "a .git of its own is never part of a change"
	}
	return ""
}

func (w *walk) symlink(at *os.Root, name, full string) error {
	if lower := strings.ToLower(name); strings.HasPrefix(lower, ".gitmodules") || strings.HasPrefix(lower, "gitmod~") {
		w.skip(full, "git accepts no link with this name")
		return nil
	}
	target, err := at.Readlink(name)
	if err != nil {
		return fmt.Errorf("work tree %q: %w", full, err)
	}
	h := w.newHash(int64(len(target)))
	_, _ = io.WriteString(h, target)
	return w.record(change{path: full, mode: "120000", object: hex.EncodeToString(h.Sum(nil)), size: int64(len(target)), link: target})
}

func (w *walk) file(at *os.Root, name, full string) error {
	f, info, err := openRegular(at, name)
	if err != nil {
		return fmt.Errorf("work tree %q: %w", full, err)
	}
	if f == nil {
		w.skip(full, "neither a file nor a directory nor a link")
		return nil
	}
	defer f.Close()
	mode := "100644"
	if info.Mode()&0o100 != 0 {
		mode = "100755"
	}
	e, tracked := w.base[full]
	if info.Size() > w.limits.FileBytes && (!tracked || e.Size != info.Size()) {
		return refuse(CodeWorkspaceLarge, "snapshot", "the changed file %q has %d bytes; the limit is %d", full, info.Size(), w.limits.FileBytes)
	}
	h := w.newHash(info.Size())
	n, err := io.Copy(h, io.LimitReader(f, info.Size()+1))
	if err != nil {
		return fmt.Errorf("work tree %q: %w", full, err)
	}
	if n != info.Size() {
		return refuse(CodeWorkspaceMoving, "snapshot", "the file %q changed while it was read", full)
	}
	return w.record(change{path: full, mode: mode, object: hex.EncodeToString(h.Sum(nil)), size: n})
}

func (w *walk) newHash(size int64) hash.Hash {
	h := w.hash()
	_, _ = io.WriteString(h, "blob "+strconv.FormatInt(size, 10)+"\x00")
	return h
}

func (w *walk) record(c change) error {
	w.seen[c.path] = true
	if e, ok := w.base[c.path]; ok && e.Mode == c.mode && e.Object == c.object {
		return nil
	}
	if e, ok := w.base[c.path]; !ok || e.Object != c.object {
		if c.size > w.limits.FileBytes {
			return refuse(CodeWorkspaceLarge, "snapshot", "the changed file %q has %d bytes; the limit is %d", c.path, c.size, w.limits.FileBytes)
		}
		if w.total += c.size; w.total > w.limits.TotalBytes {
			return refuse(CodeWorkspaceLarge, "snapshot", "the changed files have more than %d bytes together", w.limits.TotalBytes)
		}
	}
	w.changes = append(w.changes, c)
	return nil
}

// openRegular opens a file without following a link and without waiting for the other end of a pipe. A nil file means
// that it is no regular file.
func openRegular(at *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := at.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// store writes the changed contents into our object folder and builds the tree in a private index.
func (r *Repo) store(ctx context.Context, base string, w *walk) (string, error) {
	index, remove, err := r.g.scratchIndex()
	if err != nil {
		return "", err
	}
	defer remove()
	env := []string{"GIT_INDEX_FILE=" + index}
	if _, err := r.run(ctx, call{op: "read-tree", args: []string{"read-tree", base}, env: env}); err != nil {
		return "", err
	}
	var info bytes.Buffer
	zero := strings.Repeat("0", len(base))
	for _, p := range slices.Sorted(maps.Keys(w.base)) {
		if !w.seen[p] {
			fmt.Fprintf(&info, "0 %s\t%s\x00", zero, p)
		}
	}
	for _, c := range w.changes {
		fmt.Fprintf(&info, "%s %s\t%s\x00", c.mode, c.object, c.path)
	}
	if info.Len() > 0 {
		if err := r.blobs(ctx, w); err != nil {
			return "", err
		}
		if _, err := r.run(ctx, call{op: "update-index", args: []string{"update-index", "-z", "--index-info"}, env: env, stdin: &info}); err != nil {
			return "", err
		}
	}
	out, err := r.run(ctx, call{op: "write-tree", args: []string{"write-tree"}, env: env})
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// blobs streams the changed contents to one fast-import process.
func (r *Repo) blobs(ctx context.Context, w *walk) error {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(w.stream(writer)) }()
	_, err := r.run(ctx, call{op: "fast-import", args: []string{"fast-import", "--quiet", "--done"}, stdin: reader})
	// Whatever happened, the streaming side must not stay blocked, and its own error is the better one.
	_ = reader.CloseWithError(errOver)
	if w.streamErr() != nil {
		return w.streamErr()
	}
	return err
}
