package git_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/git"
)

// 2.3: what stands around a change comes from the objects of the base, byte for byte, within limits.
func TestOldTexts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	// Its name would be the record of a change of same.txt.
	header := ":100644 100644 " + h.plain(h.dir, "hash-object", h.write(h.dir, "same", "same\n")) + " " + strings.Repeat("1", 40) + " M"
	remote, base := h.upstream("app", map[string]string{
		header:     "named like a header\n",
		"crlf.dat": "a\r\nb\r\n", "no-end.txt": "one\ntwo", "empty.txt": "", "bin": "\x00\x01\x02\x03", "gone.txt": "bye\n", "same.txt": "same\n",
		"twin-a.txt": "twin\n", "twin-b.txt": "twin\n", "large.txt": strings.Repeat("line\n", 300), "run.sh": "#!/bin/sh\n", "becomes-link": "file\n",
		".gitattributes": "*.txt text eol=crlf ident\n* filter=x\n",
	})
	repo, work := h.run(remote, base)
	for _, name := range []string{"crlf.dat", "no-end.txt", "empty.txt", "bin", "new.txt", "twin-a.txt", "twin-b.txt", "large.txt", header} {
		h.write(work, name, "changed\x00 by "+name)
	}
	for _, name := range []string{"gone.txt", "becomes-link"} {
		if err := os.Remove(filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("same.txt", filepath.Join(work, "becomes-link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(work, "run.sh"), 0o755); err != nil { //nolint:gosec // a change of mode is no change of text
		t.Fatal(err)
	}
	p := h.patch(repo, base, work)

	texts := func(limits git.OldLimits) string {
		t.Helper()
		out, err := repo.OldTexts(t.Context(), base, p.Tree, limits)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	record := func(name string) string {
		content := h.plain(filepath.Join(h.root, "app.git"), "cat-file", "blob", base+":"+name)
		size := h.plain(filepath.Join(h.root, "app.git"), "cat-file", "-s", base+":"+name)
		object := h.plain(filepath.Join(h.root, "app.git"), "rev-parse", base+":"+name)
		raw := map[string]string{"crlf.dat": "a\r\nb\r\n", "twin-a.txt": "twin\n", "large.txt": strings.Repeat("line\n", 300), header: "named like a header\n"}[name]
		if raw == "" {
			raw = content
		}
		if fmt.Sprint(len(raw)) != size {
			t.Fatalf("%s has %s bytes, want %d", name, size, len(raw))
		}
		return object + " blob " + size + "\n" + raw + "\n"
	}
	small := record(header) + record("crlf.dat") + record("empty.txt")
	for name, c := range map[string]struct {
		limits git.OldLimits
		want   string
	}{
		"all":                {git.OldLimits{Files: 100, FileBytes: 1 << 20, TotalBytes: 8 << 20}, small + record("large.txt") + record("no-end.txt") + record("twin-a.txt")},
		"a file too large":   {git.OldLimits{Files: 100, FileBytes: 1000, TotalBytes: 8 << 20}, small + record("no-end.txt") + record("twin-a.txt")},
		"too much together":  {git.OldLimits{Files: 100, FileBytes: 1 << 20, TotalBytes: 38}, small + record("no-end.txt")},
		"too many files":     {git.OldLimits{Files: 4, FileBytes: 1 << 20, TotalBytes: 8 << 20}, small},
		"nothing is allowed": {git.OldLimits{}, ""},
	} {
		if got := texts(c.limits); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if out, err := repo.OldTexts(t.Context(), base, base, git.OldLimits{Files: 9, FileBytes: 9, TotalBytes: 9}); err != nil || out != nil {
		t.Errorf("no difference: %q, %v", out, err)
	}
	if _, err := repo.OldTexts(t.Context(), "--all", base, git.OldLimits{}); err == nil {
		t.Error("an option was taken for a commit")
	}
}
