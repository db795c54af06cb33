package git

import (
	"bytes"
	"context"
	"errors"
	"strings"
)

// Patch is a change as it is stored: the bytes that people approve and the tree that they lead to.
type Patch struct {
	Bytes   []byte
	Tree    string
	Skipped []Skip // what was in the work tree and cannot be part of a change
}

// Empty reports whether nothing changed.
func (p Patch) Empty() bool { return len(p.Bytes) == 0 }

// Patch takes the difference between a commit and a work tree that anybody may have written. See Snapshot for what
// keeps it safe.
func (r *Repo) Patch(ctx context.Context, base, workdir string, limits Limits) (Patch, error) {
	snap, err := r.Snapshot(ctx, base, workdir, limits)
	if err != nil {
		return Patch{}, err
	}
	diff, err := r.Diff(ctx, base, snap.Tree, limits.withDefaults().PatchBytes)
	if err != nil {
		return Patch{}, err
	}
	return Patch{Bytes: diff, Tree: snap.Tree, Skipped: snap.Skipped}, nil
}

// Diff returns the difference between two commits or trees in the one form that Signalbox stores: full object names,
// binary content included, no renames, three lines of context. The same two trees always give the same bytes.
func (r *Repo) Diff(ctx context.Context, a, b string, limit int64) ([]byte, error) {
	if err := checkObject(a, b); err != nil {
		return nil, err
	}
	return r.run(ctx, call{op: "diff", max: limit, args: []string{
		"diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative",
		"--unified=3", "--inter-hunk-context=0", "--diff-algorithm=histogram", "--indent-heuristic", "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=none", a, b,
	}})
}

// Apply applies a stored patch to a commit in an index of our own, with no work tree, and returns the tree.
// CodePatchConflict: it does not fit that commit. CodePatchMalformed: git refuses the bytes or one of their paths.
func (r *Repo) Apply(ctx context.Context, base string, patch []byte) (string, error) {
	if err := checkObject(base); err != nil {
		return "", err
	}
	index, remove, err := r.g.scratchIndex()
	if err != nil {
		return "", err
	}
	defer remove()
	env := []string{"GIT_INDEX_FILE=" + index}
	if _, err := r.run(ctx, call{op: "read-tree", args: []string{"read-tree", base}, env: env}); err != nil {
		return "", err
	}
	if len(patch) > 0 {
		c := call{op: "apply", env: env, stdin: bytes.NewReader(patch), args: []string{"apply", "--cached", "--binary", "-p1", "--whitespace=nowarn", "-"}}
		if _, err := r.run(ctx, c); err != nil {
			return "", applyError(err)
		}
	}
	out, err := r.run(ctx, call{op: "write-tree", args: []string{"write-tree"}, env: env})
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

func applyError(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code == CodeOutputLarge {
		return err
	}
	e.Code = CodePatchMalformed
	for _, words := range []string{"does not apply", "already exists in index", "does not exist in index", "does not match index", "patch failed", "wrong type", "cannot read the current contents", "without full index line"} {
		if strings.Contains(e.Detail, words) {
			e.Code = CodePatchConflict
		}
	}
	for _, words := range []string{"invalid path", "corrupt patch", "unrecognized input", "No valid patches"} {
		if strings.Contains(e.Detail, words) {
			e.Code = CodePatchMalformed
		}
	}
	return e
}
