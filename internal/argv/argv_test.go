package argv_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/argv"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"make test":                         {"make", "test"},
		"  go  test\t./... ":                {"go", "test", "./..."},
		`sh -c 'a && b | c > "$D"'`:         {"sh", "-c", `a && b | c > "$D"`},
		`grep -q "hello world" a.txt`:       {"grep", "-q", "hello world", "a.txt"},
		`echo "a \"b\" \\ \$HOME \n"`:       {"echo", `a "b" \ $HOME \n`},
		`echo a\ b 'c'"d"e`:                 {"echo", "a b", "cde"},
		`echo '' ""`:                        {"echo", "", ""},
		`go test -run='^TestA$' -count=1`:   {"go", "test", "-run=^TestA$", "-count=1"},
		`env CGO_ENABLED=0 go build`:        {"env", "CGO_ENABLED=0", "go", "build"},
		`[ -f go.mod ]`:                     {"[", "-f", "go.mod", "]"},
		`printf %s é世`:                      {"printf", "%s", "é世"},
		`'A=b' c`:                           {"A=b", "c"},
		`awk '{print $1}' it\'s-a-file.txt`: {"awk", "{print $1}", "it's-a-file.txt"},
	} {
		if got, err := argv.Parse(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", line, got, err, want)
		}
	}
}

// A command that would do something else without a shell than its author thinks is refused, not guessed at.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"": "no program", "   ": "no program", "'' a": "no program",
		"echo 'a": "single quote is not closed", `echo "a`: "double quote is not closed", `echo "a\"`: "double quote is not closed",
		`echo a\`: "backslash", "a && b": "& means", "a | b": "| means", "a; b": "; means", "a > b": "> means", "a < b": "< means",
		"(a)": "( means", "echo $HOME": "$ means", "echo `id`": "` means", `echo "$HOME"`: "double quotes", "ls *.go": "* means", "ls a?": "? means",
		"cat ~/x": "~ at the start", "a #b": "# at the start", "A=b c": "write env", "a \x00": "NUL", "a '\x00'": "NUL", "a \"\x00\"": "NUL", "a \\\x00": "NUL",
	} {
		if got, err := argv.Parse(line); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %q, %v, want an error about %q", line, got, err, says)
		}
	}
}

// What is shown is what runs: a formatted command reads as the same words.
func TestFormatReadsTheSameAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.OneOf(rapid.StringMatching(`[ -~\n\t]{0,8}`), rapid.StringMatching(`[^\x00]{0,5}`), rapid.SampledFrom([]string{"", "'", "a=b", "~", "#", `\`}))
		words := rapid.SliceOfN(word, 1, 6).Draw(rt, "words")
		if words[0] == "" {
			words[0] = "program"
		}
		line := argv.Format(words)
		if got, err := argv.Parse(line); err != nil || !slices.Equal(got, words) {
			rt.Fatalf("%q is written %s and read %q, %v", words, line, got, err)
		}
	})
	if got, want := argv.Format([]string{"go", "test", "./...", "-run=A b"}), "go test ./... '-run=A b'"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
