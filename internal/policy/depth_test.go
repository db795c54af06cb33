package policy_test

import (
	"errors"
	"strings"
	"testing"

	"signalbox/internal/policy"
)

// A document that nests without end is refused at the line where it goes too deep, before the parser, which takes time by the square of
// the depth, sees it: in brackets and without, closed or not, and however much follows.
func TestNestingIsBounded(t *testing.T) {
	t.Parallel()
	const most = 32
	indented := func(levels int) string {
		var b strings.Builder
		for i := range levels {
			b.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return b.String()
	}
	tooDeep := func(doc string) bool {
		_, err := policy.Parse([]byte("version: x\n" + doc))
		pe, ok := errors.AsType[*policy.ParseError](err)
		if !ok {
			t.Fatalf("%.40q: %v", doc, err)
		}
		deep := strings.Contains(pe.Problems[0].Words, "32 deep in each other")
		if deep && (len(pe.Problems) != 1 || pe.Problems[0].Line < 2) {
			t.Errorf("%.40q: %v", doc, pe.Problems)
		}
		return deep
	}
	for name, doc := range map[string]func(levels int) string{
		"lists":              func(n int) string { return strings.Repeat("[", n) },
		"closed":             func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) },
		"fields":             func(n int) string { return strings.Repeat("{", n) },
		"both":               func(n int) string { return strings.Repeat("{a: [", n/2) },
		"dashes":             func(n int) string { return strings.Repeat("- ", n) },
		"dashes in brackets": func(n int) string { return "[" + strings.Repeat("- ", n) },
		"questions":          func(n int) string { return strings.Repeat("? ", n) },
		"indented":           indented,
		"mixed":              func(n int) string { return indented(n/2) + strings.Repeat(" ", n/2) + strings.Repeat("[", n/2) },
		"comments":           func(n int) string { return strings.Repeat("[ # [\n", n) },
	} {
		if tooDeep(doc(most - 6)) {
			t.Errorf("%s: %d levels are too deep", name, most-6)
		}
		if !tooDeep(doc(most + 2)) {
			t.Errorf("%s: %d levels are not too deep", name, most+2)
		}
		if !tooDeep(doc(300)) {
			t.Errorf("%s: 300 levels are not too deep", name)
		}
	}
	for name, doc := range map[string]string{
		"many beside each other": "paths: {forbidden: [" + strings.Repeat("[], ", 2000) + "a]}",
		"lists of lists":         strings.Repeat("- - a\n", 500),
		"brackets in a text":     "version: '" + strings.Repeat("[", 2000) + "'",
		"brackets in a comment":  "# " + strings.Repeat("[", 2000),
		"closing ones":           strings.Repeat("]", 200),
	} {
		if _, err := policy.Parse([]byte(doc)); err == nil || strings.Contains(err.Error(), "deep") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
