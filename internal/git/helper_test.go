package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/internal/egress"
	"signalbox/internal/git"
)

// house is one test's world: a forge folder, a cache, a canary that hostile content tries to create.
type house struct {
	t      *testing.T
	dir    string
	root   string // the local forge
	canary string
	git    *git.Git
}

func newHouse(t *testing.T) *house {
	t.Helper()
	dir := t.TempDir()
	h := &house{t: t, dir: dir, root: filepath.Join(dir, "forge"), canary: filepath.Join(dir, "canary")}
	if err := os.MkdirAll(h.root, 0o700); err != nil {
		t.Fatal(err)
	}
	allow, err := egress.ParseAllow("test", []string{"127.0.0.1:*"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := git.New(t.Context(), git.Config{Home: filepath.Join(dir, "githome"), LocalRoot: h.root, Allow: allow, RemoteTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	h.git = g
	t.Cleanup(func() {
		if _, err := os.Lstat(h.canary); err == nil {
			t.Errorf("hostile content ran a command: %s exists", h.canary)
		}
	})
	return h
}

// plain runs git as an ordinary user would, to build fixtures.
func (h *house) plain(dir string, args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org",
		"GIT_AUTHOR_DATE=@1700000000 +0000", "GIT_COMMITTER_DATE=@1700000000 +0000",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (h *house) write(dir, name, content string) string {
	h.t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// script writes an executable that leaves the canary.
func (h *house) script(p string) string {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		h.t.Fatal(err)
	}
	body := "#!/bin/sh\necho \"$0 $*\" >> '" + h.canary + "'\ncat\nexit 0\n"
	if err := os.WriteFile(p, []byte(body), 0o755); err != nil { //nolint:gosec // it has to be executable to be hostile
		h.t.Fatal(err)
	}
	return p
}

// upstream makes a bare repository in the forge with one commit of the given files and returns its remote and commit.
func (h *house) upstream(name string, files map[string]string) (git.Remote, string) {
	h.t.Helper()
	work := filepath.Join(h.dir, "seed-"+name)
	h.plain(h.dir, "init", "--quiet", "-b", "main", work)
	for p, content := range files {
		h.write(work, p, content)
	}
	h.plain(work, "add", "-A", "-f")
	h.plain(work, "commit", "--quiet", "-m", "first")
	bare := filepath.Join(h.root, name+".git")
	h.plain(h.dir, "clone", "--quiet", "--bare", work, bare)
	remote, err := h.git.ParseRemote("file://" + bare)
	if err != nil {
		h.t.Fatal(err)
	}
	return remote, h.plain(work, "rev-parse", "HEAD")
}

// run prepares a run repository and a checked-out work tree, as a worker does.
func (h *house) run(remote git.Remote, commit string) (*git.Repo, string) {
	h.t.Helper()
	m, err := h.git.Mirror(h.t.Context(), filepath.Join(h.dir, "mirrors"), remote)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := m.Commit(h.t.Context(), commit, "main"); err != nil {
		h.t.Fatal(err)
	}
	scratch, err := os.MkdirTemp(h.dir, "run-")
	if err != nil {
		h.t.Fatal(err)
	}
	repo, err := m.Run(h.t.Context(), filepath.Join(scratch, "repo.git"))
	if err != nil {
		h.t.Fatal(err)
	}
	work := filepath.Join(scratch, "work")
	if err := repo.Checkout(h.t.Context(), commit, work); err != nil {
		h.t.Fatal(err)
	}
	return repo, work
}

func (h *house) patch(repo *git.Repo, base, work string) git.Patch {
	h.t.Helper()
	p, err := repo.Patch(h.t.Context(), base, work, git.Limits{})
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

func wantCode(t *testing.T, err error, want git.Code) {
	t.Helper()
	if git.CodeOf(err) != want {
		t.Fatalf("code = %q (%v), want %q", git.CodeOf(err), err, want)
	}
}
