package argv_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/internal/argv"
)

// FuzzParse: what is taken names a program, holds no NUL, and reads the same when it is written again.
func FuzzParse(f *testing.F) {
	for _, line := range []string{"make test", `sh -c 'a && b'`, `a \' "b \" c" ''`, `A=b c`, "a\x00b", `"\`, "~/x", "#", "é 'ü'"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := argv.Parse(line)
		if err != nil {
			return
		}
		if len(words) == 0 || words[0] == "" || strings.Contains(strings.Join(words, ""), "\x00") {
			t.Fatalf("%q is %q", line, words)
		}
		if again, err := argv.Parse(argv.Format(words)); err != nil || !slices.Equal(again, words) {
			t.Errorf("%q is %q, which written and read again is %q: %v", line, words, again, err)
		}
	})
}
