package handlers

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/api"
)

// unaudited says, for each endpoint that changes something and writes no line into the audit, why.
var unaudited = map[string]string{
	"POST /preferences":   "How pages look to one person; kept in a cookie.",
	"POST /hints/dismiss": "Which hints one person has put away.",
	"POST /vitals":        "How fast pages were; counted without a name.",
	"POST /views":         "Filters that one person gave a name; only they see it.",
	"POST /views/delete":  "Filters that one person gave a name; only they see it.",

	"POST /drafts/{key}":                "Text that was not sent yet; only its writer sees it.",
	"POST /drafts/{key}/discard":        "Text that was not sent yet; only its writer sees it.",
	"POST /gates/{id}/notes":            "Notes beside a patch that were not sent yet; with the decision they are in the audit.",
	"POST /gates/{id}/files/{n}/viewed": "Which files one person has read; what was not read is refused or declared with the decision.",
	"POST /tasks/preview":               "A look ahead; it stores nothing.",
	"POST /api/v1/tasks/preview":        "A look ahead; it stores nothing.",
	"POST /policies/check":              "A look at a draft; it stores nothing.",
	"POST /policies/simulate":           "A look at a draft; it stores nothing.",
	"POST /api/v1/policies/simulate":    "A look at a draft; it stores nothing.",
	"POST /api/v1/login/exchange":       "The second half of a login from the command line, which is in the audit where the person allowed it.",

	"POST /api/v1/workers/register":                               workerWords,
	"POST /api/v1/workers/heartbeat":                              workerWords,
	"POST /api/v1/workers/claims":                                 workerWords,
	"POST /api/v1/workers/deregister":                             workerWords,
	"POST /api/v1/runs/{run_id}/commands":                         workerWords,
	"POST /api/v1/runs/{run_id}/steps":                            workerWords,
	"POST /api/v1/runs/{run_id}/logs":                             workerWords,
	"POST /api/v1/runs/{run_id}/usage":                            workerWords,
	"POST /api/v1/runs/{run_id}/artifacts":                        workerWords,
	"POST /api/v1/local-forge/repositories/{repository_id}/pulls": workerWords,
}

const workerWords = "A worker's word: runs have a log of their own, which is a hash chain, too."

// TestUnauditedEndpoints holds docs/unaudited.md: every endpoint that changes something and whose code never comes to write a line into
// the audit stands there with its reason, and no other.
func TestUnauditedEndpoints(t *testing.T) {
	t.Parallel()
	calls := callsOf(t)
	doc, err := api.Parse()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{doc: doc, publicURL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, log: slog.New(slog.DiscardHandler), routeByOperation: map[string]route{}}
	var page strings.Builder
	page.WriteString("# Endpoints without an audit line\n\nWhat people do is in the audit log. These endpoints change something, or may, and write no line into it; this list is made from the table of\nroutes and from the code, and a test holds it current. Every other endpoint that is no GET writes its line in the transaction of what it does\n(resuming a run: before it).\n\n| endpoint | why |\n| --- | --- |\n")
	audited, listed := 0, map[string]bool{}
	for _, rt := range s.routes() {
		if err := rt.complete(s); err != nil {
			t.Fatal(err)
		}
		if rt.method == http.MethodGet {
			continue
		}
		name := rt.method + " " + rt.pattern
		if reaches(calls, handlerName(rt.handler), "auditOf", map[string]bool{}) {
			audited++
			continue
		}
		why := unaudited[name]
		if why == "" {
			t.Errorf("%s (%s) writes no line into the audit, and nobody says why", name, handlerName(rt.handler))
		}
		listed[name] = true
		fmt.Fprintf(&page, "| `%s` | %s |\n", name, why)
	}
	for name := range unaudited {
		if !listed[name] {
			t.Errorf("%s is said to write no line into the audit: it does, or is not there", name)
		}
	}
	if audited < 30 {
		t.Errorf("only %d endpoints are audited", audited)
	}
	path := filepath.Join("..", "docs", "unaudited.md")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(page.String(), string(have)); d != "" {
		t.Errorf("docs/unaudited.md is not current (UPDATE_GOLDEN=1 writes it):\n%s", d)
	}
}

func handlerName(h handler) string {
	full := runtime.FuncForPC(reflect.ValueOf(h).Pointer()).Name()
	return strings.TrimSuffix(full[strings.LastIndex(full, ".")+1:], "-fm")
}

// callsOf reads which names each function of the package uses.
func callsOf(t *testing.T) map[string]map[string]bool {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]map[string]bool{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if calls[f.Name.Name] == nil {
				calls[f.Name.Name] = map[string]bool{}
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch fun := call.Fun.(type) {
				case *ast.Ident:
					// A variable may have the name of a method.
					calls[f.Name.Name][fun.Name] = calls[f.Name.Name][fun.Name] || fun.Obj == nil || fun.Obj.Kind == ast.Fun
				case *ast.SelectorExpr:
					// Only the methods of the server and of sessions are followed: other types have methods of the same names.
					switch x := fun.X.(type) {
					case *ast.Ident:
						calls[f.Name.Name][fun.Sel.Name] = calls[f.Name.Name][fun.Sel.Name] || x.Name == "s" || x.Name == "session"
					case *ast.SelectorExpr:
						calls[f.Name.Name][fun.Sel.Name] = calls[f.Name.Name][fun.Sel.Name] || x.Sel.Name == "s"
					}
				}
				return true
			})
		}
	}
	return calls
}

func reaches(calls map[string]map[string]bool, from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	for name, ours := range calls[from] {
		if ours && reaches(calls, name, to, seen) {
			return true
		}
	}
	return false
}
