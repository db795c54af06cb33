package web

import (
	"strings"
	"unicode/utf8"
)

// maxLine is the longest shown log line in bytes (D-30); the rest is in the download.
const maxLine = 64 << 10

// ANSI turns one log line into spans of plain text. Only colours and weight survive, as classes of a fixed list (libraries that
// play a terminal let a line paint over another, which a log must not); every
// other escape sequence and control character is dropped, so that a log cannot overwrite, hide or link anything. A
// carriage return keeps both texts: what it would have painted over stays readable.
func ANSI(line string) []Span {
	line = strings.TrimSuffix(line, "\r")
	cut := false
	if len(line) > maxLine {
		line, cut = line[:maxLine], true
	}
	if !utf8.ValidString(line) {
		line = strings.ToValidUTF8(line, "�")
	}
	var (
		spans []Span
		text  strings.Builder
		style ansiStyle
	)
	flush := func() {
		if text.Len() > 0 {
			spans = append(spans, Span{Class: style.class(), Text: text.String()})
			text.Reset()
		}
	}
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case r == 0x1b:
			n, params, sgr := escape(line[i:])
			if sgr {
				flush()
				style.apply(params)
			}
			i += n
			continue
		case r == '\r':
			text.WriteString(" ⏎ ")
		case r == '\t':
			text.WriteString("\t")
		case r < 0x20 || r >= 0x7f && r <= 0x9f:
			// other control characters say nothing to a reader
		case hidden(r):
			text.WriteString(codePoint(r))
		default:
			text.WriteRune(r)
		}
		i += size
	}
	if cut {
		text.WriteString(" … (line cut here)")
	}
	flush()
	return spans
}

// escape measures the sequence at the start of s and reports whether it is a colour setting.
func escape(s string) (n int, params string, sgr bool) {
	if len(s) < 2 {
		return len(s), "", false
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1, s[2:i], s[i] == 'm'
			}
			if s[i] < 0x20 || s[i] > 0x3f {
				return i, "", false // broken sequence: drop what was read
			}
		}
		return len(s), "", false
	case ']', 'P', 'X', '^', '_': // strings: up to BEL or ST
		for i := 2; i < len(s); i++ {
			if s[i] == 0x07 {
				return i + 1, "", false
			}
			if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2, "", false
			}
		}
		return len(s), "", false
	default:
		return 2, "", false
	}
}
