package forge

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Trailer is the commit trailer that names the run (R-RCV-5).
const Trailer = "Agent-Run-ID"

// MaxBody bounds a pull request's text, in bytes.
const MaxBody = 60_000

// Marker is the line by which people, and we after a crash, recognise a pull request of a run. It proves nothing:
// anybody can copy it, so the mapping is the database's.
func Marker(runID string) string { return "<!-- signalbox:run=" + word(runID) + " -->" }

// Branch is the one branch of a run that publishes: agent/{task}/{run} (D-29).
func Branch(taskID, runID string) string { return "agent/" + word(taskID) + "/" + word(runID) }

// word keeps an id's own characters, so that nothing else reaches a ref or a comment.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return -1
	}, s)
}

// Check is one verification command in the summary.
type Check struct {
	Name         string
	Passed       bool
	FailedBefore bool // it fails on the base as well
	Duration     time.Duration
}

// Approval is one person's decision in the summary.
type Approval struct {
	Name string
	At   time.Time
}

// Evidence is what a pull request's text is made from. Words that an agent or a repository wrote go only into
// AgentSummary and into the short labels, which are defused.
type Evidence struct {
	RunID        string
	TaskID       string
	RunURL       string // where people read the whole story; "" leaves the link out
	Title        string
	Goal         string
	BaseCommit   string
	ResultTree   string
	PatchDigest  string
	Revision     int
	Files        int
	Additions    int
	Deletions    int
	Checks       []Check
	Verdict      string
	Confidence   float64
	Reasons      []string
	Approvals    []Approval
	Policy       string // version of the policy in force
	Isolation    string // of the sandbox that the agent ran in, in words
	SameWorker   bool   // the change was verified by the worker that made it
	AgentProfile string
	AgentSummary string
}

// Title is the one line of the pull request.
func Title(title string) string {
	if t := oneLine(defuse(title), 200); t != "" {
		return t
	}
	return "Automated change"
}

// CommitMessage is the message of the published commit: the task's line, its goal, and the trailer. The trailer block
// holds nothing that the goal could add.
func CommitMessage(e Evidence) string {
	var b strings.Builder
	b.WriteString(Title(e.Title) + "\n\n")
	if goal := strings.TrimSpace(clip(defuse(e.Goal), 2000)); goal != "" {
		for line := range strings.Lines(goal) {
			// Indented text is never read as a trailer.
			b.WriteString(strings.TrimRight("    "+strings.TrimRight(line, "\n"), " ") + "\n")
		}
		b.WriteString("\n")
	}
	if e.PatchDigest != "" {
		b.WriteString("Patch-Digest: sha256:" + word(e.PatchDigest) + "\n")
	}
	b.WriteString(Trailer + ": " + word(e.RunID) + "\n")
	return b.String()
}

// Body is the pull request's text with the evidence summary (R-PR-2). It holds at most one fenced block, in which the
// agent speaks; everything else is ours.
func Body(e Evidence) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("%s", Marker(e.RunID))
	p("This change was made by a coding agent under the control of Signalbox. Nobody has merged it; that is for you to decide.")
	p("")
	p("| | |")
	p("| --- | --- |")
	if e.RunURL != "" {
		p("| Run | [%s](%s) |", word(e.RunID), link(e.RunURL))
	} else {
		p("| Run | %s |", word(e.RunID))
	}
	p("| Task | %s |", cell(e.Title))
	p("| Agent | %s |", cell(e.AgentProfile))
	p("| Size | %d files, +%d −%d lines |", e.Files, e.Additions, e.Deletions)
	p("| Base | `%s` |", word(e.BaseCommit))
	p("| Patch | revision %d, `sha256:%s` |", e.Revision, word(e.PatchDigest))
	if e.ResultTree != "" {
		p("| Tree | `%s` |", word(e.ResultTree))
	}
	if e.Isolation != "" {
		p("| Sandbox | %s |", cell(e.Isolation))
	}
	if e.Policy != "" {
		p("| Policy | %s |", cell(e.Policy))
	}
	p("")
	p("### Independent verification")
	p("")
	if len(e.Checks) == 0 {
		p("No check was run.")
	} else {
		p("On a fresh checkout with exactly this patch, under another lease and in another sandbox%s:", sameWorker(e.SameWorker))
		p("")
		for _, c := range e.Checks {
			p("- %s: %s (%s)", cell(c.Name), outcome(c), c.Duration.Round(10*time.Millisecond))
		}
	}
	p("")
	p("### Judgement")
	p("")
	if e.Verdict == "" {
		p("No verdict was recorded.")
	} else {
		p("Verdict: %s, confidence %.2f.", cell(e.Verdict), e.Confidence)
		for _, r := range e.Reasons {
			p("- %s", cell(r))
		}
	}
	p("")
	p("### Approval")
	p("")
	if len(e.Approvals) == 0 {
		p("No person was asked; policy allowed this change to be proposed without one.")
	}
	for _, a := range e.Approvals {
		p("- %s, %s", cell(a.Name), a.At.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if strings.TrimSpace(defuse(e.AgentSummary)) == "" {
		return b.String()
	}
	p("")
	p("### What the agent says")
	p("")
	p("The text below is the agent's own and was not checked.")
	p("")
	b.WriteString(fenced(e.AgentSummary, MaxBody-b.Len()))
	return b.String()
}

func sameWorker(same bool) string {
	if same {
		return ", by the same worker that made the change"
	}
	return ""
}

func outcome(c Check) string {
	switch {
	case c.Passed:
		return "passed"
	case c.FailedBefore:
		return "failed, as it does without the change"
	}
	return "failed"
}

// fenced puts untrusted text into a block whose fence is longer than any run of backticks inside, so that the text
// cannot end it. At most limit bytes.
func fenced(text string, limit int) string {
	text = strings.TrimRight(defuse(text), "\n")
	text = clip(text, min(8000, max(0, limit-400)))
	longest, current := 2, 0
	for _, r := range text {
		if r == '`' {
			current++
			longest = max(longest, current)
		} else {
			current = 0
		}
	}
	if longest > 100 {
		text, longest = strings.ReplaceAll(text, "`", "'"), 2
	}
	fence := strings.Repeat("`", longest+1)
	return fence + "text\n" + text + "\n" + fence + "\n"
}

// cell makes a short label harmless inside a table or a list item.
func cell(s string) string {
	s = oneLine(defuse(s), 300)
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\`*_{}[]()<>#+!|~&", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// link keeps only what an address of our own server consists of.
func link(s string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f && !strings.ContainsRune("()<>[]\\\"'`|", r) {
			return r
		}
		return -1
	}, s)
}

// defuse takes the power out of words that forges and their robots act on, without changing what a person reads: a
// word joiner follows each sign that starts a mention, a reference, a command or a directive.
func defuse(s string) string {
	const joiner = "\u2060"
	var b strings.Builder
	start := true
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		switch {
		case r == '\n':
			b.WriteByte('\n')
			start = true
			continue
		case r == '\t':
			b.WriteByte(' ')
			continue
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), r == 0x2028, r == 0x2029:
			continue // control, direction and invisible characters
		}
		b.WriteRune(r)
		if r == '@' || r == '#' || r == '[' || r == '!' || (start && r == '/') || (r == ':' && trailerLike(b.String())) {
			b.WriteString(joiner)
		}
		if r != ' ' {
			start = false
		}
	}
	return b.String()
}

// trailerLike reports whether what was written so far ends in "Key:" at the start of a line.
func trailerLike(sofar string) bool {
	line := sofar[strings.LastIndexByte(sofar, '\n')+1:]
	key := strings.TrimSuffix(strings.TrimLeft(line, " "), ":")
	if key == "" || len(key) > 60 {
		return false
	}
	for _, r := range key {
		if r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return true
}

func oneLine(s string, limit int) string {
	return strings.TrimSpace(clip(strings.Join(strings.Fields(s), " "), limit))
}

// clip cuts at a character boundary and says that it did.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	s = s[:limit]
	for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) {
		s = s[:len(s)-1]
	}
	return s + "…"
}
