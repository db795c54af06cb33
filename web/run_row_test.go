package web

import (
	"strings"
	"testing"
	"time"

	"signalbox/internal/money"
)

func TestUsualWords(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for want, r := range map[string]RunRow{
		"":                           {Active: time.Minute},
		"usually 10 min":             {Active: 2 * time.Minute, Usual: 10 * time.Minute},
		"1.5 times the usual 10 min": {Active: 15 * time.Minute, Usual: 10 * time.Minute},
		"12 times the usual 10 min":  {Active: 2 * time.Hour, Usual: 10 * time.Minute, Ended: now},
		"less than the usual 10 min": {Active: time.Minute, Usual: 10 * time.Minute, Ended: now},
		"as usual, 10 min":           {Active: 11 * time.Minute, Usual: 10 * time.Minute, Ended: now},
	} {
		if got := r.usualWords(); got != want {
			t.Errorf("%s of a usual %s: %q, want %q", r.Active, r.Usual, got, want)
		}
	}
}

// Reported, estimated and unknown are never one number.
func TestRunCostWords(t *testing.T) {
	t.Parallel()
	const eur = money.Currency("EUR")
	for want, c := range map[string]RunCost{
		"":                        {},
		"0.10\u00a0EUR":           {Reported: eur.Of(100_000)},
		"0.10\u00a0EUR estimated": {Estimated: eur.Of(100_000)},
		"unknown":                 {UnknownCalls: 3},
		"0.10\u00a0EUR + 0.20\u00a0EUR estimated + part unknown": {eur.Of(100_000), eur.Of(200_000), 1},
	} {
		if got := strings.Join(c.parts(), " + "); got != want {
			t.Errorf("%+v is %q, want %q", c, got, want)
		}
	}
}
