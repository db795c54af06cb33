package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Repo is a git directory of ours, never one that an agent or a stranger could configure.
type Repo struct {
	g   *Git
	dir string
	// objects, when set, is another repository's object folder that this git directory reads and writes.
	objects string
	// refs, when set, is the git directory whose branches are meant (the local forge's own).
	refs string
}

// Dir is the git directory.
func (r *Repo) Dir() string { return r.dir }

func (r *Repo) run(ctx context.Context, c call) ([]byte, error) {
	c.gitDir = r.dir
	if r.objects != "" {
		c.env = append(c.env, "GIT_OBJECT_DIRECTORY="+r.objects)
	}
	return r.g.run(ctx, c)
}

// Bare opens a repository of the local forge. Its configuration, hooks and attributes are never read: objects are
// reached through a git directory of ours, and only branches are read and moved in its own.
func (g *Git) Bare(r Remote) (*Repo, error) {
	if !r.Local() {
		return nil, refuse(CodeRemoteRefused, "open", "not a repository of the local forge")
	}
	return &Repo{g: g, dir: g.empty, objects: filepath.Join(r.path, "objects"), refs: r.path}, nil
}

// Has reports whether a commit is present.
func (r *Repo) Has(ctx context.Context, sha string) bool {
	if !IsObject(sha) {
		return false
	}
	_, err := r.run(ctx, call{op: "cat-file", args: []string{"cat-file", "-e", sha + "^{commit}"}})
	return err == nil
}

func (r *Repo) resolve(ctx context.Context, rev string) (string, error) {
	out, err := r.run(ctx, call{op: "rev-parse", args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", rev + "^{commit}"}})
	if err != nil {
		if stopped(ctx) != nil {
			return "", err
		}
		return "", refuse(CodeRefNotFound, "rev-parse", "no such commit here")
	}
	return strings.TrimSpace(string(out)), nil
}

// Branch returns where a branch of this repository stands.
func (r *Repo) Branch(ctx context.Context, branch string) (string, error) {
	if err := CheckBranch(branch); err != nil {
		return "", err
	}
	c := call{op: "for-each-ref", gitDir: r.refsDir(), args: []string{"for-each-ref", "--count=1", "--format=%(objectname) %(objecttype)", "refs/heads/" + branch}}
	out, err := r.g.run(ctx, c)
	if err != nil {
		return "", err
	}
	sha, kind, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if kind != "commit" || !IsObject(sha) {
		return "", refuse(CodeRefNotFound, "branch", "no branch %s", branch)
	}
	// for-each-ref also matches refs/heads/<branch>/…; the exact name is asked for by listing.
	names, err := r.Branches(ctx)
	if err != nil {
		return "", err
	}
	sha, ok := names[branch]
	if !ok {
		return "", refuse(CodeRefNotFound, "branch", "no branch %s", branch)
	}
	return sha, nil
}

func (r *Repo) refsDir() string {
	if r.refs != "" {
		return r.refs
	}
	return r.dir
}

// Branches lists every branch and its commit.
func (r *Repo) Branches(ctx context.Context) (map[string]string, error) {
	out, err := r.g.run(ctx, call{op: "for-each-ref", gitDir: r.refsDir(), args: []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/"}})
	if err != nil {
		return nil, err
	}
	branches := map[string]string{}
	for line := range strings.Lines(string(out)) {
		sha, ref, ok := strings.Cut(strings.TrimSpace(line), " ")
		name, found := strings.CutPrefix(ref, "refs/heads/")
		if ok && found && IsObject(sha) {
			branches[name] = sha
		}
	}
	return branches, nil
}

// Entry is one file of a commit.
type Entry struct {
	Mode   string // 100644, 100755, 120000 or 160000
	Object string
	Size   int64 // bytes; -1 for a submodule
	Path   string
}

// Tree lists every file of a commit or tree, in path order.
func (r *Repo) Tree(ctx context.Context, sha string) ([]Entry, error) {
	if err := checkObject(sha); err != nil {
		return nil, err
	}
	out, err := r.run(ctx, call{op: "ls-tree", args: []string{"ls-tree", "-r", "-l", "-z", "--full-tree", sha}, max: 256 << 20})
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for record := range bytes.SplitSeq(out, []byte{0}) {
		meta, path, ok := strings.Cut(string(record), "\t")
		fields := strings.Fields(meta)
		if !ok || len(fields) != 4 {
			continue
		}
		size, err := strconv.ParseInt(fields[3], 10, 64)
		if err != nil {
			size = -1
		}
		entries = append(entries, Entry{Mode: fields[0], Object: fields[2], Size: size, Path: path})
	}
	return entries, nil
}

// Blob returns the content of one file of a commit, at most limit bytes of it being allowed.
func (r *Repo) Blob(ctx context.Context, object string, limit int64) ([]byte, error) {
	if err := checkObject(object); err != nil {
		return nil, err
	}
	return r.run(ctx, call{op: "cat-file", args: []string{"cat-file", "blob", object}, max: limit})
}

// TreeOf returns the tree id of a commit.
func (r *Repo) TreeOf(ctx context.Context, commit string) (string, error) {
	if err := checkObject(commit); err != nil {
		return "", err
	}
	out, err := r.run(ctx, call{op: "rev-parse", args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", commit + "^{tree}"}})
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// ChangedFiles lists the paths that differ between two commits or trees.
func (r *Repo) ChangedFiles(ctx context.Context, a, b string) ([]string, error) {
	if err := checkObject(a, b); err != nil {
		return nil, err
	}
	out, err := r.run(ctx, call{op: "diff-tree", args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", a, b}})
	if err != nil {
		return nil, err
	}
	var paths []string
	for p := range strings.SplitSeq(string(out), "\x00") {
		if p != "" {
			paths = append(paths, p)
		}
	}
	return paths, nil
}

// CountedCommits is how many commits are counted at most.
const CountedCommits = 100_000

// CommitsSince counts by how many commits the branch went on from one commit to a later one. It is 0 where that is not so, because the
// earlier one is no ancestor or there are more than CountedCommits.
func (r *Repo) CommitsSince(ctx context.Context, earlier, later string) (int, error) {
	if err := checkObject(earlier, later); err != nil {
		return 0, err
	}
	out, err := r.run(ctx, call{op: "rev-list", args: []string{"rev-list", "--count", "--left-right", fmt.Sprintf("--max-count=%d", CountedCommits+1), earlier + "..." + later, "--"}})
	if err != nil {
		return 0, err
	}
	var gone, come int
	if _, err := fmt.Sscan(string(out), &gone, &come); err != nil {
		return 0, fmt.Errorf("count commits: %w", err)
	}
	if gone > 0 || come > CountedCommits {
		return 0, nil
	}
	return come, nil
}

// MergeBase returns the best common ancestor of two commits.
func (r *Repo) MergeBase(ctx context.Context, a, b string) (string, error) {
	if err := checkObject(a, b); err != nil {
		return "", err
	}
	out, err := r.run(ctx, call{op: "merge-base", args: []string{"merge-base", a, b}, okCodes: []int{1}})
	if err != nil {
		return "", err
	}
	sha := strings.TrimSpace(string(out))
	if sha == "" {
		return "", refuse(CodeRefNotFound, "merge-base", "the two commits have no common ancestor")
	}
	return sha, nil
}

// IsAncestor reports whether a is reachable from b.
func (r *Repo) IsAncestor(ctx context.Context, a, b string) (bool, error) {
	if err := checkObject(a, b); err != nil {
		return false, err
	}
	exit := 0
	_, err := r.run(ctx, call{op: "merge-base", args: []string{"merge-base", "--is-ancestor", a, b}, okCodes: []int{1}, exit: &exit})
	return err == nil && exit == 0, err
}

// CommitInfo is what a page or a publisher needs to know of a commit.
type CommitInfo struct {
	Tree    string
	Parents []string
	Author  string
	Message string
}

// Show reads one commit.
func (r *Repo) Show(ctx context.Context, sha string) (CommitInfo, error) {
	if err := checkObject(sha); err != nil {
		return CommitInfo{}, err
	}
	out, err := r.run(ctx, call{op: "cat-file", args: []string{"cat-file", "commit", sha}, max: 4 << 20})
	if err != nil {
		return CommitInfo{}, err
	}
	head, message, _ := strings.Cut(string(out), "\n\n")
	info := CommitInfo{Message: message}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "tree":
			info.Tree = value
		case "parent":
			info.Parents = append(info.Parents, value)
		case "author":
			info.Author = value
		}
	}
	return info, nil
}

// UpdateBranch moves a branch from one commit to another in one compare-and-swap. old "" means that the branch must
// not exist. CodeBranchTouched: it stands elsewhere.
func (r *Repo) UpdateBranch(ctx context.Context, branch, commit, old string) error {
	if err := CheckBranch(branch); err != nil {
		return err
	}
	if err := checkObject(commit); err != nil {
		return err
	}
	if old == "" {
		old = strings.Repeat("0", len(commit))
	} else if err := checkObject(old); err != nil {
		return err
	}
	_, err := r.g.run(ctx, call{op: "update-ref", gitDir: r.refsDir(), args: []string{"update-ref", "--no-deref", "refs/heads/" + branch, commit, old}})
	if e, ok := errors.AsType[*Error](err); ok && strings.Contains(strings.ToLower(e.Detail), "cannot lock ref") {
		e.Code = CodeBranchTouched
	}
	return err
}

// DeleteBranch removes a branch that stands at a commit, and nothing where it is gone already. CodeBranchTouched: it stands elsewhere.
func (r *Repo) DeleteBranch(ctx context.Context, branch, at string) error {
	if err := CheckBranch(branch); err != nil {
		return err
	}
	if err := checkObject(at); err != nil {
		return err
	}
	if _, err := r.Branch(ctx, branch); CodeOf(err) == CodeRefNotFound {
		return nil
	}
	_, err := r.g.run(ctx, call{op: "update-ref", gitDir: r.refsDir(), args: []string{"update-ref", "--no-deref", "-d", "refs/heads/" + branch, at}})
	if e, ok := errors.AsType[*Error](err); ok && strings.Contains(strings.ToLower(e.Detail), "cannot lock ref") {
		e.Code = CodeBranchTouched
	}
	return err
}

// scratchIndex returns the name of a private index file and the way to remove it.
func (g *Git) scratchIndex() (string, func(), error) {
	dir, err := os.MkdirTemp(g.home, "index-")
	if err != nil {
		return "", nil, fmt.Errorf("private index: %w", err)
	}
	return filepath.Join(dir, "index"), func() { _ = os.RemoveAll(dir) }, nil
}
