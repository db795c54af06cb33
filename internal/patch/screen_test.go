package patch_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/internal/patch"
)

// R-TRN-8: forbidden and protected paths match on the side of a match.
func TestMatchAny(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		glob, path string
		want       bool
	}{
		{"secrets/**", "secrets/a/b.txt", true},
		{"secrets/**", "other/secrets/a", false},
		{"**/secrets/**", "other/secrets/a", true},
		{"**/secrets/**", "secrets/a", true},
		{"secrets", "secrets/a/b", true},
		{"secrets/", "secrets/a/b", true},
		{"secrets", "deep/secrets/a", true},
		{"config/prod", "config/prod/db.yml", true},
		{"config/prod", "x/config/prod/db.yml", false},
		{"*.pem", "deep/down/key.pem", true},
		{"*.pem", "key.pem.txt", false},
		{"**/.github/**", ".GitHub/Workflows/CI.yml", true},
		{"**/.github/**", "sub/.github/x", true},
		{"**/go.sum", "go.sum", true},
		{"**/go.sum", "GO.SUM", true},
		{"**/Jenkinsfile*", "ci/Jenkinsfile.release", true},
		{"./a.txt", "a.txt", true},
		{"a[", "anything", true}, // cannot be read: must not let through
		{"/rooted", "anything", true},
		{strings.Repeat("**/", 20) + "x", "anything", true},
		{"", "anything", true},
	} {
		if _, got := patch.MatchAny([]string{tc.glob}, tc.path); got != tc.want {
			t.Errorf("%q on %q: %v", tc.glob, tc.path, got)
		}
	}
	if _, got := patch.MatchAny(nil, "a"); got {
		t.Error("no globs match nothing")
	}
}

// R-JUDGE-1: scope matches on the side of no match.
func TestInScope(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		glob, path string
		want       bool
	}{
		{"src", "src/a/b.go", true}, {"src/", "src/a", true}, {"src/**", "src/a/b", true}, {"src/*.go", "src/a.go", true},
		{"src", "other/src/a", false}, {"src", "SRC/a", false}, {"src", "srcs/a", false}, {"*.go", "a.go", true},
		{"*.go", "x/a.go", false}, {"**/*.go", "x/y/a.go", true}, {".", "x/y", true}, {"./src", "src/a", true},
		{"a[", "a[", false}, {"", "a", false}, {"/src", "src/a", false},
	} {
		if got := patch.InScope([]string{tc.glob}, tc.path); got != tc.want {
			t.Errorf("%q on %q: %v", tc.glob, tc.path, got)
		}
	}
}

func TestScreen(t *testing.T) {
	t.Parallel()
	raw := gitDiff(t, map[string]string{"safe/a.txt": lines(9, "%d"), "old": "\x00link:x", "bin": "\x00\x01"}, map[string]string{
		"vault/a.txt": lines(9, "%d"), "src/x.go": "package x\n", "link": "\x00link:/etc/passwd",
		"api.pb.go": "x\n", "b.bin": "\x00\x02",
	}, "-M")
	f := mustParse(t, raw).Facts()
	h := patch.Screen(f, patch.Screening{
		Scope: []string{"src"}, Forbidden: []string{"vault/**"}, Protected: []string{"safe/**"}, GeneratedRule: "forbid",
	})
	has := func(list []string, want string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, want) })
	}
	if !has(h.Forbidden, "vault/a.txt") || !has(h.Protected, "safe/a.txt") {
		t.Errorf("a rename counts on both sides: %+v", h)
	}
	if !has(h.Forbidden, "link (a symbolic link)") || !has(h.Forbidden, "b.bin (a binary file)") || has(h.Forbidden, "old") {
		t.Errorf("links and binaries: %q", h.Forbidden)
	}
	if !has(h.OutOfScope, "link") || has(h.OutOfScope, "src/x.go") || !has(h.GeneratedViolations, "api.pb.go") {
		t.Errorf("%+v", h)
	}
	h = patch.Screen(f, patch.Screening{Symlinks: true, Binaries: true, GeneratedRule: "allow"})
	if len(h.Forbidden)+len(h.OutOfScope)+len(h.Protected)+len(h.GeneratedViolations) != 0 {
		t.Errorf("everything allowed: %+v", h)
	}
	req := patch.Screening{Binaries: true, Symlinks: true, GeneratedRule: "require", GeneratedSources: []string{"*.proto"}}
	proto := mustParse(t, []byte(file("x.proto"))).Facts()
	if h := patch.Screen(proto, req); len(h.GeneratedViolations) != 1 {
		t.Errorf("sources without generated files: %+v", h)
	}
	both := mustParse(t, []byte(file("x.proto")+file("x.pb.go"))).Facts()
	if h := patch.Screen(both, req); len(h.GeneratedViolations) != 0 {
		t.Errorf("sources with generated files: %+v", h)
	}
	sub := "diff --git a/m b/m\nnew file mode 160000\nindex 0000000..2222222\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n+Subproject commit 2222222222222222222222222222222222222222\n"
	if h := patch.Screen(mustParse(t, []byte(sub)).Facts(), patch.Screening{Symlinks: true, Binaries: true}); len(h.Forbidden) != 1 {
		t.Errorf("a submodule is never allowed: %+v", h)
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]patch.Class{
		".github/workflows/ci.yml": patch.ClassCI, ".GitHub/Workflows/x.YML": patch.ClassCI, ".gitlab-ci.yml": patch.ClassCI,
		".woodpecker/build.yaml": patch.ClassCI, "sub/action.yml": patch.ClassCI, "Jenkinsfile": patch.ClassCI, ".ci/run": patch.ClassCI,
		"go.sum": patch.ClassLockfile, "web/package-lock.json": patch.ClassLockfile, ".github/CODEOWNERS": patch.ClassCodeowners,
		"AGENTS.md": patch.ClassAgentSettings, ".claude/settings.json": patch.ClassAgentSettings, ".mcp.json": patch.ClassAgentSettings,
		".cursor/rules/x.mdc": patch.ClassAgentSettings, ".gitmodules": patch.ClassGitSettings, "a/.gitattributes": patch.ClassGitSettings,
		"Makefile": patch.ClassBuild, "Dockerfile.dev": patch.ClassBuild, "api.pb.go": patch.ClassGenerated,
		"db/migrations/0001.sql": patch.ClassMigration, "internal/auth/token.go": patch.ClassAuth, "x_test.go": patch.ClassTest,
		"tests/test_a.py": patch.ClassTest, "src/a.spec.ts": patch.ClassTest,
	} {
		f := mustParse(t, []byte(file(path))).Facts().Files[0]
		if !f.Is(want) {
			t.Errorf("%s has %v, not %s", path, f.Classes, want)
		}
	}
	if c := mustParse(t, []byte(file("src/main.go"))).Facts().Files[0].Classes; len(c) != 0 {
		t.Errorf("an ordinary file has classes %v", c)
	}
	away := mustParse(t, []byte("diff --git a/.github/workflows/ci.yml b/x.txt\nsimilarity index 100%\nrename from .github/workflows/ci.yml\nrename to x.txt\n"))
	if !away.Facts().Files[0].Is(patch.ClassCI) {
		t.Error("a rename away from CI is a change of CI")
	}
}
