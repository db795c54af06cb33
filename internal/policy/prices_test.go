package policy_test

import (
	"strings"
	"testing"

	"signalbox/internal/fault"
	"signalbox/internal/policy"
)

// R-COST-1: tokens are priced by provider and model, rounded up and never beyond what is counted; what has no price is
// unknown and not free.
func TestPrices(t *testing.T) {
	t.Parallel()
	r, err := policy.Parse([]byte(`version: p-1
prices:
  acme:
    large-1.5: {in_micros: 3000000, out_micros: 15000000}
    free: {in_micros: 0, out_micros: 0}
    "*": {in_micros: 1, out_micros: 1}
  other:
    small: {in_micros: 1000000000, out_micros: 1000000000}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		provider, model string
		in, out, want   int64
		known           bool
	}{
		{"acme", "large-1.5", 1_000_000, 1_000_000, 18_000_000, true},
		{"acme", "large-1.5", 1, 0, 3, true},
		{"acme", "free", 1_000_000, 5, 0, true},
		{"acme", "unheard of", 1, 0, 1, true}, // rounded up
		{"other", "small", 1_000_000_000_000, 1_000_000_000_000, policy.MaxMicros, true},
		{"other", "large-1.5", 1, 1, 0, false},
		{"nobody", "small", 1, 1, 0, false},
		{"", "", 1, 1, 0, false},
	} {
		if got, known := r.Prices.Cost(c.provider, c.model, c.in, c.out); got != c.want || known != c.known {
			t.Errorf("%s %s %d %d: %d %t, want %d %t", c.provider, c.model, c.in, c.out, got, known, c.want, c.known)
		}
	}
	b := r.Clone()
	*b.Prices["acme"]["free"].InMicros = 7
	b.Prices["acme"]["new"] = policy.Price{}
	if *r.Prices["acme"]["free"].InMicros != 0 || len(r.Prices["acme"]) != 3 {
		t.Error("a change of the copy reached the original")
	}
}

// R-COST-1: a price that cannot be is refused with its line, also where names hold dots and quotes.
func TestPricesAreChecked(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		"version: p\nprices:\n  acme:\n    m.1: {in_micros: 1, out_micros: 1}\n    m.1.5: {in_micros: -1, out_micros: 1}\n": "line 5: prices.acme.m.1.5.in_micros: -1 is outside",
		"version: p\nprices:\n  acme:\n    \"*\":\n      in_micros: 1\n":                                                    "line 4: prices.acme.*: out_micros is missing",
		"version: p\nprices:\n  acme:\n    m:\n      in_micros: 1\n      out_micros: 1000000001\n":                          "line 6: prices.acme.m.out_micros: 1000000001 is outside",
		"version: p\nprices:\n  'bad name':\n    m: {in_micros: 1, out_micros: 1}\n":                                        "line 3: prices.bad name: \"bad name\" is no name",
		"version: p\nprices:\n  acme:\n    m: {in_micros: 1, out_micros: 1, cached: 1}\n":                                   "line 4: ",
	} {
		_, err := policy.Parse([]byte(doc))
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", doc, err, want)
		}
	}
}
