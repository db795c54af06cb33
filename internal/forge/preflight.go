package forge

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"signalbox/internal/fault"
	"signalbox/internal/typeid"
)

// FindingState says how a thing that was looked at is.
type FindingState string

// The states of a finding. Unchecked means that nobody looked, and why stands in its words.
const (
	FindingOK        FindingState = "ok"
	FindingProblem   FindingState = "problem"
	FindingUnchecked FindingState = "unchecked"
)

// Finding is one thing that a preflight looked at.
type Finding struct {
	Name  string       `json:"name"`
	State FindingState `json:"state"`
	Words string       `json:"words"`
}

// Preflight looks whether a repository can be worked on: it is there, has its default branch, and takes and gives back a
// branch of ours. It also says which owners' file and toolchains it sees. What is wrong is a finding; only a failure of this
// machine is an error. What a worker reaches from where it runs is not looked at.
func (l *Local) Preflight(ctx context.Context, cloneURL, branch string) ([]Finding, error) {
	var found []Finding
	add := func(name string, state FindingState, words string) {
		found = append(found, Finding{name, state, words})
	}
	sha, err := l.Check(ctx, cloneURL, branch)
	if f, ok := fault.Find(err); ok && f.Kind != fault.Internal && f.Kind != fault.Unavailable {
		add("reachable", FindingProblem, f.Sentence)
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	add("reachable", FindingOK, fmt.Sprintf("Branch %s stands at %.12s.", branch, sha))
	repo, err := l.open(cloneURL)
	if err != nil {
		return nil, err
	}
	try := "agent/preflight/" + typeid.New().String()
	if err := repo.UpdateBranch(ctx, try, sha, ""); err != nil {
		add("push", FindingProblem, "A branch of ours could not be made; the server may not write to the repository's folder.")
	} else if err := repo.DeleteBranch(ctx, try, sha); err != nil {
		add("push", FindingProblem, "A branch of ours was made and could not be removed: "+try+".")
	} else {
		add("push", FindingOK, "The server made a branch of ours and removed it.")
	}
	entries, err := repo.Tree(ctx, sha)
	if err != nil {
		return nil, localFault(err, "The repository's files were not listed")
	}
	paths := make([]string, len(entries))
	for i, e := range entries {
		paths[i] = e.Path
	}
	if at := slices.IndexFunc(owners(), func(p string) bool { return slices.Contains(paths, p) }); at >= 0 {
		add("owners", FindingOK, "Owners are named in "+owners()[at]+".")
	} else {
		add("owners", FindingUnchecked, "There is no CODEOWNERS file; nothing depends on one.")
	}
	if tools := toolchains(paths); len(tools) > 0 {
		add("toolchain", FindingOK, "Seen: "+strings.Join(tools, ", ")+".")
	} else {
		add("toolchain", FindingUnchecked, "No build file that is known here.")
	}
	return found, nil
}

// owners are the places of an owners' file, the first that exists counts.
func owners() []string {
	return []string{".github/CODEOWNERS", ".gitea/CODEOWNERS", ".forgejo/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"}
}

// toolchains names what the build files at the root and one folder below it are for, each with one file that shows it.
func toolchains(paths []string) []string {
	known := map[string]string{"go.mod": "Go", "package.json": "Node", "pyproject.toml": "Python", "requirements.txt": "Python", "Cargo.toml": "Rust",
		"pom.xml": "Maven", "build.gradle": "Gradle", "build.gradle.kts": "Gradle", "Gemfile": "Ruby", "composer.json": "PHP", "Makefile": "make"}
	var out, seen []string
	for _, p := range paths {
		name := known[path.Base(p)]
		if name == "" || strings.Count(p, "/") > 1 || slices.Contains(seen, name) {
			continue
		}
		seen, out = append(seen, name), append(out, name+" ("+p+")")
	}
	slices.Sort(out)
	return out
}
