package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// timed is a finished test or package.
type timed struct {
	name    string
	elapsed float64
}

// summary gathers the stream: output is kept per test until it is known whether anybody needs to read it.
type summary struct {
	out                     io.Writer
	output                  map[string][]string
	failedIn                map[string]int
	passed, failed, skipped int
	tests, packages         []timed
	failures, skips, unmet  []string
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[string][]string{}, failedIn: map[string]int{}}
}

func (s *summary) take(ev event) {
	key := ev.Package + " " + ev.Test
	switch ev.Action {
	case "build-output":
		s.output["build "+ev.ImportPath] = append(s.output["build "+ev.ImportPath], ev.Output)
	case "output":
		s.output[key] = append(s.output[key], ev.Output)
		if _, reason, ok := strings.Cut(ev.Output, "not exercised:"); ok {
			s.unmet = append(s.unmet, strings.TrimSpace(ev.Package+" "+ev.Test+":"+strings.TrimRight(reason, "\n")))
		}
	case "pass", "skip", "fail":
		if ev.Test == "" {
			s.endPackage(ev)
		} else {
			s.endTest(ev, key)
		}
		delete(s.output, key)
	}
}

func (s *summary) endTest(ev event, key string) {
	name := short(ev.Package) + "." + ev.Test
	s.tests = append(s.tests, timed{name, ev.Elapsed})
	switch ev.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
		s.skips = append(s.skips, name)
	case "fail":
		s.failed++
		s.failedIn[ev.Package]++
		s.failures = append(s.failures, name)
		fmt.Fprintf(s.out, "\n--- %s failed\n%s\n", name, strings.Join(s.output[key], ""))
	}
}

// endPackage counts a package that failed without a failing test (it did not build, panicked or timed out) as one
// failure, so that the closing line can never read "0 failed" for a red run.
func (s *summary) endPackage(ev event) {
	s.packages = append(s.packages, timed{short(ev.Package), ev.Elapsed})
	switch ev.Action {
	case "pass":
		fmt.Fprintf(s.out, "ok    %-40s %7.1fs\n", short(ev.Package), ev.Elapsed)
	case "fail":
		fmt.Fprintf(s.out, "FAIL  %-40s %7.1fs\n", short(ev.Package), ev.Elapsed)
		if s.failedIn[ev.Package] > 0 {
			return
		}
		s.failed++
		s.failures = append(s.failures, short(ev.Package)+" (the package itself)")
		var text strings.Builder
		text.WriteString(strings.Join(s.output["build "+ev.FailedBuild], ""))
		for key, lines := range s.output {
			if strings.HasPrefix(key, ev.Package+" ") {
				text.WriteString(strings.Join(lines, ""))
			}
		}
		fmt.Fprintf(s.out, "\n--- %s failed\n%s\n", ev.Package, text.String())
	}
}

func (s *summary) print(took time.Duration) {
	s.list("Slowest tests", slowest(s.tests, 15))
	s.list("Slowest packages", slowest(s.packages, 5))
	s.names("Not exercised", s.unmet)
	s.names("Skipped", s.skips)
	s.names("Failed", s.failures)
	fmt.Fprintf(s.out, "\nTests and subtests in %s:\n%d passed, %d failed, %d skipped\n",
		took.Round(time.Second/10), s.passed, s.failed, s.skipped)
}

func (s *summary) list(title string, items []timed) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(s.out, "\n%s\n", title)
	for _, it := range items {
		fmt.Fprintf(s.out, "  %7.2fs  %s\n", it.elapsed, it.name)
	}
}

func (s *summary) names(title string, names []string) {
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(s.out, "\n%s\n", title)
	for _, name := range names {
		fmt.Fprintf(s.out, "  %s\n", name)
	}
}

func slowest(items []timed, n int) []timed {
	sorted := slices.SortedFunc(slices.Values(items), func(a, b timed) int {
		return cmp.Or(cmp.Compare(b.elapsed, a.elapsed), cmp.Compare(a.name, b.name))
	})
	return sorted[:min(n, len(sorted))]
}

func short(pkg string) string { return strings.TrimPrefix(pkg, "signalbox/") }
