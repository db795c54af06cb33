// Package money writes what work costs: an amount and the currency it is counted in, in one spelling everywhere.
//
// An installation counts in one currency. Nothing here converts, adds up or stores amounts.
package money

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"golang.org/x/text/currency"
)

// Currency is an ISO 4217 code such as USD. The zero value belongs to records of a time when no currency was named.
type Currency string

// USD is what the providers of models bill in.
const USD Currency = "USD"

// ParseCurrency accepts a code of ISO 4217, three capital letters.
func ParseCurrency(code string) (Currency, error) {
	if _, err := currency.ParseISO(code); err != nil || code != strings.ToUpper(code) {
		return "", errors.New("want a currency code of ISO 4217 in capitals, such as USD, EUR or JPY")
	}
	return Currency(code), nil
}

// Of is an amount in millionths of the currency.
func (c Currency) Of(micros int64) Amount { return Amount{Micros: micros, Currency: c} }

// OfCents is an amount in hundredths of the currency, the unit of limits and budgets, whatever its smallest coin is.
func (c Currency) OfCents(cents int64) Amount { return c.Of(cents * 10_000) }

// minor is how many decimals the currency's smallest coin has: 2 of USD, 0 of JPY.
func (c Currency) minor() int {
	unit, err := currency.ParseISO(string(c))
	if err != nil {
		return 2
	}
	digits, _ := currency.Standard.Rounding(unit)
	return digits
}

// Amount is money in millionths of a currency.
type Amount struct {
	Micros   int64
	Currency Currency
}

// unit is one of a currency, in millionths, and unitDigits how many decimals these are.
const (
	unit       = 1_000_000
	unitDigits = 6
)

// String writes an amount and its currency, held together by a non-breaking space: "3.20 USD". What is less than one of
// the currency has up to two decimals more, and never reads as nothing where it is something: calls of models cost little.
func (a Amount) String() string {
	least := a.Currency.minor()
	digits := least
	if a.Micros > -unit && a.Micros < unit {
		digits = min(least+2, unitDigits)
	}
	if a.Micros != 0 && rounded(a.Micros, digits) == 0 {
		digits = unitDigits
	}
	text := decimal(rounded(a.Micros, digits), digits)
	for digits > least && strings.HasSuffix(text, "0") {
		text, digits = text[:len(text)-1], digits-1
	}
	text = strings.TrimSuffix(text, ".")
	if a.Currency == "" {
		return text
	}
	return text + "\u00a0" + string(a.Currency)
}

// rounded counts millionths in steps of so many decimals, halves away from zero.
func rounded(micros int64, digits int) int64 {
	step := int64(math.Pow10(unitDigits - digits))
	half := step / 2
	if micros < 0 {
		half = -half
	}
	return micros/step + (micros%step+half)/step
}

// decimal writes n steps of so many decimals.
func decimal(n int64, digits int) string {
	sign := ""
	if n < 0 {
		sign = "-"
	}
	text := strings.TrimPrefix(strconv.FormatInt(n, 10), "-")
	if missing := digits + 1 - len(text); missing > 0 {
		text = strings.Repeat("0", missing) + text
	}
	if digits == 0 {
		return sign + text
	}
	return sign + text[:len(text)-digits] + "." + text[len(text)-digits:]
}
