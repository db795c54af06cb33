package rig

import (
	"net/http"
	"net/url"
	"strings"
)

// Adopt registers a copy of a repository that lies elsewhere, with one commit of it as main and no other branch. The
// original is only read. At least one check is needed, a command in one line each.
func (r *Rig) Adopt(name, original, commit string, checks ...string) *Repository {
	t := r.T
	t.Helper()
	repo := &Repository{Name: name, r: r, bare: r.path("forge", name+".git")}
	r.git("", "init", "--quiet", "--bare", "--initial-branch=main", repo.bare)
	r.git(original, "push", "--quiet", repo.bare, r.git(original, "rev-parse", commit+"^{commit}")+":refs/heads/main")
	page := r.Person("adam").Fill("/repositories", "/repositories", url.Values{
		"name": {name}, "remote": {name + ".git"}, "default_branch": {"main"}, "verify": {strings.Join(checks, "\n")},
	})
	if page.Status != http.StatusOK {
		t.Fatalf("rig: register %s: answered %d: %s", name, page.Status, page.Alert())
	}
	return repo
}

// Export writes the files of a commit into a new folder, without a .git.
func (p *Repository) Export(rev, dir string) {
	p.r.T.Helper()
	p.r.git(p.bare, "worktree", "add", "--quiet", "--detach", dir, rev)
}
