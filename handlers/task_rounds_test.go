package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"signalbox/internal/wire"
)

// ux.md 2.4: the page of a task says how many rounds of repair are used, and how many policy allows.
func TestTaskShowsRounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	task := b.submit(t, "Replace one word.")
	facts := func() string {
		t.Helper()
		return strings.Join(strings.Fields(b.get(t, task).want(t, http.StatusOK).page(t).Find("aside .facts").Text()), " ")
	}
	if got := facts(); strings.Contains(got, "Rounds") {
		t.Errorf("before anything ran: %s", got)
	}
	k := w.worker(t, "one")
	l := k.claim(t, "execute")
	l.plan(t)
	if got := facts(); !strings.Contains(got, "Rounds of repair0 of 2 used") {
		t.Errorf("before the judge spoke: %s", got)
	}
	l.handIn(t, diff("a.txt", "two"))
	v := k.claim(t, "verify")
	v.do(t, wire.RunCommand{Command: wire.CmdVerificationStarted, VerificationStarted: &wire.VerificationStarted{CommandSetDigest: v.as.CommandSetDigest, Isolation: wire.Bwrap}})
	report := v.store(t, wire.ArtifactKindVerificationReport, `{"schema":"signalbox.verification/v1","verdict":"passed","patch_digest":"`+v.as.Patch.Digest+
		`","isolation":"bwrap","summary":"x","commands":[{"name":"test","argv":["true"],"class":"passed","exit_code":0,"duration_ms":12,"sentence":"x"}]}`)
	v.do(t, wire.RunCommand{Command: wire.CmdVerificationReported, VerificationReported: &wire.VerificationReported{ArtifactId: report, PatchDigest: v.as.Patch.Digest, Passed: true}})
	judged := v.store(t, wire.ArtifactKindJudgeReport, `{"verdict":"fix","confidence":0.9,"reasons":[{"code":"X","words":"The word is another.","severity":"error"}]}`)
	ack := v.do(t, wire.RunCommand{Command: wire.CmdJudgeReported, JudgeReported: &wire.JudgeReported{Verdict: wire.VerdictFix, Confidence: 0.9, Reasons: []string{"The word is another."}, ArtifactId: judged}})
	if got := facts(); !strings.Contains(got, "Rounds of repair1 of 2 used in attempt 1 of the newest run") {
		t.Errorf("the run is %s: %s", ack.Run.State, got)
	}
}
