package signalbox_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// S17, L8: the same sources give the same program, byte for byte, in whatever folder they are built. The usual size builds the
// small program, the long one the server, with nothing that an earlier build left. A program names every module that is in it.
func TestBuildsAreReproducible(t *testing.T) {
	t.Parallel()
	var sums []string
	var program string
	long := os.Getenv("SIGNALBOX_TEST_LONG") != ""
	main, known := "./cmd/signalbox-worker", "github.com/goccy/go-yaml"
	if long {
		main, known = "./cmd/signalbox", "github.com/jackc/pgx/v5"
	}
	for _, name := range []string{"here", "some/where/else"} {
		dir := filepath.Join(t.TempDir(), name)
		walk(t, func(path string) {
			if strings.HasPrefix(path, "docs/") || strings.HasSuffix(path, "_test.go") {
				return
			}
			content, err := os.ReadFile(path)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, path), content, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		program = filepath.Join(dir, "program")
		build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", program, main)
		build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
		if long {
			build.Env = append(build.Env, "GOCACHE="+filepath.Join(t.TempDir(), "cache"))
		}
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		raw, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(dir)) {
			t.Errorf("the program knows the folder %s", name)
		}
		sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(raw)))
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds differ: %s and %s", sums[0], sums[1])
	}
	modules, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(modules, []byte("\tdep\t")); n < 10 || !bytes.Contains(modules, []byte(known)) {
		t.Errorf("the program names %d modules", n)
	}
	t.Logf("S17: two builds, SHA-256 %s", sums[0])
}
