package web

import (
	"context"
	"io"
	"strings"
	"unicode"

	"github.com/a-h/templ"
)

// PlainLine is the text of a line as it is shown, without its colours. It is what a search looks at.
func PlainLine(line string) string {
	if isPlain(line) {
		return line
	}
	var b strings.Builder
	for _, s := range ANSI(line) {
		b.WriteString(s.Text)
	}
	return b.String()
}

func isPlain(line string) bool {
	if len(line) > maxLine {
		return false
	}
	for i := range len(line) {
		if c := line[i]; (c < 0x20 && c != '\t') || c >= 0x7f {
			return false
		}
	}
	return true
}

// FoldCase makes texts equal that differ in case only. It keeps the number of characters.
func FoldCase(s string) string { return strings.Map(unicode.ToLower, s) }

// markClass marks what was searched for.
const markClass = "hit"

// spansOf are the spans of a line, with the places marked where it holds the query.
func spansOf(line, query string) []Span {
	spans := ANSI(line)
	want := []rune(FoldCase(query))
	if len(want) == 0 {
		return spans
	}
	var all []rune
	for _, s := range spans {
		all = append(all, []rune(s.Text)...)
	}
	marked := make([]bool, len(all))
	for i := 0; i+len(want) <= len(all); {
		if !runesAt(all[i:], want) {
			i++
			continue
		}
		for range want {
			marked[i] = true
			i++
		}
	}
	return markSpans(spans, marked)
}

func runesAt(text, want []rune) bool {
	for i, r := range want {
		if unicode.ToLower(text[i]) != r {
			return false
		}
	}
	return true
}

// markSpans splits spans where marked begins or ends.
func markSpans(spans []Span, marked []bool) []Span {
	var out []Span
	at := 0
	for _, s := range spans {
		runes := []rune(s.Text)
		for i := 0; i < len(runes); {
			j := i
			for j < len(runes) && marked[at+j] == marked[at+i] {
				j++
			}
			part := Span{Class: s.Class, Text: string(runes[i:j])}
			if marked[at+i] {
				part.Class = strings.TrimSpace(markClass + " " + s.Class)
			}
			out = append(out, part)
			i = j
		}
		at += len(runes)
	}
	return out
}

// spanTexts writes spans one behind the other. A template would put a space between them, and in a log every space counts.
func spanTexts(spans []Span) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		for _, s := range spans {
			if s.Class == "" {
				b.WriteString(templ.EscapeString(s.Text))
				continue
			}
			b.WriteString(`<span class="` + templ.EscapeString(s.Class) + `">` + templ.EscapeString(s.Text) + `</span>`)
		}
		_, err := io.WriteString(w, b.String())
		return err
	})
}
