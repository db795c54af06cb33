// Package glob says which globs may be used where somebody else chose them: in policies, contracts and rules. It refuses those
// that are not valid, and those whose matching could take time without a bound that matters; the others it matches.
package glob

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	maxBytes = 500
	// maxDeep is how many ** a glob may hold: the matcher tries each at every folder of a path, nested in each other.
	maxDeep = 6
	// maxAlternatives is how many globs without braces one with braces may stand for: the matcher tries them one after the other.
	maxAlternatives = 1000
)

// Valid reports whether a glob is one, in the manner of doublestar, and is matched quickly.
func Valid(g string) bool {
	return g != "" && len(g) <= maxBytes && strings.Count(g, "**") <= maxDeep && alternatives(g) <= maxAlternatives && doublestar.ValidatePattern(g)
}

// Match reports whether a valid glob matches the whole of a path or name. One that is not valid matches nothing it is known to.
//
// The library's own Match is not asked: it looks at what is left of a glob where matching stopped, which inside of a class such as
// [!a[] is no glob, and calls a valid one invalid.
func Match(g, path string) bool { return doublestar.MatchUnvalidated(g, path) }

// alternatives is how many globs without braces g stands for, at most: groups in each other count as if they stood side by side.
func alternatives(g string) int {
	product := 1
	var open []int // of each open group, its alternatives so far
	for i := 0; i < len(g) && product <= maxAlternatives; i++ {
		switch g[i] {
		case '\\':
			i++
		case '{':
			open = append(open, 1)
		case ',':
			if len(open) > 0 {
				open[len(open)-1]++
			}
		case '}':
			if len(open) > 0 {
				product *= open[len(open)-1]
				open = open[:len(open)-1]
			}
		}
	}
	return product
}
