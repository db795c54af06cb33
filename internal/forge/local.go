package forge

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"signalbox/internal/fault"
	"signalbox/internal/git"
)

// Local is the git side of the built-in forge: bare repositories in one folder. Its repositories' own configuration,
// hooks and attributes are never used.
type Local struct {
	git  *git.Git
	root string
}

// NewLocal serves the bare repositories under root; g must have been made with the same root.
func NewLocal(g *git.Git, root string) (*Local, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("local forge root: %w", err)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, fmt.Errorf("local forge root: %w", err)
	}
	return &Local{git: g, root: abs}, nil
}

// LocalPath turns a clone address of the local forge into an absolute path: "acme/api.git", an absolute path or a file
// address, all below root. It only joins names; links are resolved, and refused, when the repository is opened.
func LocalPath(root, cloneURL string) (string, error) {
	p := strings.TrimPrefix(cloneURL, "file://")
	if p == "" || strings.ContainsAny(p, "\x00\n") || strings.Contains(cloneURL, "://") && !strings.HasPrefix(cloneURL, "file:///") {
		return "", fault.New(fault.Invalid, "The clone address is not one of the local forge. Give a path below its folder, for example acme/api.git.")
	}
	if !filepath.IsAbs(p) {
		if !filepath.IsLocal(p) {
			return "", fault.New(fault.Invalid, "The clone address leaves the local forge's folder. Give a path below it, for example acme/api.git.")
		}
		p = filepath.Join(root, p)
	}
	return p, nil
}

func (l *Local) open(cloneURL string) (*git.Repo, error) {
	p, err := LocalPath(l.root, cloneURL)
	if err != nil {
		return nil, err
	}
	r, err := l.git.ParseRemote(p)
	if err != nil {
		return nil, localFault(err, "The repository was not opened")
	}
	return l.git.Bare(r)
}

// Check says whether a repository exists and where its default branch stands.
func (l *Local) Check(ctx context.Context, cloneURL, branch string) (sha string, err error) {
	repo, err := l.open(cloneURL)
	if err != nil {
		return "", err
	}
	if sha, err = repo.Branch(ctx, branch); err != nil {
		return "", localFault(err, "The branch was not found")
	}
	return sha, nil
}

// Branch returns where a branch stands.
func (l *Local) Branch(ctx context.Context, cloneURL, branch string) (string, error) {
	return l.Check(ctx, cloneURL, branch)
}

// Publication is a commit that claims to be a stored patch on its base.
type Publication struct {
	Head       string // the commit
	Base       string // the commit that the patch was made and verified on
	BaseBranch string // where the pull request goes
	Patch      []byte // as stored
}

// Holds refuses a commit that is anything else than the stored patch on a commit of the base branch: what a person
// approved is what is published, whoever pushed it (G9). The tree is made here, from the patch itself.
func (l *Local) Holds(ctx context.Context, cloneURL string, p Publication) error {
	repo, err := l.open(cloneURL)
	if err != nil {
		return err
	}
	other := func(why string) error {
		return fault.New(fault.Conflict, "Nothing was published: the branch holds another change than the run's, because "+why+".").WithField("head_sha").WithCode("other_change")
	}
	head, err := repo.Show(ctx, p.Head)
	if err != nil {
		return localFault(err, "The commit was not read")
	}
	if len(head.Parents) != 1 || head.Parents[0] != p.Base {
		return other("its commit does not stand on the commit that was verified")
	}
	to, err := repo.Branch(ctx, p.BaseBranch)
	if err != nil {
		return localFault(err, "The base branch was not found")
	}
	contained, err := repo.IsAncestor(ctx, p.Base, to)
	if err != nil {
		return localFault(err, "The two branches were not compared")
	}
	if !contained {
		return other("the commit that it stands on is not part of the base branch")
	}
	tree, err := repo.Apply(ctx, p.Base, p.Patch)
	switch git.CodeOf(err) {
	case "":
	case git.CodePatchConflict, git.CodePatchMalformed:
		return other("the stored patch does not apply to its base")
	default:
		return localFault(err, "The stored patch was not applied")
	}
	if err != nil {
		return localFault(err, "The stored patch was not applied")
	}
	if tree != head.Tree {
		return other("its files are not those that the stored patch gives")
	}
	return nil
}

// Branches lists the branches of a repository and their commits.
func (l *Local) Branches(ctx context.Context, cloneURL string) (map[string]string, error) {
	repo, err := l.open(cloneURL)
	if err != nil {
		return nil, err
	}
	return repo.Branches(ctx)
}

// Comparison is what a pull request's page shows.
type Comparison struct {
	BaseSHA   string
	HeadSHA   string
	MergeBase string
	Patch     []byte // from the merge base to the head
	Files     []string
	// Contained says that the base already has the head: there is nothing to merge.
	Contained bool
	// Conflicts are the files that both sides changed in ways that do not join; empty means that it can be merged.
	Conflicts []string
}

// Mergeable reports whether a merge would succeed now.
func (c Comparison) Mergeable() bool { return !c.Contained && len(c.Conflicts) == 0 }

// Compare compares a head commit with a base branch. headSHA names the commit, so that what is shown is what a
// decision is about even when the branch moves meanwhile. limit bounds the patch in bytes.
func (l *Local) Compare(ctx context.Context, cloneURL, baseBranch, headSHA string, limit int64) (Comparison, error) {
	repo, err := l.open(cloneURL)
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{HeadSHA: headSHA}
	if c.BaseSHA, err = repo.Branch(ctx, baseBranch); err != nil {
		return Comparison{}, localFault(err, "The base branch was not found")
	}
	if !repo.Has(ctx, headSHA) {
		return Comparison{}, fault.New(fault.NotFound, "The pull request's commit is not in the repository.")
	}
	if c.MergeBase, err = repo.MergeBase(ctx, c.BaseSHA, headSHA); err != nil {
		return Comparison{}, localFault(err, "The two branches were not compared")
	}
	c.Contained = c.MergeBase == headSHA
	if c.Files, err = repo.ChangedFiles(ctx, c.MergeBase, headSHA); err != nil {
		return Comparison{}, localFault(err, "The two branches were not compared")
	}
	if c.Patch, err = repo.Diff(ctx, c.MergeBase, headSHA, limit); err != nil {
		return Comparison{}, localFault(err, "The difference was not read")
	}
	if _, conflicts, err := repo.Merge(ctx, c.BaseSHA, headSHA); err != nil {
		if git.CodeOf(err) != git.CodeMergeConflict {
			return Comparison{}, localFault(err, "The two branches were not compared")
		}
		c.Conflicts = conflicts
	}
	return c, nil
}

// MergeSpec is a merge that a person asked for.
type MergeSpec struct {
	Base    string // branch
	Head    string // branch, only for the message
	HeadSHA string // what the person saw
	Title   string
	Name    string // of the person
	Email   string
	At      time.Time
}

// Merge joins a head commit into a base branch with a merge commit and returns it. The branch moves in one
// compare-and-swap, tried again while others move it. A head that is contained already is answered with the base.
func (l *Local) Merge(ctx context.Context, cloneURL string, m MergeSpec) (string, error) {
	repo, err := l.open(cloneURL)
	if err != nil {
		return "", err
	}
	at, err := repo.Branch(ctx, m.Head)
	if err != nil {
		return "", localFault(err, "Nothing was merged: the head branch was not found")
	}
	if at != m.HeadSHA {
		return "", fault.New(fault.Conflict, "Nothing was merged, because the branch has moved since you looked. Look at the new commits and merge again.").WithCode("head_moved")
	}
	for range 5 {
		base, err := repo.Branch(ctx, m.Base)
		if err != nil {
			return "", localFault(err, "Nothing was merged: the base branch was not found")
		}
		contained, err := repo.IsAncestor(ctx, m.HeadSHA, base)
		if err != nil {
			return "", localFault(err, "Nothing was merged")
		}
		if contained {
			return base, nil
		}
		tree, conflicts, err := repo.Merge(ctx, base, m.HeadSHA)
		if git.CodeOf(err) == git.CodeMergeConflict {
			return "", fault.Newf(fault.Conflict, "Nothing was merged, because %d files conflict with %s. Run the task again on the new base.", len(conflicts), m.Base).WithCode("merge_conflict")
		}
		if err != nil {
			return "", localFault(err, "Nothing was merged")
		}
		sha, err := repo.Commit(ctx, git.CommitSpec{
			Tree: tree, Parents: []string{base, m.HeadSHA}, Message: "Merge " + m.Head + "\n\n" + oneLine(m.Title, 200) + "\n",
			By: git.Signature{Name: label(m.Name), Email: label(m.Email), At: m.At},
		})
		if err != nil {
			return "", localFault(err, "Nothing was merged")
		}
		err = repo.UpdateBranch(ctx, m.Base, sha, base)
		if err == nil {
			return sha, nil
		}
		if git.CodeOf(err) != git.CodeBranchTouched {
			return "", localFault(err, "Nothing was merged")
		}
	}
	return "", fault.New(fault.Unavailable, "Nothing was merged, because the base branch kept moving. Try again in a moment.")
}

// DeleteBranch removes a pull request's head branch, where it still stands at the commit that was seen. One that is gone is no error.
func (l *Local) DeleteBranch(ctx context.Context, cloneURL, branch, at string) error {
	repo, err := l.open(cloneURL)
	if err != nil {
		return err
	}
	if err := repo.DeleteBranch(ctx, branch, at); err != nil {
		return localFault(err, "The branch was not deleted")
	}
	return nil
}

// label makes a name usable in a commit.
func label(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == '<' || r == '>' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	if s = strings.TrimSpace(s); s == "" {
		return "unknown"
	}
	return s
}

// localFault turns a git failure into a sentence. The cause stays in the chain for the log.
func localFault(err error, what string) error {
	switch git.CodeOf(err) {
	case git.CodeRepoNotFound:
		return fault.Wrap(fault.NotFound, err, what+", because there is no such repository in the local forge's folder. Check the clone address.")
	case git.CodeRefNotFound:
		return fault.Wrap(fault.NotFound, err, what+", because the repository has no such branch or commit.")
	case git.CodeRemoteRefused, git.CodeInvalidName:
		return fault.Wrap(fault.Invalid, err, what+", because the address or a name in it is not allowed.")
	case git.CodeOutputLarge:
		return fault.Wrap(fault.TooLarge, err, what+", because it is larger than the limit.")
	case git.CodeBranchTouched:
		return fault.Wrap(fault.Conflict, err, what+", because the branch moved meanwhile. Look again and repeat.")
	}
	return fmt.Errorf("local forge: %w", err)
}
