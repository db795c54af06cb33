package web_test

import (
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestPagesAreAccessible holds what can be read from the markup: one h1, unique ids, labelled fields, references and
// anchors that exist, landmarks.
func TestPagesAreAccessible(t *testing.T) {
	t.Parallel()
	for name, page := range pages(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := parse(t, render(t, page))
			ids, labels, count := map[string]bool{}, map[string]bool{}, map[string]int{}
			for n := range doc.Descendants() {
				if n.Type != html.ElementNode {
					continue
				}
				count[n.Data]++
				if id := attr(n, "id"); id != "" {
					if ids[id] {
						t.Errorf("id %q twice", id)
					}
					ids[id] = true
				}
				if n.Data == "label" {
					labels[attr(n, "for")] = true
				}
			}
			if count["h1"] != 1 || count["main"] != 1 || count["header"] == 0 || count["footer"] != 1 {
				t.Errorf("h1 %d, main %d, header %d, footer %d", count["h1"], count["main"], count["header"], count["footer"])
			}
			for n := range doc.Descendants() {
				if n.Type != html.ElementNode {
					continue
				}
				checkReferences(t, n, ids, labels)
			}
		})
	}
}

// TestColumnsAreTwo: what stands beside the main column stays there. Anything between the two would take its place.
func TestColumnsAreTwo(t *testing.T) {
	t.Parallel()
	seen := 0
	for name, page := range pages(t) {
		for n := range parse(t, render(t, page)).Descendants() {
			if n.Type != html.ElementNode || !slices.Contains(strings.Fields(attr(n, "class")), "split") {
				continue
			}
			seen++
			columns := 0
			for range elements(n) {
				columns++
			}
			if columns != 2 {
				t.Errorf("%s: %d elements stand in two columns", name, columns)
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d pages have two columns", seen)
	}
}

// elements are a node's own elements.
func elements(n *html.Node) iter.Seq[*html.Node] {
	return func(yield func(*html.Node) bool) {
		for c := range n.ChildNodes() {
			if c.Type == html.ElementNode && !yield(c) {
				return
			}
		}
	}
}

func checkReferences(t *testing.T, n *html.Node, ids, labels map[string]bool) {
	t.Helper()
	for _, key := range []string{"aria-describedby", "aria-labelledby"} {
		for id := range strings.FieldsSeq(attr(n, key)) {
			if !ids[id] {
				t.Errorf("%s of %s names %q, which is not on the page", key, n.Data, id)
			}
		}
	}
	if href := attr(n, "href"); strings.HasPrefix(href, "#") && !ids[href[1:]] && !strings.HasPrefix(href, "#schema-") {
		t.Errorf("link to %s, which is not on the page", href)
	}
	switch n.Data {
	case "input", "select", "textarea":
		if attr(n, "type") != "hidden" && !labels[attr(n, "id")] && attr(n, "aria-label") == "" {
			t.Errorf("%s %q has no label", n.Data, attr(n, "name"))
		}
	case "button":
		if attr(n, "type") == "" {
			t.Errorf("a button without a type")
		}
	case "form":
		if m := attr(n, "method"); m != "post" && m != "get" || !has(n, "action") {
			t.Errorf("a form without method or action cannot work without a script")
		}
	case "a":
		if attr(n, "href") == "" {
			t.Errorf("a link without an address")
		}
	}
}

// TestTemplatesKeepTheContentPolicy: nothing inline, nothing raw, so that the strict policy never has to be loosened.
// Field reports: htmx#2832, htmx#1062, htmx#3063.
func TestTemplatesKeepTheContentPolicy(t *testing.T) {
	t.Parallel()
	banned := regexp.MustCompile(`\sstyle=|\son[a-z]+=|hx-on|js:|hx-vals|hx-live|templ\.Raw|templ\.SafeURL|templ\.JSONString|<style|^\s*(script|css) [a-zA-Z]+\(`)
	inline := regexp.MustCompile(`<script[^>]*>[^<]`)
	var files []string
	for _, pattern := range []string{"*.templ", "ui/*.templ", "*.go", "ui/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 20 {
		t.Fatalf("found only %d files", len(files))
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "_templ.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if banned.MatchString(line) || inline.MatchString(line) {
				t.Errorf("%s:%d: %s", file, i+1, strings.TrimSpace(line))
			}
		}
	}
}
