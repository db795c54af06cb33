package money_test

import (
	"math"
	"strings"
	"testing"

	"signalbox/internal/money"
)

// R-COST-1: an amount is never without its currency, and what is something never reads as nothing.
func TestAmountsNameTheirCurrency(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   money.Amount
		want string
	}{
		{money.USD.Of(3_200_000), "3.20 USD"},
		{money.USD.Of(0), "0.00 USD"},
		{money.USD.Of(12_300), "0.0123 USD"},
		{money.USD.Of(500_000), "0.50 USD"},
		{money.USD.Of(40), "0.00004 USD"},
		{money.USD.Of(1), "0.000001 USD"},
		{money.USD.Of(999_999), "1.00 USD"},
		{money.USD.Of(1_005_000), "1.01 USD"},
		{money.USD.Of(-1_005_000), "-1.01 USD"},
		{money.USD.Of(-12_300), "-0.0123 USD"},
		{money.USD.OfCents(5000), "50.00 USD"},
		{money.Currency("JPY").Of(320_400_000), "320 JPY"},
		{money.Currency("JPY").Of(700_000), "0.7 JPY"},
		{money.Currency("JPY").Of(0), "0 JPY"},
		{money.Currency("KWD").Of(1_234_500), "1.235 KWD"},
		{money.USD.Of(math.MaxInt64), "9223372036854.78 USD"},
		{money.USD.Of(math.MinInt64), "-9223372036854.78 USD"},
		{money.Currency("").Of(1_500_000), "1.50"},
	} {
		if got := strings.Replace(tc.in.String(), "\u00a0", " ", 1); got != tc.want {
			t.Errorf("%d millionths of %q: %q, want %q", tc.in.Micros, tc.in.Currency, got, tc.want)
		}
	}
	if got := money.USD.Of(1_000_000).String(); strings.Contains(got, " ") {
		t.Errorf("%q: the amount and its currency may come apart at a line's end", got)
	}
}

func TestCurrenciesAreThoseOfISO4217(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"USD", "EUR", "CHF", "JPY", "KWD"} {
		if got, err := money.ParseCurrency(code); err != nil || string(got) != code {
			t.Errorf("%s: %q, %v", code, got, err)
		}
	}
	for _, code := range []string{"", "usd", "US", "DOLLAR", "QQQ", "€", "U$D", "USD ", "<b>"} {
		if got, err := money.ParseCurrency(code); err == nil {
			t.Errorf("%q was accepted as %q", code, got)
		}
	}
}
