package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/internal/egress"
	"signalbox/internal/wire"
	"signalbox/internal/worker"
)

// R-SBX-1, R-TRN-12: however an agent ends, there is a code, a sentence and stored evidence.
func TestAgentEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		change func(*wire.Assignment, *worker.Profile)
		code   string // "" expects end
		end    wire.CommandName
		look   func(t *testing.T, b *bench)
	}{
		"exits with 1": {script: "echo no >&2; sed -i s/hello/half/ greeting.txt; exit 1", code: "AGENT_EXIT_NONZERO", look: func(t *testing.T, b *bench) {
			partial := b.server.stored(wire.ArtifactKindEvidence)
			if len(partial) != 1 || !strings.Contains(string(b.server.bytesOf(partial[0].Id)), "+half") {
				t.Errorf("the partial change was not kept: %v", partial)
			}
			failure := string(b.server.bytesOf(b.server.last(wire.CmdAttemptFailed).AttemptFailed.ArtifactId))
			if !strings.Contains(failure, `"exit_code": 1`) || !strings.Contains(failure, "no") {
				t.Errorf("evidence: %s", failure)
			}
		}},
		"program missing": {script: "", change: func(_ *wire.Assignment, p *worker.Profile) { p.Argv = []string{"no-such-program-here"} }, code: "TOOL_MISSING"},
		"hangs":           {script: "echo start; sleep 600", change: func(_ *wire.Assignment, p *worker.Profile) { p.Wall = worker.Span(700 * time.Millisecond) }, code: "AGENT_TIMEOUT"},
		"falls silent":    {script: "echo start; sleep 600", change: func(_ *wire.Assignment, p *worker.Profile) { p.Idle = worker.Span(700 * time.Millisecond) }, code: "AGENT_TIMEOUT"},
		"changes nothing": {script: "true", code: "EMPTY_PATCH"},
		"says that nothing is needed": {script: `printf '{"type":"no_change","reason":"already polite"}\n' >&3`, end: wire.CmdNoChangeSubmitted, look: func(t *testing.T, b *bench) {
			if said := b.server.last(wire.CmdNoChangeSubmitted).NoChangeSubmitted.Summary; !strings.Contains(said, "already polite") {
				t.Errorf("summary %q", said)
			}
		}},
		"a codemod finds nothing": {script: "true", change: func(_ *wire.Assignment, p *worker.Profile) { p.EmptyIsNoChange = true }, end: wire.CmdNoChangeSubmitted},
		"provider says slow down": {script: `printf '{"type":"result","reason":"quota","summary":"429","retry_after_seconds":90}\n' >&3; exit 0`, code: "PROVIDER_RATE_LIMIT", look: func(t *testing.T, b *bench) {
			if s := b.server.last(wire.CmdAttemptFailed).AttemptFailed.RetryAfterSeconds; s != 90 {
				t.Errorf("told to wait %d seconds, want 90", s)
			}
		}},
		"context too large":  {script: `printf '{"type":"result","reason":"context_full"}\n' >&3`, code: "CONTEXT_TOO_LARGE"},
		"unknown profile":    {script: "true", change: func(a *wire.Assignment, _ *worker.Profile) { a.AgentProfile = "other" }, code: "TOOL_MISSING"},
		"isolation too weak": {script: "true", change: func(a *wire.Assignment, _ *worker.Profile) { a.MinIsolation = wire.Bwrap }, code: "ISOLATION_TOO_WEAK"},
		"unknown repository": {script: "true", change: func(a *wire.Assignment, _ *worker.Profile) { a.Repository.CloneUrl = "acme/missing.git" }, code: "REPOSITORY_NOT_FOUND"},
		"address outside":    {script: "true", change: func(a *wire.Assignment, _ *worker.Profile) { a.Repository.CloneUrl = "../../etc" }, code: "REPOSITORY_NOT_FOUND"},
		"address of a command": {script: "true", change: func(a *wire.Assignment, _ *worker.Profile) {
			a.Repository.ForgeKind, a.Repository.CloneUrl = "gitea", "ext::sh -c 'touch /tmp/owned'"
		}, code: "REPOSITORY_NOT_FOUND"},
		"unreachable remote": {script: "true", change: func(a *wire.Assignment, _ *worker.Profile) {
			a.Repository.ForgeKind, a.Repository.CloneUrl = "gitea", "http://127.0.0.1:9/x.git"
		}, code: "GIT_CLONE_FAILED_TRANSIENT"},
		"unknown branch":        {script: "true", change: func(a *wire.Assignment, _ *worker.Profile) { a.BaseRef = "no-such" }, code: "REF_NOT_FOUND"},
		"branch like an option": {script: "true", change: func(a *wire.Assignment, _ *worker.Profile) { a.BaseRef = "--upload-pack=x" }, code: "REF_NOT_FOUND"},
		"report with a diff":    {script: "echo x > greeting.txt", change: func(a *wire.Assignment, _ *worker.Profile) { a.Contract.Mode = wire.AnalysisReportCreated }, code: "UNEXPECTED_DIFF"},
		"report": {script: `printf '{"type":"report","report":{"findings":3}}\n' >&3; echo said`, change: func(a *wire.Assignment, _ *worker.Profile) { a.Contract.Mode = wire.AnalysisReportCreated }, end: wire.CmdReportSubmitted, look: func(t *testing.T, b *bench) {
			if got := string(b.server.bytesOf(b.server.last(wire.CmdReportSubmitted).ReportSubmitted.ArtifactId)); !strings.Contains(got, `"findings"`) {
				t.Errorf("report %q", got)
			}
		}},
		"long line and bad bytes": {script: `head -c 5000000 /dev/zero | tr '\0' x; printf '\n\377\376bad\n'; sed -i s/hello/goodbye/ greeting.txt`, end: wire.CmdPatchSubmitted, look: func(t *testing.T, b *bench) {
			if log := b.server.logOf("agent"); len(log) < 5_000_000 || !strings.Contains(log, "\xff\xfebad") {
				t.Errorf("the log has %d bytes", len(log))
			}
		}},
		"leaves a child behind": {script: `(trap '' TERM; while :; do sleep 0.1; done) & echo $! ; sed -i s/hello/goodbye/ greeting.txt`, end: wire.CmdPatchSubmitted, look: func(t *testing.T, b *bench) {
			pid := strings.TrimSpace(strings.Split(b.server.logOf("agent"), "\n")[0])
			b.until("the end of the child "+pid, func() bool { _, err := os.Stat("/proc/" + pid); return os.IsNotExist(err) })
		}},
		"prepares a trap for git": {script: `rm -rf .git; mkdir -p .git/hooks; printf '[core]\n\tfsmonitor = touch owned\n' > .git/config; printf '* filter=x diff=x\n' > .gitattributes; mkfifo pipe; ln -s /etc/passwd link; mkdir sub; git init -q sub 2>/dev/null; sed -i s/hello/goodbye/ greeting.txt`, end: wire.CmdPatchSubmitted, look: func(t *testing.T, b *bench) {
			patch := string(b.server.bytesOf(b.server.stored(wire.ArtifactKindPatch)[0].Id))
			if strings.Contains(patch, "root:x:0") || strings.Contains(patch, "fsmonitor") || strings.Contains(patch, "owned") {
				t.Errorf("patch:\n%s", patch)
			}
		}},
		"replaces its checkout": {script: `cd ..; rm -rf repo; ln -s /etc repo`, code: "PATCH_INVALID"},
		"plans without a plan":  {script: "true", change: func(a *wire.Assignment, _ *worker.Profile) { a.PlanGate = true }, code: "PLAN_INVALID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.script)
			var err error
			if b.cfg.GitAllow, err = egress.ParseAllow("test", []string{"127.0.0.1:9"}); err != nil { // where nobody listens
				t.Fatal(err)
			}
			a := b.assignment(wire.Execute, wire.RunStateLEASED)
			if tc.change != nil {
				p := b.cfg.File.Agents["script"]
				tc.change(&a, &p)
				b.cfg.File.Agents["script"] = p
			}
			b.start()
			b.server.assign(a)
			end := b.await(a.LeaseId)
			switch {
			case tc.code == "" && end.Command != tc.end:
				t.Fatalf("ended with %s\n%s", end.Command, b.server.describe())
			case tc.code != "" && (end.AttemptFailed == nil || end.AttemptFailed.ReasonCode != tc.code || end.AttemptFailed.Summary == "" || end.AttemptFailed.ArtifactId == ""):
				t.Fatalf("ended with %s %+v, want %s\n%s", end.Command, end.AttemptFailed, tc.code, b.server.describe())
			}
			if tc.look != nil {
				tc.look(t, b)
			}
			b.stopWorker()
			left, err := os.ReadDir(filepath.Join(b.cfg.Dir, "work"))
			if err != nil || len(left) != 0 {
				t.Errorf("workspaces left: %v, %v", left, err)
			}
		})
	}
}

// R-TRN-14: a repair round starts from the stored revision with structured feedback; a person's instruction reaches the agent (R-UI-2).
func TestRepairRound(t *testing.T) {
	t.Parallel()
	b := newBench(t, `grep -q goodbye greeting.txt && grep -q "say it twice" "$SIGNALBOX_INPUT/feedback.json" && echo goodbye >> greeting.txt && exit 0; sed -i s/hello/goodbye/ greeting.txt`)
	b.start()
	first := b.patch(b.execute())
	a := b.assignment(wire.Execute, wire.RunStateEXECUTING)
	a.Patch, a.BaseCommit, a.RepairRound = first, b.base, 1
	a.Feedback = []wire.Feedback{{Source: wire.FeedbackHuman, Text: "say it twice", Revision: 1}}
	before := len(b.server.names())
	b.server.assign(a)
	second := b.patch(b.await(a.LeaseId))
	if got := b.server.names()[before:]; len(got) != 1 || got[0] != "patch_submitted" {
		t.Errorf("commands of the second round: %q", got)
	}
	if text := string(b.server.bytesOf(second.ArtifactId)); strings.Count(text, "+goodbye") != 2 || second.BaseCommit != b.base {
		t.Fatalf("second revision:\n%s", text)
	}
}

// R-TRN-13: with a plan gate the agent plans in its own invocation, nothing it changed then counts, and the lease ends.
func TestPlanGate(t *testing.T) {
	t.Parallel()
	b := newBench(t, `if [ "$SIGNALBOX_PHASE" = plan ]; then echo spoiled > greeting.txt; touch new; printf '{"type":"plan","plan":{"files":["greeting.txt"],"verifiers":["greeting"],"risks":[],"stop_condition":"polite","forbidden_changes":[],"steps":["replace"]}}\n' >&3; exit 0; fi
test -f "$SIGNALBOX_INPUT/plan.json" || exit 7; sed -i s/hello/goodbye/ greeting.txt`)
	b.server.gate = true
	b.start()
	a := b.assignment(wire.Execute, wire.RunStateLEASED)
	a.PlanGate = true
	b.server.assign(a)
	end := b.await(a.LeaseId)
	if end.PlanSubmitted == nil {
		t.Fatalf("ended with %s\n%s", end.Command, b.server.describe())
	}
	stored := b.server.stored(wire.ArtifactKindPlan)[0]
	next := b.assignment(wire.Execute, wire.RunStateEXECUTING)
	next.BaseCommit, next.Plan = b.base, &wire.AssignedPlan{ArtifactId: stored.Id, Digest: stored.Sha256, Approved: true}
	b.server.assign(next)
	patch := b.patch(b.await(next.LeaseId))
	if text := string(b.server.bytesOf(patch.ArtifactId)); strings.Contains(text, "spoiled") || strings.Contains(text, "new file") || !strings.Contains(text, "+goodbye") {
		t.Fatalf("patch:\n%s", text)
	}
	// A later attempt hands in the approved plan byte for byte, so that it passes the gate again.
	b.server.mu.Lock()
	b.server.gate = false
	b.server.mu.Unlock()
	third := b.assignment(wire.Execute, wire.RunStateLEASED)
	third.PlanGate, third.Plan = true, next.Plan
	b.server.assign(third)
	b.await(third.LeaseId)
	if again := b.server.last(wire.CmdPlanSubmitted); again.LeaseId != third.LeaseId || again.PlanSubmitted.ArtifactId != stored.Id {
		t.Fatalf("the plan of the later attempt is another one: %+v", again.PlanSubmitted)
	}
}

// R-VER-1, R-JUDGE-1: verification on a fresh checkout, compared with the base; what says nothing is no verdict.
func TestVerifyEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, `sed -i s/hello/bye/ greeting.txt`)
	b.start()
	patch := b.patch(b.execute())
	verify := func(change func(*wire.Assignment)) wire.RunCommand {
		t.Helper()
		a := b.assignment(wire.Verify, wire.RunStatePATCHREADY)
		a.Patch = patch
		change(&a)
		b.server.assign(a)
		return b.await(a.LeaseId)
	}
	set := func(argv ...string) []wire.VerificationCommand {
		return []wire.VerificationCommand{{Name: "check", Argv: argv, Kind: wire.CheckStaticAnalysis}}
	}

	end := verify(func(a *wire.Assignment) { a.Verification = set("sh", "-c", "! grep -q bye greeting.txt") })
	r := end.VerificationReported
	if r == nil || r.Passed || !r.Repairable || r.Signature == "" || r.Checks[0].FailedBefore {
		t.Fatalf("a failing check: %s %+v\n%s", end.Command, r, b.server.describe())
	}
	again := verify(func(a *wire.Assignment) { a.Verification = set("sh", "-c", "! grep -q bye greeting.txt") })
	if again.VerificationReported == nil || again.VerificationReported.Signature != r.Signature {
		t.Error("the same failure has two signatures")
	}
	end = verify(func(a *wire.Assignment) {
		a.Verification = append(set("sh", "broken.sh"), wire.VerificationCommand{Name: "good", Argv: []string{"sh", "always.sh"}})
	})
	if r := b.server.last(wire.CmdVerificationReported).VerificationReported; !r.Passed || !r.Checks[0].FailedBefore || end.JudgeReported == nil {
		t.Fatalf("a check that fails on the base as well: %s %+v", end.Command, r)
	}
	for name, tc := range map[string]struct {
		change func(*wire.Assignment)
		code   string
	}{
		"missing tool": {func(a *wire.Assignment) { a.Verification = set("no-such-tool-here") }, "TOOL_MISSING"},
		"no commands":  {func(a *wire.Assignment) { a.Verification = nil }, "TASK_CONTRACT_INVALID"},
		"other digest": {func(a *wire.Assignment) { p := *patch; p.Digest = strings.Repeat("0", 64); a.Patch = &p }, "PATCH_INVALID"},
		"other tree":   {func(a *wire.Assignment) { p := *patch; p.ResultTree = strings.Repeat("0", 40); a.Patch = &p }, "PATCH_DOES_NOT_APPLY"},
		"other base":   {func(a *wire.Assignment) { a.BaseCommit = strings.Repeat("0", 40) }, "REF_NOT_FOUND"},
	} {
		if end := verify(tc.change); end.AttemptFailed == nil || end.AttemptFailed.ReasonCode != tc.code {
			t.Errorf("%s: %s %+v, want %s", name, end.Command, end.AttemptFailed, tc.code)
		}
	}
	// Forbidden paths and an unchanged patch: the judge asks for a fix, whatever the checks say.
	end = verify(func(a *wire.Assignment) {
		a.Verification, a.Judge = set("sh", "always.sh"), &wire.JudgeRules{Forbidden: []string{"greeting.txt"}}
	})
	if end.JudgeReported == nil || end.JudgeReported.Verdict != wire.VerdictFix {
		t.Fatalf("a forbidden path: %s %+v", end.Command, end.JudgeReported)
	}
	// Redelivered in JUDGING: only the judge works, from the stored report.
	report := b.server.stored(wire.ArtifactKindVerificationReport)
	end = verify(func(a *wire.Assignment) {
		a.State, a.VerificationReportId = wire.RunStateJUDGING, report[len(report)-1].Id
	})
	if end.JudgeReported == nil {
		t.Fatalf("redelivered: %s\n%s", end.Command, b.server.describe())
	}
}
