package signalbox_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	moduleLine    = regexp.MustCompile(`^\s*(?:require\s+)?([a-z0-9.-]+\.[a-z]+(?:/\S+)?)\s+v\S+(\s*// indirect)?$`)
	dependencyRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$")
)

// TestDependenciesAreExplained holds docs/dependencies.md against go.mod in both directions.
func TestDependenciesAreExplained(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, m := range dependencyRow.FindAllStringSubmatch(string(page), -1) {
		explained[m[1]] = len(strings.Fields(m[2])) >= 3
	}
	direct := map[string]bool{}
	for line := range strings.Lines(string(mod)) {
		m := moduleLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil || m[2] != "" {
			continue
		}
		direct[m[1]] = true
		if why, listed := explained[m[1]]; !listed {
			t.Errorf("go.mod requires %s, and docs/dependencies.md does not say why", m[1])
		} else if !why {
			t.Errorf("docs/dependencies.md lists %s without a reason", m[1])
		}
	}
	if len(direct) == 0 {
		t.Error("no direct dependency was found in go.mod: the test cannot read it")
	}
	for name := range explained {
		if !direct[name] {
			t.Errorf("docs/dependencies.md explains %s, which go.mod does not require directly", name)
		}
	}
}
