package patch_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/fault"
	"signalbox/internal/patch"
)

// gitDiff commits the files of before, replaces them by those of after and
// returns what git says about it. A value of "\x00link:x" makes a symbolic
// link, a prefix "\x00exec:" an executable file.
func gitDiff(t *testing.T, before, after map[string]string, flags ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
		var errb bytes.Buffer
		cmd.Stderr = &errb
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, errb.String())
		}
		return out
	}
	write := func(files map[string]string) {
		for name, content := range files {
			p := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if target, ok := strings.CutPrefix(content, "\x00link:"); ok {
				if err := os.Symlink(target, p); err != nil {
					t.Fatal(err)
				}
				continue
			}
			mode := os.FileMode(0o644)
			if c, ok := strings.CutPrefix(content, "\x00exec:"); ok {
				content, mode = c, 0o755
			}
			if err := os.WriteFile(p, []byte(content), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	git("init", "-q")
	write(before)
	git("add", "-A")
	git("commit", "-q", "--allow-empty", "-m", "base")
	for name := range before {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(after)
	git("add", "-A")
	return git(append([]string{"diff", "--cached", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv"}, flags...)...)
}

func mustParse(t *testing.T, raw []byte) *patch.Patch {
	t.Helper()
	p, err := patch.Parse(raw, 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	return p
}

func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"\n", i)
	}
	return b.String()
}

// R-TRN-8: the facts come from the bytes of git itself, in every form.
func TestFactsOfRealDiffs(t *testing.T) {
	t.Parallel()
	body := lines(30, "line %d")
	before := map[string]string{
		"a.txt": body, "gone.txt": "x\n", "old name.txt": body + "tail\n", "run.sh": "echo\n",
		"crlf.txt": "a\r\nb\r\n", "bin.dat": "\x00\x01\x02" + body, "type.txt": "x\n", "ünï.txt": "x\n", "empty-gone": "", "noeol": "x",
	}
	after := map[string]string{
		"a.txt": strings.Replace(body, "line 3\n", "line three\nand more\n", 1), "dir/new.go": "package x\n",
		"new name.txt": body + "tail\n", "run.sh": "\x00exec:echo\n", "crlf.txt": "a\r\nc\r\n", "bin.dat": "\x00\x01\x03" + body,
		"type.txt": "\x00link:a.txt", "ünï.txt": "y\n", "empty-new": "", "noeol": "y",
	}
	for _, quote := range []string{"true", "false"} {
		raw := gitDiff(t, before, after, "-M")
		if quote == "false" {
			raw = bytes.ReplaceAll(raw, []byte(`"a/\303\274n\303\257.txt"`), []byte("a/ünï.txt"))
			raw = bytes.ReplaceAll(raw, []byte(`"b/\303\274n\303\257.txt"`), []byte("b/ünï.txt"))
		}
		f := mustParse(t, raw).Facts()
		got := map[string]string{}
		for _, x := range f.Files {
			got[string(x.Status)+" "+x.Path()] = fmt.Sprintf("+%d-%d %s>%s bin=%v link=%v mode=%v", x.Added, x.Removed, x.OldMode, x.NewMode, x.Binary, x.Symlink, x.ModeChanged)
		}
		want := map[string]string{
			"modified a.txt":       "+2-1 100644>100644 bin=false link=false mode=false",
			"added dir/new.go":     "+1-0 >100644 bin=false link=false mode=false",
			"deleted gone.txt":     "+0-1 100644> bin=false link=false mode=false",
			"renamed new name.txt": "+0-0 > bin=false link=false mode=false",
			"modified run.sh":      "+0-0 100644>100755 bin=false link=false mode=true",
			"modified crlf.txt":    "+1-1 100644>100644 bin=false link=false mode=false",
			"modified bin.dat":     "+0-0 100644>100644 bin=true link=false mode=false",
			"deleted type.txt":     "+0-1 100644> bin=false link=false mode=false",
			"added type.txt":       "+1-0 >120000 bin=false link=true mode=false",
			"modified ünï.txt":     "+1-1 100644>100644 bin=false link=false mode=false",
			"renamed empty-new":    "+0-0 > bin=false link=false mode=false", // git takes one empty file for another
			"modified noeol":       "+1-1 100644>100644 bin=false link=false mode=false",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("quotePath %s: %s", quote, diff)
		}
		if f.Added != 7 || f.Removed != 6 || f.Lines() != 13 || f.Empty() {
			t.Errorf("totals +%d -%d", f.Added, f.Removed)
		}
		if f.Digest != patch.Digest(raw) || f.Bytes != int64(len(raw)) {
			t.Errorf("digest %s of %d bytes", f.Digest, f.Bytes)
		}
	}
}

func TestEmptyPatch(t *testing.T) {
	t.Parallel()
	p := mustParse(t, nil)
	if f := p.Facts(); !f.Empty() || f.Lines() != 0 || f.Files == nil || f.Summary() != "0 files, +0 −0" {
		t.Errorf("%+v", f)
	}
	if d := p.Render(patch.Bounds{}); len(d.Files) != 0 {
		t.Error("an empty patch shows files")
	}
}

func section(head, minus, plus, rest string) string {
	return "diff --git " + head + "\nindex 1111111..2222222 100644\n--- " + minus + "\n+++ " + plus + "\n" + rest
}

const hunk = "@@ -1 +1 @@\n-a\n+b\n"

func file(name string) string { return section("a/"+name+" b/"+name, "a/"+name, "b/"+name, hunk) }

// R-SBX-1: what could reach outside the change is refused by name.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	added := func(name, mode string) string {
		return "diff --git a/" + name + " b/" + name + "\nnew file mode " + mode + "\nindex 0000000..2222222\n--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+x\n"
	}
	for _, tc := range []struct{ name, raw, code string }{
		{"parent", file("../evil"), patch.CodeUnsafePath},
		{"inner parent", file("a/../../evil"), patch.CodeUnsafePath},
		{"dot", file("./x"), patch.CodeUnsafePath},
		{"absolute", file("/etc/passwd"), patch.CodeUnreadable}, // the parser tidies it, the header does not agree,
		{"git", file(".git/config"), patch.CodeUnsafePath},
		{"GIT", file("x/.GIT/hooks/pre-commit"), patch.CodeUnsafePath},
		{"git dot", file(".git./config"), patch.CodeUnsafePath},
		{"git space", file(".git /config"), patch.CodeUnsafePath},
		{"git stream", file(".git::$INDEX_ALLOCATION/config"), patch.CodeUnsafePath},
		{"short name", file("GIT~1/config"), patch.CodeUnsafePath},
		{"backslash", file(`a\..\b`), patch.CodeUnsafePath},
		{"double slash", file("a//b"), patch.CodeUnreadable},
		{"escape", file("a\x1bb"), patch.CodeUnsafePath},
		{"hfs ignorable", file(".g\u200cit/config"), patch.CodeUnsafePath},
		{"bidi", file("a\u202eb"), patch.CodeUnsafePath},
		{"invalid utf-8", file("a\xffb"), patch.CodeUnsafePath},
		{"octal git", section(`"a/\056git/config" "b/\056git/config"`, `"a/\056git/config"`, `"b/\056git/config"`, hunk), patch.CodeUnsafePath},
		{"octal newline", section(`"a/x\ny" "b/x\ny"`, `"a/x\ny"`, `"b/x\ny"`, hunk), patch.CodeUnsafePath},
		{"rename away", "diff --git a/a b/../../b\nsimilarity index 100%\nrename from a\nrename to ../../b\n", patch.CodeUnsafePath},
		{"setuid", added("x", "104755"), patch.CodeUnsafePath},
		{"twice", file("a") + file("a"), patch.CodeUnsafePath},
		{"case twins", file("a") + file("A"), patch.CodeUnsafePath},
		{"through a new link", added("a", "120000") + added("a/b", "100644"), patch.CodeUnsafePath},
		{"long", file(strings.Repeat("x", 300)), patch.CodeUnsafePath},
		{"names disagree", section("a/x b/x", "a/x", "b/y", hunk), patch.CodeUnreadable},
		{"header disagrees", section("a/x b/x", "a/y", "b/y", hunk), patch.CodeUnreadable},
		{"no prefix", section("x x", "x", "x", hunk), patch.CodeUnreadable},
		{"plain diff", "--- a/x\n+++ b/x\n" + hunk, patch.CodeUnreadable},
		{"plain diff behind", file("a") + "--- a/x\n+++ b/x\n" + hunk, patch.CodeUnreadable},
		{"junk before", "hello\n" + file("a"), patch.CodeUnreadable},
		{"junk behind", file("a") + "hello\n", patch.CodeUnreadable},
		{"blank line behind", file("a") + "\n", patch.CodeUnreadable},
		{"mail", "From 0 Mon Sep 17 00:00:00 2001\nSubject: x\n---\n" + file("a") + "-- \n2.39\n", patch.CodeUnreadable},
		{"hunk too short", section("a/x b/x", "a/x", "b/x", "@@ -1,2 +1,2 @@\n-a\n+b\n"), patch.CodeUnreadable},
		{"hunk too long", section("a/x b/x", "a/x", "b/x", "@@ -1 +1 @@\n-a\n+b\n+c\n"), patch.CodeUnreadable},
		{"signed range", section("a/x b/x", "a/x", "b/x", "@@ -1 ++1 @@\n-a\n+b\n"), patch.CodeUnreadable},
		{"huge range", section("a/x b/x", "a/x", "b/x", "@@ -1,99999999999 +1 @@\n-a\n+b\n"), patch.CodeUnreadable},
		{"no hunk", section("a/x b/x", "a/x", "b/x", ""), patch.CodeUnreadable},
		{"no newline at the end", strings.TrimSuffix(file("a"), "\n"), patch.CodeUnreadable},
		{"nul", strings.Replace(file("a"), "+b", "+\x00", 1), patch.CodeUnreadable},
		{"crlf headers", strings.ReplaceAll(file("a"), "\n", "\r\n"), patch.CodeUnsafePath},
		{"doubled header", "diff --git a/x b/x\nold mode 100644\nold mode 100755\nnew mode 100755\n", patch.CodeUnreadable},
		{"binary without content", "diff --git a/x b/x\nindex 1111111..2222222 100644\nBinary files a/x and b/x differ\n", patch.CodeUnreadable},
		{"file without a change", "diff --git a/x b/x\n" + file("a"), patch.CodeUnreadable},
		{"binary with empty data", "diff --git a/x b/x\nindex 1111111..2222222 100644\nGIT binary patch\nliteral 1\n\n", patch.CodeUnreadable},
		{"binary of another size", "diff --git a/x b/x\nindex 1111111..2222222 100644\nGIT binary patch\nliteral 3\nJcmZQz0ssI600RI3\n\nliteral 2\nJcmZQz1ONa700IC2\n\n", patch.CodeUnreadable},
		{"combined", "diff --cc x\n", patch.CodeUnreadable},
		{"noise", "\xff\xfe\x01\n", patch.CodeUnreadable},
		{"html", "<script>alert(1)</script>\n", patch.CodeUnreadable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := patch.Parse([]byte(tc.raw), 0)
			f, ok := fault.Find(err)
			if !ok || f.Code != tc.code || f.Kind != fault.Invalid {
				t.Errorf("got %v, want %s", err, tc.code)
			}
			if strings.ContainsAny(fault.Sentence(err), "\x1b\n\u202e") {
				t.Errorf("the sentence carries raw text: %q", fault.Sentence(err))
			}
		})
	}
}

func TestParseTooLarge(t *testing.T) {
	t.Parallel()
	raw := []byte(file("a"))
	if _, err := patch.Parse(raw, int64(len(raw))); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	_, err := patch.Parse(raw, int64(len(raw)-1))
	if f, ok := fault.Find(err); !ok || f.Kind != fault.TooLarge || f.Code != patch.CodeTooLarge {
		t.Errorf("over the limit: %v", err)
	}
}

// D-15: the patch id survives a base that moved and nothing else.
func TestPatchID(t *testing.T) {
	t.Parallel()
	body := lines(60, "line %d")
	change := func(head string) patch.Facts {
		b := head + body
		raw := gitDiff(t, map[string]string{"a.py": b, "b.py": b}, map[string]string{
			"a.py": strings.Replace(b, "line 30\n", "    line thirty\n", 1), "b.py": strings.Replace(b, "line 9\n", "", 1),
		})
		return mustParse(t, raw).Facts()
	}
	one, moved := change(""), change("# a header\n# of two lines\n")
	if one.PatchID != moved.PatchID || one.Digest == moved.Digest {
		t.Errorf("moved hunks: %s %s", one.PatchID, moved.PatchID)
	}
	other := func(name, from, to string) patch.Facts {
		return mustParse(t, gitDiff(t, map[string]string{name: body}, map[string]string{name: strings.Replace(body, from, to, 1)})).Facts()
	}
	base := other("a.py", "line 30\n", "    line thirty\n")
	for what, f := range map[string]patch.Facts{
		"indentation":  other("a.py", "line 30\n", "  line thirty\n"),
		"path":         other("b.py", "line 30\n", "    line thirty\n"),
		"context":      other("a.py", "line 31\n", "    line thirty\n"),
		"end of line":  other("a.py", "line 30\n", "    line thirty\r\n"),
		"more changes": other("a.py", "line 30\n", "    line thirty\nx\n"),
	} {
		if f.PatchID == base.PatchID {
			t.Errorf("another %s gives the same patch id", what)
		}
	}
	if x := other("lib/b.py", "line 30\n", "  line thirty\n"); x.Shape != base.Shape {
		t.Error("an alike change elsewhere must have the same shape")
	}
	if x := other("b.go", "line 30\n", "  line thirty\n"); x.Shape == base.Shape {
		t.Error("another language is another shape")
	}
	mode := func(to string) string {
		return mustParse(t, gitDiff(t, map[string]string{"r": "x\n"}, map[string]string{"r": to})).Facts().PatchID
	}
	if mode("\x00exec:y\n") == mode("y\n") {
		t.Error("an executable file gives the same patch id")
	}
	bin := func(to string) string {
		return mustParse(t, gitDiff(t, map[string]string{"r": "\x00a"}, map[string]string{"r": to})).Facts().PatchID
	}
	if bin("\x00b") == bin("\x00c") {
		t.Error("other binary content gives the same patch id")
	}
}

// FuzzParse: any bytes give a patch whose facts are safe, or a fault with a
// sentence; never a panic. What is accepted renders within its bounds.
func FuzzParse(f *testing.F) {
	f.Add([]byte(file("a")))
	f.Add([]byte(file("a b") + file("c/d.go")))
	f.Add([]byte("diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"))
	f.Add([]byte("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"))
	f.Add([]byte("diff --git a/x b/x\nnew file mode 100644\nindex 0..1\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n"))
	f.Add([]byte(section(`"a/\303\274" "b/\303\274"`, `"a/\303\274"`, `"b/\303\274"`, hunk)))
	f.Add([]byte(section("a/x b/x", "a/x", "b/x", "@@ -1 +1 @@ func\n-a\n\\ No newline at end of file\n+b\u202e\n\\ No newline at end of file\n")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := patch.Parse(raw, 1<<20)
		if err != nil {
			if fault.KindOf(err) == fault.Internal || fault.Sentence(err) == fault.Generic {
				t.Fatalf("no sentence for %v", err)
			}
			return
		}
		facts, added, removed := p.Facts(), 0, 0
		for _, x := range facts.Files {
			for _, path := range x.Paths() {
				if !filepath.IsLocal(path) || strings.Contains(strings.ToLower("/"+path+"/"), "/.git/") {
					t.Fatalf("path %q was accepted", path)
				}
			}
			added, removed = added+x.Added, removed+x.Removed
		}
		if added != facts.Added || removed != facts.Removed {
			t.Fatal("totals do not add up")
		}
		d := p.Render(patch.Bounds{Files: 3, LinesPerFile: 5, Lines: 8, LineBytes: 10})
		n := 0
		for _, x := range d.Files {
			for _, h := range x.Hunks {
				n += len(h.Lines)
			}
		}
		if n > 8 || len(d.Files) > 3 {
			t.Fatalf("%d lines in %d files", n, len(d.Files))
		}
		p.Hidden()
		patch.Screen(facts, patch.Screening{Forbidden: []string{"**/x", "y/*"}, Scope: []string{"a/**"}})
	})
}

// A file's digest is the same wherever in it the same is changed and whatever else the patch does, and another where a blank
// differs.
func TestFileDigest(t *testing.T) {
	t.Parallel()
	digest := func(before, after map[string]string) string {
		t.Helper()
		p := parsed(t, gitDiff(t, before, after))
		for i, f := range p.Facts().Files {
			if f.Path() == "a" {
				return p.FileDigest(i)
			}
		}
		t.Fatal("no file a")
		return ""
	}
	text := func(lead, word string) map[string]string {
		return map[string]string{"a": strings.Repeat(lead+"\n", 10) + "one\n" + word + "\nthree\n", "b": word}
	}
	was := digest(text("x", "two"), text("x", "2"))
	moved, alone := text("x", "two"), text("x", "2")
	moved["a"], alone["a"] = "x\n"+moved["a"], "x\n"+alone["a"]
	delete(moved, "b")
	delete(alone, "b")
	if len(was) != 64 || digest(moved, alone) != was {
		t.Error("the same change has another digest")
	}
	if digest(text("x", "two"), text("x", "2 ")) == was {
		t.Error("another change has the same digest")
	}
	if p := parsed(t, nil); p.FileDigest(0) != "" || p.FileDigest(-1) != "" {
		t.Error("a file that is not there has a digest")
	}
}
