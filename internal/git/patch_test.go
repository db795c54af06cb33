package git_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/git"
)

func TestPatchRoundTrip(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	remote, base := h.upstream("app", map[string]string{
		"a.txt": "one\ntwo\nthree\n", "dir/b.txt": "b\n", "gone.txt": "bye\n", "dir/deep/c.txt": "c\n", "becomes-dir": "file\n", "becomes-file/x": "x\n",
		"crlf.txt": "a\r\nb\r\n", "bin": "\x00\x01\x02\x03", "run.sh": "#!/bin/sh\n", ".gitignore": "*.log\nbuild/\n!keep.log\n/only-root\n", "build/tracked.txt": "tracked although ignored\n",
		".gitattributes": "*.txt text eol=crlf\nrun.sh export-subst ident\n* text=auto\nbin -diff\n",
	})
	repo, work := h.run(remote, base)

	if p := h.patch(repo, base, work); !p.Empty() || len(p.Skipped) != 0 {
		t.Fatalf("an untouched work tree gives a patch: %s %v", p.Bytes, p.Skipped)
	}
	if b, err := os.ReadFile(filepath.Join(work, "a.txt")); err != nil || string(b) != "one\ntwo\nthree\n" {
		t.Fatalf("checkout converted line ends: %q %v", b, err)
	}

	h.write(work, "a.txt", "one\n2\nthree\n")
	h.write(work, "new/ü \"quoted\"\tname.txt", "new\n")
	h.write(work, "bin", "\x00\x01\x02\x03\x04\xff")
	h.write(work, "noise.log", "ignored")
	h.write(work, "keep.log", "kept\n")
	h.write(work, "only-root", "ignored")
	h.write(work, "sub/only-root", "kept\n")
	h.write(work, "build/out.o", "ignored")
	h.write(work, "build/tracked.txt", "changed although ignored\n")
	h.write(work, "node/.gitignore", "*\n!.gitignore\n")
	h.write(work, "node/x/y", "ignored")
	for _, p := range []string{"gone.txt", "becomes-dir", "becomes-file"} {
		if err := os.RemoveAll(filepath.Join(work, p)); err != nil {
			t.Fatal(err)
		}
	}
	h.write(work, "becomes-dir/inside", "in\n")
	h.write(work, "becomes-file", "now a file\n")
	if err := os.Chmod(filepath.Join(work, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}

	p := h.patch(repo, base, work)
	changed, err := repo.ChangedFiles(t.Context(), base, p.Tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a.txt", "becomes-dir", "becomes-dir/inside", "becomes-file", "becomes-file/x", "bin", "build/tracked.txt", "gone.txt",
		"keep.log", "link", "new/ü \"quoted\"\tname.txt", "node/.gitignore", "run.sh", "sub/only-root",
	}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Fatalf("changed files (-want +got):\n%s", diff)
	}
	if again := h.patch(repo, base, work); !bytes.Equal(again.Bytes, p.Bytes) || again.Tree != p.Tree {
		t.Fatal("the same work tree gave two different patches")
	}

	// Another machine: the stored bytes on a fresh repository give the same tree (G9).
	other, _ := h.run(remote, base)
	tree, err := other.Apply(t.Context(), base, p.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if tree != p.Tree {
		t.Fatalf("applied tree %s, patch says %s", tree, p.Tree)
	}
	checkout := filepath.Join(h.dir, "verify")
	commit, err := other.Commit(t.Context(), git.CommitSpec{Tree: tree, Parents: []string{base}, Message: "m\n", By: git.Signature{Name: "s", Email: "s@example.org", At: time.Unix(1_700_000_000, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Checkout(t.Context(), commit, checkout); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(checkout, "bin")); err != nil || string(b) != "\x00\x01\x02\x03\x04\xff" {
		t.Fatalf("binary content: %q %v", b, err)
	}
	if target, err := os.Readlink(filepath.Join(checkout, "link")); err != nil || target != "/etc/passwd" {
		t.Fatalf("link: %q %v", target, err)
	}
}

// Git itself is the oracle: for a harmless tree, our walk gives the tree that `git add -A` gives.
func TestSnapshotAgreesWithGit(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	remote, base := h.upstream("oracle", map[string]string{
		"README": "r\n", "src/a.go": "package a\n", "src/.gitignore": "*.tmp\n/gen/\n!/gen/\n", ".gitignore": "out\n**/cache/**\n!**/cache/keep\ndoc/*.html\n\\!bang\n# comment\n  \ntrail \n", "doc/x.html": "tracked\n",
	})
	repo, work := h.run(remote, base)
	for _, name := range []string{
		"out/x", "src/out", "src/a.tmp", "src/gen/y", "src/b.go", "a/cache/1", "a/cache/keep", "doc/new.html", "doc/sub/new.html", "!bang", "trail", ":(top)magic", "-dash", "sp ace", "empty-dir/.keep", "ä/ö",
	} {
		h.write(work, name, name)
	}
	h.write(work, "doc/x.html", "changed\n")
	got := h.patch(repo, base, work).Tree

	clone := filepath.Join(h.dir, "oracle-clone")
	h.plain(h.dir, "clone", "--quiet", filepath.Join(h.root, "oracle.git"), clone)
	if err := os.CopyFS(filepath.Join(h.dir, "copy"), os.DirFS(work)); err != nil {
		t.Fatal(err)
	}
	h.plain(clone, "--work-tree="+filepath.Join(h.dir, "copy"), "add", "-A")
	want := h.plain(clone, "write-tree")
	if got != want {
		t.Fatalf("our tree differs from git's:\n%s\n--\n%s", h.plain(clone, "ls-tree", "-r", "--name-only", want), got)
	}
}

func TestHostileWorkTree(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	remote, base := h.upstream("victim", map[string]string{"a.txt": "a\n", "pipe": "was a file\n", ".gitmodules": ""})
	repo, work := h.run(remote, base)
	if err := repo.Convenience(t.Context(), base, work); err != nil {
		t.Fatal(err)
	}
	if out := h.plain(work, "log", "--format=%H"); out != base {
		t.Fatalf("the throw-away .git has history %q, want the one commit %s", out, base)
	}
	if out := h.plain(work, "remote"); out != "" {
		t.Fatalf("the throw-away .git has a remote: %q", out)
	}
	if out := h.plain(work, "status", "--porcelain"); out != "" {
		t.Fatalf("the throw-away .git is not clean: %q", out)
	}

	// The agent turns everything it can write into a trap.
	canary := h.script(filepath.Join(work, "canary.sh"))
	config := "[core]\n\tfsmonitor = " + canary + "\n\thooksPath = " + filepath.Join(work, "hooks") + "\n\tsshCommand = " + canary + "\n\tattributesFile = " + filepath.Join(work, "attrs") + "\n\tpager = " + canary +
		"\n[diff]\n\texternal = " + canary + "\n[diff \"x\"]\n\tcommand = " + canary + "\n\ttextconv = " + canary + "\n[filter \"x\"]\n\tclean = " + canary + "\n\tsmudge = " + canary + "\n\tprocess = " + canary + "\n\trequired = true\n[merge \"x\"]\n\tdriver = " + canary + "\n[include]\n\tpath = " + filepath.Join(work, "more") + "\n"
	for _, hook := range []string{"pre-commit", "post-checkout", "post-index-change", "reference-transaction", "post-commit", "pre-push"} {
		h.script(filepath.Join(work, "hooks", hook))
		h.script(filepath.Join(work, ".git", "hooks", hook))
	}
	h.write(work, ".git/config", config)
	h.write(work, "more", config)
	h.write(work, ".gitattributes", "* filter=x diff=x merge=x export-subst text working-tree-encoding=UTF-16 ident\n")
	h.write(work, "attrs", "* filter=x diff=x\n")
	h.write(work, ".gitmodules", "[submodule \"x\"]\n\tpath = sub\n\turl = ext::"+canary+"\n\tupdate = !"+canary+"\n\tfsmonitor = x\n")
	// A nested repository with the same configuration.
	nested := filepath.Join(work, "sub")
	h.plain(h.dir, "init", "--quiet", nested)
	h.write(nested, "inner.txt", "inner\n")
	h.plain(nested, "add", "inner.txt")
	h.plain(nested, "commit", "--quiet", "-m", "inner")
	h.write(nested, ".git/config", "[core]\n\trepositoryformatversion = 0\n"+config)
	h.write(work, "sub2/.git", "gitdir: "+filepath.Join(work, ".git")+"\n")
	h.write(work, "sub2/file", "x\n")
	h.write(work, "case/.GIT/config", config)
	h.write(work, "hfs/.g\u200cit/config", config)
	h.write(work, "ntfs/git~1/config", config)
	h.write(work, "ntfs/.git /config", config)
	h.write(work, `back\slash`, "x")
	for _, link := range [][2]string{{"/", "root"}, {"../../..", "up"}, {".git/config", "into-git"}, {"/dev/zero", "zero"}, {"elsewhere", "dir/.gitmodules"}} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, link[1])), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(link[0], filepath.Join(work, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(work, "pipe")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"pipe", "d/.gitignore", "d/pipe2"} {
		if err := os.MkdirAll(filepath.Join(work, "d"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(filepath.Join(work, p), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h.write(work, "d/after", "x\n")

	p := h.patch(repo, base, work)
	files, err := repo.ChangedFiles(t.Context(), base, p.Tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sub/inner.txt", "sub2/file", "d/after", "pipe", "root", ".gitattributes"} {
		if !contains(files, want) {
			t.Errorf("%s is not in the change: %q", want, files)
		}
	}
	for _, f := range files {
		for part := range strings.SplitSeq(f, "/") {
			if strings.EqualFold(part, ".git") || strings.Contains(part, `\`) || part == "git~1" {
				t.Errorf("%q is in the change", f)
			}
		}
	}
	if len(p.Skipped) < 8 {
		t.Errorf("what was left out is not told: %v", p.Skipped)
	}
	if bytes.Contains(p.Bytes, []byte("root:x:0")) {
		t.Error("the patch holds a file from outside the work tree")
	}
	// The change itself is hostile; verifying, committing and checking it out still runs nothing.
	other, _ := h.run(remote, base)
	tree, err := other.Apply(t.Context(), base, p.Bytes)
	if err != nil || tree != p.Tree {
		t.Fatalf("apply: %s %v, want %s", tree, err, p.Tree)
	}
	commit, err := other.Commit(t.Context(), git.CommitSpec{Tree: tree, Parents: []string{base}, Message: "x\n", By: git.Signature{Name: "s", Email: "s@example.org", At: time.Unix(1, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	checkout := filepath.Join(h.dir, "verify")
	if err := other.Checkout(t.Context(), commit, checkout); err != nil {
		t.Fatal(err)
	}
	// A .gitmodules that would run a command elsewhere passes no transfer.
	err = other.Push(t.Context(), remote, commit, "agent/task_1/run_1", "")
	wantCode(t, err, git.CodePushRejected)
}

// An agent that puts a link in place of its checkout shows us nothing of this machine.
func TestWorkTreeReplaced(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	remote, base := h.upstream("replaced", map[string]string{"a.txt": "a\n"})
	repo, work := h.run(remote, base)
	secret := filepath.Join(h.dir, "secret")
	h.write(secret, "key", "s3cr3t")
	if err := os.RemoveAll(work); err != nil {
		t.Fatal(err)
	}
	_, err := repo.Patch(t.Context(), base, work, git.Limits{})
	wantCode(t, err, git.CodeWorkspaceMoving)
	for _, target := range []string{secret, ".", "repo.git"} {
		if err := os.Symlink(target, work); err != nil {
			t.Fatal(err)
		}
		_, err := repo.Patch(t.Context(), base, work, git.Limits{})
		wantCode(t, err, git.CodeWorkspaceMoving)
		if err := os.Remove(work); err != nil {
			t.Fatal(err)
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func TestWorkTreeLimits(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	remote, base := h.upstream("limits", map[string]string{"a.txt": "a\n"})
	repo, work := h.run(remote, base)

	huge := h.write(work, "huge", "")
	if err := os.Truncate(huge, 1<<40); err != nil {
		t.Skipf("not exercised: no sparse file of 1 TiB here: %v", err)
	}
	start := time.Now()
	_, err := repo.Patch(t.Context(), base, work, git.Limits{})
	wantCode(t, err, git.CodeWorkspaceLarge)
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("a huge sparse file was read: %s", d)
	}
	if err := os.Remove(huge); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1", "2", "3", "4"} {
		h.write(work, name, strings.Repeat("x", 600))
	}
	_, err = repo.Patch(t.Context(), base, work, git.Limits{Entries: 3})
	wantCode(t, err, git.CodeWorkspaceLarge)
	_, err = repo.Patch(t.Context(), base, work, git.Limits{TotalBytes: 2000})
	wantCode(t, err, git.CodeWorkspaceLarge)
	_, err = repo.Patch(t.Context(), base, work, git.Limits{PatchBytes: 100})
	wantCode(t, err, git.CodeOutputLarge)
	if _, err = repo.Patch(t.Context(), base, work, git.Limits{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = repo.Patch(ctx, base, work, git.Limits{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled patch: %v", err)
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	remote, base := h.upstream("apply", map[string]string{"a.txt": "one\ntwo\n"})
	repo, _ := h.run(remote, base)
	header := func(name string) string {
		return "diff --git a/" + name + " b/" + name + "\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..5626abf0f72e58d7a153368ba57db4c673c0e171\n--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+one\n"
	}
	for name, tc := range map[string]struct {
		patch string
		code  git.Code
	}{
		"other content":  {"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-zwei\n+drei\n", git.CodePatchConflict},
		"exists already": {header("a.txt"), git.CodePatchConflict},
		"missing file":   {"diff --git a/b.txt b/b.txt\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+two\n", git.CodePatchConflict},
		"no patch":       {"hello\n", git.CodePatchMalformed},
		"cut short":      {"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n", git.CodePatchMalformed},
		"parent folder":  {header("../evil"), git.CodePatchMalformed},
		"git folder":     {header(".git/config"), git.CodePatchMalformed},
		"nested git":     {header("x/.GIT/hooks/pre-commit"), git.CodePatchMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := repo.Apply(t.Context(), base, []byte(tc.patch))
			wantCode(t, err, tc.code)
		})
	}
	tree, err := repo.Apply(t.Context(), base, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := repo.TreeOf(t.Context(), base); err != nil || tree != want {
		t.Fatalf("the empty patch gives %s, want %s (%v)", tree, want, err)
	}
}
