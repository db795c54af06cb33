package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
)

// noise are the parts of an output that change from run to run although the failure is the same, each with what stands
// for it. The order counts: what is wider comes first. Every other number stays, because a repair that changes "got 3"
// into "got 4" did change something.
var noise = []struct {
	found *regexp.Regexp
	as    string
}{
	{regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`), ""},
	{regexp.MustCompile(`\b\d{4}[-/]\d{2}[-/]\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?`), "<time>"},
	{regexp.MustCompile(`\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?`), "<time>"},
	{regexp.MustCompile(`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`), "<id>"},
	{regexp.MustCompile(`\b0[xX][0-9a-fA-F]+\+?`), "<address>"},
	{regexp.MustCompile(`\b(\d{1,3}(?:\.\d{1,3}){3}|localhost|\[::1?\]):\d{1,5}\b`), "$1:<port>"},
	{regexp.MustCompile(`\b(?:\d+(?:\.\d+)?(?:h|ms|m|µs|us|ns|s))+\b`), "<duration>"},
	{regexp.MustCompile(`(?i)\b\d+(?:[.,]\d+)?\s*(?:milli|micro|nano)?(?:seconds?|minutes?|secs?|mins?)\b`), "<duration>"},
	// A repair moves lines: file.go:12:3, file.py", line 12, (line 12, column 3).
	{regexp.MustCompile(`(\.[A-Za-z][A-Za-z0-9]*)[:(]\d+(?:[:,]\d+)?\)?`), "$1:<line>"},
	{regexp.MustCompile(`(?i)\b(line|lines|column|col)\b([ :=]+)\d+`), "$1$2<line>"},
	{regexp.MustCompile(`(?i)\b(goroutine|pid|process|thread|tid)\b([ :=#]+)\d+`), "$1$2<number>"},
	// What a test asked the system for: /tmp/TestX123456/001, /tmp/tmpab12cd.
	{regexp.MustCompile(`(/(?:private/)?(?:var/)?tmp)/[^\s"':;,)]+`), "$1/<temporary>"},
	{regexp.MustCompile(`[ \t\r]+`), " "},
}

// steady is an output without the parts that change from run to run.
func steady(output string) string {
	for _, n := range noise {
		output = n.found.ReplaceAllString(output, n.as)
	}
	return output
}

// Signature is equal for failures that are the same: which blocking checks failed, how, and with which output, apart
// from times, durations, addresses, line numbers and the like. It is empty where no check blocks.
func (r Report) Signature() string {
	h := sha256.New()
	blocking := false
	for _, c := range r.Commands {
		if !c.Blocks {
			continue
		}
		blocking = true
		output := c.Output.Tail
		if output == "" {
			output = c.Output.Head
		}
		_, _ = fmt.Fprintf(h, "%q %s %d %q %q\n", c.Name, c.Class, c.ExitCode, c.Signal, steady(output))
	}
	if !blocking {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
