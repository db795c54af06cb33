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
