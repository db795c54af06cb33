package git

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/egress"
)

// Config says how git is run. The zero value of every field but Home has a meaning.
type Config struct {
	// Binary is the git executable; "" looks it up in PATH.
	Binary string
	// Home is a directory of this package alone; it is created with mode 0700. Nothing of it is shown to a sandbox.
	Home string
	// LocalRoot is the folder of the local forge's bare repositories. "" refuses every file address.
	LocalRoot string
	// Allow is what may be reached besides public addresses at port 443: a company's own forge. Plain http goes only to what
	// it names.
	Allow egress.Allow
	// Resolver looks names up; nil is the machine's own.
	Resolver *net.Resolver
	// RemoteTimeout bounds one conversation with a remote. Default ten minutes.
	RemoteTimeout time.Duration
}

// Git runs git. It is safe for concurrent use.
type Git struct {
	binary    string
	home      string
	empty     string
	localRoot string
	guard     egress.Guard
	timeout   time.Duration
}

// New checks the git version (2.39 or newer: merge-tree, object checks, the ownership fixes of 2023) and prepares Home.
func New(ctx context.Context, cfg Config) (*Git, error) {
	if cfg.Home == "" {
		return nil, fmt.Errorf("git: no home directory configured")
	}
	binary := cfg.Binary
	if binary == "" {
		binary = "git"
	}
	path, err := exec.LookPath(binary)
	if err != nil {
		return nil, fmt.Errorf("git was not found; install it (Debian: apt-get install git): %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("git executable: %w", err)
	}
	home, err := filepath.Abs(cfg.Home)
	if err != nil {
		return nil, fmt.Errorf("git home: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(home, "home"), 0o700); err != nil {
		return nil, fmt.Errorf("git home: %w", err)
	}
	g := &Git{
		binary: path, home: home, empty: filepath.Join(home, "empty.git"),
		guard: egress.Guard{Purpose: "git", Allow: cfg.Allow, Resolver: cfg.Resolver}, timeout: cfg.RemoteTimeout,
	}
	if g.timeout <= 0 {
		g.timeout = 10 * time.Minute
	}
	if cfg.LocalRoot != "" {
		root, err := filepath.Abs(cfg.LocalRoot)
		if err != nil {
			return nil, fmt.Errorf("local forge root: %w", err)
		}
		if root, err = filepath.EvalSymlinks(root); err != nil {
			return nil, fmt.Errorf("local forge root: %w", err)
		}
		g.localRoot = root
	}
	if err := g.checkVersion(ctx); err != nil {
		return nil, err
	}
	if err := g.initBare(ctx, g.empty); err != nil {
		return nil, err
	}
	return g, nil
}

// Version returns what `git version` says, for the evidence of a run.
func (g *Git) Version(ctx context.Context) (string, error) {
	out, err := g.run(ctx, call{op: "version", args: []string{"version"}})
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

func (g *Git) checkVersion(ctx context.Context) error {
	v, err := g.Version(ctx)
	if err != nil {
		return err
	}
	fields := strings.Fields(v)
	if len(fields) < 3 {
		return fmt.Errorf("git version not understood: %q", v)
	}
	parts := strings.Split(fields[2], ".")
	if len(parts) < 2 {
		return fmt.Errorf("git version not understood: %q", v)
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	if errMajor != nil || errMinor != nil {
		return fmt.Errorf("git version not understood: %q", v)
	}
	if major < 2 || (major == 2 && minor < 39) {
		return fmt.Errorf("git %s is too old: 2.39 or newer is needed", fields[2])
	}
	return nil
}

// initBare makes a bare repository of ours. Doing it twice, or from two processes at once, is harmless.
func (g *Git) initBare(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "signalbox")); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("make git directory: %w", err)
	}
	_, err := g.run(ctx, call{op: "init", args: []string{"init", "--quiet", "--bare", "--template=", "--initial-branch=main", "--", dir}})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "info"), 0o700); err != nil {
		return fmt.Errorf("make git directory: %w", err)
	}
	// info/attributes outranks every .gitattributes: what is checked out and diffed is what is stored, byte for byte.
	const attributes = "* -text -ident !filter !working-tree-encoding !export-subst !export-ignore !diff !merge !conflict-marker-size !whitespace\n"
	if err := os.WriteFile(filepath.Join(dir, "info", "attributes"), []byte(attributes), 0o600); err != nil {
		return fmt.Errorf("make git directory: %w", err)
	}
	// The marker is written last: a directory without it is made again.
	if err := os.WriteFile(filepath.Join(dir, "signalbox"), []byte("1\n"), 0o600); err != nil {
		return fmt.Errorf("make git directory: %w", err)
	}
	return nil
}
