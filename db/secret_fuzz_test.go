package db_test

import (
	"strings"
	"testing"

	"signalbox/db"
)

// FuzzWellFormed: a token of ours is known without asking the database, one that differs anywhere is not, and no text of a log keeps one.
func FuzzWellFormed(f *testing.F) {
	for n, prefix := range []string{db.PrefixLogin, db.PrefixToken, db.PrefixWorker, db.PrefixEnrolment} {
		f.Add(prefix+strings.Repeat("a", 49), n, byte('x'))
		f.Add("", n*17, byte(0))
	}
	f.Fuzz(func(t *testing.T, text string, at int, with byte) {
		if db.WellFormed(text) && len(text) != 53 {
			t.Errorf("%q is taken for a token", text)
		}
		token := db.Mint(db.PrefixToken)
		if !db.WellFormed(token) {
			t.Fatalf("%q is not known", token)
		}
		if at = max(at, 0) % len(token); token[at] != with {
			if other := token[:at] + string(with) + token[at+1:]; db.WellFormed(other) {
				t.Errorf("%q is taken for a token, and is %q with one byte changed", other, token)
			}
		}
		if hidden := db.HideTokens(text + token); strings.Contains(hidden, token) || strings.Contains(hidden, token[6:30]) {
			t.Errorf("%q still holds a token", hidden)
		}
	})
}
