// Package signalbox_test holds the rules of the house that a machine can check: who may import whom, what may not be
// written, and that the docs which claim something about the code are true. It reads the source tree with a parser;
// `go list` would be answered from the test cache.
package signalbox_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "signalbox"

// ground is the layer that everybody may stand on without being listed for it.
var ground = []string{"internal/typeid"}

// mayImport is the import table of ARCHITECTURE.md, bottom to top: a package that is not in it may not exist, an
// import that is not in it may not be written. Tests may import more; they are in no binary.
var mayImport = map[string][]string{
	// 0 ground: the standard library and their one library.
	"api": {}, "migrations": {}, "static": {},
	"internal/argv": {}, "internal/coalesce": {}, "internal/egress": {}, "internal/config": {"internal/money", "internal/secret"}, "internal/money": {}, "internal/secret": {}, "internal/fault": {}, "internal/glob": {}, "internal/loglines": {}, "internal/loop": {}, "internal/pgserver": {}, "internal/typeid": {"internal/fault"},
	"internal/trail": {"internal/egress"}, "internal/wire": {}, "internal/capability": {"internal/fault"},

	// 1 domain: pure.
	"internal/policy":   {"internal/capability", "internal/fault", "internal/glob", "internal/money"},
	"internal/schedule": {"internal/capability", "internal/policy"},
	"internal/patch":    {"internal/fault", "internal/glob"},
	"internal/run":      {"internal/fault", "internal/policy"},
	"internal/evidence": {"internal/fault", "internal/run"},
	"internal/judge":    {"internal/patch", "internal/policy"},
	"internal/campaign": {"internal/fault", "internal/glob", "internal/policy", "internal/run"},

	// 2 outside: each talks to one thing that is not ours.
	"db/internal/bytea": {},
	"db/internal/sqlc":  {"db/internal/bytea", "internal/policy", "internal/run"},
	"db":                {"db/internal/bytea", "db/internal/sqlc", "migrations", "internal/campaign", "internal/coalesce", "internal/glob", "internal/schedule", "internal/fault", "internal/money", "internal/secret", "internal/policy", "internal/run", "internal/evidence", "internal/patch"},
	"internal/artifact": {"internal/fault"},
	"internal/forge":    {"internal/fault", "internal/git"}, // the local forge is git and nothing else
	"internal/git":      {"internal/egress", "internal/fault"},
	"internal/oidc":     {"internal/fault"},
	"internal/sandbox":  {"internal/fault"},
	// A folder of files outside the database.
	"internal/checkpoint": {"internal/evidence"},
	"internal/agent":      {"internal/fault", "internal/sandbox"},
	"internal/verify":     {"internal/fault", "internal/sandbox"},

	// 3 motion. The worker holds no database credential and cannot import db.
	"internal/feed":    {"db", "internal/run"},
	"internal/metrics": {"db", "internal/run", "internal/schedule"},
	"internal/control": {"db", "internal/checkpoint", "internal/evidence", "internal/fault", "internal/policy", "internal/run", "internal/forge", "internal/artifact", "internal/loop", "internal/patch"},
	"internal/worker": {"internal/egress", "internal/trail", "internal/wire", "internal/fault", "internal/git", "internal/sandbox", "internal/agent", "internal/verify",
		"internal/judge", "internal/forge", "internal/loop", "internal/patch", "internal/evidence", "internal/argv",
		"internal/policy"}, // the judge's rules are policy's types; the worker decides nothing with them

	// 4 face.
	"web/ui": {"static"},
	"web":    {"web/ui", "static", "internal/money", "internal/policy", "internal/run", "internal/patch"},
	"handlers": {"internal/egress", "internal/secret", "internal/trail", "api", "db", "internal/capability", "web", "web/ui", "static", "internal/feed", "internal/forge", "internal/artifact", "internal/wire", "internal/fault", "internal/money",
		"internal/policy", "internal/run", "internal/evidence", "internal/patch", "internal/argv", "internal/loglines"},

	// 5 wiring.
	"internal/devmode": {"internal/egress", "internal/secret", "internal/argv", "db", "migrations", "internal/fault", "internal/policy", "internal/run", "internal/forge", "internal/git", "internal/oidc", "internal/pgserver", "internal/config", "internal/wire"},
	"cmd/signalbox": {"handlers", "internal/egress", "internal/secret", "internal/checkpoint", "web", "migrations", "internal/git", "db", "internal/control", "internal/feed", "internal/forge", "internal/config", "internal/devmode", "internal/money", "internal/wire",
		"internal/run", "internal/policy", "internal/evidence", "internal/artifact", "internal/loop", "internal/fault", "internal/argv", "internal/metrics", "internal/trail"},
	"internal/workercmd":   {"internal/egress", "internal/trail", "internal/config", "internal/sandbox", "internal/wire", "internal/worker"},
	"cmd/signalbox-worker": {"internal/sandbox", "internal/workercmd"},

	// Test-only: no binary of the product links them.
	"internal/agent/testagent":  {},
	"internal/dbtest":           {"internal/dbtest/throwaway", "internal/pgserver", "migrations"},
	"internal/dbtest/drive":     {"db", "internal/dbtest", "internal/money", "internal/patch", "internal/policy", "internal/run", "internal/fault"},
	"internal/dbtest/throwaway": {"internal/pgserver"},
	"internal/dbtest/cluster":   {"internal/dbtest/throwaway"},
	"internal/dbtest/gotest":    {},
	// The audit reads logs with the product's own words; the interleavings know Postgres's protocol and no product.
	"internal/dbtest/audit":      {"internal/evidence", "internal/run", "internal/policy", "internal/typeid"},
	"internal/dbtest/interleave": {},
	"internal/mutants":           {},
	"internal/sbom":              {},
	"internal/egress/egresstest": {},
	"internal/e2e/crashworker":   {"internal/sandbox", "internal/workercmd"},
}

// onlyIn names the packages that may import a library or a part of the standard library: one that speaks SQL, few
// that speak HTTP, one that writes HTML.
var onlyIn = map[string][]string{
	"github.com/jackc/pgx/v5":    {"db", "migrations", "internal/pgserver", "internal/dbtest"},
	"database/sql":               {"migrations", "internal/dbtest"},
	"github.com/a-h/templ":       {"web", "handlers"},
	"github.com/zitadel/oidc":    {"internal/oidc"},
	"github.com/go-chi/chi":      {"handlers", "internal/wire"},
	"github.com/gorilla":         {"handlers"},
	"gocloud.dev":                {"internal/artifact", "cmd/signalbox"},
	"github.com/chromedp":        {},
	"testing":                    {"internal/dbtest", "internal/egress/egresstest"},
	"html/template":              {"internal/oidc"},
	"net/http/httptest":          {},
	"github.com/zricethezav":     {"internal/patch", "internal/judge"},
	"github.com/bluekeyes":       {"internal/patch"},
	"cel.dev/cel-go":             {"internal/policy"},
	"github.com/elastic":         {"internal/sandbox"},
	"github.com/prometheus":      {"internal/metrics"},
	"go.opentelemetry.io":        {"internal/trail", "handlers", "internal/worker"},
	"github.com/CycloneDX":       {"internal/sbom"},
	"golang.org/x/text":          {"internal/money"},
	"github.com/alecthomas/kong": {"cmd/signalbox", "internal/workercmd"},
}

// pure are the packages without I/O, clock and chance: what they need arrives as an argument.
var pure = []string{"internal/capability", "internal/campaign", "internal/money", "internal/loglines", "internal/schedule", "internal/policy", "internal/patch", "internal/run", "internal/judge"}

var impureImports = []string{"os", "os/exec", "net", "net/http", "database/sql", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog", "io/fs"}

// source is one Go file of the tree.
type source struct {
	path, dir string
	test      bool
	generated bool
	lines     int
	file      *ast.File
	fset      *token.FileSet
}

func (s source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(pos).Line)
}

func (s source) imports(yield func(string, token.Pos) bool) {
	for _, spec := range s.file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err == nil && !yield(name, spec.Pos()) {
			return
		}
	}
}

// walk calls visit for every file of the tree but version control, build output and data of tests.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (base == ".git" || base == "bin" || base == ".build" || base == "testdata" || base == "node_modules") {
				return fs.SkipDir
			}
			if _, err := os.Stat(path.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir // a module of its own is no part of the product
			}
			return nil
		}
		visit(name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "tools/") {
			return
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{
			path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
			generated: ast.IsGenerated(file), lines: fset.File(file.FileStart).LineCount(), file: file, fset: fset,
		})
	})
	if len(all) < 10 {
		t.Fatalf("only %d Go files found: is this the root of the tree?", len(all))
	}
	return all
}

func TestImportTable(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || s.dir == "." || strings.HasPrefix(s.dir, "internal/e2e") {
			continue
		}
		allowed, known := mayImport[s.dir]
		if !known {
			t.Errorf("%s: the package %s is not in the import table, so it may not exist", s.path, s.dir)
			continue
		}
		for name, pos := range s.imports {
			inside, ours := strings.CutPrefix(name, module+"/")
			if ours && !slices.Contains(allowed, inside) && !slices.Contains(ground, inside) {
				t.Errorf("%s: %s may not import %s (it may import %s)", s.at(pos), s.dir, inside, strings.Join(allowed, " "))
			}
		}
	}
}

func TestLibrariesStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.dir, "internal/e2e") {
			continue
		}
		for name, pos := range s.imports {
			for library, homes := range onlyIn {
				if name != library && !strings.HasPrefix(name, library+"/") || strings.HasPrefix(name, "testing/synctest") {
					continue
				}
				if !slices.ContainsFunc(homes, func(home string) bool { return s.dir == home || strings.HasPrefix(s.dir, home+"/") }) {
					t.Errorf("%s: %s may not import %s (only %s may)", s.at(pos), s.dir, name, strings.Join(homes, " "))
				}
			}
		}
	}
}

func TestTheDomainIsPure(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || !slices.Contains(pure, s.dir) {
			continue
		}
		for name, pos := range s.imports {
			if slices.Contains(impureImports, name) {
				t.Errorf("%s: %s is pure and may not import %s", s.at(pos), s.dir, name)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && (isCall(sel, "time", "Now") || isCall(sel, "time", "Since")) {
				t.Errorf("%s: %s is pure and may not read the clock", s.at(n.Pos()), s.dir)
			}
			return true
		})
	}
}

func isCall(sel *ast.SelectorExpr, pkg, name string) bool {
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg && sel.Sel.Name == name
}

func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.test && !strings.HasPrefix(s.dir, "internal/e2e") {
			continue
		}
		bubble := false // inside testing/synctest a sleep costs no time and is exact
		for name := range s.imports {
			bubble = bubble || name == "testing/synctest"
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && !bubble && isCall(sel, "time", "Sleep") {
				t.Errorf("%s: a test waits for a signal or polls a real condition with a deadline; it does not sleep", s.at(n.Pos()))
			}
			return true
		})
	}
}

func TestNoInitFunctions(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && !s.generated {
				t.Errorf("%s: an init function makes import order behaviour", s.at(f.Pos()))
			}
		}
	}
}

func TestPackagesSayWhatTheyOwn(t *testing.T) {
	t.Parallel()
	banned := []string{"util", "utils", "common", "helper", "helpers", "models", "types", "shared", "services", "misc", "base", "lib", "mocks"}
	documented, seen := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if slices.Contains(banned, path.Base(s.dir)) || slices.Contains(banned, s.file.Name.Name) {
			t.Errorf("%s: a package called %s says nothing about what it owns", s.path, s.file.Name.Name)
		}
		if s.test || s.dir == "." {
			continue
		}
		seen[s.dir] = true
		documented[s.dir] = documented[s.dir] || s.file.Doc != nil && !s.generated
	}
	for dir := range seen {
		if !documented[dir] && dir != "db/internal/sqlc" {
			t.Errorf("%s: no package comment says what it owns and what it refuses", dir)
		}
	}
}

// Statements live in queries/ and migrations/, so that they are checked against the schema and found in one place.
func TestSQLStaysInQueries(t *testing.T) {
	t.Parallel()
	statement := regexp.MustCompile(`(?is)^\s*(SELECT\s.+\sFROM\s|INSERT\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|MERGE\s+INTO\s|CREATE\s+TABLE\s|ALTER\s+TABLE\s|WITH\s+\w+\s+AS\s*\()`)
	for _, s := range sources(t) {
		if s.test || s.generated || s.dir == "internal/pgserver" || s.dir == "migrations" || strings.HasPrefix(s.dir, "internal/dbtest") || strings.HasPrefix(s.dir, "internal/e2e") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && statement.MatchString(text) {
					t.Errorf("%s: a statement outside queries/", s.at(n.Pos()))
				}
			}
			return true
		})
	}
}

func TestFilesStayReadable(t *testing.T) {
	t.Parallel()
	const most = 600
	for _, s := range sources(t) {
		if !s.generated && s.lines > most {
			t.Errorf("%s has %d lines, at most %d are readable", s.path, s.lines, most)
		}
	}
	walk(t, func(name string) {
		switch path.Ext(name) {
		case ".templ", ".sql", ".css", ".js", ".sh":
		default:
			return
		}
		if strings.Contains(name, ".min.") || strings.Contains(name, "vendor/") || strings.HasPrefix(path.Base(name), "htmx") {
			return
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(text), "\n"); lines > most {
			t.Errorf("%s has %d lines, at most %d are readable", name, lines, most)
		}
	})
}

// The pages' policy allows neither inline scripts nor inline styles; what slipped in would silently not work.
func TestPagesHoldNoInlineCode(t *testing.T) {
	t.Parallel()
	smells := map[string]*regexp.Regexp{
		"an inline style":        regexp.MustCompile(`\sstyle=`),
		"an inline handler":      regexp.MustCompile(`<[^>]*\son[a-z]+=`),
		"an inline script":       regexp.MustCompile(`(?i)<script(?:\s+[^>]*)?>`),
		"unescaped text":         regexp.MustCompile(`templ\.(Raw|SafeURL|JSUnsafe|SafeCSS)`),
		"an inline style sheet":  regexp.MustCompile(`(?i)<style[\s>]`),
		"a javascript: address":  regexp.MustCompile(`(?i)["']javascript:`),
		"a conditional hx-on":    regexp.MustCompile(`\shx-on`),
		"a generated css block":  regexp.MustCompile(`(?m)^css\s+\w+\(`),
		"a generated script tag": regexp.MustCompile(`(?m)^script\s+\w+\(`),
	}
	script := regexp.MustCompile(`(?i)<script[^>]*\ssrc=`)
	walk(t, func(name string) {
		if path.Ext(name) != ".templ" {
			return
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			for what, smell := range smells {
				if smell.MatchString(line) && !(what == "an inline script" && script.MatchString(line)) {
					t.Errorf("%s:%d: %s: %s", name, number, what, strings.TrimSpace(line))
				}
			}
		}
	})
	for _, s := range sources(t) {
		if s.test || s.generated {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && isCall(sel, "templ", "Raw") {
				t.Errorf("%s: templ.Raw writes unescaped text", s.at(n.Pos()))
			}
			return true
		})
	}
}
