package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"signalbox/internal/dbtest/throwaway"
)

// binDir is the environment variable that carries the folder of the built programs, so that it is made once.
const binDir = "SIGNALBOX_E2E_BIN"

// Main runs a package's tests on the cluster that `make test` started, or on one of its own. It does not return.
func Main(m *testing.M) { os.Exit(tests(m)) }

func tests(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "sb-e2e-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Sandboxes run as other users, who have to reach the scripted agent.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Setenv(binDir, dir)); err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	if os.Getenv(throwaway.Variable) != "" {
		return m.Run()
	}
	cluster, err := throwaway.Start(context.Background(), throwaway.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	defer func() {
		if err := cluster.Remove(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "rig:", err)
			code = 1
		}
	}()
	if err := os.Setenv(throwaway.Variable, cluster.URL()); err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	return m.Run()
}

// building builds each program once for each test process.
var building sync.Map // name → func() (string, error)

// Binary is the path of a program of this module, for example "cmd/signalbox-worker", built by the first who asks.
func Binary(t testing.TB, pkg string) string {
	t.Helper()
	once, _ := building.LoadOrStore(pkg, sync.OnceValues(func() (string, error) { return build(pkg) }))
	path, err := once.(func() (string, error))()
	if err != nil {
		t.Fatalf("rig: %v", err)
	}
	return path
}

func build(pkg string) (string, error) {
	dir := os.Getenv(binDir)
	if dir == "" {
		return "", errors.New("the package needs func TestMain(m *testing.M) { rig.Main(m) }")
	}
	path := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, "signalbox/"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// NotExercised ends the test where this machine lacks something; in CI that is a failure (D-37).
func NotExercised(t testing.TB, format string, args ...any) {
	t.Helper()
	reason := fmt.Sprintf(format, args...)
	if os.Getenv("CI") != "" {
		t.Fatalf("not exercised, and CI has to: %s", reason)
	}
	t.Skipf("not exercised: %s", reason)
}

// bwrap says once whether this machine can isolate at all.
var bwrap = sync.OnceValue(func() error {
	out, err := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("bwrap: %w %s", err, strings.TrimSpace(string(out)))
	}
	return nil
})
