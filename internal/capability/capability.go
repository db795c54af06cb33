// Package capability compares what work needs with what a worker offers: names
// with versions, such as "jdk >= 21" and "jdk=21.0.4". It refuses to know what any
// name means, and to guess: a version that cannot be compared satisfies nothing
// but itself.
package capability

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"signalbox/internal/fault"
)

// Requirement is one thing that work needs: a name, and a comparison with a
// version where one is asked for.
type Requirement struct {
	Name, Op, Version string
}

const (
	nameRule    = `[A-Za-z][A-Za-z0-9._+:-]{0,99}`
	versionRule = `[A-Za-z0-9][A-Za-z0-9._+-]{0,63}`
)

var (
	requirement = regexp.MustCompile(`^(` + nameRule + `)(?:\s*(>=|<=|>|<|=)\s*(` + versionRule + `))?$`)
	offer       = regexp.MustCompile(`^(` + nameRule + `)(?:=(` + versionRule + `))?$`)
)

// ParseRequirement reads "name", or "name OP version" with OP one of = >= > <= <.
func ParseRequirement(text string) (Requirement, error) {
	m := requirement.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return Requirement{}, fault.Newf(fault.Invalid, "%q is no requirement: write a name such as go, or a name, a comparison and a version such as jdk >= 21.", clipped(text))
	}
	return Requirement{m[1], m[2], m[3]}, nil
}

// CheckOffer refuses an offer that no requirement could be compared with.
func CheckOffer(text string) error {
	if !offer.MatchString(text) {
		return fault.Newf(fault.Invalid, "%q is no capability: write a name such as docker, or a name and its version such as jdk=21.0.4.", clipped(text))
	}
	return nil
}

func clipped(text string) string {
	if r := []rune(text); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return text
}

// String writes the requirement as ParseRequirement reads it.
func (r Requirement) String() string {
	if r.Op == "" {
		return r.Name
	}
	return r.Name + " " + r.Op + " " + r.Version
}

// Missing returns those of required that offered does not satisfy: nothing where
// required is a subset of offered. A requirement that cannot be read is missing
// everywhere, so that it is noticed and never ignored.
func Missing(required, offered []string) []string {
	var out []string
	for _, text := range required {
		r, err := ParseRequirement(text)
		if err != nil || !slices.ContainsFunc(offered, r.satisfiedBy) {
			out = append(out, text)
		}
	}
	return out
}

func (r Requirement) satisfiedBy(text string) bool {
	m := offer.FindStringSubmatch(text)
	if m == nil || !strings.EqualFold(m[1], r.Name) {
		return false
	}
	if r.Op == "" {
		return true
	}
	have := m[2]
	if r.Op == "=" {
		// "jdk = 21" is satisfied by 21.0.4: what is asked for is given, as far as it is asked for.
		return have == r.Version || strings.HasPrefix(have, r.Version+".")
	}
	a, okA := numbers(have)
	b, okB := numbers(r.Version)
	if !okA || !okB {
		return false
	}
	c := compare(a, b)
	switch r.Op {
	case ">=":
		return c >= 0
	case ">":
		return c > 0
	case "<=":
		return c <= 0
	default:
		return c < 0
	}
}

// numbers splits a version into its numbers; a trailing word such as -rc1 or +build
// is left out of the comparison.
func numbers(version string) ([]int, bool) {
	version, _, _ = strings.Cut(version, "-")
	version, _, _ = strings.Cut(version, "+")
	var out []int
	for part := range strings.SplitSeq(strings.TrimPrefix(version, "v"), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

func compare(a, b []int) int {
	for i := range max(len(a), len(b)) {
		if c := cmp.Compare(at(a, i), at(b, i)); c != 0 {
			return c
		}
	}
	return 0
}

func at(n []int, i int) int {
	if i < len(n) {
		return n[i]
	}
	return 0
}
