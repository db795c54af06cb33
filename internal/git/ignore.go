package git

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// ignorer asks git which untracked files a .gitignore excludes. git works in a shadow folder that holds nothing but
// directories and copies of the .gitignore files, so it never meets the work tree. The process starts with the first
// question and lives until close.
type ignorer struct {
	repo   *Repo
	ctx    context.Context
	root   *os.Root
	shadow string
	done   map[string]bool // directories that the shadow already has
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stop   context.CancelFunc
	errs   *tail
}

// maxIgnoreBytes is far above any real .gitignore.
const maxIgnoreBytes = 1 << 20

func (i *ignorer) start() error {
	shadow, err := os.MkdirTemp(i.repo.g.home, "ignore-")
	if err != nil {
		return fmt.Errorf("shadow folder: %w", err)
	}
	i.shadow = shadow
	ctx, cancel := context.WithCancel(i.ctx)
	i.stop = cancel
	// An index that does not exist: no path counts as tracked, none as a submodule.
	env := []string{"GIT_WORK_TREE=" + shadow, "GIT_INDEX_FILE=" + filepath.Join(i.repo.g.home, "home", "no-index")}
	i.cmd = i.repo.g.command(ctx, call{
		op: "check-ignore", gitDir: i.repo.g.empty, dir: shadow, env: env, magic: true,
		args: []string{"check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching"},
	})
	if i.in, err = i.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("check-ignore: %w", err)
	}
	stdout, err := i.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("check-ignore: %w", err)
	}
	i.out = bufio.NewReader(stdout)
	i.errs = &tail{limit: 4 << 10}
	i.cmd.Stderr = i.errs
	if err := i.cmd.Start(); err != nil {
		return fmt.Errorf("check-ignore: %w", err)
	}
	return nil
}

func (i *ignorer) close() {
	if i.stop != nil {
		i.stop()
	}
	if i.cmd != nil && i.cmd.Process != nil {
		_ = i.in.Close()
		_ = i.cmd.Wait()
		_ = syscall.Kill(-i.cmd.Process.Pid, syscall.SIGKILL)
	}
	if i.shadow != "" {
		_ = os.RemoveAll(i.shadow)
	}
}

// prepare brings a directory and its .gitignore into the shadow.
func (i *ignorer) prepare(dir string) error {
	if i.done[dir] {
		return nil
	}
	if dir != "." {
		if err := i.prepare(path.Dir(dir)); err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(i.shadow, dir), 0o700); err != nil {
			return fmt.Errorf("shadow folder: %w", err)
		}
	}
	i.done[dir] = true
	f, info, err := openRegular(i.root, path.Join(dir, ".gitignore"))
	if err != nil || f == nil {
		return nil // none, or a link or pipe in its place: git would not read that either
	}
	defer f.Close()
	if info.Size() > maxIgnoreBytes {
		return nil
	}
	content, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes))
	if err != nil {
		return fmt.Errorf("read .gitignore: %w", err)
	}
	if err := os.WriteFile(filepath.Join(i.shadow, dir, ".gitignore"), content, 0o600); err != nil {
		return fmt.Errorf("shadow folder: %w", err)
	}
	return nil
}

// match reports whether an untracked path is ignored.
func (i *ignorer) match(name string, isDir bool) (bool, error) {
	if i.cmd == nil {
		if err := i.start(); err != nil {
			return false, err
		}
	}
	if err := i.prepare(path.Dir(name)); err != nil {
		return false, err
	}
	if isDir {
		// The directory itself must exist for patterns that end in a slash; its own .gitignore says nothing about it.
		if err := i.prepare(name); err != nil {
			return false, err
		}
	}
	// The prefix keeps a name that begins with a colon from being read as more than a name.
	asked := "./" + name
	if _, err := io.WriteString(i.in, asked+"\x00"); err != nil {
		return false, i.failed(err)
	}
	var fields [4]string
	for n := range fields {
		s, err := i.out.ReadString(0)
		if err != nil {
			return false, i.failed(err)
		}
		fields[n] = strings.TrimSuffix(s, "\x00")
	}
	if fields[3] != asked {
		return false, refuse(CodeFailed, "check-ignore", "the answer is about another path")
	}
	pattern := fields[2]
	return pattern != "" && !strings.HasPrefix(pattern, "!"), nil
}

func (i *ignorer) failed(err error) error {
	if ctxErr := stopped(i.ctx); ctxErr != nil {
		return ctxErr
	}
	_ = i.in.Close()
	_ = i.cmd.Wait() // so that its last words are here
	return &Error{Code: CodeFailed, Op: "check-ignore", Detail: clean(i.errs.String()), Err: err}
}
