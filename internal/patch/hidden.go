package patch

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// HiddenText is a place in added lines where a reader sees something else
// than a compiler does.
type HiddenText struct {
	File string `json:"file"`
	Line int    `json:"line"`
	What string `json:"what"` // "U+202E", at most three
}

// String shows it as "file:line U+202E".
func (h HiddenText) String() string { return fmt.Sprintf("%s:%d %s", h.File, h.Line, h.What) }

// maxHidden bounds the list; one is enough to ask a person.
const maxHidden = 50

// isHidden reports characters that are invisible, reorder text or steer a
// terminal, wherever they stand. Joiners and variation selectors have honest
// uses after a visible character of their kind; see hiddenIn.
func isHidden(r rune) bool {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return false
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		return true
	case r == 0xad || r == 0x34f || r == 0x61c || r == 0x115f || r == 0x1160 || r == 0x17b4 || r == 0x17b5 || r == 0x180e:
		return true
	case r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2060 && r <= 0x206f:
		return true
	case r == 0x3164 || r == 0xfeff || r == 0xffa0 || r >= 0xfff9 && r <= 0xfffb:
		return true
	case r >= 0xfe00 && r <= 0xfe0f || r >= 0x1d173 && r <= 0x1d17a || r >= 0xe0000 && r <= 0xe0fff:
		return true
	default:
		return unicode.Is(unicode.Cf, r) && (r < 0x600 || r > 0x8e2) // Arabic number signs are visible
	}
}

// honest reports whether a joiner or selector belongs to the character before
// it: emoji and scripts that need joiners.
func honest(r, before rune) bool {
	switch {
	case r == 0x200d || r == 0x200c:
		return before >= 0x600
	case r >= 0xfe00 && r <= 0xfe0f:
		return before >= 0x203c || before == 0xa9 || before == 0xae || before == '#' || before == '*' || before >= '0' && before <= '9'
	default:
		return false
	}
}

// hiddenIn lists the hidden characters of a line as "U+202E U+2066". first
// says that the line begins its file, where a byte order mark may stand. A
// carriage return counts unless it ends the line.
func hiddenIn(line string, first bool) string {
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if !suspicious(line) {
		return ""
	}
	var found []string
	before := rune(0)
	for i, r := range line {
		bad := isHidden(r) && !honest(r, before) || r == '\r'
		if r == 0xfeff && first && i == 0 {
			bad = false
		}
		if bad && len(found) < 3 {
			found = append(found, fmt.Sprintf("U+%04X", r))
		}
		before = r
	}
	return strings.Join(found, " ")
}

// suspicious is a cheap first look: most lines are printable ASCII.
func suspicious(line string) bool {
	for i := range len(line) {
		if c := line[i]; c >= 0x7f || c < 0x20 && c != '\t' {
			return true
		}
	}
	return false
}

// Hidden lists hidden text in added lines, at most 50 places.
func (p *Patch) Hidden() []HiddenText {
	out := []HiddenText{}
	for i, gf := range p.files {
		for n, line := range addedLines(gf) {
			if what := hiddenIn(line, n == 1); what != "" {
				if out = append(out, HiddenText{File: p.facts.Files[i].Path(), Line: n, What: what}); len(out) == maxHidden {
					return out
				}
			}
		}
	}
	return out
}

// Reveal makes untrusted text safe to show as text: invalid bytes become
// U+FFFD and hidden characters their numbers in brackets.
func Reveal(s string) (text string, hidden bool) {
	if !suspicious(s) {
		return s, false
	}
	var b strings.Builder
	before := rune(0)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteRune(utf8.RuneError)
		case isHidden(r) && !honest(r, before) || r == '\r':
			fmt.Fprintf(&b, "⟦U+%04X⟧", r)
			hidden = true
		default:
			b.WriteString(s[i : i+size])
		}
		before = r
		i += size
	}
	return b.String(), hidden
}
