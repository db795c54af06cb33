package web_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/web"
)

func TestANSI(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   string
		want []web.Span
	}{
		"plain":                  {"ok", []web.Span{{Text: "ok"}}},
		"colour":                 {"a\x1b[31mb\x1b[0mc", []web.Span{{Text: "a"}, {Class: "a-red", Text: "b"}, {Text: "c"}}},
		"bright and bold":        {"\x1b[1;92mb", []web.Span{{Class: "a-b a-green", Text: "b"}}},
		"256 colours":            {"\x1b[38;5;196mx\x1b[38;5;10my\x1b[38;5;240mz", []web.Span{{Class: "a-red", Text: "x"}, {Class: "a-green", Text: "y"}, {Class: "a-black", Text: "z"}}},
		"true colour":            {"\x1b[38;2;250;240;10mx\x1b[38;2;1my", []web.Span{{Class: "a-yellow", Text: "x"}, {Class: "a-black", Text: "y"}}},
		"colons":                 {"\x1b[38:2::250:20:10mx\x1b[;1my", []web.Span{{Class: "a-red", Text: "x"}, {Class: "a-b", Text: "y"}}},
		"ground":                 {"\x1b[30;40mx\x1b[49my", []web.Span{{Class: "a-on a-on-black", Text: "x"}, {Class: "a-black", Text: "y"}}},
		"inverse":                {"\x1b[31;7mx\x1b[27my\x1b[0;7mz\x1b[mw", []web.Span{{Class: "a-on a-on-red", Text: "x"}, {Class: "a-red", Text: "y"}, {Class: "a-on a-on-white", Text: "z"}, {Text: "w"}}},
		"concealed is shown":     {"\x1b[8mx", []web.Span{{Text: "x"}}},
		"broken colours":         {"\x1b[38mx\x1b[38;5my\x1b[38;9;9;9999999999mz", []web.Span{{Text: "x"}, {Class: "a-black", Text: "y"}, {Text: "z"}}},
		"link dropped":           {"\x1b]8;;https://evil.example\x07here\x1b]8;;\x07", []web.Span{{Text: "here"}}},
		"title dropped":          {"\x1b]0;owned\x1b\\x", []web.Span{{Text: "x"}}},
		"cursor dropped":         {"safe\x1b[2K\x1b[1Aevil", []web.Span{{Text: "safeevil"}}},
		"overwrite stays":        {"rm -rf /\rls", []web.Span{{Text: "rm -rf / ⏎ ls"}}},
		"windows line end":       {"ok\r", []web.Span{{Text: "ok"}}},
		"unfinished":             {"x\x1b[31", []web.Span{{Text: "x"}}},
		"unfinished string":      {"x\x1b]8;;http", []web.Span{{Text: "x"}}},
		"controls dropped":       {"a\x00\x08b\u009bc", []web.Span{{Text: "abc"}}},
		"reordering written out": {"a\u202eb", []web.Span{{Text: "aU+202Eb"}}},
		"invalid bytes":          {"a\xffb", []web.Span{{Text: "a�b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, web.ANSI(tc.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzANSI: whatever a log holds, the spans are valid text without control characters, with classes of the fixed list.
func FuzzANSI(f *testing.F) {
	for _, seed := range []string{"\x1b[31mx", "\x1b]8;;a\x07", "\x1b", "\x9b31m", strings.Repeat("\x1b[", 9), "\xf0\x9f", "\x1bP+q\x1b\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for _, s := range web.ANSI(in) {
			if !utf8.ValidString(s.Text) {
				t.Fatalf("invalid text %q", s.Text)
			}
			for _, r := range s.Text {
				if r < 0x20 && r != '\t' || r >= 0x7f && r <= 0x9f {
					t.Fatalf("control character %U", r)
				}
			}
			for class := range strings.FieldsSeq(s.Class) {
				if !strings.HasPrefix(class, "a-") || strings.ContainsAny(class, "<>\"'=") {
					t.Fatalf("class %q", class)
				}
			}
		}
	})
}
