package web_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"signalbox/web"
)

// Every component that package ui exports, every pictogram, every tone and every state with a word of its own stands on the
// gallery: what is not looked at there is looked at nowhere.
func TestGalleryShowsEverything(t *testing.T) {
	t.Parallel()
	gallery := ""
	for _, file := range []string{"gallery.templ", "gallery.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		gallery += string(text)
	}
	shown := render(t, web.GalleryPage(web.GalleryPageData{Shell: shell()}))
	files, err := filepath.Glob("ui/*.go")
	if err != nil {
		t.Fatal(err)
	}
	components, icons, states := 0, 0, 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.IsExported() && returns(n, "Component") {
					components++
					if !strings.Contains(gallery, "@ui."+n.Name.Name+"(") {
						t.Errorf("the gallery does not show ui.%s", n.Name.Name)
					}
				}
			case *ast.ValueSpec:
				for _, name := range n.Names {
					if strings.HasPrefix(name.Name, "Icon") || strings.HasPrefix(name.Name, "Tone") {
						icons++
						if !regexp.MustCompile(`ui\.` + name.Name + `\b`).MatchString(gallery) {
							t.Errorf("the gallery does not show ui.%s", name.Name)
						}
					}
				}
			case *ast.CallExpr:
				// The word of a badge: Of("Queued", …).
				if f, ok := n.Fun.(*ast.Ident); !ok || f.Name != "Of" {
					return true
				}
				if word, ok := n.Args[0].(*ast.BasicLit); ok {
					states++
					if said, err := strconv.Unquote(word.Value); err != nil || !strings.Contains(shown, "<span>"+said+"</span>") {
						t.Errorf("the gallery shows no badge with the word %s", word.Value)
					}
				}
			}
			return true
		})
	}
	if components < 11 || icons < 30 || states < 40 {
		t.Errorf("found only %d components, %d pictograms and tones, %d words", components, icons, states)
	}
}

func returns(f *ast.FuncDecl, name string) bool {
	if f.Recv != nil || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
		return false
	}
	s, ok := f.Type.Results.List[0].Type.(*ast.SelectorExpr)
	return ok && s.Sel.Name == name
}
