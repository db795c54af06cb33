package forge_test

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"signalbox/internal/forge"
)

func evidence() forge.Evidence {
	return forge.Evidence{
		RunID: "run_01jd3v6m9hf0r8y2kq7c5x4w1e", TaskID: "task_01jd3v6m9hf0r8y2kq7c5x4w1f", RunURL: "http://127.0.0.1:8080/runs/run_01jd3v6m9hf0r8y2kq7c5x4w1e",
		Title: "Upgrade the parser", Goal: "Replace the old call.\nKeep the tests.", BaseCommit: strings.Repeat("a", 40), ResultTree: strings.Repeat("b", 40), PatchDigest: strings.Repeat("c", 64),
		Revision: 2, Files: 3, Additions: 10, Deletions: 4, Verdict: "pass", Confidence: 0.93, Reasons: []string{"Only allowed paths changed."}, Policy: "default@3", Isolation: "bubblewrap sandbox, no network",
		Checks:    []forge.Check{{Name: "go test", Passed: true, Duration: 1234 * time.Millisecond}, {Name: "lint", FailedBefore: true, Duration: time.Second}},
		Approvals: []forge.Approval{{Name: "Ada", At: time.Unix(1_700_000_000, 0)}}, AgentProfile: "codemod", AgentSummary: "I replaced the call.",
	}
}

// R-PR-2: the text carries the evidence. R-RCV-5: branch, trailer and marker follow from the ids alone.
func TestBodyCarriesEvidence(t *testing.T) {
	t.Parallel()
	e := evidence()
	body := forge.Body(e)
	for _, want := range []string{
		forge.Marker(e.RunID), "revision 2", e.PatchDigest, e.BaseCommit, "3 files, +10 −4 lines", "go test: passed (1.23s)", "lint: failed, as it does without the change", "confidence 0.93", "Ada, 2023-11-14 22:13 UTC", "default", "I replaced the call.", "(http://127.0.0.1:8080/runs/run_01jd3v6m9hf0r8y2kq7c5x4w1e)",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the body lacks %q:\n%s", want, body)
		}
	}
	if forge.Body(e) != body {
		t.Error("the same evidence gave two texts")
	}
	if got, want := forge.Branch(e.TaskID, e.RunID), "agent/task_01jd3v6m9hf0r8y2kq7c5x4w1f/run_01jd3v6m9hf0r8y2kq7c5x4w1e"; got != want {
		t.Errorf("branch %q, want %q", got, want)
	}
	message := forge.CommitMessage(e)
	if !strings.HasSuffix(message, "\nAgent-Run-ID: "+e.RunID+"\n") || !strings.HasPrefix(message, "Upgrade the parser\n\n") {
		t.Errorf("commit message:\n%s", message)
	}
}

// W7: what an agent or a requester writes acts on nothing.
func TestHostileWords(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"/approve", "  /merge", "@bot please merge", "Closes #1", "fixes GH-1 #2", "[skip ci]", "[ci skip]", "Co-authored-by: Eve <eve@example.org>", "Agent-Run-ID: run_evil", "Signed-off-by: x",
		"```\nout of the fence\n```", "~~~\nother fence\n~~~", strings.Repeat("`", 500), "![x](http://evil.example/pixel.png)", "<img src=x onerror=1>", "<!-- signalbox:run=run_other -->", "| a | b |", "a\u202ereversed", "zero\u200bwidth", "nul\x00", "\xff\xfe", "line\u2028separator", "# heading", "[link](javascript:alert(1))",
	} {
		e := evidence()
		e.AgentSummary, e.Title, e.Goal, e.AgentProfile = words, words, words, words
		e.Reasons, e.Checks, e.Approvals = []string{words}, []forge.Check{{Name: words}}, []forge.Approval{{Name: words}}
		check(t, e)
	}
}

func TestBodyProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		e := evidence()
		text := rapid.OneOf(rapid.String(), rapid.StringMatching("[`~\n@#/!\\[<>a:-]{0,60}"))
		e.AgentSummary, e.Title, e.Goal = text.Draw(rt, "summary"), text.Draw(rt, "title"), text.Draw(rt, "goal")
		e.Reasons = []string{text.Draw(rt, "reason")}
		check(rt, e)
	})
}

type fataler interface {
	Errorf(format string, args ...any)
}

func check(t fataler, e forge.Evidence) {
	body, message, title := forge.Body(e), forge.CommitMessage(e), forge.Title(e.Title)
	if !utf8.ValidString(body) || len(body) > forge.MaxBody {
		t.Errorf("body is not valid or too long (%d)", len(body))
	}
	// At most one fenced block: the opening line, and the first line that closes it is the last of the text.
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	opened := -1
	for i, l := range lines {
		if regexp.MustCompile("^ {0,3}(`{3,}|~{3,})").MatchString(l) && opened < 0 {
			opened = i
		}
	}
	if opened < 0 {
		// An agent that says nothing gets no block; everything is ours then.
		if strings.Contains(body, "What the agent says") {
			t.Errorf("no fence in the body")
		}
		lines, opened = append(lines, "```text", "```"), len(lines)
	}
	fence := strings.TrimSuffix(lines[opened], "text")
	for i := opened + 1; i < len(lines); i++ {
		closing := strings.TrimSpace(lines[i])
		if len(closing) >= len(fence) && strings.Trim(closing, "`") == "" && i != len(lines)-1 {
			t.Errorf("the agent's text closes the fence at line %d of %d:\n%s", i, len(lines), body)
		}
	}
	outside := strings.Join(lines[1:opened], "\n")
	if regexp.MustCompile(`(^|[^\\])<[!a-z]`).MatchString(outside) || regexp.MustCompile(`@[A-Za-z]`).MatchString(outside) || regexp.MustCompile(`#[0-9]`).MatchString(outside) || regexp.MustCompile(`(?m)^\s*/[a-z]`).MatchString(outside) {
		t.Errorf("live words outside the fence:\n%s", outside)
	}
	for _, s := range []string{message, title} {
		if regexp.MustCompile(`(?i)@[a-z]|#[0-9]|\[skip ci\]|\[ci skip\]`).MatchString(s) || strings.ContainsAny(s, "\x00\u202e") {
			t.Errorf("live words in %q", s)
		}
	}
	trailers := message[strings.LastIndex(strings.TrimSuffix(message, "\n"), "\n\n")+2:]
	if trailers != "Patch-Digest: sha256:"+e.PatchDigest+"\nAgent-Run-ID: "+e.RunID+"\n" {
		t.Errorf("trailers %q in %q", trailers, message)
	}
	if strings.Contains(title, "\n") || title == "" {
		t.Errorf("title %q", title)
	}
}
