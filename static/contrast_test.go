package static_test

import (
	"math"
	"regexp"
	"strconv"
	"testing"

	"signalbox/static"
)

// U14: code is readable on every background that a line of a diff and its changed words have, in light and in dark. The
// pages that axe looks at do not hold every token on every background.
func TestCodeIsReadableOnEveryLine(t *testing.T) {
	t.Parallel()
	css := get(t, static.URL("app.css")).Body.String()
	colours := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z0-9-]+): *light-dark\((#[0-9a-f]{6}), *(#[0-9a-f]{6})\)`).FindAllStringSubmatch(css, -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	inks := map[string][2]string{"ink": colours["ink"], "add-ink": colours["add-ink"], "del-ink": colours["del-ink"]}
	for _, m := range regexp.MustCompile(`\.(t[a-z]) *\{ *color: *light-dark\((#[0-9a-f]{6}), *(#[0-9a-f]{6})\)`).FindAllStringSubmatch(css, -1) {
		inks[m[1]] = [2]string{m[2], m[3]}
	}
	if len(inks) != 11 {
		t.Fatalf("%d colours of text were found: %v", len(inks), inks)
	}
	for _, ground := range []string{"panel", "add-bg", "del-bg", "add-word", "del-word"} {
		for ink, c := range inks {
			for i, theme := range []string{"light", "dark"} {
				if ground[:3] != "pan" && len(ink) > 3 && ink[:3] != ground[:3] {
					continue // a sign stands on its own side only
				}
				if r := contrast(t, c[i], colours[ground][i]); r < 4.5 {
					t.Errorf("%s, %s on %s: %.2f to 1, want 4.5", theme, ink, ground, r)
				}
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance is the relative luminance of a colour such as #1a2b3c (WCAG 2).
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	if len(colour) != 7 {
		t.Fatalf("no colour: %q", colour)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
