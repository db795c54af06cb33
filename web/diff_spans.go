package web

import (
	"strings"

	"signalbox/internal/patch"
)

// diffSpans cuts the painted text of a line where its changed words begin and end, and gives hidden characters that package
// patch has written out, as ⟦U+202E⟧, chips of their own. Syntax is no matter of either: a chip can stand in any token, and the
// lexer may have cut it.
func diffSpans(spans []Span, l patch.DiffLine) []Span {
	if !l.Hidden && len(l.Words) == 0 {
		return spans
	}
	var out []Span
	at, chip := 0, 0 // chip: where the chip that began last ends
	for _, s := range spans {
		for s.Text != "" {
			n, class, text := len(s.Text), s.Class, ""
			switch {
			case at < chip: // the rest of a chip that the lexer has cut
				n, class = min(n, chip-at), ""
			case l.Hidden:
				n, chip = cutChip(l.Text, at, n)
				if chip > at {
					class, text = "hid", strings.Trim(l.Text[at:chip], "⟦⟧")
				}
			}
			n, changed := cutWord(l.Words, at, n)
			if text == "" && at >= chip {
				text = s.Text[:n]
			}
			if text != "" {
				out = append(out, Span{Class: class, Text: text, Changed: changed})
			}
			s.Text, at = s.Text[n:], at+n
		}
	}
	return out
}

// cutChip says how much of text[at:at+n] comes before the next chip, or where the chip that begins there ends.
func cutChip(text string, at, n int) (before, end int) {
	for i := at; i < at+n; {
		next := strings.Index(text[i:at+n], "⟦")
		if next < 0 {
			break
		}
		if i += next; patch.RevealedLength(text[i:]) > 0 {
			if i > at {
				return i - at, 0
			}
			end = at + patch.RevealedLength(text[at:])
			return min(n, end-at), end
		}
		i += len("⟦")
	}
	return n, 0
}

// cutWord shortens n bytes at a place so that they are all of a changed word, or none.
func cutWord(words []patch.Piece, at, n int) (length int, changed bool) {
	for _, w := range words {
		switch {
		case at < w.From:
			return min(n, w.From-at), false
		case at < w.To:
			return min(n, w.To-at), true
		}
	}
	return n, false
}

// spanRun is spans of a line that are all of changed words, or none of them.
type spanRun struct {
	changed bool
	spans   []Span
}

func spanRuns(spans []Span) []spanRun {
	var runs []spanRun
	for _, s := range spans {
		if n := len(runs); n == 0 || runs[n-1].changed != s.Changed {
			runs = append(runs, spanRun{changed: s.Changed})
		}
		last := &runs[len(runs)-1]
		last.spans = append(last.spans, s)
	}
	return runs
}
