package ui

import (
	"regexp"
	"time"
)

// instant is how Stamp, Second and Clock write one.
var instant = regexp.MustCompile(`\b(?:\d{1,2} [A-Z][a-z]{2} \d{4}, )?\d{2}:\d{2}(?::\d{2})? UTC\b`)

// piece is a part of a sentence: text, or the text of an instant.
type piece struct {
	text string
	at   time.Time // zero: text
}

// pieces finds the instants in a sentence. One without a date is the one nearest to now.
func pieces(sentence string, now time.Time) []piece {
	var out []piece
	from := 0
	for _, m := range instant.FindAllStringIndex(sentence, -1) {
		at, ok := parseInstant(sentence[m[0]:m[1]], now.UTC())
		if !ok {
			continue
		}
		out = append(out, piece{text: sentence[from:m[0]]}, piece{sentence[m[0]:m[1]], at})
		from = m[1]
	}
	return append(out, piece{text: sentence[from:]})
}

func parseInstant(text string, now time.Time) (time.Time, bool) {
	for _, layout := range []string{"2 Jan 2006, 15:04:05 UTC", "2 Jan 2006, 15:04 UTC"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	for _, layout := range []string{"15:04:05 UTC", "15:04 UTC"} {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		at = time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
		switch d := at.Sub(now); {
		case d > 12*time.Hour:
			at = at.AddDate(0, 0, -1)
		case d < -12*time.Hour:
			at = at.AddDate(0, 0, 1)
		}
		return at, true
	}
	return time.Time{}, false
}
