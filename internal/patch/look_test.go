package patch_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/patch"
)

// Made here from parts, so that no scanner takes this file for a leak.
func fakeToken() string { return "ghp" + "_" + "wJ7x2Kq9LmN4pR8tV1yZ3bC6dF0gH5jS" + "k2Mn" }
func fakeAWS() string   { return "AKIA" + "Q3EGRZ7WBMXTY2KD" }

// R-TRN-8: secrets are found by the server, whatever the file's name or the
// comment beside them, and a scan that did not happen is not clean.
func TestScan(t *testing.T) {
	t.Parallel()
	s := patch.NewScanner()
	one := func(name, content string) patch.ScanResult {
		return s.Scan(t.Context(), mustParse(t, gitDiff(t, nil, map[string]string{name: content})))
	}
	for _, tc := range []struct {
		name, file, content string
		line                int
	}{
		{"plain", "a.go", "package a\n\nconst t = \"" + fakeToken() + "\"\n", 3},
		{"allow comment", "a.go", "t = \"" + fakeToken() + "\" // gitleaks:allow\n", 1},
		{"allow-listed path", "node_modules/x/a.js", "t = \"" + fakeToken() + "\"\n", 1},
		{"image name", "logo.svg", "<!-- " + fakeToken() + " -->\n", 1},
		{"lockfile", "package-lock.json", "\"" + fakeToken() + "\"\n", 1},
		{"aws", "x.py", "key = '" + fakeAWS() + "'\n", 1},
		{"private key", "k.txt", "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEAx7Kq9LmN4pR8tV1yZ3bC6dF0gH5jSkMn2wJ7x\n", 4) + "-----END RSA PRIVATE KEY-----\n", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := one(tc.file, tc.content)
			if r.State != patch.ScanFindings || len(r.Findings) == 0 {
				t.Fatalf("%+v", r)
			}
			f := r.Findings[0]
			if f.File != tc.file || f.Line != tc.line || f.Rule == "" {
				t.Errorf("%+v, want line %d", f, tc.line)
			}
			if all := fmt.Sprintf("%+v %s", r, f); strings.Contains(all, fakeToken()) || strings.Contains(all, fakeAWS()) {
				t.Error("the finding repeats the secret")
			}
		})
	}
	t.Run("line of the new file", func(t *testing.T) {
		t.Parallel()
		body := lines(50, "line %d")
		r := s.Scan(t.Context(), mustParse(t, gitDiff(t, map[string]string{"a.txt": body}, map[string]string{
			"a.txt": strings.NewReplacer("line 5\n", "line 5\nnew\n", "line 40\n", "line 40\nx = \""+fakeToken()+"\"\n").Replace(body),
		})))
		if len(r.Findings) != 1 || r.Findings[0].Line != 43 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("clean", func(t *testing.T) {
		t.Parallel()
		if r := one("a.go", "package a\n\nfunc f() int { return 1 }\n"); r.State != patch.ScanClean || len(r.Findings) != 0 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("removed secret", func(t *testing.T) {
		t.Parallel()
		p := mustParse(t, gitDiff(t, map[string]string{"a": "t = \"" + fakeToken() + "\"\nx\n"}, map[string]string{"a": "x\n"}))
		if r := s.Scan(t.Context(), p); r.State != patch.ScanClean {
			t.Errorf("taking a secret away is no leak: %+v", r)
		}
	})
	t.Run("binary", func(t *testing.T) {
		t.Parallel()
		if r := one("b.dat", "\x00\x01 t = \""+fakeToken()+"\" \x00"); r.State != patch.ScanFindings {
			t.Errorf("%+v", r)
		}
	})
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		if r := one("big.txt", strings.Repeat("word and word\n", patch.ScanLimit/14+1)); r.State != patch.ScanNotScanned || r.Words == "" {
			t.Errorf("%s %s", r.State, r.Words)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r := s.Scan(ctx, mustParse(t, []byte(file("a")))); r.State != patch.ScanNotScanned {
			t.Errorf("%+v", r)
		}
	})
	t.Run("many at once", func(t *testing.T) {
		t.Parallel()
		p := mustParse(t, gitDiff(t, nil, map[string]string{"a.go": "t = \"" + fakeToken() + "\"\n"}))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if r := s.Scan(t.Context(), p); len(r.Findings) != 1 {
					t.Errorf("%+v", r)
				}
			})
		}
		wg.Wait()
	})
}

func TestHidden(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, line, want string }{
		{"bidi override", "if a {\u202e } // x", "U+202E"},
		{"zero width", "pass\u200bword", "U+200B"},
		{"isolate pair", "\u2066x\u2069", "U+2066 U+2069"},
		{"escape", "a\x1b[31m", "U+001B"},
		{"bom inside", "a\ufeffb", "U+FEFF"},
		{"tag characters", "a\U000e0041", "U+E0041"},
		{"joiner between letters", "a\u200db", "U+200D"},
		{"carriage return inside", "a\rb", "U+000D"},
		{"hangul filler", "var \u3164 = 1", "U+3164"},
		{"plain", "x := 1 // naïve ✓ 日本語", ""},
		{"tab", "\tx", ""},
		{"emoji family", "\U0001f468\u200d\U0001f469", ""},
		{"emoji selector", "\u2764\ufe0f", ""},
		{"persian joiner", "می\u200cخواهم", ""},
	} {
		p := mustParse(t, gitDiff(t, nil, map[string]string{"a.txt": "first\n" + tc.line + "\n"}))
		got := ""
		if h := p.Hidden(); len(h) > 0 {
			got = h[0].What
			if h[0].Line != 2 || h[0].File != "a.txt" {
				t.Errorf("%s: %+v", tc.name, h[0])
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		shown, hidden := patch.Reveal(tc.line)
		if hidden != (tc.want != "") || (tc.want != "" && !strings.Contains(shown, strings.Fields(tc.want)[0])) {
			t.Errorf("%s is shown as %q", tc.name, shown)
		}
	}
	for _, ok := range []string{"\ufefffirst\n", "a\r\nb\r\n"} {
		if h := mustParse(t, gitDiff(t, nil, map[string]string{"a": ok})).Hidden(); len(h) != 0 {
			t.Errorf("%q: %v", ok, h)
		}
	}
	many := mustParse(t, gitDiff(t, nil, map[string]string{"a": strings.Repeat("x\u200b\n", 500)}))
	if n := len(many.Hidden()); n != 50 {
		t.Errorf("%d places are listed", n)
	}
	if s, _ := patch.Reveal("a\xff\xfeb"); !utf8.ValidString(s) {
		t.Errorf("%q", s)
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	body := lines(20, "line %d")
	p := mustParse(t, gitDiff(t, map[string]string{"a.txt": body, "z.txt": "end"}, map[string]string{
		"a.txt": strings.NewReplacer("line 4\n", "", "line 10\n", "ten <b>\r\nmore\xff\n").Replace(body), "z.txt": "end\n", "b.bin": "\x00\x01",
	}))
	d := p.Render(patch.Bounds{})
	if len(d.Files) != 3 || len(d.Omitted) != 1 || d.Omitted[0].Path != "b.bin" {
		t.Fatalf("%d files, omitted %+v", len(d.Files), d.Omitted)
	}
	var got []string
	for _, h := range d.Files[0].Hunks {
		for _, l := range h.Lines {
			if l.Kind != patch.LineContext {
				got = append(got, fmt.Sprintf("%s %d %d %s crlf=%v", l.Kind, l.Old, l.New, l.Text, l.CRLF))
			}
		}
	}
	want := []string{
		"removed 5 0 line 4 crlf=false", "removed 11 0 line 10 crlf=false",
		"added 0 10 ten <b> crlf=true", "added 0 11 more\ufffd crlf=false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	z := d.Files[2].Hunks[0].Lines
	if !z[0].NoEOL || z[1].NoEOL {
		t.Errorf("end of file: %+v", z)
	}
	for i, f := range d.Files {
		if f.Index != i {
			t.Errorf("file %d has index %d", i, f.Index)
		}
	}
}

func TestRenderIsBounded(t *testing.T) {
	t.Parallel()
	files := map[string]string{"0.txt": strings.Repeat("é", 5000) + "\n"}
	for i := range 5 {
		files[fmt.Sprintf("%d.txt", i+1)] = lines(100, "line %d")
	}
	p := mustParse(t, gitDiff(t, nil, files))
	d := p.Render(patch.Bounds{Files: 4, LinesPerFile: 40, Lines: 90, LineBytes: 101})
	first := d.Files[0].Hunks[0].Lines[0]
	if !first.Cut || first.Text != strings.Repeat("é", 50) {
		t.Errorf("a long line is not cut between characters: %d bytes, cut=%v", len(first.Text), first.Cut)
	}
	shown, hiddenLines := 0, 0
	for _, f := range d.Files {
		for _, h := range f.Hunks {
			shown += len(h.Lines)
		}
		if len(f.Hunks) > 0 && f.File.Added > 40 && f.Why == "" {
			t.Errorf("%s is cut silently", f.File.Path())
		}
	}
	for _, o := range d.Omitted {
		hiddenLines += o.Lines
	}
	if shown != 90-0 && shown != 81 {
		t.Errorf("%d lines are shown", shown)
	}
	if shown+hiddenLines != 501 || len(d.Files) != 4 || len(d.Omitted) != 6 {
		t.Errorf("%d shown and %d counted as not shown; %d files, %d omitted", shown, hiddenLines, len(d.Files), len(d.Omitted))
	}
}
