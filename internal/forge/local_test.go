package forge_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/fault"
	"signalbox/internal/forge"
	"signalbox/internal/git"
)

type place struct {
	t    *testing.T
	dir  string
	root string
	work string
	l    *forge.Local
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{t: t, dir: dir, root: filepath.Join(dir, "forge"), work: filepath.Join(dir, "work")}
	if err := os.MkdirAll(p.root, 0o700); err != nil {
		t.Fatal(err)
	}
	g, err := git.New(t.Context(), git.Config{Home: filepath.Join(dir, "home"), LocalRoot: p.root})
	if err != nil {
		t.Fatal(err)
	}
	if p.l, err = forge.NewLocal(g, p.root); err != nil {
		t.Fatal(err)
	}
	p.git(dir, "init", "--quiet", "-b", "main", p.work)
	p.commit("a.txt", "1\n2\n3\n")
	p.commit("b.txt", "b\n")
	p.git(dir, "clone", "--quiet", "--bare", p.work, filepath.Join(p.root, "acme", "api.git"))
	return p
}

func (p *place) git(dir string, args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (p *place) commit(name, content string) string {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.work, name), []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.git(p.work, "add", "-A")
	p.git(p.work, "commit", "--quiet", "-m", name)
	return p.git(p.work, "rev-parse", "HEAD")
}

// branch pushes a commit on its own branch from main and returns it.
func (p *place) branch(branch, name, content string) string {
	p.t.Helper()
	p.git(p.work, "checkout", "--quiet", "-B", branch, "main")
	sha := p.commit(name, content)
	p.git(p.work, "push", "--quiet", "--force", filepath.Join(p.root, "acme", "api.git"), branch)
	p.git(p.work, "checkout", "--quiet", "main")
	return sha
}

func spec(head, sha string) forge.MergeSpec {
	return forge.MergeSpec{Base: "main", Head: head, HeadSHA: sha, Title: "A change\nwith lines", Name: "Ada <x>", Email: "ada@example.org", At: time.Unix(1_700_000_000, 0)}
}

func TestLocalCompareAndMerge(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const repo = "acme/api.git"
	one := p.branch("agent/t/one", "a.txt", "1\ntwo\n3\n")
	two := p.branch("agent/t/two", "b.txt", "other\n")
	clash := p.branch("agent/t/clash", "a.txt", "1\nzwei\n3\n")

	c, err := p.l.Compare(t.Context(), repo, "main", one, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Mergeable() || len(c.Files) != 1 || c.Files[0] != "a.txt" || !strings.Contains(string(c.Patch), "+two") {
		t.Fatalf("comparison: %+v", c)
	}
	merged, err := p.l.Merge(t.Context(), repo, spec("agent/t/one", one))
	if err != nil {
		t.Fatal(err)
	}
	if at, err := p.l.Branch(t.Context(), repo, "main"); err != nil || at != merged {
		t.Fatalf("main at %s, %v; want %s", at, err, merged)
	}
	if again, err := p.l.Merge(t.Context(), repo, spec("agent/t/one", one)); err != nil || again != merged {
		t.Fatalf("merging twice: %s, %v; want %s", again, err, merged)
	}
	if c, err := p.l.Compare(t.Context(), repo, "main", one, 1<<20); err != nil || !c.Contained || c.Mergeable() {
		t.Fatalf("merged already: %+v, %v", c, err)
	}
	c, err = p.l.Compare(t.Context(), repo, "main", clash, 1<<20)
	if err != nil || c.Mergeable() || len(c.Conflicts) != 1 {
		t.Fatalf("conflict: %+v, %v", c, err)
	}
	before, err := p.l.Branch(t.Context(), repo, "main")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.l.Merge(t.Context(), repo, spec("agent/t/clash", clash)); fault.KindOf(err) != fault.Conflict || !strings.HasPrefix(fault.Sentence(err), "Nothing was merged") {
		t.Fatalf("conflicting merge: %v", err)
	}
	if _, err := p.l.Merge(t.Context(), repo, spec("agent/t/two", one)); fault.KindOf(err) != fault.Conflict {
		t.Fatalf("a head that moved: %v", err)
	}
	if after, err := p.l.Branch(t.Context(), repo, "main"); err != nil || after != before {
		t.Fatalf("a refused merge moved main to %s, %v", after, err)
	}
	if _, err := p.l.Merge(t.Context(), repo, spec("agent/t/two", two)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(p.dir, "clone")); err != nil {
		t.Fatal(err)
	}
	p.git(p.dir, "clone", "--quiet", filepath.Join(p.root, "acme", "api.git"), filepath.Join(p.dir, "clone"))
	for name, want := range map[string]string{"a.txt": "1\ntwo\n3\n", "b.txt": "other\n"} {
		if got, err := os.ReadFile(filepath.Join(p.dir, "clone", name)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestLocalMergesAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	heads := map[string]string{}
	for _, n := range []string{"1", "2", "3", "4"} {
		heads["agent/t/"+n] = p.branch("agent/t/"+n, "file"+n, n)
	}
	var wg sync.WaitGroup
	for head, sha := range heads {
		wg.Go(func() {
			if _, err := p.l.Merge(t.Context(), "acme/api.git", spec(head, sha)); err != nil && fault.KindOf(err) != fault.Unavailable {
				t.Errorf("merge %s: %v", head, err)
			}
		})
	}
	wg.Wait()
	merged := p.git(p.dir, "--git-dir="+filepath.Join(p.root, "acme", "api.git"), "ls-tree", "--name-only", "main")
	contained := strings.Count(merged, "file")
	merges := p.git(p.dir, "--git-dir="+filepath.Join(p.root, "acme", "api.git"), "rev-list", "--count", "--merges", "main")
	if merges != string(rune('0'+contained)) || contained < 1 {
		t.Fatalf("%d files of %s merges: a merge was lost", contained, merges)
	}
}

func TestLocalRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	outside := filepath.Join(p.dir, "outside.git")
	p.git(p.dir, "clone", "--quiet", "--bare", p.work, outside)
	if err := os.Symlink(outside, filepath.Join(p.root, "trick.git")); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]fault.Kind{
		"": fault.Invalid, "../outside.git": fault.Invalid, outside: fault.Invalid, "trick.git": fault.Invalid, "https://example.org/x.git": fault.Invalid, "ext::sh": fault.Invalid,
		"acme/missing.git": fault.NotFound, "acme": fault.NotFound, "acme/../../outside.git": fault.Invalid, "a b.git": fault.Invalid, "-x": fault.Invalid,
	} {
		if _, err := p.l.Branch(t.Context(), address, "main"); fault.KindOf(err) != want {
			t.Errorf("Branch(%q): %v, want %s", address, err, want)
		}
	}
	if _, err := p.l.Branch(t.Context(), "acme/api.git", "missing"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("missing branch: %v", err)
	}
	if _, err := p.l.Branch(t.Context(), "acme/api.git", "--help"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("branch like an option: %v", err)
	}
}
