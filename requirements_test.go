package signalbox_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -run ^TestRequirementsPage$ . -update

var update = flag.Bool("update", false, "rewrite the collected column of docs/requirements.md")

var (
	requirementID  = regexp.MustCompile(`\bR-[A-Z]+-\d+\b`)
	requirementRow = regexp.MustCompile(`(?m)^\| (R-[A-Z]+-\d+) \| (.+) \| ([^|]*) \|$`)
)

// TestRequirementsPage compares the last column of docs/requirements.md with what the tests say of themselves, and
// refuses an id in a test that the page does not know.
func TestRequirementsPage(t *testing.T) {
	t.Parallel()
	const page = "docs/requirements.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	claims := claimed(t)
	known := map[string]bool{}
	want := requirementRow.ReplaceAllStringFunc(string(text), func(row string) string {
		m := requirementRow.FindStringSubmatch(row)
		id, title := m[1], m[2]
		if known[id] {
			t.Errorf("%s: %s stands there twice", page, id)
		}
		known[id] = true
		held := "open"
		if tests := claims[id]; len(tests) > 0 {
			held = "`" + strings.Join(tests, "` `") + "`"
		}
		return fmt.Sprintf("| %s | %s | %s |", id, title, held)
	})
	if len(known) < 100 {
		t.Errorf("%s has %d rows: rows are missing or cannot be read", page, len(known))
	}
	for _, id := range slices.Sorted(maps.Keys(claims)) {
		if !known[id] {
			t.Errorf("%s is claimed by %s and is not in %s", id, strings.Join(claims[id], ", "), page)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s is not current (make generate):\n%s", page, diff)
	}
}

// claimed answers for each id the tests that carry it: in the function's comment or in its body, where comments and
// strings (names of subtests) count alike.
func claimed(t *testing.T) map[string][]string {
	t.Helper()
	claims := map[string][]string{}
	for _, s := range sources(t) {
		if !s.test || s.dir == "." {
			continue
		}
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !isTestName(f.Name.Name) {
				continue
			}
			first := f.Pos()
			if f.Doc != nil {
				first = f.Doc.Pos()
			}
			for _, id := range requirementID.FindAllString(string(text[offset(s, first):offset(s, f.End())]), -1) {
				name := s.dir + "." + f.Name.Name
				if !slices.Contains(claims[id], name) {
					claims[id] = append(claims[id], name)
				}
			}
		}
	}
	for _, tests := range claims {
		slices.Sort(tests)
	}
	return claims
}

func offset(s source, pos token.Pos) int { return s.fset.Position(pos).Offset }

func isTestName(name string) bool {
	return strings.HasPrefix(name, "Test") && name != "TestMain" || strings.HasPrefix(name, "Fuzz")
}
