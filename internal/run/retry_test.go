package run_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// TestRetryByCode: R-FAIL-2, R-TEST-4. Every reason code, reported from EXECUTING, leads where its row says, and is
// charged to the budget that it belongs to and to no other.
func TestRetryByCode(t *testing.T) {
	t.Parallel()
	serverOnly := map[run.Code]bool{run.CodeQueueTimeout: true, run.CodeDeferTimeout: true}
	for _, i := range run.Codes() {
		t.Run(string(i.Code), func(t *testing.T) {
			t.Parallel()
			f := working(t, run.Executing)
			if i.Code == run.CodeWorkerLost {
				f.lose()
			} else {
				f.command(run.AttemptHasFailed{Code: i.Code, Summary: "So it was."})
			}
			if i.Retry != run.RetryAgain || serverOnly[i.Code] {
				if f.run.State != run.Failed {
					t.Fatalf("%s (%s) leads to %s, want FAILED", i.Code, i.Retry, f.run.State)
				}
				return
			}
			f.in(run.Queued)
			used, crashed, limited := 1, 0, 0
			switch i.Code {
			case run.CodeWorkerLost, run.CodeStartTimeout:
				used, crashed = 0, 1
			case run.CodeProviderRateLimit:
				used, limited = 0, 1
			}
			if f.run.AttemptsUsed() != used || f.run.Crashed != crashed || f.run.RateLimited != limited {
				t.Errorf("charged: attempts %d, crashes %d, rate limits %d", f.run.AttemptsUsed(), f.run.Crashed, f.run.RateLimited)
			}
			least := f.run.Limits.Delays[0]
			if i.Code == run.CodeWorkerLost {
				least = 0 // nothing is known against the run
			}
			if q := effects[run.Enqueue](f); len(q) != 1 || q[0].Delay < least || least == 0 && q[0].Delay != 0 {
				t.Errorf("queued as %+v: no backoff", q)
			}
		})
	}
}

// TestCrashBudget: crashes and failures are counted apart, and the run that took three workers down is quarantined.
func TestCrashBudget(t *testing.T) {
	t.Parallel()
	f := working(t, run.Executing)
	for range f.run.Limits.MaxCrashes - 1 {
		f.lose().in(run.Queued).claim()
	}
	if f.run.AttemptsUsed() != 1 || !f.run.AttemptsLeft() {
		t.Errorf("%d attempts used after %d crashes", f.run.AttemptsUsed(), f.run.Crashed)
	}
	f.command(run.AttemptHasFailed{Code: run.CodeAgentExit, Summary: "Exit 1."}).in(run.Queued)
	if q := effects[run.Enqueue](f); q[0].Delay > 40*time.Second {
		t.Errorf("the first failure waits %s: it is charged the crashes' backoff", q[0].Delay)
	}
	f.claim()
	f.post(run.AttemptFailedEvent{Code: run.CodeStartTimeout, Summary: "It did not start."}).ended(run.Failed, run.CodeWorkerLost)
	if words := f.run.Failure.Summary; !strings.Contains(words, "crashed 3 workers") || !strings.Contains(words, "quarantine") || f.run.Failure.Retryable {
		t.Errorf("%+v", f.run.Failure)
	}
	sample(f)
}

// TestCrashesOfOldLimits: D-4. Limits that were stored before crashes had a budget count them as attempts, as they did.
func TestCrashesOfOldLimits(t *testing.T) {
	t.Parallel()
	f := working(t, run.Executing)
	f.run.Limits.MaxCrashes, f.run.Limits.MaxAttempts = 0, 2
	res, err := run.Reduce(f.run, event(f.run, run.WorkerLostEvent{Lease: run.LeaseRef{ID: f.run.Lease.ID, Token: f.run.Lease.Token}}, run.Scheduler))
	if err != nil || res.Run.State != run.Queued || res.Run.AttemptsUsed() != 1 || res.Run.Crashed != 0 {
		t.Errorf("%v: %s, %d attempts, %d crashes", err, res.Run.State, res.Run.AttemptsUsed(), res.Run.Crashed)
	}
}

// TestDrainedWorkerBurnsNothing: drain, release and the loss of a drained worker use up none of the run's budgets and
// wait for nothing, in every phase.
func TestDrainedWorkerBurnsNothing(t *testing.T) {
	t.Parallel()
	for _, s := range workStates() {
		f := working(t, s)
		for _, end := range []func(){
			func() { f.command(run.Release{Reason: "drain"}) },
			func() { f.command(run.Stopped{Why: run.StopDrain}) },
			func() {
				f.facts.Drained = true
				f.lose()
				f.facts.Drained = false
			},
		} {
			end()
			if r := f.run; r.AttemptsUsed() > 1 || s.Phase() == run.PhaseExecute && r.AttemptsUsed() != 0 || r.Crashed+r.VerifyRedeliveries+r.PublishRedeliveries != 0 {
				t.Errorf("%s: attempts %d, crashes %d, redeliveries %d and %d", s, r.AttemptsUsed(), r.Crashed, r.VerifyRedeliveries, r.PublishRedeliveries)
			}
			if q := effects[run.Enqueue](f); len(q) != 1 || q[0].Delay != 0 {
				t.Errorf("%s: queued as %+v", s, q)
			}
			f.claim()
		}
	}
	f := working(t, run.Executing)
	f.facts.Drained = true
	sample(f.lose())
}

// TestReleaseDelay: R-FAIL-2. A run that is given back again and again without getting further waits a second that
// doubles up to a minute, in every phase and however often, and is charged nothing; the first time it waits for nothing.
func TestReleaseDelay(t *testing.T) {
	t.Parallel()
	want := []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute}
	for _, s := range workStates() {
		f := working(t, s)
		before := f.run
		for n := range 40 {
			f.facts.Released = n
			f.command([]run.Command{run.Release{Reason: "It does not suit."}, run.Stopped{Why: run.StopDrain}}[n%2])
			if q := effects[run.Enqueue](f); len(q) != 1 || q[0].Phase != s.Phase() || q[0].Delay != want[min(n, len(want)-1)] {
				t.Errorf("%s, given back %d times before: queued as %+v", s, n, q)
			}
			f.claim()
		}
		if r := f.run; r.AttemptsUsed() != before.AttemptsUsed() || !r.AttemptsLeft() || r.Crashed+r.RateLimited+r.VerifyRedeliveries+r.PublishRedeliveries != 0 {
			t.Errorf("%s: %d attempts used, %d crashes, redeliveries %d and %d", s, r.AttemptsUsed(), r.Crashed, r.VerifyRedeliveries, r.PublishRedeliveries)
		}
	}
	for _, n := range []int{-1, 1 << 62} {
		if d := run.ReleaseDelay(n); d < 0 || d > run.LongestReleaseDelay {
			t.Errorf("after %d times: %s", n, d)
		}
	}
}

// TestRateLimitHasItsOwnBudget: R-TEST-17. What a provider turns away burns no attempts, waits as long as the pause
// lasts and never shorter, and ends when its own budget is spent.
func TestRateLimitHasItsOwnBudget(t *testing.T) {
	t.Parallel()
	f := working(t, run.Executing)
	for n := 1; n < f.run.Limits.MaxRateLimits; n++ {
		f.facts.Pause = &run.ProviderPause{Provider: "stoic", For: 100 * time.Second, Failures: n}
		f.command(run.AttemptHasFailed{Code: run.CodeProviderRateLimit, Summary: "Too many.", RetryAfter: 90 * time.Second}).in(run.Queued)
		if q := effects[run.Enqueue](f); q[0].Delay != 110*time.Second {
			t.Fatalf("time %d: waits %s, want what the pause lasts and half of the jitter", n, q[0].Delay)
		}
		if f.run.RateLimited != n || f.run.AttemptsUsed() != 0 {
			t.Fatalf("time %d: %d rate limits, %d attempts used", n, f.run.RateLimited, f.run.AttemptsUsed())
		}
		if n == 2 {
			sample(f)
		}
		f.claim()
	}
	f.command(run.AttemptHasFailed{Code: run.CodeProviderRateLimit, Summary: "Too many."}).ended(run.Failed, run.CodeProviderRateLimit)
	if !f.run.Failure.Retryable {
		t.Error("a new run may help once the provider answers again")
	}
}

// TestWaveSpreads: R-FAIL-3, R-TEST-3. 500 workers that are lost together give their runs back over the whole width of
// the jitter and never before the delay.
func TestWaveSpreads(t *testing.T) {
	t.Parallel()
	r := policy.Default().Retry
	delays := usual().Delays
	dice := rand.New(rand.NewPCG(3, 15)) //nolint:gosec // a test's dice, the same every time
	for n, base := range []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
		const slots = 10
		var per [slots]int
		width := time.Duration(float64(base) * r.Jitter)
		for range 500 {
			d := run.Backoff(delays, n+1, r.Jitter, dice.Float64())
			if d < base || d >= base+width {
				t.Fatalf("retry %d waits %s, want %s to %s", n+1, d, base, base+width)
			}
			per[int(slots*(d-base)/width)]++
		}
		for slot, count := range per {
			if count < 25 || count > 80 {
				t.Errorf("retry %d: %d of 500 in tenth %d, want about 50", n+1, count, slot)
			}
		}
	}
}

// TestCautiousRisks: R-FAIL-9. Work of a risk that policy is cautious about is not tried again by itself where the
// agent failed; a fault of the machine is.
func TestCautiousRisks(t *testing.T) {
	t.Parallel()
	f := working(t, run.Executing)
	f.rules.Retry.Cautious = []policy.Risk{policy.RiskLow}
	machine := f.fork(t)
	machine.command(run.AttemptHasFailed{Code: run.CodeDiskFull, Summary: "Full."}).in(run.Queued)
	f.command(run.AttemptHasFailed{Code: run.CodeAgentExit, Summary: "Exit 1."}).ended(run.Failed, run.CodeAgentExit)
	if !strings.Contains(f.run.Failure.Summary, "risk LOW") {
		t.Errorf("%q does not say why", f.run.Failure.Summary)
	}
}

// TestInstructionOnce: R-FAIL-9. A plan that failed and a context that was too large are tried once more with a
// smaller context, and not a third time.
func TestInstructionOnce(t *testing.T) {
	t.Parallel()
	for _, code := range []run.Code{run.CodeContextTooLarge, run.CodePlanInvalid} {
		f := working(t, run.Planning)
		f.command(run.AttemptHasFailed{Code: code, Summary: "It was."}).in(run.Queued)
		if said := effects[run.GiveFeedback](f); len(said) != 1 || said[0].Source != "system" || !strings.Contains(said[0].Text, "smaller context") {
			t.Errorf("%s: the next try is told %+v", code, said)
		}
		f.claim().command(run.Start{})
		f.facts.LastFailure = code
		f.command(run.AttemptHasFailed{Code: code, Summary: "It was."}).ended(run.Failed, code)
	}
}

// TestOversizedPatchIsSentBack: R-FAIL-8. What the judge on a worker lets pass is held against the limits that the run
// was admitted with: too many files and too many lines each go back to the agent, with the numbers.
func TestOversizedPatchIsSentBack(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]int{"changed files": 2, "diff lines": 100} {
		f := working(t, run.Judging)
		f.run.Patch.Files, f.run.Patch.Added, f.run.Patch.Removed = 3, 4, 2
		f.run.Limits.ChangedFiles, f.run.Limits.DiffLines = 3, 6
		fits := f.fork(t)
		fits.command(run.JudgeReported{Judge: run.JudgeEvidence{Artifact: "art-judge", Verdict: run.VerdictPass, Confidence: 0.9}})
		if fits.run.State == run.Executing {
			t.Errorf("%s: a patch at the limit is sent back", name)
		}
		f.run.Limits.ChangedFiles, f.run.Limits.DiffLines = files, 5
		f.command(run.JudgeReported{Judge: run.JudgeEvidence{Artifact: "art-judge", Verdict: run.VerdictPass, Confidence: 0.9}}).in(run.Executing)
		if said := effects[run.GiveFeedback](f); len(said) == 0 || !strings.Contains(said[0].Text, "the limit is") {
			t.Errorf("%s: the agent is told %+v", name, said)
		}
	}
}
