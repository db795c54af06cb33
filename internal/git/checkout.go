package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Checkout writes the files of a commit into dir, which must be empty or missing. The files are the stored bytes: no
// line-end conversion, no filter, no keyword, no submodule. There is no .git in dir; the index is thrown away.
func (r *Repo) Checkout(ctx context.Context, commit, dir string) error {
	if err := checkObject(commit); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("work tree: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("work tree: %w", err)
	}
	if len(entries) != 0 {
		return fmt.Errorf("work tree %s is not empty", dir)
	}
	index, remove, err := r.g.scratchIndex()
	if err != nil {
		return err
	}
	defer remove()
	env := []string{"GIT_INDEX_FILE=" + index, "GIT_WORK_TREE=" + dir}
	if _, err := r.run(ctx, call{op: "read-tree", args: []string{"read-tree", commit}, env: env[:1]}); err != nil {
		return err
	}
	_, err = r.run(ctx, call{op: "checkout", args: []string{"checkout-index", "--all", "--quiet"}, env: env, dir: dir})
	return err
}

// Convenience gives the files in dir a .git of their own with that one commit and no remote, so that an agent's tools
// find the repository they expect. Call it before the agent starts; this package never reads it afterwards (D-31).
func (r *Repo) Convenience(ctx context.Context, commit, dir string) error {
	if err := checkObject(commit); err != nil {
		return err
	}
	own := filepath.Join(dir, ".git")
	if _, err := os.Lstat(own); err == nil {
		return fmt.Errorf("work tree %s already has a .git", dir)
	}
	if _, err := r.g.run(ctx, call{op: "init", args: []string{"init", "--quiet", "--template=", "--initial-branch=signalbox", "--", dir}}); err != nil {
		return err
	}
	source := Remote{scheme: "file", url: "file://" + r.dir, path: r.dir}
	args := []string{"fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--update-head-ok"}
	args = append(args, source.serve(r.g, "upload-pack")...)
	args = append(args, "--", source.url, commit+":refs/heads/signalbox")
	if _, err := r.g.run(ctx, call{op: "fetch", gitDir: own, args: args, remote: &source}); err != nil {
		return err
	}
	env := []string{"GIT_WORK_TREE=" + dir}
	if _, err := r.g.run(ctx, call{op: "read-tree", gitDir: own, args: []string{"read-tree", commit}, env: env}); err != nil {
		return err
	}
	// The index learns the files' times here, while nobody else has touched the tree; exit 1 only says "not all fresh".
	_, err := r.g.run(ctx, call{op: "update-index", gitDir: own, args: []string{"update-index", "-q", "--refresh"}, env: env, dir: dir, okCodes: []int{1}})
	return err
}
