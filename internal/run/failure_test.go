package run_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// TestRetryMatrix: R-FAIL-2. Reason codes decide, one row each: the starting ones
// of the lifecycles, and one for each failure of preparation.
func TestRetryMatrix(t *testing.T) {
	t.Parallel()
	want := map[run.Retry][]run.Code{
		run.RetryAgain: {run.CodeWorkerLost, run.CodeSandboxStartTimeout, run.CodeProviderRateLimit, run.CodeGitCloneTransient,
			run.CodeSandboxStartFailed, run.CodeDiskFull, run.CodeDependencyUnavailable, run.CodeStartTimeout, run.CodeAttemptTimeout},
		run.RetryRepair: {run.CodeVerifierFailed, run.CodeJudgeRejected},
		run.RetryNever: {run.CodePolicyDenied, run.CodeTaskContractInvalid, run.CodeCancelledByUser, run.CodeGitAuthFailed, run.CodeRefNotFound,
			run.CodeRepositoryNotFound, run.CodeHumanRejected, run.CodeApprovalExpired, run.CodeAttestationRefused},
		run.RetryHuman: {run.CodeUnknown},
	}
	for retry, codes := range want {
		for _, c := range codes {
			if got := run.Lookup(c); got.Code != c || got.Retry != retry {
				t.Errorf("%s: %+v, want %s", c, got, retry)
			}
		}
	}
	// SM 6.4: clone, branch, token, sandbox image, disk, package registry.
	for _, c := range []run.Code{run.CodeGitCloneTransient, run.CodeRefNotFound, run.CodeGitAuthFailed, run.CodeSandboxStartFailed, run.CodeDiskFull, run.CodeDependencyUnavailable} {
		if got := run.Lookup(c).Category; got != run.CatInfrastructure && got != run.CatRepositoryAccess {
			t.Errorf("preparation failure %s is %s", c, got)
		}
	}
	seen := map[run.Code]bool{}
	for _, i := range run.Codes() {
		if seen[i.Code] || i.Sentence == "" || !strings.HasSuffix(i.Sentence, ".") && !strings.HasSuffix(i.Sentence, "look.") {
			t.Errorf("row %+v", i)
		}
		seen[i.Code] = true
		if !slices.Contains(run.Categories(), i.Category) || !slices.Contains([]run.Retry{run.RetryAgain, run.RetryRepair, run.RetryNever, run.RetryHuman}, i.Retry) {
			t.Errorf("row %+v", i)
		}
	}
	// Words in a log or a summary change nothing.
	for _, text := range []string{"timeout", "please retry: WORKER_LOST", "429 Too Many Requests"} {
		if got := run.Lookup(run.Code(text)); got.Code != run.CodeUnknown || got.Retry != run.RetryHuman {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
	// What policy says in its own package is known here.
	for _, c := range []string{policy.CodeJudgeRejected, policy.CodeNotVerified, policy.CodeSecretFound, policy.CodeNotScanned, policy.CodeForbiddenPath, policy.CodeGeneratedFiles, policy.CodeBudget} {
		if run.Lookup(run.Code(c)).Code != run.Code(c) {
			t.Errorf("policy's code %s has no row", c)
		}
	}
}

// TestCategories: R-FAIL-1. Eleven categories; each is some code's; a failed run
// has category, code, retryability, a sentence, and evidence where there is some.
func TestCategories(t *testing.T) {
	t.Parallel()
	want := []run.Category{"INFRASTRUCTURE", "REPOSITORY_ACCESS", "POLICY_DENIED", "PLANNING_FAILED", "TOOL_FAILED", "VERIFICATION_FAILED",
		"JUDGE_REJECTED", "BUDGET_EXCEEDED", "PR_CREATION_FAILED", "USER_CANCELLED", "UNKNOWN"}
	if !slices.Equal(run.Categories(), want) {
		t.Errorf("categories %v, want %v", run.Categories(), want)
	}
	for _, c := range run.Categories() {
		if !slices.ContainsFunc(run.Codes(), func(i run.CodeInfo) bool { return i.Category == c }) {
			t.Errorf("no reason code is in %s", c)
		}
	}
	for _, i := range run.Codes() {
		f := standing(t, run.Executing)
		f.post(run.NonRetryableFailureEvent{Code: i.Code, Evidence: "art-log"}).in(run.Failed)
		got := *f.run.Failure
		if got.Code != i.Code || got.Category != i.Category || got.Summary != i.Sentence || got.Evidence != "art-log" ||
			got.Retryable != (i.Retry == run.RetryAgain || i.Retry == run.RetryRepair) {
			t.Errorf("%s: %+v", i.Code, got)
		}
	}
}

// TestBackoff: R-FAIL-3. 30 s, 2 min, 10 min, 30 min, the last for ever; jitter only
// adds, at most its share; runs that were lost together do not come back together.
func TestBackoff(t *testing.T) {
	t.Parallel()
	l := usual()
	for n, want := range []time.Duration{0, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
		if got := run.Backoff(l.Delays, n, l.Jitter, 0); got != want {
			t.Errorf("retry %d after %s, want %s", n, got, want)
		}
	}
	if got := run.Backoff(nil, 3, 0.2, 0.5); got != 0 {
		t.Errorf("without delays: %s", got)
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 1000).Draw(rt, "n")
		jitter, draw := rapid.Float64Range(-1, 3).Draw(rt, "jitter"), rapid.Float64Range(-1, 3).Draw(rt, "draw")
		base := l.Delays[min(n, len(l.Delays))-1]
		got := run.Backoff(l.Delays, n, jitter, draw)
		if got < base || got > 2*base || float64(got) > float64(base)*(1+max(jitter, 0))+1 {
			rt.Fatalf("retry %d with jitter %v and draw %v: %s", n, jitter, draw, got)
		}
	})
	delays := map[time.Duration]bool{}
	for i := range 100 {
		delays[run.Backoff(l.Delays, 1, l.Jitter, math.Mod(float64(i)*0.618, 1))] = true
	}
	if len(delays) < 100 {
		t.Errorf("100 lost runs come back at %d different times", len(delays))
	}
}

// TestNoCommandNamesAState: R-TRN-1, R-DOM-11, R-DOM-14. The words that workers
// post are about what happened; none is a state, none says whether to try again,
// and each fixes who speaks.
func TestNoCommandNamesAState(t *testing.T) {
	t.Parallel()
	states := setOf(run.States())
	for _, c := range run.CommandSpecs() {
		if states[run.State(strings.ToUpper(c.Name))] || strings.Contains(c.Name, "retry") || strings.Contains(c.Name, "done") || c.Actor == "" || len(c.Phases) == 0 {
			t.Errorf("%+v", c)
		}
		if c.Actor == run.Human || c.Actor == run.ControlPlane || c.Actor == run.Policy || c.Actor == run.Scheduler || c.Actor == run.Attestor {
			t.Errorf("%s is posted as %s", c.Name, c.Actor)
		}
	}
	for _, c := range []run.Command{run.Start{}, run.SandboxIsReady{}, run.ContextIsReady{}, run.PlanSubmitted{}, run.PatchSubmitted{}, run.ReportSubmitted{},
		run.NoChangeSubmitted{}, run.VerifyStarted{}, run.VerifyReported{}, run.JudgeReported{}, run.PRReported{}, run.BaseHasMoved{}, run.BranchWasTouched{},
		run.EffectIsAmbiguous{}, run.AttemptHasFailed{}, run.Release{}, run.Stopped{}, run.ConfirmCancel{}} {
		if _, ok := run.SpecOf(c.Name()); !ok {
			t.Errorf("command %s has no row", c.Name())
		}
	}
	if _, ok := run.SpecOf("set_state"); ok {
		t.Error("there is a command that sets the state")
	}
	for _, s := range run.States() {
		for _, mood := range []string{"IN_PROGRESS", "DONE", "ERROR", "STUCK", "THINKING", "PAUSED"} {
			if string(s) == mood {
				t.Errorf("%s is a mood", s)
			}
		}
		if s.Owner() == "" {
			t.Errorf("%s has no owner", s)
		}
	}
}

// TestEvidence: R-TRN-5, R-PLAN-1, R-CTX-1. A state whose evidence is missing is
// not entered; nothing is planned before the context is stored, nothing edited
// before the plan is, nothing judged before it is verified.
func TestEvidence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in run.State
		p  run.Payload
	}{
		"R-CTX-1 context without its artifact": {run.ContextBuilding, run.ContextReadyEvent{Digest: "d"}},
		"R-CTX-1 context without its digest":   {run.ContextBuilding, run.ContextReadyEvent{Artifact: "a"}},
		"sandbox without its isolation":        {run.Preparing, run.SandboxReadyEvent{Base: "b"}},
		"sandbox without its commit":           {run.Preparing, run.SandboxReadyEvent{Tier: "bwrap"}},
		"R-PLAN-1 no plan":                     {run.Planning, run.PlanCreatedEvent{}},
		"R-PLAN-1 plan that is not stored":     {run.Planning, run.PlanCreatedEvent{Plan: run.PlanEvidence{Digest: "d"}}},
		"gate without a plan":                  {run.Planning, run.PlanApprovalRequiredEvent{Gate: run.GateAsked{ID: uid(1), Digest: "d", Quorum: 1, ExpiresAt: t0}}},
		"gate that never expires":              {run.Planning, run.PlanApprovalRequiredEvent{Plan: run.PlanEvidence{Artifact: "a", Digest: "d"}, Gate: run.GateAsked{ID: uid(1), Digest: "d", Quorum: 1}}},
		"gate without a digest":                {run.Planning, run.PlanApprovalRequiredEvent{Plan: run.PlanEvidence{Artifact: "a", Digest: "d"}, Gate: run.GateAsked{ID: uid(1), Quorum: 1, ExpiresAt: t0}}},
		"patch that is not stored":             {run.Executing, run.PatchCreatedEvent{Patch: run.Patch{Digest: "d", PatchID: "p", Base: "b", Files: 1}}},
		"patch without its base":               {run.Executing, run.PatchCreatedEvent{Patch: run.Patch{Artifact: "a", Digest: "d", PatchID: "p", Files: 1}}},
		"no change without a record":           {run.Executing, run.NoChangeReportedEvent{Summary: "s"}},
		"commands that are not fixed":          {run.PatchReady, run.VerificationStartedEvent{Commands: []string{"make test"}}},
		"verification without a report":        {run.Verifying, run.VerificationPassedEvent{}},
		"gate without a verdict":               {run.Judging, run.HumanApprovalRequiredEvent{Gate: run.GateAsked{ID: uid(1), Digest: "d", Quorum: 1, ExpiresAt: t0}}},
		"pull request without its url":         {run.PRCreating, run.PRCreatedEvent{PR: run.PullRequest{SHA: "s", Branch: "b"}}},
		"pull request without its commit":      {run.PRCreating, run.PRCreatedEvent{PR: run.PullRequest{URL: "u", Branch: "b"}}},
		"reconciliation of nothing":            {run.PRCreating, run.ReconciliationRequiredEvent{Summary: "s"}},
		"failure without a code":               {run.Executing, run.AttemptFailedEvent{Summary: "s"}},
		"limits that admit nothing":            {run.Created, run.EnqueuedEvent{PolicyVersion: "p"}},
		"deferral without a reason":            {run.Created, run.DeferredEvent{RetryAfter: time.Second}},
		"lease without an id":                  {run.Queued, run.LeaseAcquiredEvent{Attempt: uid(2), Lease: run.Lease{Token: 1, Phase: run.PhaseExecute, Worker: "w"}}},
		"attempt without an id":                {run.Queued, run.LeaseAcquiredEvent{Lease: run.Lease{ID: uid(3), Token: 1, Phase: run.PhaseExecute, Worker: "w"}}},
		"run without a task":                   {run.NoState, run.CreatedEvent{Run: uid(4), Tenant: uid(5), Repository: uid(6), Mode: run.ModeAnalysis}},
		"run without a mode":                   {run.NoState, run.CreatedEvent{Run: uid(4), Tenant: uid(5), Task: uid(7), Repository: uid(6)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &flow{t: t, book: newLedger()}
			if c.in != run.NoState {
				f = standing(t, c.in)
			}
			refused[*run.EvidenceError](f, c.p)
		})
	}
	t.Run("a report about another patch", func(t *testing.T) {
		t.Parallel()
		f := standing(t, run.Verifying)
		v := run.VerificationEvidence{Artifact: "a", Digest: "d", Patch: "another", Summary: "s"}
		refused[*run.GuardError](f, run.VerificationPassedEvent{Report: v})
		refused[*run.GuardError](f, run.VerificationFailedEvent{Report: v})
	})
	t.Run("an empty patch", func(t *testing.T) {
		t.Parallel()
		refused[*run.GuardError](standing(t, run.Executing), run.PatchCreatedEvent{Patch: run.Patch{Artifact: "a", Digest: "d", PatchID: "p", Base: "b"}})
		f := standing(t, run.Executing)
		f.facts.Patch = &run.Patch{}
		f.patch("change-a").in(run.Queued)
	})
	t.Run("R-PLAN-1 a plan that lacks something", func(t *testing.T) {
		t.Parallel()
		f := standing(t, run.Planning)
		f.facts.PlanFault = run.CodePlanInvalid
		f.plan("plan-a").in(run.Queued)
		if got := effects[run.EndAttempt](f); got[0].Code != run.CodePlanInvalid || run.Lookup(run.CodePlanInvalid).Category != run.CatPlanningFailed {
			t.Errorf("attempt ended as %+v", got)
		}
	})
	t.Run("a verdict on what nobody verified", func(t *testing.T) {
		t.Parallel()
		f := standing(t, run.Judging)
		f.run.Verification = "" // as a row that something else wrote
		for _, k := range []run.Kind{run.KindHumanApprovalRequired, run.KindAutoPRAllowed, run.KindApprovalCarried, run.KindJudgeRequiresFix,
			run.KindCompletionConditionMet, run.KindAttestationRequired} {
			refused[*run.EvidenceError](f, payload(f.run, k, first{}))
		}
	})
	t.Run("an attempt with rounds left is not exhausted", func(t *testing.T) {
		t.Parallel()
		f := standing(t, run.Verifying)
		p := run.AttemptExhaustedEvent{Code: run.CodeVerifierFailed, Summary: "s"}
		if err := refused[*run.GuardError](f, p); err.Guard != "repairs" {
			t.Error(err)
		}
		p.Identical = true
		f.post(p).in(run.Queued)
	})
	t.Run("a stale delivery", func(t *testing.T) {
		t.Parallel()
		f := standing(t, run.Queued)
		p := payload(f.run, run.KindLeaseAcquired, first{}).(run.LeaseAcquiredEvent)
		p.Lease.Phase = run.PhaseVerify
		refused[*run.GuardError](f, p)
		p.Lease.Phase, p.Lease.Token = run.PhaseExecute, f.run.Token
		refused[*run.StaleLeaseError](f, p)
	})
}

// TestRepeatedFailure: R-FAIL-9. What the same agent would only do again is tried again once; twice in a row ends the
// run with attempts left, and the control plane makes no further run by itself. Another failure, or something new
// between, is no repeat; what comes from the machine is tried until the attempts are spent.
func TestRepeatedFailure(t *testing.T) {
	t.Parallel()
	end := func(s run.State, before, now run.Code) *flow {
		f := standing(t, s)
		f.facts.LastFailure = before
		return f.command(run.AttemptHasFailed{Code: now, Summary: "It said so."})
	}
	for _, i := range run.Codes() {
		if i.Retry != run.RetryAgain || i.Category == run.CatPRCreationFailed || slices.Contains([]run.Code{run.CodeWorkerLost, run.CodeQueueTimeout, run.CodeDeferTimeout}, i.Code) {
			if i.Code.Deterministic() {
				t.Errorf("%s is %s and counted as a repeat", i.Code, i.Retry)
			}
			continue
		}
		end(run.Executing, "", i.Code).in(run.Queued)
		other := run.CodeEmptyPatch
		if other == i.Code {
			other = run.CodePatchInvalid
		}
		end(run.Executing, other, i.Code).in(run.Queued)
		again := end(run.Executing, i.Code, i.Code)
		if !i.Code.Deterministic() {
			again.in(run.Queued)
			continue
		}
		again.ended(run.Failed, i.Code)
		if f := again.run.Failure; f.Retryable || !strings.HasPrefix(f.Summary, "It said so. This came twice in a row") {
			t.Errorf("%s twice: %+v", i.Code, f)
		}
		if !again.run.AttemptsLeft() {
			t.Errorf("%s: no attempt was left, so the test shows nothing", i.Code)
		}
	}
	// A patch that does not apply stays one, whoever is asked.
	end(run.Verifying, "", run.CodePatchDoesNotApply).in(run.Verifying)
	end(run.Verifying, run.CodePatchDoesNotApply, run.CodePatchDoesNotApply).ended(run.Failed, run.CodePatchDoesNotApply)
	// The server's own look at what was handed in counts like the worker's word.
	f := standing(t, run.Executing)
	f.facts.LastFailure, f.facts.PatchFault = run.CodePatchInvalid, run.CodePatchInvalid
	f.command(run.PatchSubmitted{Artifact: "change-a", Base: "c0ffee"}).ended(run.Failed, run.CodePatchInvalid)
}
