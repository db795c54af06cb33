package e2e_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/run"
	"signalbox/internal/wire"
)

// rogue is whoever holds a worker's credential and says what they like.
type rogue struct {
	*wire.ClientWithResponses
	r    *rig.Rig
	name string
	boot string
	as   wire.Assignment
}

func newRogue(r *rig.Rig, name string) *rogue {
	t := r.T
	t.Helper()
	secret := db.Mint(db.PrefixWorker)
	if _, err := r.Store.CreateWorkerCredential(t.Context(), db.WorkerCredential{Tenant: db.DefaultTenant, Name: name, Phases: run.Phases()}, secret); err != nil {
		t.Fatal(err)
	}
	g := &rogue{ClientWithResponses: as(r, secret), r: r, name: name}
	g.register()
	return g
}

func (g *rogue) register() {
	t := g.r.T
	t.Helper()
	boot, err := g.RegisterWorkerWithResponse(t.Context(), wire.WorkerRegister{Capabilities: []string{"agent:codemod", "agent:default"}, Name: g.name, Version: "1", Phases: []wire.Phase{wire.Execute, wire.Verify, wire.Publish}, Isolation: wire.Bwrap, MaxConcurrentRuns: 5})
	if err != nil || boot.JSON201 == nil {
		t.Fatalf("register: %v", err)
	}
	g.boot = boot.JSON201.BootId
}

// claim takes one item of a phase, in a new boot: this worker sends no heartbeats.
func (g *rogue) claim(phase wire.Phase) {
	t := g.r.T
	t.Helper()
	g.register()
	got, err := g.ClaimWithResponse(t.Context(), wire.Claim{ClaimId: rand.Text(), BootId: g.boot, Phases: []wire.Phase{phase}, Max: 1, WaitSeconds: 20})
	if err != nil || got.JSON200 == nil || len(got.JSON200.Assignments) != 1 {
		t.Fatalf("claim %s: %v %s", phase, err, got.Body)
	}
	g.as = got.JSON200.Assignments[0]
}

// say posts a command under the rogue's lease, or the one of another.
func (g *rogue) say(c wire.RunCommand) (*wire.CommandAck, *wire.Problem) {
	g.r.T.Helper()
	c.LeaseId, c.FencingToken = g.as.LeaseId, g.as.FencingToken
	got, err := g.PostRunCommandWithResponse(g.r.T.Context(), g.as.RunId, &wire.PostRunCommandParams{IdempotencyKey: rand.Text()}, c)
	if err != nil {
		g.r.T.Fatal(err)
	}
	return got.JSON200, got.ApplicationproblemJSONDefault
}

func (g *rogue) must(c wire.RunCommand) wire.CommandAck {
	g.r.T.Helper()
	ack, p := g.say(c)
	if ack == nil {
		g.r.T.Fatalf("%s: %+v", c.Command, p)
	}
	return *ack
}

// put stores bytes; the id is empty where they are refused.
func (g *rogue) put(kind wire.ArtifactKind, name string, content []byte, patch string) (string, *wire.Problem) {
	t := g.r.T
	t.Helper()
	p := &wire.UploadRunArtifactParams{Kind: kind, Name: name, Sha256: digest(content), LeaseId: g.as.LeaseId, FencingToken: g.as.FencingToken}
	if patch != "" {
		p.PatchDigest = &patch
	}
	got, err := g.UploadRunArtifactWithBodyWithResponse(t.Context(), g.as.RunId, p, "application/octet-stream", bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if got.JSON201 == nil {
		return "", got.ApplicationproblemJSONDefault
	}
	return got.JSON201.Id, nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// toExecuting takes a claimed run to the point at which an agent would work.
func (g *rogue) toExecuting(base string) {
	g.r.T.Helper()
	g.must(wire.RunCommand{Command: wire.CmdStart})
	g.must(wire.RunCommand{Command: wire.CmdSandboxReady, SandboxReady: &wire.SandboxReady{Isolation: wire.Bwrap, BaseCommit: base}})
	seen, _ := g.put(wire.ArtifactKindContext, "context.json", []byte(`{}`), "")
	g.must(wire.RunCommand{Command: wire.CmdContextReady, ContextReady: &wire.ContextReady{ArtifactId: seen}})
	plan, _ := g.put(wire.ArtifactKindPlan, "plan.json", []byte(`{"summary":"x","files":["greeting.txt"],"verifiers":["test"],"risks":[],"stop_condition":"done","forbidden_changes":[],"steps":[]}`), "")
	g.must(wire.RunCommand{Command: wire.CmdPlanSubmitted, PlanSubmitted: &wire.PlanSubmitted{ArtifactId: plan}})
}

func (g *rogue) submit(patch, base, tree string) (*wire.CommandAck, *wire.Problem) {
	g.r.T.Helper()
	id, p := g.put(wire.ArtifactKindPatch, "change.patch", []byte(patch), "")
	if id == "" {
		return nil, p
	}
	return g.say(wire.RunCommand{Command: wire.CmdPatchSubmitted, PatchSubmitted: &wire.PatchSubmitted{ArtifactId: id, BaseCommit: base, ResultTree: tree}})
}

// hostilePatches are texts of patches that would write where nothing may be written.
func hostilePatches() map[string]string {
	added := func(path, mode, line string) string {
		return "diff --git a/" + path + " b/" + path + "\nnew file mode " + mode + "\nindex 0000000000000000000000000000000000000000..1111111111111111111111111111111111111111\n--- /dev/null\n+++ b/" + path + "\n@@ -0,0 +1 @@\n+" + line + "\n"
	}
	return map[string]string{
		"a hook": added(".git/hooks/post-checkout", "100755", "#!/bin/sh"), "a hook in other letters": added(".GIT/hooks/x", "100644", "x"), "a nested .git": added("sub/.git/config", "100644", "x"),
		"a short name": added("git~1/config", "100644", "x"), "an invisible letter": added(".g\u200cit/config", "100644", "x"), "above the tree": added("../../etc/cron.d/x", "100644", "x"), "an absolute path": added("/etc/passwd", "100644", "x"),
		"a backslash": added("..\\\\x", "100644", "x"), "a quoted escape": "diff --git \"a/\\056git/config\" \"b/\\056git/config\"\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..1111111111111111111111111111111111111111\n--- /dev/null\n+++ \"b/\\056git/config\"\n@@ -0,0 +1 @@\n+x\n",
		"two names": "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/.git/config\n@@ -1 +1 @@\n-a\n+b\n", "a rename to a hook": "diff --git a/check.sh b/.git/hooks/pre-push\nsimilarity index 100%\nrename from check.sh\nrename to .git/hooks/pre-push\n",
		"no patch": "hello\n", "half a patch": "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,5 +1,5 @@\n-a\n", "bytes": "\xff\xfe\x00\x01", "an empty one": "",
	}
}

// R-TRN-8, G7: a worker that hands in a patch which git or people would read otherwise than it is gets nowhere: the
// server reads it itself.
func TestBadInputHostilePatch(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady(), Workers: -1, Policy: "schema: 1\nversion: once-1\nlimits: {max_attempts: 1, max_runs: 1}\n"})
	repo := r.Repository("acme/shop", rig.Shop())
	base, tree := repo.Git("rev-parse", "main"), repo.Git("rev-parse", "main^{tree}")
	g := newRogue(r, "rogue")
	var table []string
	for name, patch := range hostilePatches() {
		_, id := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: name, Goal: "anything"})
		g.claim(wire.Execute)
		g.toExecuting(base)
		ack, p := g.submit(patch, base, tree)
		switch {
		case ack == nil:
			table = append(table, fmt.Sprintf("%-26s refused %d: %s", name, p.Status, p.Detail))
			g.must(wire.RunCommand{Command: wire.CmdAttemptFailed, AttemptFailed: &wire.AttemptFailed{ReasonCode: "PATCH_INVALID", Summary: "It was refused."}})
		case ack.Run.State == wire.RunStatePATCHREADY:
			t.Errorf("%s: the patch was taken", name)
			_, err := r.API().CancelRunWithResponse(t.Context(), id, &wire.CancelRunParams{IdempotencyKey: rand.Text()}, wire.Reason{})
			if err != nil {
				t.Fatal(err)
			}
		}
		got := r.Await(id, wire.RunStateFAILED, wire.RunStateCANCELLED)
		if f := got.Failure; f != nil {
			table = append(table, fmt.Sprintf("%-26s %s %s %s %s", name, got.State, f.Category, f.ReasonCode, f.Summary))
		}
	}
	slices.Sort(table)
	t.Log("\n" + strings.Join(table, "\n"))
	if got := repo.Branches(); len(got) != 0 {
		t.Errorf("branches %q", got)
	}
}

// R-LEASE-2, R-DOM-11: another worker that has somehow learnt lease and token of a run changes nothing with them, and
// neither does the holder outside its own phase or run.
func TestBadInputStolenLease(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady(), Workers: -1})
	repo := r.Repository("acme/shop", rig.Shop())
	base := repo.Git("rev-parse", "main")
	_, id := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", Goal: "anything"})
	holder, thief := newRogue(r, "holder"), newRogue(r, "thief")
	holder.claim(wire.Execute)
	holder.toExecuting(base)
	_, other := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Another", Goal: "anything"})
	thief.claim(wire.Execute)
	own := thief.as
	patch, _ := holder.put(wire.ArtifactKindPatch, "change.patch", []byte(hostilePatches()["a hook"]), "")
	before := everything(r, repo)

	thief.as = holder.as
	commands := []wire.RunCommand{
		{Command: wire.CmdStart}, {Command: wire.CmdCancelConfirmed},
		{Command: wire.CmdPatchSubmitted, PatchSubmitted: &wire.PatchSubmitted{ArtifactId: patch, BaseCommit: base, ResultTree: base}},
		{Command: wire.CmdNoChangeSubmitted, NoChangeSubmitted: &wire.NoChangeSubmitted{Summary: "Nothing."}},
		{Command: wire.CmdAttemptFailed, AttemptFailed: &wire.AttemptFailed{ReasonCode: "UNKNOWN", Summary: "Ha."}},
		{Command: wire.CmdRelease, Release: &wire.Release{Reason: "Ha."}}, {Command: wire.CmdStopped, Stopped: &wire.Stopped{Why: wire.StoppedBudget}},
		{Command: wire.CmdOperationIntended, OperationIntended: &wire.OperationIntended{Kind: wire.OpPushBranch, Identity: "mine", Parameters: map[string]string{"a": "b"}}},
		{Command: wire.CmdOperationObserved, OperationObserved: &wire.OperationObserved{Identity: "mine", Outcome: wire.OutcomeSucceeded}},
	}
	for _, c := range commands {
		if ack, p := thief.say(c); ack != nil || p.Status != http.StatusConflict || !p.Stop {
			t.Errorf("the thief's %s: %+v %+v", c.Command, ack, p)
		}
	}
	if art, p := thief.put(wire.ArtifactKindLog, "forged.log", []byte("forged"), ""); art != "" {
		t.Errorf("the thief stored %s", art)
	} else if p.Status/100 != 4 {
		t.Errorf("the thief's upload: %+v", p)
	}
	beat, err := thief.HeartbeatWithResponse(t.Context(), wire.Heartbeat{BootId: thief.boot, Leases: []wire.HeldLease{{LeaseId: holder.as.LeaseId, FencingToken: holder.as.FencingToken, RunId: id}}})
	if err != nil || beat.JSON200 == nil || beat.JSON200.Leases[0].Signal != wire.SignalLost {
		t.Errorf("the thief's heartbeat: %v %s", err, beat.Body)
	}
	borrowed, err := thief.HeartbeatWithResponse(t.Context(), wire.Heartbeat{BootId: holder.boot})
	if err != nil || borrowed.StatusCode()/100 != 4 {
		t.Errorf("the thief's heartbeat in another's name: %v %s", err, borrowed.Body)
	}
	if got, err := thief.GetArtifactContentWithResponse(t.Context(), patch); err != nil || got.StatusCode()/100 != 4 {
		t.Errorf("the thief reads what is not its own: %v %s", err, got.Status())
	}

	// The holder: its own lease on another run, another token, and commands of another phase.
	for name, change := range map[string]func(*wire.Assignment){
		"another run": func(a *wire.Assignment) { a.RunId = other }, "an older token": func(a *wire.Assignment) { a.FencingToken-- }, "a newer token": func(a *wire.Assignment) { a.FencingToken += 1000 },
		"another lease": func(a *wire.Assignment) { a.LeaseId = own.LeaseId },
	} {
		was := holder.as
		change(&holder.as)
		if ack, p := holder.say(wire.RunCommand{Command: wire.CmdRelease, Release: &wire.Release{Reason: "x"}}); ack != nil || !p.Stop {
			t.Errorf("%s: %+v %+v", name, ack, p)
		}
		holder.as = was
	}
	for _, c := range []wire.RunCommand{
		{Command: wire.CmdVerificationStarted, VerificationStarted: &wire.VerificationStarted{CommandSetDigest: strings.Repeat("a", 64), Isolation: wire.Bwrap}},
		{Command: wire.CmdVerificationReported, VerificationReported: &wire.VerificationReported{ArtifactId: patch, PatchDigest: strings.Repeat("a", 64), Passed: true}},
		{Command: wire.CmdJudgeReported, JudgeReported: &wire.JudgeReported{Verdict: wire.VerdictPass, Confidence: 1, Reasons: []string{"x"}, ArtifactId: patch}},
		{Command: wire.CmdPrReported, PrReported: &wire.PrReported{Url: "https://example.test/1", Branch: "main", Sha: base}},
		{Command: wire.CmdBaseMoved, BaseMoved: &wire.BaseMoved{NewBase: base}}, {Command: wire.CmdBranchTouched, BranchTouched: &wire.BranchTouched{Sha: base}},
		{Command: wire.CmdOperationIntended, OperationIntended: &wire.OperationIntended{Kind: wire.OpPushBranch, Identity: "early", Parameters: map[string]string{"a": "b"}}},
		{Command: wire.CmdSandboxReady, SandboxReady: &wire.SandboxReady{Isolation: wire.Bwrap, BaseCommit: base}}, {Command: wire.CmdCancelConfirmed},
	} {
		if ack, p := holder.say(c); ack != nil || p.Status/100 != 4 {
			t.Errorf("%s in execution: %+v %+v", c.Command, ack, p)
		}
	}
	if diff := cmp.Diff(before, everything(r, repo)); diff != "" {
		t.Errorf("something changed (-before +after):\n%s", diff)
	}
}

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
