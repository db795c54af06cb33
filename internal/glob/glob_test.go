package glob_test

import (
	"strings"
	"testing"

	"signalbox/internal/glob"
)

// Globs of others are bounded: one of few bytes can stand for more alternatives than anybody can try.
func TestValid(t *testing.T) {
	t.Parallel()
	for g, want := range map[string]bool{
		"**/*.go": true, "a/{b,c}/**": true, "{" + strings.Repeat("x,", 100) + "x}": true, `\{a,b\}`: true, "[{,]x": true, "{a,{b,c}}": true,
		"": false, "[": false, "{a": false, strings.Repeat("**/", 7) + "x": false, strings.Repeat("a", 501): false,
		strings.Repeat("{a,a}", 10) + "x": false, strings.Repeat("{a,a}", 90): false, "{" + strings.Repeat("{a,b},", 10) + "c}": false,
	} {
		if got := glob.Valid(g); got != want {
			t.Errorf("%q is valid: %t", g, got)
		}
	}
}

// A valid glob is matched whatever stands in it, and wherever in it matching ends.
func TestMatch(t *testing.T) {
	t.Parallel()
	for g, want := range map[string][2]string{ // what it matches, and what it does not
		"**/*.go": {"a/b/c.go", "a/b/c.god"}, "[!a[]": {"b", "a"}, "[^[a]x": {"bx", "[x"}, "*[!a[]": {"ab", "ba"}, "{[!a[],aa}": {"aa", "a"},
		"{[a,b]x,y/z}": {"y/z", "ax/"}, "[!\xaf[]": {"b", "["}, `\{a,b\}`: {"{a,b}", "a"}, "": {"", "a"},
	} {
		if !glob.Match(g, want[0]) || glob.Match(g, want[1]) {
			t.Errorf("%q matches %q: %t, %q: %t", g, want[0], glob.Match(g, want[0]), want[1], glob.Match(g, want[1]))
		}
	}
}

// Whatever is allowed is matched in a moment: the test would not end otherwise.
func FuzzValid(f *testing.F) {
	f.Add(strings.Repeat("{a,a}", 9)+"**/{x,y}", strings.Repeat("a", 100))
	f.Add("**/**/**/a*b*c*d*e*", strings.Repeat("a/", 60))
	f.Fuzz(func(t *testing.T, g, path string) {
		if !glob.Valid(g) || len(path) > 500 {
			return
		}
		glob.Match(g, path)
	})
}
