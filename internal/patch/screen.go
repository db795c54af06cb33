package patch

import (
	"fmt"
	"path"
	"strings"

	"signalbox/internal/glob"
)

// Screening is what paths a change may touch: the policy's rules joined with
// the task's contract. The zero value allows everything but submodules,
// symbolic links and binary files.
type Screening struct {
	// Scope are globs of the contract within which the change must stay;
	// none means the whole repository.
	Scope []string
	// Forbidden paths may not change; Protected ones raise the risk.
	Forbidden, Protected []string
	// Generated and GeneratedRule (allow, forbid, require) with
	// GeneratedSources as in the policy. Files of the built-in class count
	// as generated too.
	Generated, GeneratedSources []string
	GeneratedRule               string
	Symlinks, Binaries          bool // allowed
}

// Hits are the places where a patch meets the screening, in words that name
// the path first. Empty lists mean that nothing was met.
type Hits struct {
	OutOfScope          []string `json:"out_of_scope,omitempty"`
	Forbidden           []string `json:"forbidden,omitempty"`
	Protected           []string `json:"protected,omitempty"`
	GeneratedViolations []string `json:"generated_violations,omitempty"`
}

// Screen compares the facts of a patch with a screening.
func Screen(f Facts, s Screening) Hits {
	var h Hits
	var generated, sources []string
	for _, file := range f.Files {
		isGenerated := file.Is(ClassGenerated)
		for _, p := range file.Paths() {
			if len(s.Scope) > 0 && !InScope(s.Scope, p) {
				h.OutOfScope = append(h.OutOfScope, p)
			}
			if g, ok := MatchAny(s.Forbidden, p); ok {
				h.Forbidden = append(h.Forbidden, p+" (forbidden by "+g+")")
			}
			if g, ok := MatchAny(s.Protected, p); ok {
				h.Protected = append(h.Protected, p+" (protected by "+g+")")
			}
			if _, ok := MatchAny(s.Generated, p); ok {
				isGenerated = true
			}
			if _, ok := MatchAny(s.GeneratedSources, p); ok {
				sources = append(sources, p)
			}
		}
		if isGenerated {
			generated = append(generated, file.Path())
		}
		// A link or submodule that goes away does no harm by going.
		gone := file.Status == Deleted || file.ModeChanged
		switch {
		case file.Submodule && !(gone && file.NewMode != "160000"):
			h.Forbidden = append(h.Forbidden, file.Path()+" (a submodule)")
		case file.Symlink && !s.Symlinks && !(gone && file.NewMode != "120000"):
			h.Forbidden = append(h.Forbidden, file.Path()+" (a symbolic link)")
		case file.Binary && !s.Binaries && file.Status != Deleted:
			h.Forbidden = append(h.Forbidden, file.Path()+" (a binary file)")
		}
	}
	switch {
	case s.GeneratedRule == "forbid":
		for _, p := range generated {
			h.GeneratedViolations = append(h.GeneratedViolations, p+" (generated files may not change)")
		}
	case s.GeneratedRule == "require" && len(sources) > 0 && len(generated) == 0:
		h.GeneratedViolations = append(h.GeneratedViolations,
			fmt.Sprintf("%s (its change must bring generated files along)", sources[0]))
	}
	return h
}

// ValidGlob reports whether a glob can be used in a contract or policy: it is relative to the repository, and one that is
// matched quickly.
func ValidGlob(g string) bool { return !strings.HasPrefix(g, "/") && glob.Valid(g) }

// MatchAny matches as a .gitignore would, to err on the side of a match:
// without regard to case; a glob without a slash matches a name at any depth;
// a glob that matches a folder matches all below it. It returns the glob that
// matched. A glob that is not valid matches everything: a rule that cannot be
// read must not let something through.
func MatchAny(globs []string, p string) (string, bool) {
	low := strings.ToLower(p)
	for _, g := range globs {
		clean := strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(g), "./"), "/")
		if !ValidGlob(clean) {
			return g, true
		}
		for at := low; at != "." && at != "/"; at = path.Dir(at) {
			if glob.Match(clean, at) {
				return g, true
			}
			if !strings.Contains(clean, "/") && glob.Match(clean, path.Base(at)) {
				return g, true
			}
		}
	}
	return "", false
}

// InScope matches strictly, to err on the side of no match: with regard to
// case, from the root of the repository; a glob that matches a folder matches
// all below it. A glob that is not valid matches nothing.
func InScope(globs []string, p string) bool {
	for _, g := range globs {
		clean := strings.TrimSuffix(strings.TrimPrefix(g, "./"), "/")
		if clean == "." {
			return true
		}
		if !ValidGlob(clean) {
			continue
		}
		for at := p; at != "." && at != "/"; at = path.Dir(at) {
			if glob.Match(clean, at) {
				return true
			}
		}
	}
	return false
}
