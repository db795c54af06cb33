package web_test

import (
	"testing"
	"time"

	"signalbox/internal/money"
	"signalbox/internal/patch"
	"signalbox/web"
)

var now = time.Date(2026, 11, 29, 14, 32, 10, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

const (
	runID  = "run_01jdx3h4k8e5q9v2m7c6b1a0zt"
	taskID = "task_01jdx3h2w3f8r6n4p0s5d9g7ky"
	gateID = "gate_01jdx3j9b2t7y5x8w1h4f6m3qe"
	digest = "sha256:4be1f2a97c03d5e86f1b2c3d4e5f60718293a4b5c6d7e8f9012a3b4c5d6e7f80"
	goal   = "Close the response body in the retry client"
	repo   = "acme/payments"
)

func shell() web.Shell {
	return web.Shell{
		Now: now, MyTurn: 3, Path: "/inbox", DevMode: true,
		User: &web.User{Name: "Ana Approver", Email: "ana@example.org", Roles: []string{"viewer", "approver"}},
	}
}

func event(seq int64, at time.Duration, kind, actor, name, from, to string, attempt int, data map[string]any) web.TimelineEvent {
	return web.TimelineEvent{Seq: seq, Kind: kind, At: ago(at), ActorKind: actor, ActorName: name, From: from, To: to, Attempt: attempt, Data: data}
}

type object = map[string]any

func sampleEvents() []web.TimelineEvent {
	step := func(id string, at time.Duration, attempt int, data object) web.TimelineEvent {
		return web.TimelineEvent{FactID: id, Kind: "step_finished", At: ago(at), ActorKind: "worker", ActorName: "harbour-1", Attempt: attempt, Data: data}
	}
	return []web.TimelineEvent{
		event(1, 30*time.Minute, "run_created", "control_plane", "", "", "CREATED", 0, nil),
		event(2, 30*time.Minute-time.Second, "run_enqueued", "scheduler", "", "CREATED", "QUEUED", 0, object{"policy_version": "3"}),
		event(3, 29*time.Minute, "lease_acquired", "worker", "harbour-1", "QUEUED", "LEASED", 1, object{"lease": object{"phase": "execute"}}),
		event(4, 29*time.Minute-time.Second, "worker_started", "worker", "harbour-1", "LEASED", "PREPARING", 1, nil),
		event(5, 28*time.Minute, "sandbox_ready", "worker", "harbour-1", "PREPARING", "CONTEXT_BUILDING", 1, object{"tier": "bwrap"}),
		event(6, 27*time.Minute, "context_ready", "worker", "harbour-1", "CONTEXT_BUILDING", "PLANNING", 1, nil),
		event(7, 26*time.Minute, "plan_created", "agent_runtime", "", "PLANNING", "EXECUTING", 1, object{"plan": object{"summary": "Close the body on every return path of retry.Do and add a test that counts open bodies."}}),
		event(8, 22*time.Minute, "worker_lost", "scheduler", "", "EXECUTING", "QUEUED", 1, object{}),
		event(9, 21*time.Minute, "lease_acquired", "worker", "harbour-2", "QUEUED", "LEASED", 2, object{"lease": object{"phase": "execute"}}),
		event(10, 16*time.Minute, "patch_created", "agent_runtime", "", "EXECUTING", "PATCH_READY", 2, object{"patch": object{"files": 2.0, "added": 14.0, "removed": 3.0, "revision": 1.0}}),
		event(11, 15*time.Minute+30*time.Second, "lease_acquired", "worker", "harbour-1", "PATCH_READY", "PATCH_READY", 2, object{"lease": object{"phase": "verify"}}),
		event(12, 15*time.Minute, "verification_started", "verifier", "harbour-1", "PATCH_READY", "VERIFYING", 2, object{"commands": []any{"go vet ./...", "go test ./..."}}),
		step("f1", 14*time.Minute, 2, object{"name": "go test ./...", "state": "FAILED", "exit_code": 1.0, "duration_ms": 41200.0}),
		event(13, 14*time.Minute, "verification_failed_retryable", "verifier", "harbour-1", "VERIFYING", "EXECUTING", 2, object{"report": object{"summary": "retry_test.go:41: undefined: countingBody"}}),
		event(14, 13*time.Minute+30*time.Second, "lease_acquired", "worker", "harbour-2", "EXECUTING", "EXECUTING", 2, object{"lease": object{"phase": "execute"}}),
		event(15, 10*time.Minute, "patch_created", "agent_runtime", "", "EXECUTING", "PATCH_READY", 2, object{"patch": object{"files": 3.0, "added": 16.0, "removed": 3.0, "revision": 2.0}}),
		event(16, 9*time.Minute+30*time.Second, "lease_acquired", "worker", "harbour-1", "PATCH_READY", "PATCH_READY", 2, object{"lease": object{"phase": "verify"}}),
		event(17, 9*time.Minute, "verification_started", "verifier", "harbour-1", "PATCH_READY", "VERIFYING", 2, object{"commands": []any{"go vet ./...", "go test ./..."}}),
		event(18, 8*time.Minute, "verification_passed", "verifier", "harbour-1", "VERIFYING", "JUDGING", 2, object{"report": object{"summary": "2 commands passed, 41 tests"}}),
		event(19, 7*time.Minute, "human_approval_required", "policy", "", "JUDGING", "WAITING_FOR_APPROVAL", 2, object{"policy": object{"reasons": []any{"Every patch for acme/payments needs one approval.", "The patch changes a file under internal/http, which is protected."}}}),
	}
}

func sampleGate() web.GateRef {
	return web.GateRef{ID: gateID, Kind: "patch", State: "open", Revision: 2, Digest: digest, Have: 0, Need: 1, OpenedAt: ago(7 * time.Minute), ExpiresAt: now.Add(71 * time.Hour)}
}

func sampleRun() web.RunView {
	gate := sampleGate()
	return web.RunView{
		ID: runID, TaskID: taskID, Title: goal, Repository: repo, Mode: "pr_created", State: "WAITING_FOR_APPROVAL",
		Since: ago(7 * time.Minute), Created: ago(30 * time.Minute), Attempt: 2, MaxAttempts: 3, Gate: &gate, PatchGate: true, MyTurn: true, MayCancel: true,
		StateSeconds: web.StateTimes(sampleEvents(), now), Stretches: web.Stretches(sampleEvents(), now),
	}
}

func sampleTimeline() web.TimelineData {
	return web.TimelineData{Attempt: 2, RunID: runID, Created: ago(30 * time.Minute), Now: now, Events: sampleEvents(), PrevAttempt: -1, Level: web.LevelSummary}
}

func sampleFacts() web.RunFacts {
	return web.RunFacts{
		Requester: "Rita Requester", Agent: "command / codemod 1", Isolation: "bwrap", IsolationNote: "own namespaces, no network",
		Base: "main", BaseCommit: "9f1c2b7ad03e", PolicyVersion: "3", SameWorker: false, Verdict: "pass", Confidence: "0.92",
		Risk: "MEDIUM", RiskReasons: []string{"changes internal/http, a protected path"}, PlanDigest: digest, PatchDigest: digest, PatchRevision: 2, Files: 3, Added: 16, Removed: 3, FencingToken: 48,
		Models: []web.ModelUse{
			{Model: "vendor/large-1", Lines: []web.ModelLine{{Source: "estimated", TokensIn: 400, TokensOut: 90, Calls: 1, Cost: money.USD.Of(2100)}, {Source: "reported", TokensIn: 81_200, TokensOut: 9300, Calls: 14, Cost: money.USD.Of(412_300)}}},
			{Lines: []web.ModelLine{{Source: "unknown", TokensIn: 5, Calls: 1, Unpriced: 1}}},
		}, MoreModels: true,
	}
}

func sampleRunPage() web.RunPageData {
	exit0, exit1 := 0, 1
	return web.RunPageData{
		Shell: shell(), Panel: web.RunPanelData{Run: sampleRun(), Now: now}, Timeline: sampleTimeline(), Facts: sampleFacts(), Live: true, LastSeq: 19,
		RunParts: web.RunParts{
			Steps: []web.StepView{
				{ID: "s1", Name: "go vet ./...", State: "SUCCEEDED", Started: ago(9 * time.Minute), Ended: ago(9*time.Minute - 4*time.Second), ExitCode: &exit0},
				{ID: "s2", Name: "go test ./...", State: "FAILED", Started: ago(15 * time.Minute), Ended: ago(14 * time.Minute), ExitCode: &exit1, Reason: "The command ended with exit code 1.", LogLines: 212,
					LogTail: "=== RUN   TestRetryClosesBody\n\x1b[31m--- FAIL: TestRetryClosesBody (0.00s)\x1b[0m\n    retry_test.go:41: undefined: countingBody\n\x1b]8;;https://evil.example\x07click\x1b]8;;\x07\nFAIL\tacme/payments/internal/http\t0.012s\n", LogURL: "/artifacts/art_1"},
				{ID: "s0", Name: "go test ./...", State: "FAILED", Attempt: 1, Started: ago(24 * time.Minute), Ended: ago(23 * time.Minute), ExitCode: &exit1, Superseded: true},
			},
			Attempts: []web.AttemptView{
				{Number: 2, State: "STARTED", Worker: "harbour-2", Started: ago(21 * time.Minute)},
				{Number: 1, State: "FAILED", Worker: "harbour-1", Started: ago(29 * time.Minute), Ended: ago(22 * time.Minute), Reason: "The worker stopped answering.", Superseded: true},
			},
			Gates: []web.GateRef{sampleGate()},
			Effects: []web.EffectView{
				{Kind: "open_pull_request", Identity: "open_pull_request:repo_1:agent/x/y:main", State: "dispatched", Parameters: map[string]string{"head": "agent/x/y", "base": "main"}, Intended: ago(3 * time.Minute), Dispatched: ago(2 * time.Minute)},
				{Kind: "push_branch", Identity: "push_branch:repo_1:agent/x/y:9f1c2b7", State: "observed", Outcome: "failed", Error: "remote: the branch is protected", Parameters: map[string]string{"branch": "agent/x/y"}, Intended: ago(5 * time.Minute), Dispatched: ago(4 * time.Minute), Observed: ago(4 * time.Minute)},
				{Kind: "comment", Identity: "comment:repo_1:7", State: "intended", Intended: ago(time.Minute)},
			},
			Artifacts: []web.ArtifactView{
				{ID: "art_patch", Kind: "patch", Name: "change.patch", Size: 2310, SHA256: digest, Attempt: 2, Revision: 2, At: ago(10 * time.Minute)},
				{ID: "art_plan", Kind: "plan", Name: "plan.json", Size: 1204, SHA256: digest, Attempt: 1, At: ago(26 * time.Minute)},
			},
		},
	}
}

const samplePatch = `diff --git a/internal/http/retry.go b/internal/http/retry.go
index 1111111..2222222 100644
--- a/internal/http/retry.go
+++ b/internal/http/retry.go
@@ -18,12 +18,18 @@ func (c *Client) Do(req *http.Request) (*http.Response, error) {
 	for attempt := range c.attempts {
 		resp, err := c.base.Do(req)
-		if err == nil && resp.StatusCode < 500 {
+		if err == nil && resp.StatusCode < http.StatusInternalServerError {
 			return resp, nil
 		}
+		if resp != nil {
+			// the body holds a connection of the pool until it is closed
+			resp.Body.Close()
+		}
 		last = err
-		time.Sleep(backoff(attempt))
+		if err := sleep(req.Context(), backoff(attempt)); err != nil {
+			return nil, fmt.Errorf("wait before attempt %d: %w", attempt+1, err)
+		}
 	}
 	return nil, last
 }
 
 // attempts is what "again" means
diff --git a/.github/workflows/test.yml b/.github/workflows/test.yml
index 3333333..4444444 100644
--- a/.github/workflows/test.yml
+++ b/.github/workflows/test.yml
@@ -1,4 +1,4 @@
 name: test
-on: [push]
+on: [push, pull_request]
 jobs:
   go:
diff --git a/internal/http/retry_test.go b/internal/http/retry_test.go
new file mode 100644
index 0000000..5555555
--- /dev/null
+++ b/internal/http/retry_test.go
@@ -0,0 +1,6 @@
+package http
+
+// admin ` + "\u202e" + `} if isAdmin` + "\u2066" + ` begin
+func TestRetryClosesBody(t *testing.T) {
+	t.Parallel()
+}
`

func sampleDiff(t *testing.T) *web.DiffView {
	t.Helper()
	return sampleDiffAs(t, web.DiffChoice{})
}

func later(d *web.DiffView) func() *web.DiffView { return func() *web.DiffView { return d } }

func sampleDiffAs(t *testing.T, view web.DiffChoice) *web.DiffView {
	t.Helper()
	p, err := patch.Parse([]byte(samplePatch), 1<<20)
	if err != nil {
		t.Fatalf("parse the sample patch: %v", err)
	}
	d := p.Render(web.InlineBounds())
	d.Omitted = append(d.Omitted, patch.Omission{Path: "assets/logo.png", Why: "binary file, 18211 bytes", Group: patch.UnshownBinary})
	return web.NewDiffView(d, web.DiffOptions{Revision: 2, RawURL: web.RunPatchURL(runID), Place: web.GatePlace(gateID), View: view, PaintFor: time.Hour, Marks: map[string][]string{"internal/http/retry.go": {"protected path"}},
		Ticks: []web.Tick{{Digest: "a1", Changed: true}, {Digest: "b2", Viewed: true}, {Digest: "c3"}, {Digest: "d4"}}})
}

func sampleGatePanel() web.GatePanelData {
	return web.GatePanelData{
		GateID: gateID, Kind: "patch", State: "open", Revision: 2, Digest: digest, IdempotencyKey: "01JDX3KEY", PolicyVersion: "3",
		RunID: runID, RunState: "WAITING_FOR_APPROVAL", TaskID: taskID, Title: goal, Repository: repo, Base: "main", BaseCommit: "9f1c2b7ad03e", Mode: "pr_created",
		Requester: "Rita Requester", OpenedAt: ago(7 * time.Minute), ExpiresAt: now.Add(71 * time.Hour), Now: now,
		Risk: "MEDIUM", RiskReasons: []string{"changes internal/http, a protected path"}, WhyStopped: "Every patch for acme/payments needs one approval.",
		Unshown: []web.UnshownView{{Why: "binary", Files: []string{"assets/logo.png"}}, {Why: "hidden_text", Files: []string{"internal/http/retry_test.go"}}},
		Files:   3, Added: 16, Removed: 3, MayDecide: true, Quorum: []web.QuorumRow{{Requirement: "1 approval, not from the requester", Have: 0, Need: 1, Who: "approvers (2 people)"}},
	}
}

func sampleEvidence() web.Evidence {
	return web.Evidence{
		Commands: []web.CommandResult{
			{Command: "go vet ./...", Passed: true, Duration: 4 * time.Second},
			{Command: "go test ./...", Passed: true, Duration: 41 * time.Second, Tests: "41 passed, 2 skipped", LogURL: "/runs/x/steps/s2", LogTail: "ok\tacme/payments/internal/http\t0.812s\n"},
		},
		Verdict: "pass", Confidence: "0.92", JudgeReasons: []string{"All changed files are inside the scope.", "No secret was found in the patch."},
		Guards: []web.GuardView{
			{Words: "Verification passed for exactly this patch", Met: true},
			{Words: "No secret in the patch", Met: true},
			{Words: "A protected path is changed", Met: false, Detail: "internal/http/retry.go is protected, so a person decides"},
		},
		Isolation: "bwrap", IsolationNote: "own namespaces, no network", Verifier: "harbour-1", SameWorker: true, ReportDigest: digest,
	}
}

func sampleGatePage(t *testing.T) web.GatePageData {
	return web.GatePageData{
		Shell: shell(), Panel: sampleGatePanel(), Diff: later(sampleDiff(t)), Evidence: sampleEvidence(), Live: true,
		Agent:   web.AgentWords{Text: "Each return path closes the body now.\nThe new test fails without it."},
		History: []web.DecisionView{{N: 1, Who: "Ben Approver", Verdict: "request_changes", Text: "Please add a test that fails without the fix.", At: ago(12 * time.Minute), Revision: 1, Digest: digest, Channel: "browser", Outdated: true}},
	}
}

func samplePlanGate() web.GatePageData {
	p := sampleGatePanel()
	p.Kind, p.Revision, p.Files, p.RiskReasons, p.Risk, p.Unshown = "plan", 1, 0, nil, "LOW", nil
	p.Requester, p.WhyStopped = "Ana Approver", "The task asks that a person approves the plan."
	p.MayDecide, p.WhyNot, p.WhoCan = false, "You created this task, so you cannot decide about it.", "approvers of acme/payments (2 people)"
	return web.GatePageData{
		Shell: shell(), Panel: p,
		Plan: &web.PlanView{
			Revision: 1, Digest: digest, Summary: "Close the body on every return path and prove it with a test.",
			Steps: []web.PlanStep{
				{Title: "Close the body before the next attempt", Text: "In retry.Do, close resp.Body when the answer is thrown away.", Files: []string{"internal/http/retry.go"}},
				{Title: "Test that no body stays open", Files: []string{"internal/http/retry_test.go"}, Commands: []string{"go test ./internal/http/"}, Effects: []string{"no network"}},
			},
			Assumptions: []string{"The client is the only caller of the base transport."}, OutOfScope: []string{"Changing the back-off."},
		},
	}
}

// decidedPlan is the same plan before somebody who may decide it and has begun to comment.
func decidedPlan() web.GatePageData {
	d := samplePlanGate()
	d.Panel.Requester, d.Panel.MayDecide, d.Panel.WhyNot, d.Panel.WhoCan, d.Live = "Rita Requester", true, "", "", true
	d.Panel.Comments = map[int]string{2: "Also when the context is cancelled."}
	return d
}

func sampleInbox() web.InboxPageData {
	item := web.InboxItem{
		GateID: gateID, Kind: "patch", State: "open", Revision: 2, TaskID: taskID, Title: goal, Repository: repo, RunID: runID, Requester: "Rita Requester",
		Risk: "MEDIUM", RiskReason: "changes a protected path", Files: 3, Added: 16, Removed: 3, QuorumNeed: 1, Why: "You are an approver of acme/payments.",
		WaitingSince: ago(7 * time.Minute), ExpiresAt: now.Add(71 * time.Hour),
	}
	plan := item
	plan.GateID, plan.Kind, plan.Revision, plan.Files, plan.Title, plan.Risk, plan.RiskReason = "gate_2", "plan", 1, 0, "Replace the deprecated YAML library in every command", "LOW", ""
	other := plan
	other.GateID, other.Title, other.Why = "gate_3", "Upgrade the base image", "Waits for Ben Approver or Cleo Admin."
	late := plan
	late.GateID, late.Title, late.Risk, late.RiskReason, late.Why = "gate_5", "Rename the health endpoint", "LOW", "The task says so; policy found nothing more.", "You hold the role approver."
	late.Repository, late.WaitingSince, late.ExpiresAt, late.QuorumHave, late.QuorumNeed = "acme/tools", ago(60*time.Hour), now.Add(12*time.Hour), 1, 2
	take := web.TurnView{MayTake: true, MayPass: true, People: []web.Option{{Value: "usr_1", Label: "Ben Approver"}}, Until: []web.Option{{Value: "1h", Label: "in an hour"}, {Value: "revision", Label: "when a new revision comes"}}}
	plan.Turn, late.Turn, item.Turn = take, take, take
	item.Turn.On, late.Turn.GivenBy, other.Turn = []web.OnIt{{Name: "Ben Approver", Until: now.Add(20 * time.Minute)}}, "Ben Approver", web.TurnView{MayTake: true, PassedTo: "Ben Approver"}
	snoozed := plan
	snoozed.GateID, snoozed.Title, snoozed.Turn.Snoozed, snoozed.Turn.SnoozedUntil = "gate_6", "Sort the imports", true, now.Add(18*time.Hour)
	return web.InboxPageData{
		Shell: shell(), Mine: []web.InboxItem{plan, late, item}, Snoozed: []web.InboxItem{snoozed}, Others: []web.InboxItem{other},
		Recent: []web.InboxDecided{{GateID: "gate_4", Kind: "patch", State: "satisfied", Title: "Drop support for Go 1.24", Repository: repo, By: "Ben Approver", At: ago(12 * time.Minute)}},
	}
}

func sampleRows() []web.RunRow {
	rows := []web.RunRow{
		{ID: runID, TaskID: taskID, Title: goal, Repository: repo, State: "WAITING_FOR_APPROVAL", GateKind: "patch", Attempt: 2, MaxAttempt: 3, Created: ago(30 * time.Minute), Since: ago(7 * time.Minute)},
		{ID: "run_01jdx3h4k8e5q9v2m7c6b1a0zu", TaskID: taskID, Title: "Replace the deprecated YAML library in every command", Repository: "acme/tools", State: "EXECUTING", Leased: true, Worker: "harbour-2", Attempt: 1, MaxAttempt: 3, Created: ago(4 * time.Minute), Since: ago(2 * time.Minute)},
		{ID: "run_01jdx3h4k8e5q9v2m7c6b1a0zv", TaskID: taskID, Title: "Document the retry policy", Repository: repo, State: "PATCH_READY", Attempt: 1, MaxAttempt: 3, Created: ago(4 * time.Minute), Since: ago(time.Minute)},
		{ID: "run_01jdx3h4k8e5q9v2m7c6b1a0zw", TaskID: taskID, Title: "Upgrade the base image", Repository: repo, State: "FAILED", Attempt: 3, MaxAttempt: 3, Created: ago(5 * time.Hour), Since: ago(4 * time.Hour), Ended: ago(4 * time.Hour), Reason: "Verification failed three times with the same error."},
		{ID: "run_01jdx3h4k8e5q9v2m7c6b1a0zx", TaskID: taskID, Title: "Drop support for Go 1.24", Repository: "acme/tools", State: "SUCCEEDED", Attempt: 1, MaxAttempt: 3, Created: ago(26 * time.Hour), Since: ago(25 * time.Hour), Ended: ago(25 * time.Hour)},
		{ID: "run_01jdx3h4k8e5q9v2m7c6b1a0zy", TaskID: taskID, Title: "Rename the health endpoint", Repository: repo, State: "CANCELLED", Attempt: 1, MaxAttempt: 3, Created: ago(50 * time.Hour), Since: ago(49 * time.Hour), Ended: ago(49 * time.Hour)},
	}
	for i, active := range []time.Duration{9, 4, 3, 41, 12, 1} {
		rows[i].Active, rows[i].Usual = active*time.Minute, 10*time.Minute
	}
	rows[4].Usual = 0
	rows[0].Cost, rows[1].Cost, rows[3].Cost = web.RunCost{Reported: money.USD.Of(110_000)}, web.RunCost{UnknownCalls: 2}, web.RunCost{Reported: money.USD.Of(90_000), Estimated: money.USD.Of(40_000), UnknownCalls: 1}
	return rows
}

func sampleTask() web.TaskPageData {
	gate := sampleGate()
	return web.TaskPageData{
		Shell: askingShell(),
		Task: web.TaskView{ID: taskID, Title: goal, Goal: goal + ".", State: "WAITING_FOR_APPROVAL", Since: ago(7 * time.Minute), Repository: repo, BaseRef: "main", Mode: "pr_created",
			Scope: []string{"internal/**"}, Exclude: []string{"vendor/**"}, PlanGate: true, Requester: "Rita Requester", Created: ago(31 * time.Minute), RunsUsed: 1, MaxRuns: 3, Rounds: web.Rounds{Used: 1, Most: 2, Attempt: 2}},
		Conversation: []web.TaskMessage{
			{At: ago(31 * time.Minute), Who: "Rita Requester", Actor: "human", What: "asked", Text: goal + ".\n\nThe client leaks a connection for each failed attempt; see retry.Do."},
			{At: ago(16 * time.Minute), Who: "The agent", Actor: "agent_runtime", What: "delivered patch revision 1", Link: &web.Link{Text: "In the run", Href: web.RunEventURL(runID, 10)}},
			{At: ago(12 * time.Minute), Who: "Ben Approver", Actor: "human", What: "requested changes", Text: "Please add a test that fails without the fix."},
			{At: ago(7 * time.Minute), Who: "The agent", Actor: "agent_runtime", What: "delivered patch revision 2; it waits for approval", Link: &web.Link{Text: "In the run", Href: web.RunEventURL(runID, 19)}},
		},
		Gate: &gate, Runs: sampleRows()[:1], MayCancel: true, IdempotencyKey: "K1", WhyNoRun: "A run is active, so another cannot be started.",
	}
}

// sampleSplitGate is the gate's page side by side, without changes of white space.
func sampleSplitGate(t *testing.T) web.GatePageData {
	d := sampleGatePage(t)
	diff := sampleDiffAs(t, web.DiffChoice{Split: true, IgnoreSpace: true})
	d.Diff = later(diff)
	diff.Since = &web.SinceView{Since: 1, Revision: 2, Hide: web.GatePlace(gateID).DiffURL(web.DiffChoice{}), Comparison: patch.Comparison{Same: 1, More: 1200, Files: []patch.ComparedFile{
		{Path: "internal/http/retry.go", What: "changed in another way", Lines: []patch.ComparedLine{
			{Kind: patch.LineContext, Skipped: 4}, {Kind: patch.LineContext, Is: patch.LineRemoved, Text: "		time.Sleep(backoff(attempt))"},
			{Kind: patch.LineRemoved, Is: patch.LineAdded, Text: "		sleep(backoff(attempt))"}, {Kind: patch.LineAdded, Is: patch.LineAdded, Text: "		if err := sleep(ctx, backoff(attempt)); err != nil { ⟦U+202E⟧", Hidden: true},
		}},
		{Path: "assets/logo.png", What: "other binary content"},
	}}}
	last := &diff.Files[len(diff.Files)-1]
	last.Hunks, last.Load = nil, "Load the diff (2,310 lines)"
	return d
}

// untickedDiff is the patch on a page where nobody ticks files.
func untickedDiff(t *testing.T) *web.DiffView {
	d := sampleDiff(t)
	d.Ticks = nil
	for i := range d.Files {
		d.Files[i].Tick = nil
	}
	return d
}

// filteredGate shows only some of the files.
func filteredGate(t *testing.T) web.GatePageData {
	d := sampleGatePage(t)
	d.Diff = later(sampleDiffAs(t, web.DiffChoice{Files: web.FileFilter{Name: "retry", Status: "unviewed"}}))
	return d
}

func sampleGateFile(t *testing.T) web.GateFilePageData {
	d := sampleDiff(t)
	return web.GateFilePageData{Shell: shell(), GateID: gateID, Title: goal, File: d.Files[0], Files: 3, Switches: web.DiffOptions{Place: web.GatePlace(gateID)}.FileSwitches(1), RawURL: d.RawURL, Ticks: d.Ticks}
}
