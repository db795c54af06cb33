package sandbox_test

import (
	"bytes"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/sandbox"
)

func TestMain(m *testing.M) {
	// The test binary is the init of the boxes it opens.
	sandbox.InitMain()
	os.Exit(m.Run())
}

// open prepares a tier, or ends the test where the machine has none of it:
// loudly where CI promises one.
func open(t *testing.T, tier sandbox.Tier) sandbox.Sandbox {
	t.Helper()
	sb, err := sandbox.New(sandbox.Options{Tier: tier})
	if un, ok := errors.AsType[*sandbox.UnavailableError](err); ok && os.Getenv("CI_REQUIRE_SANDBOX") != "1" {
		t.Skipf("not exercised: %s", un.Reason)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Close(); err != nil {
			t.Error(err)
		}
	})
	return sb
}

// slot is a user of the test's own: tier process hunts leftovers by user.
func slot(t *testing.T) int {
	h := fnv.New32a()
	h.Write([]byte(t.Name()))
	return 1000 + int(h.Sum32()%50000)
}

// workspace makes an owned workspace with the given files below repo.
func workspace(t *testing.T, sb sandbox.Sandbox, files map[string]string) string {
	t.Helper()
	// Not t.TempDir: that lies below a directory only this user may enter.
	dir, err := os.MkdirTemp("", "signalbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if err := sandbox.MakeLayout(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "repo"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(dir, "repo", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := sb.Own(dir, slot(t)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newBox opens a box over a fresh workspace.
func newBox(t *testing.T, tier sandbox.Tier, spec sandbox.Spec) sandbox.Box {
	t.Helper()
	sb := open(t, tier)
	if spec.Workspace == "" {
		spec.Workspace = workspace(t, sb, nil)
	}
	spec.Slot = slot(t)
	box, err := sb.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

// sh runs a shell script and returns its output.
func sh(t *testing.T, box sandbox.Box, script string, change ...func(*sandbox.Command)) (sandbox.Result, string) {
	t.Helper()
	var out bytes.Buffer
	cmd := sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Stdout: &out, Stderr: &out}
	for _, f := range change {
		f(&cmd)
	}
	res, err := box.Run(t.Context(), cmd)
	if err != nil {
		t.Fatalf("run: %v; output: %s", err, out.String())
	}
	return res, strings.TrimSpace(out.String())
}

// tiers runs a test on both tiers.
func tiers(t *testing.T, f func(t *testing.T, tier sandbox.Tier)) {
	t.Helper()
	for _, tier := range []sandbox.Tier{sandbox.TierBwrap, sandbox.TierProcess} {
		t.Run(string(tier), func(t *testing.T) {
			t.Parallel()
			f(t, tier)
		})
	}
}
