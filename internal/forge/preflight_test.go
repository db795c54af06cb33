package forge_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/forge"
)

func (p *place) preflight(branch string) string {
	p.t.Helper()
	found, err := p.l.Preflight(p.t.Context(), "acme/api.git", branch)
	if err != nil {
		p.t.Fatal(err)
	}
	var all []string
	for _, f := range found {
		all = append(all, f.Name+" "+string(f.State)+": "+f.Words)
	}
	return strings.Join(all, "\n")
}

// A preflight says of each thing what it found, leaves no branch behind, and calls a repository that it may not write to a problem.
func TestPreflight(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	bare := filepath.Join(p.root, "acme", "api.git")
	got := p.preflight("main")
	for _, want := range []string{"reachable ok: Branch main stands at ", "push ok: ", "owners unchecked: There is no CODEOWNERS", "toolchain unchecked: "} {
		if !strings.Contains(got, want) {
			t.Errorf("a plain repository: %q is not in\n%s", want, got)
		}
	}
	for name := range map[string]bool{"CODEOWNERS": true, "go.mod": true, "docs/CODEOWNERS": true, "web/package.json": true, "a/b/Cargo.toml": true} {
		if err := os.MkdirAll(filepath.Join(p.work, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		p.commit(name, "x\n")
	}
	p.git(p.work, "push", "--quiet", bare, "main")
	if got = p.preflight("main"); !strings.Contains(got, "owners ok: Owners are named in CODEOWNERS.") || !strings.Contains(got, "toolchain ok: Seen: Go (go.mod), Node (web/package.json).") {
		t.Errorf("owners and toolchains: %s", got)
	}
	if branches := p.git(bare, "for-each-ref", "--format=%(refname)"); branches != "refs/heads/main" {
		t.Errorf("left behind: %s", branches)
	}
	if got = p.preflight("gone"); !strings.HasPrefix(got, "reachable problem: The branch was not found") || strings.Contains(got, "push") {
		t.Errorf("another default branch: %s", got)
	}
	// A file where a branch of ours would be a folder keeps any from being made, whoever runs the server.
	p.git(bare, "branch", "agent", "main")
	if got = p.preflight("main"); !strings.Contains(got, "push problem: A branch of ours could not be made") {
		t.Errorf("a repository that takes no branch of ours: %s", got)
	}
	if found, err := p.l.Preflight(t.Context(), "acme/none.git", "main"); err != nil || found[0].State != forge.FindingProblem {
		t.Errorf("no repository: %v %v", found, err)
	}
}
