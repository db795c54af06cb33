package worker

import (
	"bytes"
	"strings"
	"testing"
)

// White box: what is kept of a stream holds no byte of a secret, whatever writes it comes in.
//
// FuzzRedactor holds it against a plain marking of the whole text.
func FuzzRedactor(f *testing.F) {
	f.Add("before abcdefgh-0123 after", "abcdefgh-0123", "abcdefgh", 8)
	f.Add("abcdefgh", "abcdefgh-0123", "abcdefgh", 3)
	f.Add("xabcdefghijklmnopq", "abcdefghijkl", "ijklmnop", 2)
	f.Add("aaaaaaaaaaaaaaaaaaab", "aaaaaaaa", "aaaaaaaab", 1)
	f.Add("abcdefghabcdefgh", "abcdefgh", "", 5)
	f.Fuzz(func(t *testing.T, text, one, two string, size int) {
		var out bytes.Buffer
		r := newRedactor(&out, []string{one, two})
		for rest := text; rest != ""; {
			n := min(max(1, size%16), len(rest))
			if got, err := r.Write([]byte(rest[:n])); got != n || err != nil {
				t.Fatalf("write: %d %v", got, err)
			}
			rest = rest[n:]
		}
		r.flush()
		if want := redactedWhole(text, one, two); out.String() != want {
			t.Errorf("%q without %q and %q is %q, want %q", text, one, two, out.String(), want)
		}
	})
}

// redactedWhole marks each byte of the whole text that belongs to a secret, and writes one notice for each run of them that a secret
// begins.
func redactedWhole(text string, secrets ...string) string {
	var out strings.Builder
	left := 0
	for i := range len(text) {
		n := 0
		for _, s := range secrets {
			if len(s) >= minSecret && strings.HasPrefix(text[i:], s) {
				n = max(n, len(s))
			}
		}
		if n > 0 && left == 0 {
			out.WriteString("[redacted]")
		}
		if left = max(left, n); left > 0 {
			left--
			continue
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
