package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Signature names who and when. The time comes from the caller: the same arguments give the same commit.
type Signature struct {
	Name  string
	Email string
	At    time.Time
}

func (s Signature) env(role string) ([]string, error) {
	for _, v := range []string{s.Name, s.Email} {
		if strings.TrimSpace(v) == "" || strings.ContainsAny(v, "<>\n\r\x00") {
			return nil, refuse(CodeInvalidName, "commit", "the author's name or address is not usable")
		}
	}
	return []string{
		"GIT_" + role + "_NAME=" + s.Name, "GIT_" + role + "_EMAIL=" + s.Email,
		fmt.Sprintf("GIT_%s_DATE=@%d +0000", role, s.At.Unix()),
	}, nil
}

// CommitSpec is everything that decides a commit's name.
type CommitSpec struct {
	Tree    string
	Parents []string
	Message string
	By      Signature
}

// Commit stores a commit and returns its name. Doing it twice gives the same name.
func (r *Repo) Commit(ctx context.Context, spec CommitSpec) (string, error) {
	if err := checkObject(append([]string{spec.Tree}, spec.Parents...)...); err != nil {
		return "", err
	}
	author, err := spec.By.env("AUTHOR")
	if err != nil {
		return "", err
	}
	committer, err := spec.By.env("COMMITTER")
	if err != nil {
		return "", err
	}
	if strings.Contains(spec.Message, "\x00") {
		return "", refuse(CodeInvalidName, "commit", "the message holds a NUL")
	}
	args := []string{"commit-tree", "--no-gpg-sign"}
	for _, p := range spec.Parents {
		args = append(args, "-p", p)
	}
	out, err := r.run(ctx, call{op: "commit", args: append(args, "-F", "-", spec.Tree), env: append(author, committer...), stdin: strings.NewReader(spec.Message)})
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// Push sends one commit to one branch. expect is where the branch must stand ("" means that it must not exist yet); a
// branch that already stands at commit is success. It never forces: a commit that does not contain expect is refused
// here. CodeBranchTouched: somebody else moved the branch.
func (r *Repo) Push(ctx context.Context, remote Remote, commit, branch, expect string) error {
	if err := CheckBranch(branch); err != nil {
		return err
	}
	if err := checkObject(commit); err != nil {
		return err
	}
	if expect != "" && expect != commit {
		if err := checkObject(expect); err != nil {
			return err
		}
		contained := r.Has(ctx, expect)
		if contained {
			var err error
			if contained, err = r.IsAncestor(ctx, expect, commit); err != nil {
				return err
			}
		}
		if !contained {
			return refuse(CodePushRejected, "push", "the new commit does not contain the branch's commit %s", expect)
		}
	}
	ref := "refs/heads/" + branch
	args := []string{"push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--atomic", "--force-with-lease=" + ref + ":" + expect}
	args = append(args, remote.serve(r.g, "receive-pack")...)
	_, err := r.run(ctx, call{op: "push", args: append(args, "--", remote.url, commit+":"+ref), remote: &remote})
	if err == nil || stopped(ctx) != nil {
		return err
	}
	// A second try after a lost answer meets the branch where the first try put it.
	if code := CodeOf(err); code == CodeBranchTouched || code == CodePushRejected {
		if at, lookErr := r.g.LsRemote(ctx, remote, branch); lookErr == nil {
			if at == commit {
				return nil
			}
			if at != expect {
				if e, ok := errors.AsType[*Error](err); ok {
					e.Code = CodeBranchTouched
				}
			}
		}
	}
	return err
}

// Merge joins two commits without a work tree and returns the tree, or the paths in conflict with CodeMergeConflict.
func (r *Repo) Merge(ctx context.Context, base, head string) (tree string, conflicts []string, err error) {
	if err := checkObject(base, head); err != nil {
		return "", nil, err
	}
	exit := 0
	out, err := r.run(ctx, call{op: "merge", okCodes: []int{1}, exit: &exit, args: []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", base, head}})
	if err != nil {
		return "", nil, err
	}
	parts := strings.Split(string(out), "\x00")
	if exit == 0 {
		return strings.TrimSpace(parts[0]), nil, nil
	}
	for _, p := range parts[1:] {
		if p != "" {
			conflicts = append(conflicts, p)
		}
	}
	return "", conflicts, refuse(CodeMergeConflict, "merge", "%d files conflict", len(conflicts))
}
