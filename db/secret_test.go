package db_test

import (
	"strings"
	"testing"

	"signalbox/db"
)

// S6: a scanner recognises our tokens offline, and a typo costs no look-up.
func TestTokensCarryAChecksum(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{db.PrefixLogin, db.PrefixToken, db.PrefixWorker} {
		secret := db.Mint(prefix)
		if !strings.HasPrefix(secret, prefix) || len(secret) != 53 || !db.WellFormed(secret) {
			t.Fatalf("minted %q", secret)
		}
		if secret == db.Mint(prefix) {
			t.Fatal("two tokens are equal")
		}
		for i := range secret {
			c := byte('A')
			if secret[i] == c {
				c = 'B'
			}
			if broken := secret[:i] + string(c) + secret[i+1:]; db.WellFormed(broken) {
				t.Fatalf("%q is accepted with a changed character at %d", broken, i)
			}
		}
	}
	for _, bad := range []string{"", "sbp_", "sbx_" + strings.Repeat("a", 49), db.NewSecret()} {
		if db.WellFormed(bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
}
