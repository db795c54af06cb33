package handlers_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"signalbox/internal/wire"
)

// baseCommit is the kit's first commit: made of the same bytes at the same time, it always has this name. resultTree
// is a worker's word, which nothing stands on.
var (
	baseCommit = "56ed14504dff265de1aae4957b67a3f85f9747a1"
	resultTree = strings.Repeat("c", 40)
)

const planJSON = `{"summary":"Replace one word.","files":["a.txt"],"verifiers":["test"],"risks":[],"stop_condition":"The word is replaced.","forbidden_changes":[],"steps":["Edit a.txt"]}`

// diff adds one line to a file.
func diff(file, line string) string {
	return "diff --git a/" + file + " b/" + file + "\nindex " + strings.Repeat("1", 40) + ".." + strings.Repeat("2", 40) + " 100644\n" +
		"--- a/" + file + "\n+++ b/" + file + "\n@@ -1 +1,2 @@\n one\n+" + line + "\n"
}

func sha(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// worker speaks the API as the worker binary does.
type worker struct {
	client
	boot string
}

// lease is one assignment in the worker's hands.
type lease struct {
	*worker
	as   wire.Assignment
	sent map[string]int64 // batches of facts, by kind
}

// claim waits for one assignment of the phase.
func (k *worker) claim(t testing.TB, phase wire.Phase) *lease {
	t.Helper()
	ack := into[wire.ClaimAck](t, k.call(t, "POST", "/workers/claims", wire.Claim{ClaimId: rand.Text(), BootId: k.boot, Phases: []wire.Phase{phase}, Max: 1, WaitSeconds: 10}).want(t, http.StatusOK))
	if len(ack.Assignments) != 1 {
		t.Fatalf("%d assignments for %s, want 1", len(ack.Assignments), phase)
	}
	return &lease{worker: k, as: ack.Assignments[0]}
}

func (l *lease) post(t testing.TB, c wire.RunCommand, headers ...string) answer {
	t.Helper()
	c.LeaseId, c.FencingToken = l.as.LeaseId, l.as.FencingToken
	return l.call(t, "POST", "/runs/"+l.as.RunId+"/commands", c, headers...)
}

func (l *lease) do(t testing.TB, c wire.RunCommand) wire.CommandAck {
	t.Helper()
	return into[wire.CommandAck](t, l.post(t, c).want(t, http.StatusOK))
}

func (l *lease) put(t testing.TB, kind wire.ArtifactKind, content string) answer {
	t.Helper()
	q := url.Values{"kind": {string(kind)}, "name": {string(kind) + ".txt"}, "sha256": {sha(content)}, "lease_id": {l.as.LeaseId}, "fencing_token": {strconv.FormatInt(l.as.FencingToken, 10)}}
	return l.call(t, "POST", "/runs/"+l.as.RunId+"/artifacts?"+q.Encode(), content, "Content-Type", "application/octet-stream")
}

func (l *lease) store(t testing.TB, kind wire.ArtifactKind, content string) string {
	t.Helper()
	return into[wire.Artifact](t, l.put(t, kind, content).want(t, http.StatusCreated)).Id
}

// plan takes a new attempt to the handed-in plan.
func (l *lease) plan(t testing.TB) wire.CommandAck {
	t.Helper()
	return l.planned(t, planJSON)
}

// planned is plan with a plan of one's own.
func (l *lease) planned(t testing.TB, plan string) wire.CommandAck {
	t.Helper()
	l.do(t, wire.RunCommand{Command: wire.CmdStart})
	l.do(t, wire.RunCommand{Command: wire.CmdSandboxReady, SandboxReady: &wire.SandboxReady{Isolation: wire.Bwrap, BaseCommit: baseCommit}})
	l.do(t, wire.RunCommand{Command: wire.CmdContextReady, ContextReady: &wire.ContextReady{ArtifactId: l.store(t, wire.ArtifactKindContext, `{}`)}})
	return l.do(t, wire.RunCommand{Command: wire.CmdPlanSubmitted, PlanSubmitted: &wire.PlanSubmitted{ArtifactId: l.store(t, wire.ArtifactKindPlan, plan)}})
}

func (l *lease) handIn(t testing.TB, patch string) wire.CommandAck {
	t.Helper()
	return l.do(t, wire.RunCommand{Command: wire.CmdPatchSubmitted, PatchSubmitted: &wire.PatchSubmitted{
		ArtifactId: l.store(t, wire.ArtifactKindPatch, patch), BaseCommit: baseCommit, ResultTree: resultTree,
	}})
}

// verify reports that every check passed, and the judge's verdict.
func (l *lease) verify(t testing.TB) wire.CommandAck {
	t.Helper()
	l.do(t, wire.RunCommand{Command: wire.CmdVerificationStarted, VerificationStarted: &wire.VerificationStarted{CommandSetDigest: l.as.CommandSetDigest, Isolation: wire.Bwrap}})
	report := `{"schema":"signalbox.verification/v1","verdict":"passed","patch_digest":"` + l.as.Patch.Digest + `","isolation":"bwrap","summary":"All checks passed.",` +
		`"commands":[{"name":"test","argv":["true"],"class":"passed","exit_code":0,"duration_ms":12,"sentence":"test passed."}]}`
	id := l.store(t, wire.ArtifactKindVerificationReport, report)
	l.do(t, wire.RunCommand{Command: wire.CmdVerificationReported, VerificationReported: &wire.VerificationReported{ArtifactId: id, PatchDigest: l.as.Patch.Digest, Passed: true}})
	judged := l.store(t, wire.ArtifactKindJudgeReport, `{"verdict":"pass","confidence":0.9,"reasons":[{"code":"OK","words":"It does what was asked.","severity":"note"}]}`)
	return l.do(t, wire.RunCommand{Command: wire.CmdJudgeReported, JudgeReported: &wire.JudgeReported{Verdict: wire.VerdictPass, Confidence: 0.9, Reasons: []string{"It does what was asked."}, ArtifactId: judged}})
}

// content is the assignment's patch.
func (l *lease) content(t testing.TB) string {
	t.Helper()
	return l.call(t, "GET", "/artifacts/"+l.as.Patch.ArtifactId+"/content", nil).want(t, http.StatusOK).body
}

// publish pushes the branch as the publisher would, opens the pull request and reports it.
func (l *lease) publish(t testing.TB) wire.CommandAck {
	t.Helper()
	return l.report(t, l.open(t))
}

// report is the second half of publish.
func (l *lease) report(t testing.TB, pull wire.LocalPull) wire.CommandAck {
	t.Helper()
	p := l.as.Publish
	l.do(t, wire.RunCommand{Command: wire.CmdOperationObserved, OperationObserved: &wire.OperationObserved{Identity: "pr:" + p.Branch, Outcome: wire.OutcomeSucceeded, Result: map[string]string{"url": pull.Url}}})
	return l.do(t, wire.RunCommand{Command: wire.CmdPrReported, PrReported: &wire.PrReported{Url: pull.Url, Number: pull.Number, Branch: p.Branch, Sha: pull.HeadSha}})
}

// open is the first half of publish: the pull request is there, and the run does not know it yet.
func (l *lease) open(t testing.TB) wire.LocalPull {
	t.Helper()
	p := l.as.Publish
	head := l.w.commit(l.w.appliedTo(l.as.Patch.BaseCommit, l.content(t)), p.Branch, p.CommitMessage, l.as.Patch.BaseCommit)
	l.do(t, wire.RunCommand{Command: wire.CmdOperationIntended, OperationIntended: &wire.OperationIntended{Kind: wire.OpOpenPullRequest, Identity: "pr:" + p.Branch, Parameters: map[string]string{"branch": p.Branch}}})
	l.do(t, wire.RunCommand{Command: wire.CmdOperationDispatched, OperationDispatched: &wire.OperationDispatched{Identity: "pr:" + p.Branch}})
	ensure := wire.LocalPullEnsure{
		RunId: l.as.RunId, LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, HeadBranch: p.Branch, BaseBranch: p.BaseBranch, HeadSha: head, Title: p.Title, Body: p.Body,
	}
	path := "/local-forge/repositories/" + l.as.Repository.Id + "/pulls"
	pull := into[wire.LocalPull](t, l.call(t, "POST", path, ensure).want(t, http.StatusCreated))
	if again := into[wire.LocalPull](t, l.call(t, "POST", path, ensure).want(t, http.StatusOK)); again.Id != pull.Id {
		t.Fatalf("a second try made another pull request")
	}
	return pull
}
