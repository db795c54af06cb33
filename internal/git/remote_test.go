package git_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/internal/egress"
	"signalbox/internal/git"
)

func TestParseRemote(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.upstream("ok", map[string]string{"a": "a"})
	outside := filepath.Join(h.dir, "outside.git")
	h.plain(h.dir, "init", "--quiet", "--bare", outside)
	if err := os.Symlink(outside, filepath.Join(h.root, "trick.git")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(h.root, "ok.git"), filepath.Join(h.root, "alias.git")); err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{
		"", "-", "--upload-pack=touch " + h.canary, "ext::sh -c touch% " + h.canary, "ext::" + h.canary, "fd::17", "ssh://host/x", "git@host:x.git", "git://host/x",
		"http://example.org/x.git", "https://user:secret@example.org/x.git", "https://example.org/x.git?a=b", "https://example.org/x.git#f", "https://exa_mple.org/x",
		"https://example.org\\@evil.org/x", "https://example.org/%2e%2e/x", "https://example.org/a/../b", "https://example.org/-x", "https://-example.org/x", "https:///x", "https://example.org",
		"https://example.org/x\n", "https://[::1]/x", "file://host" + h.root + "/ok.git", "file:///etc", "/etc", h.root, h.root + "/../outside.git", outside, h.root + "/trick.git", "file://" + h.root + "/ok.git/../../outside.git", "ok.git", "../ok.git",
	} {
		if r, err := h.git.ParseRemote(raw); git.CodeOf(err) != git.CodeRemoteRefused {
			t.Errorf("ParseRemote(%q) = %q, %v; want it refused", raw, r, err)
		}
	}
	_, err := h.git.ParseRemote(h.root + "/missing.git")
	wantCode(t, err, git.CodeRepoNotFound)
	for raw, want := range map[string]string{
		"https://example.org/a/b.git":       "https://example.org/a/b.git",
		"https://example.org:8443/a/b.git/": "https://example.org:8443/a/b.git",
		"http://127.0.0.1:3000/a":           "http://127.0.0.1:3000/a",
		h.root + "/ok.git":                  "file://" + h.root + "/ok.git",
		"file://" + h.root + "/alias.git":   "file://" + h.root + "/ok.git",
	} {
		r, err := h.git.ParseRemote(raw)
		if err != nil || r.String() != want {
			t.Errorf("ParseRemote(%q) = %q, %v; want %q", raw, r, err, want)
		}
	}
}

// W10: an address that is this machine or its link is refused, however it is spelt; a company's private network is where an
// administrator opened it.
func TestParseRemoteRefusesThisMachine(t *testing.T) {
	t.Parallel()
	g, err := git.New(t.Context(), git.Config{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{
		"localhost", "LOCALHOST", "x.localhost", "127.0.0.1", "127.9.9.9", "127.1", "2130706433", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "0", "0.0.0.0", "0.1.2.3",
		"169.254.169.254", "224.0.0.1", "127.0.0.1:8443", "localhost:443", "10.1.2.3", "172.16.0.1", "[fd00::1]", "[::ffff:10.1.2.3]",
	} {
		if r, err := g.ParseRemote("https://" + host + "/acme/shop.git"); git.CodeOf(err) != git.CodeRemoteRefused {
			t.Errorf("https://%s is %q, %v; want it refused", host, r, err)
		}
	}
	allow, err := egress.ParseAllow("test", []string{"10.1.0.0/16", "192.168.1.10:3000"})
	if err != nil {
		t.Fatal(err)
	}
	if g, err = git.New(t.Context(), git.Config{Home: t.TempDir(), Allow: allow}); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"10.1.2.3", "192.168.1.10:3000", "git.example.org", "git.internal", "127.example.org", "1e100.net"} {
		if _, err := g.ParseRemote("https://" + host + "/acme/shop.git"); err != nil {
			t.Errorf("https://%s: %v", host, err)
		}
	}
}

func TestCheckBranch(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "-x", "--upload-pack=x", "$(touch x)", "a;b", "a|b", "a`b`", "a b", "a..b", "a@{1}", "a.lock", "x/.y", "x/-y", "x//y", "x/", "a.", "@", "a\nb", "a:b", "+a", "a^", "a~1", "a?", "a*", "a[", "a\\b", "é", strings.Repeat("x", 201), "/a", ".a", "refs\x00",
	} {
		if err := git.CheckBranch(bad); git.CodeOf(err) != git.CodeInvalidName {
			t.Errorf("CheckBranch(%q) = %v, want it refused", bad, err)
		}
	}
	for _, good := range []string{"main", "release/1.2", "agent/task_01h/run_01h", "v1.0.x", "user@feature", "a=b+c"} {
		if err := git.CheckBranch(good); err != nil {
			t.Errorf("CheckBranch(%q) = %v", good, err)
		}
	}
}

// A repository of the local forge with a hostile configuration: reading, pushing and merging run nothing of it.
func TestHostileForgeRepository(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	remote, base := h.upstream("hostile", map[string]string{"a.txt": "a\n", ".gitattributes": "* merge=x filter=x diff=x\n"})
	bare := filepath.Join(h.root, "hostile.git")
	canary := h.script(filepath.Join(h.dir, "canary.sh"))
	for _, hook := range []string{"pre-receive", "update", "post-receive", "post-update", "reference-transaction", "proc-receive", "push-to-checkout", "pre-auto-gc"} {
		h.script(filepath.Join(bare, "hooks", hook))
	}
	h.write(bare, "info/attributes", "* merge=x filter=x diff=x\n")
	h.write(bare, "objects/info/alternates", filepath.Join(h.root, "ok.git", "objects")+"\n")
	h.upstream("ok", map[string]string{"z": "z"})
	h.write(bare, "config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfsmonitor = "+canary+"\n\thooksPath = "+filepath.Join(bare, "hooks")+"\n\talternateRefsCommand = "+canary+"\n\tsshCommand = "+canary+
		"\n[uploadpack]\n\tpackObjectsHook = "+canary+"\n[merge \"x\"]\n\tdriver = "+canary+" %A %O %B\n[filter \"x\"]\n\tclean = "+canary+"\n\tsmudge = "+canary+"\n[diff \"x\"]\n\tcommand = "+canary+"\n\ttextconv = "+canary+"\n[diff]\n\texternal = "+canary+
		"\n[receive]\n\tautogc = true\n[gc]\n\tauto = 1\n[credential]\n\thelper = !"+canary+"\n[gpg]\n\tprogram = "+canary+"\n")

	repo, work := h.run(remote, base)
	h.write(work, "a.txt", "changed\n")
	p := h.patch(repo, base, work)
	commit, err := repo.Commit(t.Context(), git.CommitSpec{Tree: p.Tree, Parents: []string{base}, Message: "c\n", By: git.Signature{Name: "s", Email: "s@example.org", At: time.Unix(5, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.Push(t.Context(), remote, commit, "agent/t/r", ""); err != nil {
		t.Fatal(err)
	}
	forge, err := h.git.Bare(remote)
	if err != nil {
		t.Fatal(err)
	}
	at, err := forge.Branch(t.Context(), "agent/t/r")
	if err != nil || at != commit {
		t.Fatalf("branch at %s, %v; want %s", at, err, commit)
	}
	tree, _, err := forge.Merge(t.Context(), base, commit)
	if err != nil || tree != p.Tree {
		t.Fatalf("merge = %s, %v; want %s", tree, err, p.Tree)
	}
	if _, err := forge.Diff(t.Context(), base, commit, 1<<20); err != nil {
		t.Fatal(err)
	}
	merged, err := forge.Commit(t.Context(), git.CommitSpec{Tree: tree, Parents: []string{base, commit}, Message: "merge\n", By: git.Signature{Name: "s", Email: "s@example.org", At: time.Unix(6, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := forge.UpdateBranch(t.Context(), "main", merged, base); err != nil {
		t.Fatal(err)
	}
	wantCode(t, forge.UpdateBranch(t.Context(), "main", merged, base), git.CodeBranchTouched)
	if got, err := h.git.LsRemote(t.Context(), remote, "main"); err != nil || got != merged {
		t.Fatalf("main at %s, %v; want %s", got, err, merged)
	}
}

func TestPushNeverForces(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	remote, base := h.upstream("push", map[string]string{"a.txt": "a\n"})
	repo, _ := h.run(remote, base)
	tree, err := repo.TreeOf(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	commit := func(message string, parents ...string) string {
		t.Helper()
		spec := git.CommitSpec{Tree: tree, Parents: parents, Message: message, By: git.Signature{Name: "s", Email: "s@example.org", At: time.Unix(5, 0)}}
		sha, err := repo.Commit(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := repo.Commit(t.Context(), spec); err != nil || again != sha {
			t.Fatalf("the same commit got two names: %s, %s, %v", sha, again, err)
		}
		return sha
	}
	const branch = "agent/task/run"
	one, two, rival := commit("one\n", base), commit("two\n", base), commit("rival\n", base)
	next := commit("next\n", one)

	if err := repo.Push(t.Context(), remote, one, branch, ""); err != nil {
		t.Fatal(err)
	}
	// R-RCV-5: the second try after a lost answer finds the branch and makes no duplicate.
	if err := repo.Push(t.Context(), remote, one, branch, ""); err != nil {
		t.Fatalf("a second try: %v", err)
	}
	wantCode(t, repo.Push(t.Context(), remote, two, branch, ""), git.CodeBranchTouched)
	wantCode(t, repo.Push(t.Context(), remote, two, branch, one), git.CodePushRejected)
	if err := repo.Push(t.Context(), remote, next, branch, one); err != nil {
		t.Fatal(err)
	}
	// A person moves the branch; our next push keeps its hands off.
	h.plain(h.dir, "--git-dir="+filepath.Join(h.dir, "seed-push", ".git"), "fetch", "--quiet", filepath.Join(h.root, "push.git"), branch)
	work := filepath.Join(h.dir, "seed-push")
	h.plain(work, "checkout", "--quiet", "FETCH_HEAD")
	h.write(work, "human.txt", "h\n")
	h.plain(work, "add", "-A")
	h.plain(work, "commit", "--quiet", "-m", "human")
	h.plain(work, "push", "--quiet", filepath.Join(h.root, "push.git"), "HEAD:"+branch)
	wantCode(t, repo.Push(t.Context(), remote, commit("more\n", next), branch, next), git.CodeBranchTouched)
	_ = rival
	for _, bad := range []string{"-f", "+main", "a:b", "--mirror"} {
		wantCode(t, repo.Push(t.Context(), remote, one, bad, ""), git.CodeInvalidName)
	}
	if _, err := h.git.LsRemote(t.Context(), remote, "agent/task"); git.CodeOf(err) != git.CodeRefNotFound {
		t.Fatalf("a prefix of a branch was taken for a branch: %v", err)
	}
}

func TestMirrorFetchesOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	remote, first := h.upstream("mirror", map[string]string{"a.txt": "a\n"})
	m, err := h.git.Mirror(t.Context(), filepath.Join(h.dir, "mirrors"), remote)
	if err != nil {
		t.Fatal(err)
	}
	if sha, err := m.Branch(t.Context(), "main"); err != nil || sha != first {
		t.Fatalf("main at %s, %v; want %s", sha, err, first)
	}
	if branch, sha, err := h.git.DefaultBranch(t.Context(), remote); err != nil || branch != "main" || sha != first {
		t.Fatalf("default branch %s at %s, %v", branch, sha, err)
	}
	_, err = m.Branch(t.Context(), "missing")
	wantCode(t, err, git.CodeRefNotFound)
	wantCode(t, m.Commit(t.Context(), strings.Repeat("0", 39)+"1", "main"), git.CodeRefNotFound)
	// With the commit present the remote may be gone.
	if err := os.Rename(filepath.Join(h.root, "mirror.git"), filepath.Join(h.root, "away.git")); err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(t.Context(), first, "main"); err != nil {
		t.Fatal(err)
	}
	_, err = m.Branch(t.Context(), "main")
	wantCode(t, err, git.CodeRepoNotFound)
}

func TestHTTPRemotes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, base := h.upstream("web", map[string]string{"a.txt": "a\n"})
	execPath, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + h.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + h.dir},
	}
	const secret = "Authorization: Bearer s3cr3t-t0ken"
	hung := make(chan struct{}, 8)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	mux := http.NewServeMux()
	mux.Handle("/web.git/", backend)
	mux.HandleFunc("/private/", func(w http.ResponseWriter, r *http.Request) {
		if "Authorization: "+r.Header.Get("Authorization") != secret {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.StripPrefix("/private", backend).ServeHTTP(w, r)
	})
	mux.HandleFunc("/busy/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/moved/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/web.git/"+strings.TrimPrefix(r.URL.Path, "/moved/")+"?"+r.URL.RawQuery, http.StatusFound)
	})
	mux.HandleFunc("/hang/", func(_ http.ResponseWriter, r *http.Request) {
		hung <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	parse := func(path string) git.Remote {
		t.Helper()
		r, err := h.git.ParseRemote(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}

	m, err := h.git.Mirror(t.Context(), filepath.Join(h.dir, "mirrors"), parse("/web.git"))
	if err != nil {
		t.Fatal(err)
	}
	if sha, err := m.Branch(t.Context(), "main"); err != nil || sha != base {
		t.Fatalf("over http: %s, %v; want %s", sha, err, base)
	}
	for path, want := range map[string]git.Code{
		"/missing.git": git.CodeRepoNotFound, "/private/web.git": git.CodeAuth, "/busy/x.git": git.CodeTransient,
	} {
		_, err := h.git.LsRemote(t.Context(), parse(path), "main")
		wantCode(t, err, want)
	}
	if _, err := h.git.LsRemote(t.Context(), parse("/moved/"), "main"); err == nil {
		t.Error("a redirect was followed")
	}
	private := parse("/private/web.git")
	private.AuthHeader = secret
	if sha, err := h.git.LsRemote(t.Context(), private, "main"); err != nil || sha != base {
		t.Fatalf("with the credential: %s, %v", sha, err)
	}
	wrong := parse("/private/web.git")
	wrong.AuthHeader = secret + "-wrong"
	_, err = h.git.LsRemote(t.Context(), wrong, "main")
	wantCode(t, err, git.CodeAuth)
	if strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("the error tells the credential: %v", err)
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	gone, err := h.git.ParseRemote(closed.URL + "/x.git")
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.git.LsRemote(t.Context(), gone, "main")
	wantCode(t, err, git.CodeTransient)

	// A remote that never answers: cancelling ends the whole process group at once.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	hang := parse("/hang/x.git")
	go func() {
		_, err := h.git.LsRemote(ctx, hang, "main")
		done <- err
	}()
	<-hung
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("git outlived its context")
	}
}

func TestMergeConflict(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	remote, base := h.upstream("merge", map[string]string{"a.txt": "1\n2\n3\n", "b.txt": "b\n"})
	repo, work := h.run(remote, base)
	commit := func(name, content string) string {
		t.Helper()
		old, err := os.ReadFile(filepath.Join(work, name))
		if err != nil {
			t.Fatal(err)
		}
		h.write(work, name, content)
		p := h.patch(repo, base, work)
		h.write(work, name, string(old))
		sha, err := repo.Commit(t.Context(), git.CommitSpec{Tree: p.Tree, Parents: []string{base}, Message: name + "\n", By: git.Signature{Name: "s", Email: "s@example.org", At: time.Unix(5, 0)}})
		if err != nil {
			t.Fatal(err)
		}
		return sha
	}
	left, right, apart := commit("a.txt", "1\nL\n3\n"), commit("a.txt", "1\nR\n3\n"), commit("b.txt", "other\n")
	_, conflicts, err := repo.Merge(t.Context(), left, right)
	wantCode(t, err, git.CodeMergeConflict)
	if len(conflicts) != 1 || conflicts[0] != "a.txt" {
		t.Fatalf("conflicts = %q", conflicts)
	}
	if tree, _, err := repo.Merge(t.Context(), left, apart); err != nil || tree == "" {
		t.Fatalf("merge of separate files: %q, %v", tree, err)
	}
	if mb, err := repo.MergeBase(t.Context(), left, right); err != nil || mb != base {
		t.Fatalf("merge base %s, %v; want %s", mb, err, base)
	}
	// A branch that went on is counted; one whose history was written anew is not.
	for pair, want := range map[[2]string]int{{base, left}: 1, {base, base}: 0, {left, right}: 0, {left, base}: 0} {
		if n, err := repo.CommitsSince(t.Context(), pair[0], pair[1]); err != nil || n != want {
			t.Errorf("%s to %s: %d commits, %v; want %d", pair[0], pair[1], n, err, want)
		}
	}
	if _, err := repo.CommitsSince(t.Context(), base, "--all"); err == nil {
		t.Error("an option was taken for a commit")
	}
}
