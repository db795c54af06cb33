package signalbox_test

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	// publicReport is a report as the page names it: an issue, or a pull request with its word.
	publicReport = regexp.MustCompile("`[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+( PR)?#[0-9]+`")
	namedTest    = regexp.MustCompile("`([^`]+)`")
	// testName is a package's folder, a function and perhaps a subtest.
	testName = regexp.MustCompile(`^([a-z0-9/_]+)\.((?:Test|Fuzz)\w+)(?:/(.+))?$`)
)

// TestFieldReportsPage holds docs/field-reports.md to the tests: each row names what happened elsewhere, where that can be read, what
// holds here and at least one test; each test exists, and its subtest is named in a test file of its package. What cannot happen here
// yet has a reason instead.
func TestFieldReportsPage(t *testing.T) {
	t.Parallel()
	const page = "docs/field-reports.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tests := testsByPackage(t)
	held, notYet := 0, 0
	rest := false // in the section about what cannot happen here yet
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "## ") {
			rest = line == "## Cannot happen here yet"
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") || strings.Contains(line, "| Reports |") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
			if cells[i] == "" {
				t.Errorf("%s: a cell is empty: %s", page, line)
			}
		}
		if want := map[bool]int{false: 4, true: 3}[rest]; len(cells) != want {
			t.Errorf("%s: %d cells instead of %d: %s", page, len(cells), want, line)
			continue
		}
		reports := publicReport.FindAllString(cells[1], -1)
		if len(reports) == 0 || len(reports) != strings.Count(cells[1], "`")/2 {
			t.Errorf("%s: not each report is owner/repo#number: %s", page, cells[1])
		}
		for _, r := range reports {
			if seen[r] && !rest {
				t.Errorf("%s: %s stands there twice", page, r)
			}
			seen[r] = true
		}
		if rest {
			notYet++
			continue
		}
		held++
		tests.check(t, page, cells[3])
	}
	if held < 50 || notYet == 0 {
		t.Errorf("%s: %d rows are held and %d cannot happen yet: rows are missing or cannot be read", page, held, notYet)
	}
}

// packageTests are the test functions of the packages and the text of their test files, by folder.
type packageTests struct {
	functions map[string]map[string]bool
	text      map[string]string
}

func testsByPackage(t *testing.T) packageTests {
	t.Helper()
	all := packageTests{functions: map[string]map[string]bool{}, text: map[string]string{}}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		all.text[s.dir] += string(text)
		if all.functions[s.dir] == nil {
			all.functions[s.dir] = map[string]bool{}
		}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && isTestName(f.Name.Name) {
				all.functions[s.dir][f.Name.Name] = true
			}
		}
	}
	return all
}

// check fails where a cell names no test, or one that is not there.
func (p packageTests) check(t *testing.T, page, cell string) {
	t.Helper()
	named := namedTest.FindAllStringSubmatch(cell, -1)
	if len(named) == 0 {
		t.Errorf("%s: a row names no test: %s", page, cell)
	}
	for _, n := range named {
		m := testName.FindStringSubmatch(n[1])
		switch {
		case m == nil:
			t.Errorf("%s: %s is no test: package.TestName, or package.TestName/subtest", page, n[1])
		case !p.functions[path.Clean(m[1])][m[2]]:
			t.Errorf("%s: there is no %s in %s", page, m[2], m[1])
		case m[3] != "" && !strings.Contains(p.text[m[1]], m[3]):
			t.Errorf("%s: no test file of %s names the subtest %q", page, m[1], m[3])
		}
	}
}
