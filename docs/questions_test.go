// Package docs_test holds what the pages in this folder promise. It owns no page and changes none.
package docs_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	question = regexp.MustCompile(`(?m)^### \d+\. .+\?$`)
	proof    = regexp.MustCompile("\\[`([^`]+)\\.(Test\\w+)`\\]\\(\\.\\./([^)]+)\\)")
	sentence = regexp.MustCompile(`[.!?](\s|$)`)
)

// R-DOC-1: the page answers the 16 closing questions about the state machine and the 10 about the scheduler, each in a few
// sentences and with tests that exist where the link leads.
func TestQuestionsAreAnswered(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("questions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, machine, _ := strings.Cut(string(text), "\n## State machine\n")
	machine, scheduler, _ := strings.Cut(machine, "\n## Worker queue and scheduler\n")
	for part, want := range map[string]int{machine: 16, scheduler: 10} {
		heads := question.FindAllStringIndex(part, -1)
		if len(heads) != want {
			t.Errorf("%d questions, want %d", len(heads), want)
		}
		for i, h := range heads {
			end := len(part)
			if i+1 < len(heads) {
				end = heads[i+1][0]
			}
			answered(t, part[h[0]:h[1]], part[h[1]:end])
		}
	}
}

func answered(t *testing.T, question, body string) {
	t.Helper()
	words, proofs, _ := strings.Cut(body, "\nHeld by ")
	if n := len(sentence.FindAllString(strings.TrimSpace(words), -1)); n < 2 || n > 3 {
		t.Errorf("%s: %d sentences, want two or three", question, n)
	}
	all := proof.FindAllStringSubmatch(proofs, -1)
	if len(all) == 0 {
		t.Errorf("%s: no test is named", question)
	}
	if strings.Count(proofs, "](") != len(all) {
		t.Errorf("%s: a link is none to a test: %s", question, proofs)
	}
	for _, m := range all {
		file, err := os.ReadFile("../" + m[3])
		switch {
		case err != nil:
			t.Errorf("%s: %v", question, err)
		case path.Dir(m[3]) != m[1]:
			t.Errorf("%s: %s is not in %s", question, m[3], m[1])
		case !strings.Contains(string(file), "\nfunc "+m[2]+"(t *testing.T) {"):
			t.Errorf("%s: there is no %s in %s", question, m[2], m[3])
		}
	}
}
