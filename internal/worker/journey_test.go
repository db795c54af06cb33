package worker_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/sandbox"
	"signalbox/internal/wire"
)

const goodAgent = `echo working; test -f "$SIGNALBOX_INPUT/goal.md" || exit 9; printf '{"type":"tool_started","call_id":"c1","name":"sed","kind":"edit"}\n{"type":"tool_finished","call_id":"c1","status":"ok"}\n' >&3
sed -i s/hello/goodbye/ greeting.txt; : > junk.o`

// R-RCV-5, R-TRN-5, R-ATT-1, R-PR-1: a whole journey over three leases, with each answer of the server lost once.
func TestJourney(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "every answer lost once", "in bubblewrap"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, goodAgent)
			tier := wire.Process
			if name == "in bubblewrap" {
				b.cfg.Tier, tier = sandbox.TierBwrap, wire.Bwrap
				if sb, err := sandbox.New(sandbox.Options{Tier: b.cfg.Tier, StateDir: b.dir + "/probe"}); err != nil {
					t.Skipf("not exercised: %v", err)
				} else if err := sb.Close(); err != nil {
					t.Error(err)
				}
			}
			if name == "every answer lost once" {
				for _, what := range []string{
					"claim", "upload", "steps", "logs", "usage", "pull", "start", "sandbox_ready", "context_ready", "plan_submitted", "patch_submitted", "verification_started", "verification_reported", "judge_reported", "operation_intended", "operation_dispatched", "operation_observed", "pr_reported",
				} {
					b.server.lose[what] = 1
				}
			}
			b.start()
			handed := b.execute()
			if diff := cmp.Diff([]string{"start", "sandbox_ready", "context_ready", "plan_submitted", "patch_submitted"}, b.server.names()); diff != "" {
				t.Fatalf("commands (-want +got):\n%s\n%s", diff, b.server.describe())
			}
			patch := b.patch(handed)
			text := string(b.server.bytesOf(patch.ArtifactId))
			if !strings.Contains(text, "+goodbye") || strings.Contains(text, "junk.o") || patch.BaseCommit != b.base {
				t.Fatalf("patch on %s:\n%s", patch.BaseCommit, text)
			}
			executed(t, b, tier)
			old := b.server.stored(wire.ArtifactKindBaseTexts)
			if len(old) != 1 || old[0].Name != "before-"+patch.Digest[:16]+".txt" || string(b.server.bytesOf(old[0].Id)) != "ce013625030ba8dba906f756967f9e9ca394464a blob 6\nhello\n\n" {
				t.Errorf("old texts %+v: %q", old, b.server.bytesOf(old[0].Id))
			}

			v := b.assignment(wire.Verify, wire.RunStatePATCHREADY)
			v.Patch = patch
			b.server.assign(v)
			if end := b.await(v.LeaseId); end.JudgeReported == nil || end.JudgeReported.Verdict != wire.VerdictPass {
				t.Fatalf("verify ended with %s %+v\n%s", end.Command, end.JudgeReported, b.server.describe())
			}
			r := b.server.last(wire.CmdVerificationReported).VerificationReported
			if !r.Passed || r.PatchDigest != patch.Digest || r.ResultTree != patch.ResultTree || len(r.Checks) != 1 {
				t.Fatalf("report %+v", r)
			}

			p := b.publishing(patch)
			b.server.assign(p)
			end := b.await(p.LeaseId)
			published(t, b, end, patch)
			// Handed out again, as after a crash: nothing is made twice.
			again := b.publishing(patch)
			again.Operations = []wire.Operation{{Kind: wire.OpOpenPullRequest, Identity: "open_pull_request:repo_1:agent/task_1/run_1:main", State: "dispatched"}}
			b.server.assign(again)
			published(t, b, b.await(again.LeaseId), patch)
			if o := b.server.last(wire.CmdOperationObserved); o.LeaseId != again.LeaseId || o.OperationObserved.Outcome != wire.OutcomeSucceeded {
				t.Errorf("the operation left open by the earlier lease was not closed: %+v", o.OperationObserved)
			}
			b.stopWorker()
			if b.server.goodbyes != 1 {
				t.Errorf("%d goodbyes", b.server.goodbyes)
			}
		})
	}
}

// A server that does not know the kind of the old texts, or will not have them, gets its patch all the same.
func TestOldTextsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t, goodAgent)
	b.server.refuseKind = wire.ArtifactKindBaseTexts
	b.start()
	b.patch(b.execute())
	if b.server.refused == 0 || len(b.server.stored(wire.ArtifactKindBaseTexts)) != 0 {
		t.Errorf("%d times refused, %d stored", b.server.refused, len(b.server.stored(wire.ArtifactKindBaseTexts)))
	}
}

// A server that is too busy for the old texts, which a worker asks again and again, gets its patch all the same.
func TestOldTextsDoNotHoldUpThePatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, goodAgent)
	b.server.refuseKind, b.server.refuseWith, b.cfg.OldTextsTime = wire.ArtifactKindBaseTexts, http.StatusServiceUnavailable, time.Second
	b.start()
	b.patch(b.execute())
	if n := len(b.server.stored(wire.ArtifactKindBaseTexts)); n != 0 {
		t.Errorf("%d were stored", n)
	}
}

// executed looks at the evidence of an execute lease (R-CTX-1, R-PLAN-1, R-SBX-1, R-DOM-6).
func executed(t *testing.T, b *bench, tier wire.IsolationTier) {
	t.Helper()
	for _, kind := range []wire.ArtifactKind{wire.ArtifactKindContext, wire.ArtifactKindRepositoryMap, wire.ArtifactKindPlan, wire.ArtifactKindLog} {
		if len(b.server.stored(kind)) != 1 {
			t.Errorf("%d artifacts of kind %s", len(b.server.stored(kind)), kind)
		}
	}
	var doc struct {
		Instructions []struct{ Path, Content string }
	}
	if err := json.Unmarshal(b.server.bytesOf(b.server.stored(wire.ArtifactKindContext)[0].Id), &doc); err != nil || len(doc.Instructions) != 1 || doc.Instructions[0].Content != "Be polite.\n" {
		t.Errorf("context: %+v, %v", doc, err)
	}
	states := b.server.stepStates()
	for _, name := range []string{"Fetch the repository", "Prepare the agent sandbox", "Read the repository", "execute with script", "sed", "Take the patch"} {
		if states[name] != wire.StepSucceeded {
			t.Errorf("step %q is %q: %v", name, states[name], states)
		}
	}
	if !strings.Contains(b.server.logOf("agent"), "working\n") {
		t.Errorf("log: %q", b.server.logOf("agent"))
	}
	ready := b.server.last(wire.CmdSandboxReady).SandboxReady
	if ready.Isolation != tier || ready.BaseCommit != b.base {
		t.Errorf("sandbox ready: %+v", ready)
	}
}

func published(t *testing.T, b *bench, end wire.RunCommand, patch *wire.AssignedPatch) {
	t.Helper()
	if end.PrReported == nil {
		t.Fatalf("publish ended with %s\n%s", end.Command, b.server.describe())
	}
	at := b.git("--git-dir="+b.bare(), "rev-parse", "refs/heads/agent/task_1/run_1")
	if end.PrReported.Sha != at || len(b.server.pulls) != 1 || b.server.pulls[0].HeadSha != at {
		t.Fatalf("reported %s, branch at %s, %d pull requests", end.PrReported.Sha, at, len(b.server.pulls))
	}
	if tree := b.git("--git-dir="+b.bare(), "rev-parse", at+"^{tree}"); tree != patch.ResultTree {
		t.Errorf("published tree %s, approved %s", tree, patch.ResultTree)
	}
	if message := b.git("--git-dir="+b.bare(), "log", "-1", "--format=%B", at); !strings.Contains(message, "Agent-Run-ID: run_1") {
		t.Errorf("message %q", message)
	}
	if refs := b.git("--git-dir="+b.bare(), "for-each-ref", "--format=%(refname)"); refs != "refs/heads/agent/task_1/run_1\nrefs/heads/main" {
		t.Errorf("refs:\n%s", refs)
	}
}

// R-RCV-3: an intent before each effect, an observation after, in this order.
func TestOperationsAreRecordedAroundEffects(t *testing.T) {
	t.Parallel()
	b := newBench(t, goodAgent)
	b.start()
	patch := b.patch(b.execute())
	before := len(b.server.names())
	b.server.onCmd = func(c wire.RunCommand) {
		push := c.OperationIntended != nil && c.OperationIntended.Kind == wire.OpPushBranch || c.OperationDispatched != nil && strings.HasPrefix(c.OperationDispatched.Identity, "push")
		if push && strings.Contains(b.git("--git-dir="+b.bare(), "for-each-ref", "--format=%(refname)"), "agent/") {
			t.Error("the branch was there before its intent")
		}
		if c.OperationIntended != nil && len(b.server.pulls) > 0 {
			t.Error("the pull request was there before its intent")
		}
	}
	p := b.publishing(patch)
	b.server.assign(p)
	b.await(p.LeaseId)
	want := []string{"operation_intended", "operation_dispatched", "operation_observed", "operation_intended", "operation_dispatched", "operation_observed", "pr_reported"}
	if got := b.server.names()[before:]; !slices.Equal(got, want) {
		t.Fatalf("commands %q", got)
	}
}

// W9, lifecycles 2: what people did to branch and base is respected.
func TestPublishMeetsPeople(t *testing.T) {
	t.Parallel()
	b := newBench(t, goodAgent)
	b.start()
	patch := b.patch(b.execute())

	// The base moves in another file: nothing changes.
	b.write("other.txt", "moved\n")
	b.git("commit", "--quiet", "-am", "elsewhere")
	b.git("push", "--quiet", b.bare(), "main")
	p := b.publishing(patch)
	b.server.assign(p)
	if end := b.await(p.LeaseId); end.PrReported == nil {
		t.Fatalf("a base that moved elsewhere: %s\n%s", end.Command, b.server.describe())
	}

	// A person commits to the branch.
	b.git("fetch", "--quiet", b.bare(), "agent/task_1/run_1")
	b.git("checkout", "--quiet", "-b", "mine", "FETCH_HEAD")
	b.write("human.txt", "mine\n")
	b.git("add", "-A")
	b.git("commit", "--quiet", "-m", "human")
	human := b.git("rev-parse", "HEAD")
	b.git("push", "--quiet", b.bare(), "HEAD:agent/task_1/run_1")
	p = b.publishing(patch)
	b.server.assign(p)
	if end := b.await(p.LeaseId); end.BranchTouched == nil || end.BranchTouched.Sha != human {
		t.Fatalf("a touched branch: %s %+v", end.Command, end.BranchTouched)
	}
	if at := b.git("--git-dir="+b.bare(), "rev-parse", "refs/heads/agent/task_1/run_1"); at != human {
		t.Fatalf("the branch was moved to %s", at)
	}

	// The base changes a file that the patch touches: the push is not done.
	b.git("checkout", "--quiet", "main")
	b.write("greeting.txt", "hello again\n")
	b.git("commit", "--quiet", "-am", "overlap")
	moved := b.git("rev-parse", "HEAD")
	b.git("push", "--quiet", b.bare(), "main")
	p = b.publishing(patch)
	p.Publish.Branch = "agent/task_1/run_2"
	b.server.assign(p)
	if end := b.await(p.LeaseId); end.BaseMoved == nil || end.BaseMoved.NewBase != moved || !slices.Equal(end.BaseMoved.Overlapping, []string{"greeting.txt"}) || end.BaseMoved.Commits < 1 {
		t.Fatalf("a moved base: %s %+v", end.Command, end.BaseMoved)
	}
	if refs := b.git("--git-dir="+b.bare(), "for-each-ref", "--format=%(refname)"); strings.Contains(refs, "run_2") {
		t.Fatalf("pushed all the same:\n%s", refs)
	}
}
