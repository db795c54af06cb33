package patch

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// section holds the header lines of one file in a patch, for comparison with
// what the parser made of them.
type section struct {
	git, minus, plus string // without "diff --git ", "--- ", "+++ " and newline
}

// account walks every line of a patch and says to which section it belongs.
// Parsers skip what they do not know (and `git apply` skips differently), so
// a line that cannot be accounted for is an error here: what people are shown
// must be all that would be applied.
func account(raw []byte) ([]section, error) {
	if raw[len(raw)-1] != '\n' {
		return nil, errors.New("the last line does not end")
	}
	if bytes.IndexByte(raw, 0) >= 0 {
		return nil, errors.New("the patch holds a NUL byte")
	}
	a := &accountant{rest: raw}
	var out []section
	for len(a.rest) > 0 {
		if len(out) >= maxFiles {
			return nil, fmt.Errorf("more than %d files", maxFiles)
		}
		s, err := a.section()
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", a.line, err)
		}
		out = append(out, s)
	}
	return out, nil
}

type accountant struct {
	rest []byte
	line int
}

// peek returns the next line without its newline; ok is false at the end.
func (a *accountant) peek() (string, bool) {
	i := bytes.IndexByte(a.rest, '\n')
	if i < 0 {
		return "", false
	}
	return string(a.rest[:i]), true
}

func (a *accountant) next() (string, bool) {
	l, ok := a.peek()
	if ok {
		a.rest = a.rest[len(l)+1:]
		a.line++
	}
	return l, ok
}

func (a *accountant) section() (section, error) {
	l, _ := a.next()
	git, ok := strings.CutPrefix(l, "diff --git ")
	if !ok {
		return section{}, errors.New("expected the beginning of a file")
	}
	s := section{git: git}
	seen, err := a.extended()
	if err != nil {
		return s, err
	}
	l, ok = a.peek()
	switch {
	case !ok || strings.HasPrefix(l, "diff --git "):
		for _, enough := range []string{"new mode ", "deleted file mode ", "new file mode ", "rename to ", "copy to "} {
			if seen[enough] {
				return s, nil
			}
		}
		return s, errors.New("a file without a change")
	case l == "GIT binary patch":
		a.next()
		return s, a.binary()
	case strings.HasPrefix(l, "Binary files ") && strings.HasSuffix(l, " differ"):
		return s, errors.New("a binary file without its content")
	case strings.HasPrefix(l, "--- "):
		return s, a.text(&s)
	default:
		return s, errors.New("unknown line in a file's header")
	}
}

// extended reads header lines between "diff --git" and the content. Each may
// come once.
func (a *accountant) extended() (map[string]bool, error) {
	seen := map[string]bool{}
	for {
		l, ok := a.peek()
		if !ok {
			return seen, nil
		}
		kind := ""
		for _, k := range []string{
			"old mode ", "new mode ", "deleted file mode ", "new file mode ", "copy from ", "copy to ",
			"rename from ", "rename to ", "similarity index ", "dissimilarity index ", "index ",
		} {
			if strings.HasPrefix(l, k) {
				kind = k
			}
		}
		if kind == "" {
			return seen, nil
		}
		if seen[kind] {
			return nil, fmt.Errorf("%q comes twice", strings.TrimSpace(kind))
		}
		seen[kind] = true
		a.next()
	}
}

func (a *accountant) text(s *section) error {
	l, _ := a.next()
	s.minus = l[len("--- "):]
	l, ok := a.next()
	if !ok || !strings.HasPrefix(l, "+++ ") {
		return errors.New("expected +++ after ---")
	}
	s.plus = l[len("+++ "):]
	for n := 0; ; n++ {
		l, ok := a.peek()
		if !ok || !strings.HasPrefix(l, "@@ -") {
			if n == 0 {
				return errors.New("expected a hunk")
			}
			return nil
		}
		if err := a.hunk(); err != nil {
			return err
		}
	}
}

func (a *accountant) hunk() error {
	l, _ := a.next()
	head, _, ok := strings.Cut(l[len("@@ -"):], " @@")
	if !ok {
		return errors.New("hunk header does not end")
	}
	o, n, ok := strings.Cut(head, " +")
	if !ok {
		return errors.New("hunk header without a new range")
	}
	oldLines, errO := count(o)
	newLines, errN := count(n)
	if err := errors.Join(errO, errN); err != nil {
		return err
	}
	for oldLines > 0 || newLines > 0 {
		l, ok := a.next()
		if !ok || l == "" {
			return errors.New("hunk ends early")
		}
		switch l[0] {
		case ' ':
			oldLines--
			newLines--
		case '-':
			oldLines--
		case '+':
			newLines--
		case '\\':
		default:
			return errors.New("unknown line in a hunk")
		}
		if oldLines < 0 || newLines < 0 {
			return errors.New("hunk is longer than it says")
		}
	}
	if l, ok := a.peek(); ok && strings.HasPrefix(l, `\ `) {
		a.next()
	}
	return nil
}

// count reads the number of lines from "12,3" or "12" (which means 1). Ranges
// are plain decimal numbers: no sign, no space.
func count(r string) (int, error) {
	start, lines, two := strings.Cut(r, ",")
	if !two {
		lines = "1"
	}
	n := 0
	for _, part := range []string{start, lines} {
		if part == "" || len(part) > 9 || strings.Trim(part, "0123456789") != "" {
			return 0, fmt.Errorf("bad range %q", r)
		}
		n = 0
		for _, c := range part {
			n = n*10 + int(c-'0')
		}
	}
	return n, nil
}

func (a *accountant) binary() error {
	for part := range 2 {
		l, ok := a.peek()
		if !ok || (!strings.HasPrefix(l, "literal ") && !strings.HasPrefix(l, "delta ")) {
			if part == 0 {
				return errors.New("binary patch without data")
			}
			return nil
		}
		a.next()
		for n := 0; ; n++ {
			l, ok := a.next()
			if !ok || l == "" && n == 0 {
				return errors.New("binary data is missing or does not end")
			}
			if l == "" {
				break
			}
		}
	}
	return nil
}

// agrees compares the names in the header lines with the parser's, under
// git's two ways of writing them (core.quotePath on and off).
func (s section) agrees(f File) error {
	oldName, newName := f.OldPath, f.NewPath
	minus, plus := "a/"+oldName, "b/"+newName
	if f.Status == Added {
		oldName, minus = newName, "/dev/null"
	}
	if f.Status == Deleted {
		newName, plus = oldName, "/dev/null"
	}
	for _, quote := range []bool{false, true} {
		if s.git != cquote("a/"+oldName, quote)+" "+cquote("b/"+newName, quote) {
			continue
		}
		if s.minus == "" || (named(s.minus, cquote(minus, quote)) && named(s.plus, cquote(plus, quote))) {
			return nil
		}
	}
	return errors.New("the header's names contradict each other")
}

// named compares a name line; git ends one that holds a space with a tab.
func named(line, want string) bool {
	if strings.Contains(want, " ") && !strings.HasPrefix(want, `"`) {
		want += "\t"
	}
	return line == want
}

// cquote writes a safe path as git does: with high set, names with bytes
// beyond ASCII are quoted. Safe paths hold nothing else that needs it.
func cquote(name string, high bool) string {
	plain := strings.IndexFunc(name, func(r rune) bool { return r >= 0x80 }) < 0
	if plain || !high {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		if c := name[i]; c >= 0x80 {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
