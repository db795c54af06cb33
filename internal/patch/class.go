package patch

import (
	"path"
	"strings"
)

// Class is a sort of file that people and policies treat alike.
type Class string

// Classes, built in. Policies add globs of their own.
const (
	ClassCI            Class = "ci"
	ClassLockfile      Class = "lockfile"
	ClassCodeowners    Class = "codeowners"
	ClassAgentSettings Class = "agent_settings"
	ClassGitSettings   Class = "git_settings"
	ClassBuild         Class = "build"
	ClassGenerated     Class = "generated"
	ClassMigration     Class = "migration"
	ClassAuth          Class = "auth"
	ClassTest          Class = "test"
)

// classify names the classes of a changed file, over all of its paths, so
// that a rename away from a class still has it.
func classify(f File) []Class {
	var out []Class
	add := func(c Class, is bool) {
		if !is {
			return
		}
		for _, x := range out {
			if x == c {
				return
			}
		}
		out = append(out, c)
	}
	for _, p := range f.Paths() {
		p = strings.ToLower(p)
		base, dirs := path.Base(p), "/"+p
		in := func(names ...string) bool {
			for _, n := range names {
				if strings.Contains(dirs, "/"+n+"/") {
					return true
				}
			}
			return false
		}
		is := func(names ...string) bool {
			for _, n := range names {
				if base == n {
					return true
				}
			}
			return false
		}
		add(ClassCI, in(".github/workflows", ".github/actions", ".gitea/workflows", ".forgejo/workflows", ".woodpecker",
			".circleci", ".buildkite", ".ci", ".gitlab", ".tekton") ||
			is(".gitlab-ci.yml", ".gitlab-ci.yaml", ".drone.yml", ".travis.yml", "action.yml", "action.yaml",
				".woodpecker.yml", ".woodpecker.yaml", "bitbucket-pipelines.yml", "appveyor.yml", ".cirrus.yml", ".pre-commit-config.yaml") ||
			strings.HasPrefix(base, "jenkinsfile") || strings.HasPrefix(base, "azure-pipelines"))
		add(ClassLockfile, is("go.sum", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "cargo.lock",
			"poetry.lock", "uv.lock", "pipfile.lock", "gemfile.lock", "composer.lock", "gradle.lockfile", "flake.lock", "deno.lock",
			"bun.lock", "bun.lockb", "packages.lock.json", "mix.lock", "pubspec.lock", "podfile.lock"))
		add(ClassCodeowners, is("codeowners", "owners"))
		add(ClassAgentSettings, in(".claude", ".cursor", ".codex", ".gemini", ".windsurf", ".continue", ".vscode", ".devcontainer") ||
			is("agents.md", "claude.md", "gemini.md", ".mcp.json", "mcp.json", ".cursorrules", ".windsurfrules",
				"copilot-instructions.md") || strings.HasPrefix(base, ".aider"))
		add(ClassGitSettings, is(".gitmodules", ".gitattributes", ".lfsconfig", ".gitconfig") || in(".husky", ".githooks"))
		add(ClassBuild, is("makefile", "gnumakefile", "dockerfile", "containerfile", "justfile", "taskfile.yml", "build.gradle", "build.gradle.kts",
			"pom.xml", "package.json", "setup.py", "pyproject.toml", "cmakelists.txt", "build.rs", "go.mod", "cargo.toml", "rakefile",
			".npmrc", "pip.conf", ".envrc", "gradlew", "mvnw") || strings.HasPrefix(base, "dockerfile.") || strings.HasSuffix(base, ".mk"))
		add(ClassGenerated, in("generated", "__generated__") || strings.HasSuffix(base, ".pb.go") || strings.HasSuffix(base, "_pb2.py") ||
			strings.HasSuffix(base, ".gen.go") || strings.HasSuffix(base, "_generated.go") || strings.HasSuffix(base, "_templ.go") ||
			strings.Contains(base, ".generated.") || strings.HasPrefix(base, "zz_generated") ||
			strings.HasSuffix(base, ".min.js") || strings.HasSuffix(base, ".min.css"))
		add(ClassMigration, in("migrations", "migration", "migrate", "alembic") || strings.HasSuffix(base, ".up.sql") || strings.HasSuffix(base, ".down.sql"))
		add(ClassAuth, in("auth", "authn", "authz", "oauth", "oidc", "login", "session", "permissions", "crypto", "security", "acl", "rbac") ||
			strings.HasPrefix(base, "auth") || strings.Contains(base, "password") || strings.Contains(base, "permission"))
		add(ClassTest, in("test", "tests", "__tests__", "spec", "testdata") || strings.HasSuffix(base, "_test.go") ||
			strings.HasPrefix(base, "test_") || strings.HasSuffix(base, "_test.py") || strings.Contains(base, ".test.") ||
			strings.Contains(base, ".spec.") || strings.HasSuffix(base, "test.java") || strings.HasSuffix(base, "_spec.rb"))
	}
	return out
}
