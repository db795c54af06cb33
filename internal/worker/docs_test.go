package worker_test

import (
	"os"
	"strings"
	"testing"

	"signalbox/internal/worker"
)

// The example in the documentation is one that a worker accepts, and it names every member.
func TestDocumentedFile(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/worker.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(raw), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("docs/worker.md holds no example")
	}
	f, err := worker.ParseFile([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Agents) == 0 || len(f.Caches) != 2 || len(f.Env) == 0 || len(f.Mounts) == 0 || len(f.Tools) == 0 || f.LocalForge == "" || f.UIDBase == 0 || f.Limits.FileMB == 0 {
		t.Errorf("the example leaves something out: %+v", f)
	}
}
