package rig

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Repository is a bare repository of the local forge that is registered under its name.
type Repository struct {
	Name string
	r    *Rig
	bare string
}

// Shop is a small shell project whose check knows what is right: it fails as long as VAT is not 20 per cent.
func Shop() map[string]string {
	return map[string]string{
		"README.md":    "# Shop\n\nPrices with tax.\n",
		"lib/price.sh": "#!/bin/sh\n# price NET: the price with tax\nrate=19\nprice() { echo $(( $1 + $1 * rate / 100 )); }\n",
		"greeting.txt": "hello\n",
		"check.sh":     "#!/bin/sh\nset -eu\n. ./lib/price.sh\ngot=$(price 100)\necho \"price 100 is $got\"\n[ \"$got\" = 119 ] || [ \"$got\" = 120 ] || { echo \"price 100 is $got, want 119 or 120\" >&2; exit 1; }\ngrep -q hello greeting.txt\n",
	}
}

// Repository plants files as a bare repository with one commit and registers it as the admin, with verification
// commands ("sh ./check.sh" where none are given).
func (r *Rig) Repository(name string, files map[string]string, checks ...string) *Repository {
	t := r.T
	t.Helper()
	if len(checks) == 0 {
		checks = []string{"sh ./check.sh"}
	}
	repo := &Repository{Name: name, r: r, bare: r.path("forge", name+".git")}
	work := filepath.Join(r.path("planting"), strings.ReplaceAll(name, "/", "-"))
	for file, content := range files {
		path := filepath.Join(work, file)
		r.must(os.MkdirAll(filepath.Dir(path), 0o755), "plant")
		r.must(os.WriteFile(path, []byte(content), 0o644), "plant")
	}
	r.git("", "init", "--quiet", "--initial-branch=main", work)
	r.git(work, "add", "--all")
	r.git(work, "commit", "--quiet", "--message=Begin")
	r.git("", "clone", "--quiet", "--bare", "--no-hardlinks", work, repo.bare)
	r.git(repo.bare, "remote", "remove", "origin")
	page := r.Person("adam").Fill("/repositories", "/repositories", url.Values{
		"name": {name}, "remote": {name + ".git"}, "default_branch": {"main"}, "verify": {strings.Join(checks, "\n")},
	})
	if page.Status != http.StatusOK {
		t.Fatalf("rig: register %s: answered %d: %s", name, page.Status, page.Alert())
	}
	return repo
}

// git runs real git in a folder, with none of this machine's configuration.
func (r *Rig) git(dir string, args ...string) string {
	r.T.Helper()
	return r.feed(dir, "", args...)
}

func (r *Rig) feed(dir, input string, args ...string) string {
	r.T.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.Dir, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@example.test", "GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@example.test",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.T.Fatalf("rig: git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// ID is the repository's id in the API.
func (p *Repository) ID() string {
	p.r.T.Helper()
	answer, err := p.r.API().ListRepositoriesWithResponse(p.r.T.Context(), nil)
	p.r.must(err, "list repositories")
	if answer.JSON200 != nil {
		for _, r := range answer.JSON200.Items {
			if r.Name == p.Name {
				return r.Id
			}
		}
	}
	p.r.T.Fatalf("rig: %s is not in the list of repositories: %s", p.Name, answer.Body)
	return ""
}

// Git runs git on the bare repository.
func (p *Repository) Git(args ...string) string {
	p.r.T.Helper()
	return p.r.git(p.bare, args...)
}

// Feed runs git on the bare repository with text on its standard input.
func (p *Repository) Feed(input string, args ...string) string {
	p.r.T.Helper()
	return p.r.feed(p.bare, input, args...)
}

// Branches are the branches but main, sorted.
func (p *Repository) Branches() []string {
	p.r.T.Helper()
	var all []string
	for _, name := range strings.Fields(p.Git("for-each-ref", "--format=%(refname:short)", "refs/heads")) {
		if name != "main" {
			all = append(all, name)
		}
	}
	return all
}

// File is a file's content on a branch or commit.
func (p *Repository) File(rev, name string) string {
	p.r.T.Helper()
	return p.Git("show", rev+":"+name)
}

// Commit changes files on main as somebody else would, by a push.
func (p *Repository) Commit(message string, files map[string]string) string {
	r := p.r
	r.T.Helper()
	work, err := os.MkdirTemp(r.Dir, "pushing-")
	r.must(err, "make a checkout")
	r.git("", "clone", "--quiet", p.bare, work)
	for file, content := range files {
		path := filepath.Join(work, file)
		r.must(os.MkdirAll(filepath.Dir(path), 0o755), "change "+file)
		r.must(os.WriteFile(path, []byte(content), 0o644), "change "+file)
	}
	r.git(work, "add", "--all")
	r.git(work, "commit", "--quiet", "--message="+message)
	r.git(work, "push", "--quiet", "origin", "main")
	return r.git(work, "rev-parse", "HEAD")
}

// Published asserts what a run that succeeded with a pull request left: exactly one branch with exactly one commit on
// the base, carrying the run's trailer, and exactly one row of a pull request that names that commit. It returns them.
func (p *Repository) Published(run string) (branch, commit string) {
	t := p.r.T
	t.Helper()
	branches := p.Branches()
	if len(branches) != 1 {
		t.Fatalf("branches %q, want one", branches)
	}
	branch = branches[0]
	commit = p.Git("rev-parse", "refs/heads/"+branch)
	base := p.Git("merge-base", "main", branch)
	if n := p.Git("rev-list", "--count", base+".."+branch); n != "1" {
		t.Errorf("%s has %s commits on its base, want one", branch, n)
	}
	if message := p.Git("log", "-1", "--format=%B", commit); !strings.Contains(message, "Agent-Run-ID: "+run) {
		t.Errorf("the commit's message has no trailer of %s:\n%s", run, message)
	}
	rows, err := p.r.Owner.Query(t.Context(), `SELECT p.head_branch, p.head_sha FROM pull_requests p JOIN repositories r ON r.id = p.repository_id WHERE r.name = $1`, p.Name)
	p.r.must(err, "read pull requests")
	defer rows.Close()
	n := 0
	for rows.Next() {
		var head, sha string
		p.r.must(rows.Scan(&head, &sha), "read pull requests")
		if head != branch || sha != commit {
			t.Errorf("a pull request of %s at %s, want %s at %s", head, sha, branch, commit)
		}
		n++
	}
	p.r.must(rows.Err(), "read pull requests")
	if n != 1 {
		t.Errorf("%d pull requests, want one", n)
	}
	return branch, commit
}
