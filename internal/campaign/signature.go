package campaign

import (
	"regexp"
	"strings"
)

// maxSignature is the longest signature, in bytes.
const maxSignature = 200

// changing are the parts of a message that differ from one repository to the next while its cause is the same, in the order in which
// they are replaced.
var changing = []struct {
	of *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`), ""},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<id>"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?[0-9.]*(Z|[+-]\d\d:?\d\d)?`), "<time>"},
	{regexp.MustCompile(`\bhttps?://[^\s"']+`), "<url>"},
	{regexp.MustCompile(`(?:[A-Za-z]:)?(?:[\w.@+-]*/)+[\w.@+-]+`), "<path>"},
	{regexp.MustCompile(`\b(0x)?[0-9a-f]{7,64}\b`), "<hash>"},
	{regexp.MustCompile(`"[^"]*"`), "<text>"},
	{regexp.MustCompile(`'[^']*'`), "<text>"},
	{regexp.MustCompile("`[^`]*`"), "<text>"},
	{regexp.MustCompile(`\d+(\.\d+)*`), "<n>"},
	{regexp.MustCompile(`\s+`), " "},
}

// telling is the beginning of what a line that names a cause says, in the words of common tools.
var telling = regexp.MustCompile(`(?i)(error|exception)\b|--- FAIL|\b(fatal|panic|failed|failure|cannot|could not|undefined|not found|no such|denied|timed? ?out)\b`)

// Signature is what failures of the same cause have in common: the first line of a message that names a cause, without the paths,
// numbers and names that differ. Empty text has the signature "no output".
func Signature(text string) string {
	var first, found string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if first == "" {
			first = line
		}
		if telling.MatchString(line) {
			found = line
			break
		}
	}
	if found == "" {
		found = first
	}
	if found == "" {
		return "no output"
	}
	if len(found) > 2000 {
		found = found[:2000]
	}
	for _, c := range changing {
		found = c.of.ReplaceAllString(found, c.by)
	}
	found = strings.ToValidUTF8(strings.TrimSpace(found), "")
	if len(found) > maxSignature {
		found = strings.ToValidUTF8(found[:maxSignature], "")
	}
	if found == "" {
		return "no output"
	}
	return found
}
