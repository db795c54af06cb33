package glob_test

import (
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"

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

// Whatever is allowed is matched in a moment: the test would not end otherwise.
func FuzzValid(f *testing.F) {
	f.Add(strings.Repeat("{a,a}", 9)+"**/{x,y}", strings.Repeat("a", 100))
	f.Add("**/**/**/a*b*c*d*e*", strings.Repeat("a/", 60))
	f.Fuzz(func(t *testing.T, g, path string) {
		if !glob.Valid(g) || len(path) > 500 {
			return
		}
		if _, err := doublestar.Match(g, path); err != nil {
			t.Errorf("%q: %v", g, err)
		}
	})
}
