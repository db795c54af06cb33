package run_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// working makes a run in the state whose work a worker holds.
func working(t testing.TB, s run.State) *flow {
	t.Helper()
	f := newFlow(t, run.ModePRCreated, policy.RiskLow).admit()
	steps := []struct {
		in run.State
		do func()
	}{
		{run.Leased, func() { f.claim() }},
		{run.Preparing, func() { f.command(run.Start{}) }},
		{run.ContextBuilding, func() { f.command(run.SandboxIsReady{Tier: "bwrap", Base: "c0ffee"}) }},
		{run.Planning, func() { f.command(run.ContextIsReady{Artifact: "art-context"}) }},
		{run.Executing, func() { f.plan("plan-a") }},
		{run.PatchReady, func() { f.patch("change-a").claim() }},
		{run.Verifying, func() { f.command(run.VerifyStarted{Commands: []string{"make test"}, Digest: "commands"}) }},
		{run.Judging, func() {
			f.facts.Verification = &run.VerificationFacts{Passed: true}
			f.command(run.VerifyReported{Artifact: "art-verification"})
		}},
		{run.PRCreating, func() { f.judge(run.VerdictPass, 0.9).approve().claim() }},
	}
	for _, step := range steps {
		step.do()
		f.in(step.in)
		if step.in == s {
			return f
		}
	}
	t.Fatalf("nobody works in %s", s)
	return nil
}

func workStates() []run.State {
	return slices.DeleteFunc(run.States(), func(s run.State) bool { return !s.NeedsWork() || s == run.Queued })
}

// TestLostWorkerInEveryState: R-FAIL-2, R-FAIL-3, R-DOM-5. Before the patch is
// stored the attempt is over and the run QUEUED again with backoff; later the
// phase is delivered again; when attempts or redeliveries are spent the run ends,
// and says WORKER_LOST.
func TestLostWorkerInEveryState(t *testing.T) {
	t.Parallel()
	for _, s := range workStates() {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			f := working(t, s)
			limits := f.run.Limits
			phase, want := s.Phase(), s
			if phase == run.PhaseExecute {
				want = run.Queued
			}
			again := limits.Redeliveries
			if phase == run.PhaseExecute {
				again = limits.MaxCrashes - 1
			}
			for n := 1; n <= again; n++ {
				holder := *f.run.Lease
				f.lose().in(want)
				lease, q := effects[run.EndLease](f), effects[run.Enqueue](f)
				if len(lease) != 1 || lease[0].As != run.LeaseExpired || lease[0].Lease != holder {
					t.Errorf("lease ended as %+v", lease)
				}
				// The first time at once. A draw of 0.5 adds half of the jitter.
				delay := time.Duration(0)
				if n > 1 {
					delay = run.Backoff(limits.Delays, n-1, limits.Jitter, 0.5)
				}
				if len(q) != 1 || q[0].Phase != phase || q[0].Delay != delay || n > 1 && delay < limits.Delays[n-2] {
					t.Errorf("loss %d: queued as %+v, want after %s", n, q, delay)
				}
				if f.claim(); phase == run.PhaseExecute && f.run.AttemptNo != n+1 || phase != run.PhaseExecute && f.run.AttemptNo != 1 {
					t.Errorf("loss %d: attempt %d", n, f.run.AttemptNo)
				}
			}
			f.lose().ended(run.Failed, run.CodeWorkerLost)
			category := run.CatInfrastructure
			if phase == run.PhasePublish {
				category = run.CatPRCreationFailed
			}
			// A run that took its workers down with it is quarantined; one that was lost later is not to blame.
			if f.run.Failure.Category != category || f.run.Failure.Retryable == (phase == run.PhaseExecute) {
				t.Errorf("%+v", f.run.Failure)
			}
		})
	}
}

// TestLostWorkerSpent: cost or time spent, an execute phase is not tried again;
// a stored patch still is, since that costs no model.
func TestLostWorkerSpent(t *testing.T) {
	t.Parallel()
	for _, s := range workStates() {
		f := working(t, s)
		f.facts.Spent = true
		f.lose()
		if want := map[bool]run.State{true: run.Failed, false: s}[s.Phase() == run.PhaseExecute]; f.run.State != want {
			t.Errorf("lost in %s with the budget spent: %s, want %s", s, f.run.State, want)
		}
	}
}

// TestLostLeaseIsTheActiveOne: a time-out that was read before the lease changed
// hands ends nothing.
func TestLostLeaseIsTheActiveOne(t *testing.T) {
	t.Parallel()
	f := working(t, run.Verifying)
	old := run.LeaseRef{ID: f.run.Lease.ID, Token: f.run.Lease.Token}
	f.command(run.Release{Reason: "drain"}).claim()
	for _, ref := range []run.LeaseRef{old, {ID: f.run.Lease.ID, Token: old.Token}, {ID: old.ID, Token: f.run.Lease.Token}} {
		if err := refused[*run.StaleLeaseError](f, run.WorkerLostEvent{Lease: ref}); err.Token != ref.Token {
			t.Errorf("%v", err)
		}
	}
	if _, err := run.DecideLost(standing(t, run.Queued).run, run.Facts{}); err == nil {
		t.Error("a lease is lost that nobody holds")
	}
}

// TestLostPublisherWithAnUnresolvedEffect: the last redelivery lost while an
// operation may have happened goes to a person and not to FAILED; so does a
// failure that the worker reports.
func TestLostPublisherWithAnUnresolvedEffect(t *testing.T) {
	t.Parallel()
	spent := func(t *testing.T) *flow {
		f := working(t, run.PRCreating)
		f.facts.Unresolved = []string{"open_pull_request app"}
		for range f.run.Limits.Redeliveries {
			f.lose().in(run.PRCreating).claim()
		}
		return f
	}
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		f := spent(t).lose().gateOf(run.GateReconcile)
		if l := effects[run.EndLease](f); len(l) != 1 || l[0].As != run.LeaseExpired {
			t.Errorf("lease ended as %+v", l)
		}
		f.approve().publish().ended(run.Succeeded, "")
	})
	t.Run("reported", func(t *testing.T) {
		t.Parallel()
		spent(t).command(run.AttemptHasFailed{Code: run.CodeForgeUnavailable, Summary: "No answer."}).gateOf(run.GateReconcile)
	})
	t.Run("resolved", func(t *testing.T) {
		t.Parallel()
		f := spent(t)
		f.facts.Unresolved = nil
		f.lose().ended(run.Failed, run.CodeWorkerLost)
	})
	t.Run("never tried again", func(t *testing.T) {
		t.Parallel()
		f := working(t, run.PRCreating)
		f.facts.Unresolved = []string{"push_branch app"}
		f.command(run.AttemptHasFailed{Code: run.CodeRefNotFound, Summary: "The base branch is gone."}).in(run.Failed)
		if got := effects[run.FollowUp](f); len(got) != 1 || got[0].What != run.FollowUpReconcile {
			t.Errorf("follow-ups %+v", got)
		}
	})
}

// TestFailedInEveryState: R-FAIL-2. What a worker reports is tried again by its
// code alone; never-retry codes end the run from every state; the time-outs of the
// scheduler revoke the lease.
func TestFailedInEveryState(t *testing.T) {
	t.Parallel()
	for _, s := range workStates() {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			again := map[bool]run.State{true: run.Queued, false: s}[s.Phase() == run.PhaseExecute]
			f := working(t, s)
			f.command(run.AttemptHasFailed{Code: run.CodeProviderRateLimit, RetryAfter: time.Hour}).in(again)
			if q, l := effects[run.Enqueue](f), effects[run.EndLease](f); q[0].Delay != time.Hour || l[0].As != run.LeaseReleased {
				t.Errorf("queued %+v, lease %+v: the provider's own delay is a floor", q, l)
			}
			f.postAs(run.Human, run.CancelRequestedEvent{Reason: "Enough."}).ended(run.Cancelled, run.CodeCancelledByUser)
			f = working(t, s)
			f.postAs(run.Scheduler, run.AttemptFailedEvent{Code: run.CodeAttemptTimeout}).in(again)
			if l := effects[run.EndLease](f); l[0].As != run.LeaseRevoked || l[0].Reason != string(run.CodeAttemptTimeout) {
				t.Errorf("lease %+v", l)
			}
			for _, code := range []run.Code{run.CodeGitAuthFailed, "A_WORD_NOBODY_KNOWS", run.CodeCancelledByUser} {
				f = working(t, s)
				f.command(run.AttemptHasFailed{Code: code, Summary: "It says.", Artifact: "art-log"}).in(run.Failed)
				want := run.CodeUnknown
				if code == run.CodeGitAuthFailed {
					want = code
				}
				if got := f.run.Failure; got.Code != want || got.Summary != "It says." || got.Evidence != "art-log" || got.Retryable {
					t.Errorf("%s: %+v", code, got)
				}
				if last := f.log[len(f.log)-1]; last.Kind() != run.KindNonRetryableFailure || last.By.Kind != s.Owner() {
					t.Errorf("recorded as %s by %s", last.Kind(), last.By.Kind)
				}
			}
		})
	}
}

// TestBudgetGate: a spent budget is a recorded transition: a gate that comes back
// to the same state with the raised limit, or FAILED where policy says so.
func TestBudgetGate(t *testing.T) {
	t.Parallel()
	for _, s := range []run.State{run.ContextBuilding, run.Planning, run.Executing, run.Verifying, run.Judging} {
		for _, holder := range []bool{true, false} {
			t.Run(fmt.Sprint(s, " holder ", holder), func(t *testing.T) {
				t.Parallel()
				f := working(t, s)
				was := f.run.Limits.CostCents
				if holder {
					f.command(run.Stopped{Why: run.StopBudget, Summary: "5 euros are spent."})
				} else {
					p := payload(f.run, run.KindBudgetExceeded, first{})
					f.postAs(run.ControlPlane, p)
				}
				f.gateOf(run.GateBudget)
				as := map[bool]run.LeaseEnd{true: run.LeaseReleased, false: run.LeaseRevoked}[holder]
				if l := effects[run.EndLease](f); len(l) != 1 || l[0].As != as {
					t.Errorf("lease %+v, want %s", l, as)
				}
				f.approve().in(s)
				if f.run.Limits.CostCents != 2*was || f.run.AttemptNo != 1 || f.run.Queued != s.Phase() {
					t.Errorf("limit %d, attempt %d, item %q", f.run.Limits.CostCents, f.run.AttemptNo, f.run.Queued)
				}
				f.claim().in(s)
			})
		}
	}
	t.Run("fail", func(t *testing.T) {
		t.Parallel()
		f := working(t, run.Executing)
		f.rules.Budget.OnExceeded = policy.OnFail
		f.command(run.Stopped{Why: run.StopBudget}).ended(run.Failed, run.CodeBudgetExceeded)
		if f.run.Failure.Category != run.CatBudgetExceeded {
			t.Errorf("%+v", f.run.Failure)
		}
	})
	t.Run("failed checks", func(t *testing.T) {
		t.Parallel()
		f := working(t, run.Verifying)
		f.facts.Policy.BudgetLeft, f.facts.Verification = false, &run.VerificationFacts{}
		f.command(run.VerifyReported{Artifact: "art-verification"}).gateOf(run.GateBudget)
		f.facts.Policy.BudgetLeft = true
		f.approve().verify(true, "").judge(run.VerdictPass, 0.9).approve().publish().ended(run.Succeeded, "")
	})
}
