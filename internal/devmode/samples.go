package devmode

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed samples agent
var embedded embed.FS

// check is one verification command.
type check struct {
	name string
	argv []string
}

// sample is a repository that every dev mode has.
type sample struct {
	// name is what pages show, and with .git its path in the local forge.
	name   string
	tree   string // below samples/
	checks []check
}

// samples need a shell and nothing else, so that a first verification takes moments on any machine.
func samples() []sample {
	return []sample{
		{name: "acme/orders", tree: "orders", checks: []check{
			{"test", []string{"sh", "tests/run.sh"}},
			{"lint", []string{"sh", "tests/lint.sh"}},
		}},
		{name: "acme/handbook", tree: "handbook", checks: []check{
			{"links", []string{"sh", "tests/links.sh"}},
		}},
	}
}

func (s sample) cloneURL() string { return s.name + ".git" }

// sampleTask is the change that waits for the reader: a real migration of acme/orders, whose lint fails before it.
const (
	sampleTaskTitle = "Replace egrep and fgrep, which POSIX dropped"
	sampleTaskGoal  = "Newer systems warn about egrep and fgrep, or lack them. The lint of this repository fails for that reason.\n\n" +
		"Replace `egrep` by `grep -E` in `bin/*.sh`.\n" +
		"Replace `fgrep` by `grep -F` in `bin/*.sh`.\n"
)

// sampleGoal is a goal that the sample agent understands, to be tried in acme/handbook.
const sampleGoal = "Replace `customer` by `client` in `pages/*.md`."

// agentScript is the program of the sample agent; it is handed to sh as text, so that a sandbox needs no mount for it.
func agentScript() (string, error) {
	text, err := embedded.ReadFile("agent/replace.sh")
	if err != nil {
		return "", fmt.Errorf("read the sample agent: %w", err)
	}
	return string(text), nil
}

// plant makes the sample's bare repository under root with real git, unless it is there. It is made beside its place
// and renamed, so that an interrupted start leaves no half of one.
func (s sample) plant(ctx context.Context, root string) error {
	bare := filepath.Join(root, s.cloneURL())
	if _, err := os.Stat(filepath.Join(bare, "HEAD")); err == nil {
		return nil
	}
	tmp, err := os.MkdirTemp(root, ".planting-")
	if err != nil {
		return fmt.Errorf("plant %s: %w", s.name, err)
	}
	defer os.RemoveAll(tmp)
	work := filepath.Join(tmp, "work")
	tree, err := fs.Sub(embedded, "samples/"+s.tree)
	if err != nil {
		return fmt.Errorf("plant %s: %w", s.name, err)
	}
	if err := os.CopyFS(work, tree); err != nil {
		return fmt.Errorf("plant %s: %w", s.name, err)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main", work},
		{"-C", work, "add", "--all"},
		{"-C", work, "commit", "--quiet", "--message=Sample repository"},
		{"clone", "--quiet", "--bare", "--no-hardlinks", work, filepath.Join(tmp, "bare")},
		{"-C", filepath.Join(tmp, "bare"), "remote", "remove", "origin"},
	} {
		if err := runGit(ctx, tmp, args...); err != nil {
			return fmt.Errorf("plant %s: %w", s.name, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(bare), 0o700); err != nil {
		return fmt.Errorf("plant %s: %w", s.name, err)
	}
	if err := os.Rename(filepath.Join(tmp, "bare"), bare); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("plant %s: %w", s.name, err)
	}
	return nil
}

// runGit runs git with none of the user's configuration: a signing key, a template or a hook there is theirs.
func runGit(ctx context.Context, home string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Signalbox samples", "GIT_AUTHOR_EMAIL=samples@example.test",
		"GIT_COMMITTER_NAME=Signalbox samples", "GIT_COMMITTER_EMAIL=samples@example.test",
		// The same commit on every machine, so that what people report can be compared.
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}
