package web_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/a-h/templ"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

var hashed = regexp.MustCompile(`/static/([a-z-]+(?:\.min)?)\.[0-9a-f]{12}\.`)

func render(t *testing.T, c templ.Component) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Render(t.Context(), &b); err != nil {
		t.Fatalf("render: %v", err)
	}
	return b.String()
}

// TestPagesGolden holds every page against its committed HTML: the first line of regression tests, readable in a review.
func TestPagesGolden(t *testing.T) {
	t.Parallel()
	for name, page := range pages(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := hashed.ReplaceAllString(render(t, page), "/static/$1.")
			file := filepath.Join("testdata", "golden", name+".html")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v (go test ./web -update writes it)", err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("page differs from %s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// A mark that ends a clause stands at its last word: a line break in a template is a space on the page.
func TestNoSpaceBeforePunctuation(t *testing.T) {
	t.Parallel()
	astray := regexp.MustCompile(`[^<>]{0,40}(?:</[a-z]+>)+\s+[.,;:!?](?:\s[^<>]{0,20}|<|$)`)
	for name, page := range pages(t) {
		if found := astray.FindString(render(t, page)); found != "" {
			t.Errorf("%s: a space stands before the mark in %q", name, found)
		}
	}
}

// U12: a page comes in at most 40 kB over the wire, one with a patch in 100.
func TestPagesAreLight(t *testing.T) {
	t.Parallel()
	for name, page := range pages(t) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if err := errors.Join(page.Render(t.Context(), z), z.Close()); err != nil {
			t.Fatal(err)
		}
		limit := 40_000
		if strings.HasPrefix(name, "gate_") || name == "pull" {
			limit = 100_000
		}
		if b.Len() > limit {
			t.Errorf("%s has %d bytes, compressed", name, b.Len())
		}
	}
}
