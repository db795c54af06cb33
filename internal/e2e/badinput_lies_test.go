package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/run"
	"signalbox/internal/wire"
)

// R-TRN-8, R-JUDGE-1, G9: a worker that lies about verification, judge, tree or pull request gets no further than what
// the server or another worker finds.
func TestBadInputLies(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady(), Workers: -1, Policy: "schema: 1\nversion: automatic-1\nauto_pr: {allowed: true}\nlimits: {max_attempts: 1, max_runs: 1, redeliveries: 0, repair_rounds: 0}\n"})
	repo := r.Repository("acme/shop", rig.Shop())
	base := repo.Git("rev-parse", "main")
	g := newRogue(r, "liar")
	begin := func(title string) string {
		_, id := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: title, Goal: "anything", AutoPr: true})
		g.claim(wire.Execute)
		g.toExecuting(base)
		return id
	}
	patch := func(file, line string) string {
		return "diff --git a/" + file + " b/" + file + "\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..1111111111111111111111111111111111111111\n--- /dev/null\n+++ b/" + file + "\n@@ -0,0 +1 @@\n+" + line + "\n"
	}
	const submodule = "diff --git a/x b/x\nnew file mode 160000\nindex 0000000000000000000000000000000000000000..1111111111111111111111111111111111111111\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+Subproject commit 1111111111111111111111111111111111111111\n"
	report := func(verdict, digest string) []byte {
		return []byte(`{"schema":"signalbox.verification/v1","verdict":"` + verdict + `","patch_digest":"` + digest + `","isolation":"bwrap","summary":"All is well.","commands":[{"name":"check","argv":["true"],"class":"passed","exit_code":0,"duration_ms":1,"sentence":"passed."}]}`)
	}
	judged := func(verdict wire.JudgeReportedVerdict) (*wire.CommandAck, *wire.Problem) {
		id, _ := g.put(wire.ArtifactKindJudgeReport, "judge.json", []byte(`{"verdict":"`+string(verdict)+`","confidence":1,"reasons":[{"code":"OK","words":"Fine.","severity":"note"}]}`), "")
		return g.say(wire.RunCommand{Command: wire.CmdJudgeReported, JudgeReported: &wire.JudgeReported{Verdict: verdict, Confidence: 1, Reasons: []string{"Fine."}, ArtifactId: id}})
	}
	verified := func() {
		g.claim(wire.Verify)
		g.must(wire.RunCommand{Command: wire.CmdVerificationStarted, VerificationStarted: &wire.VerificationStarted{CommandSetDigest: g.as.CommandSetDigest, Isolation: wire.Bwrap}})
	}
	passed := func() {
		id, p := g.put(wire.ArtifactKindVerificationReport, "verification.json", report("passed", g.as.Patch.Digest), g.as.Patch.Digest)
		if id == "" {
			t.Fatalf("the report was refused: %+v", p)
		}
		g.must(wire.RunCommand{Command: wire.CmdVerificationReported, VerificationReported: &wire.VerificationReported{ArtifactId: id, PatchDigest: g.as.Patch.Digest, Passed: true}})
	}

	t.Run("a tree that the patch does not give", func(t *testing.T) {
		id := begin("a false tree")
		if ack, p := g.submit(patch("new.txt", "x"), base, repo.Git("rev-parse", "main^{tree}")); ack == nil {
			t.Fatalf("%+v", p)
		}
		honest := r.StartWorker(rig.WorkerOptions{Name: "honest", Phases: []run.Phase{run.PhaseVerify}})
		got := r.Await(id, wire.RunStateFAILED)
		if got.Failure.ReasonCode != "PATCH_DOES_NOT_APPLY" {
			t.Errorf("failure %+v", got.Failure)
		}
		honest.Terminate()
	})
	t.Run("a report about another patch", func(t *testing.T) {
		id := begin("another patch")
		if ack, p := g.submit(patch("new.txt", "x"), base, strings.Repeat("d", 40)); ack == nil {
			t.Fatalf("%+v", p)
		}
		verified()
		foreign := digest([]byte("another"))
		if art, _ := g.put(wire.ArtifactKindVerificationReport, "verification.json", report("passed", foreign), g.as.Patch.Digest); art != "" {
			t.Error("a report that contradicts its address was stored")
		}
		art, p := g.put(wire.ArtifactKindVerificationReport, "verification.json", report("passed", foreign), foreign)
		if art != "" {
			ack, p := g.say(wire.RunCommand{Command: wire.CmdVerificationReported, VerificationReported: &wire.VerificationReported{ArtifactId: art, PatchDigest: foreign, Passed: true}})
			if ack != nil && ack.Run.State == wire.RunStateJUDGING {
				t.Errorf("the report was taken: %+v %+v", ack, p)
			}
		} else if p.Status/100 != 4 {
			t.Errorf("%+v", p)
		}
		if ack, p := judged(wire.VerdictPass); ack != nil || p.Status/100 != 4 {
			t.Errorf("judged without verification: %+v %+v\n%s", ack, p, r.History(id))
		}
		g.say(wire.RunCommand{Command: wire.CmdAttemptFailed, AttemptFailed: &wire.AttemptFailed{ReasonCode: "VERIFIER_ERROR", Summary: "I give up."}})
		r.Await(id, wire.RunStateFAILED)
	})
	for name, c := range map[string]struct{ patch, code string }{
		"secret": {patch("id_rsa", "aws_secret = \"AKIA"+"Z7Q4M2X5T6R3VWYB\""), "SECRET_FOUND"}, "submodule": {submodule, "FORBIDDEN_PATH"},
		"link": {strings.ReplaceAll(patch("users", "/etc/passwd"), "100644", "120000"), "FORBIDDEN_PATH"},
	} {
		t.Run("a judge who sees no "+name, func(t *testing.T) {
			id := begin("no " + name)
			if ack, p := g.submit(c.patch, base, strings.Repeat("d", 40)); ack == nil {
				t.Fatalf("%+v", p)
			}
			verified()
			passed()
			if ack, p := judged(wire.VerdictPass); ack == nil || ack.Run.State != wire.RunStateFAILED {
				t.Errorf("%+v %+v", ack, p)
			}
			if got := r.Await(id, wire.RunStateFAILED); got.Failure.ReasonCode != c.code || got.Failure.Category != "POLICY_DENIED" {
				t.Errorf("failure %+v", got.Failure)
			}
		})
	}
	t.Run("a pull request that is none", func(t *testing.T) {
		id := begin("no pull request")
		if ack, p := g.submit(patch("new.txt", "x"), base, strings.Repeat("d", 40)); ack == nil {
			t.Fatalf("%+v", p)
		}
		verified()
		passed()
		if ack, p := judged(wire.VerdictPass); ack == nil || ack.Run.State != wire.RunStatePRCREATING {
			t.Fatalf("%+v %+v", ack, p)
		}
		g.claim(wire.Publish)
		branch := g.as.Publish.Branch
		push := wire.OperationIntended{Kind: wire.OpPushBranch, Identity: "push:" + branch, Parameters: map[string]string{"branch": branch}}
		g.must(wire.RunCommand{Command: wire.CmdOperationIntended, OperationIntended: &push})
		g.must(wire.RunCommand{Command: wire.CmdOperationDispatched, OperationDispatched: &wire.OperationDispatched{Identity: push.Identity}})
		thief := newRogue(r, "thief")
		thief.as = g.as
		for _, outcome := range []wire.OperationObservedOutcome{wire.OutcomeSucceeded, wire.OutcomeFailed, wire.OutcomeAmbiguous} {
			if ack, p := thief.say(wire.RunCommand{Command: wire.CmdOperationObserved, OperationObserved: &wire.OperationObserved{Identity: push.Identity, Outcome: outcome}}); ack != nil || p.Status != http.StatusConflict {
				t.Errorf("another worker observed %s: %+v %+v", outcome, ack, p)
			}
		}
		g.must(wire.RunCommand{Command: wire.CmdOperationObserved, OperationObserved: &wire.OperationObserved{Identity: push.Identity, Outcome: wire.OutcomeFailed, Result: map[string]string{"error": "no"}}})
		for name, c := range map[string]wire.PrReported{
			"of nowhere":          {Url: "https://example.test/1", Number: 1, Branch: branch, Sha: base},
			"of main":             {Url: r.URL + "/pulls/pr_1", Number: 1, Branch: "main", Sha: base},
			"of a made-up commit": {Url: r.URL + "/pulls/pr_1", Number: 1, Branch: branch, Sha: strings.Repeat("e", 40)},
		} {
			if ack, p := g.say(wire.RunCommand{Command: wire.CmdPrReported, PrReported: &c}); ack != nil || p.Status/100 != 4 {
				t.Errorf("a pull request %s: %+v %+v", name, ack, p)
			}
		}
		for name, e := range map[string]wire.LocalPullEnsure{
			"of main": {HeadBranch: "main", BaseBranch: "main", HeadSha: base}, "to another base": {HeadBranch: branch, BaseBranch: "release", HeadSha: base},
			"of a branch that is not there": {HeadBranch: branch, BaseBranch: "main", HeadSha: base},
		} {
			e.RunId, e.LeaseId, e.FencingToken, e.Title = id, g.as.LeaseId, g.as.FencingToken, "x"
			got, err := g.EnsureLocalPullWithResponse(t.Context(), g.as.Repository.Id, e)
			if err != nil || got.StatusCode()/100 != 4 {
				t.Errorf("making a pull request %s: %v %s", name, err, got.Body)
			}
		}
		g.must(wire.RunCommand{Command: wire.CmdAttemptFailed, AttemptFailed: &wire.AttemptFailed{ReasonCode: "PR_CREATION_FAILED", Summary: "I give up."}})
		got := r.Await(id, wire.RunStateFAILED)
		if got.Failure.Category != "PR_CREATION_FAILED" {
			t.Errorf("failure %+v", got.Failure)
		}
	})
	if got := repo.Branches(); len(got) != 0 {
		t.Errorf("branches %q", got)
	}
}
