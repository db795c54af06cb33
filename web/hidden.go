package web

import (
	"fmt"
	"unicode"

	"signalbox/internal/patch"
)

// Reveal makes a rendered page show what readers would not see: characters that are invisible or reorder the text
// around them are written as their numbers, wherever on the page they stand. A plan, a title or a reason must not read
// otherwise than it is, for people decide by it (B7). The pages' own words hold no such character.
func Reveal(page []byte) []byte {
	shown, _ := patch.Reveal(string(page))
	return []byte(shown)
}

// hidden reports characters that a reader cannot see or that reorder what he sees: bidirectional controls, zero-width
// and invisible ones, tags, private use and non-ASCII spaces that look like nothing.
func hidden(r rune) bool {
	switch {
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c: // bidi
		return true
	case r >= 0x200b && r <= 0x200d, r == 0x2060, r == 0xfeff, r == 0x00ad, r == 0x180e, r == 0x034f: // zero width
		return true
	case r >= 0x2061 && r <= 0x2064, r >= 0x206a && r <= 0x206f, r == 0x3164, r == 0x115f, r == 0x1160, r == 0xffa0, r == 0x2800: // invisible
		return true
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0000 && r <= 0xe0fff: // variation selectors and tags
		return true
	case r == 0x2028, r == 0x2029, r == 0x0085:
		return true
	case unicode.Is(unicode.Co, r), unicode.Is(unicode.Zs, r) && r != ' ':
		return true
	}
	return false
}

func codePoint(r rune) string { return fmt.Sprintf("U+%04X", r) }
