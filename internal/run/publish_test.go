package run_test

import (
	"slices"
	"testing"
	"time"

	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// automatic makes a run whose judge passed with every guard kept.
func automatic(t testing.TB, set func(*flow)) *flow {
	t.Helper()
	f := newFlow(t, run.ModePRCreated, policy.RiskLow)
	f.rules.AutoPR.Allowed, f.facts.Policy.AutoPRAsked = true, true
	f.rules.Gates.Plan.When = policy.Never
	if set != nil {
		set(f)
	}
	return f.patched().verify(true, "").in(run.Judging)
}

// TestAutomaticPullRequest: R-TRN-8. With every guard kept nobody is asked; with
// one broken there is no automatic pull request, whichever it is, and the reducer
// itself refuses it for a high risk and for a judge that did not pass.
func TestAutomaticPullRequest(t *testing.T) {
	t.Parallel()
	f := automatic(t, nil)
	f.judge(run.VerdictPass, 0.9).in(run.PRCreating)
	if got, ok := f.log[len(f.log)-1].Payload.(run.AutoPRAllowedEvent); !ok || len(got.Guards) != len(policy.GuardNames()) || got.Policy.Version == "" {
		t.Errorf("recorded %+v", f.log[len(f.log)-1].Payload)
	}
	f.publish().ended(run.Succeeded, "")

	for name, c := range map[policy.GuardName]struct {
		set  func(*flow)
		conf float64
		want run.State
	}{
		policy.GuardJudge: {nil, 0.1, run.WaitingForApproval},
		policy.GuardSecrets: {func(f *flow) {
			f.facts.Policy.SecretScan, f.facts.Policy.SecretFindings = policy.ScanFindings, []string{"key in a.go:1"}
		}, 1, run.Executing},
		policy.GuardForbidden: {func(f *flow) { f.facts.Policy.ForbiddenHits = []string{"deploy/prod.yml"} }, 1, run.Executing},
		policy.GuardGenerated: {func(f *flow) { f.facts.Policy.GeneratedViolations = []string{"a.pb.go"} }, 1, run.Executing},
		policy.GuardAutoPR:    {func(f *flow) { f.facts.Policy.AutoPRAsked = false }, 1, run.WaitingForApproval},
		policy.GuardBudget:    {func(f *flow) { f.facts.Policy.BudgetLeft = false }, 1, run.WaitingForApproval},
		policy.GuardRisk:      {func(f *flow) { f.facts.Policy.ProtectedHits = []string{".github/workflows/ci.yml"} }, 1, run.WaitingForApproval},
		"never scanned":       {func(f *flow) { f.facts.Policy.SecretScan = policy.NotScanned }, 1, run.Failed},
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			f := automatic(t, c.set)
			f.judge(run.VerdictPass, c.conf).in(c.want)
			if want := run.GateBudget; name == policy.GuardBudget && f.run.Gate.Kind != want {
				t.Errorf("gate %s, want %s", f.run.Gate.Kind, want)
			}
			f.replays()
		})
	}
	// The eighth guard, verifier_passed, cannot fail here: JUDGING is not entered
	// without the report, and the facts about it come from the run.
	f = automatic(t, func(f *flow) { f.facts.Policy.VerificationPassed = false })
	f.judge(run.VerdictPass, 0.9).in(run.PRCreating)

	high := automatic(t, nil)
	high.run.Risk = run.RiskHigh
	refused[*run.GuardError](high, run.AutoPRAllowedEvent{Judge: verdict(run.VerdictPass), Policy: words()})
	high.run.Risk = run.RiskCritical
	refused[*run.GuardError](high, run.AutoPRAllowedEvent{Judge: verdict(run.VerdictPass), Policy: words()})
	refused[*run.GuardError](automatic(t, nil), run.AutoPRAllowedEvent{Judge: verdict(run.VerdictFix), Policy: words()})
	high.judge(run.VerdictPass, 1).gateOf(run.GatePatch)
}

// TestReconcileGate: an effect that cannot be looked up goes to a person, who has
// it tried again, takes over the pull request that was found, or rejects it.
func TestReconcileGate(t *testing.T) {
	t.Parallel()
	t.Run("retry", func(t *testing.T) {
		t.Parallel()
		atGate(t, run.GateReconcile).approve().in(run.PRCreating).publish().ended(run.Succeeded, "")
	})
	t.Run("adopt", func(t *testing.T) {
		t.Parallel()
		f := atGate(t, run.GateReconcile)
		a := run.Approval{Gate: gateRef(f.run), Deciders: []run.Actor{{Kind: run.Human, ID: "u"}}, Adopt: &run.PullRequest{URL: "https://forge.example/9"}}
		refused[*run.EvidenceError](f, run.ApprovedEvent{Approval: a})
		a.Adopt = new(pullRequest())
		f.post(run.ApprovedEvent{Approval: a}).ended(run.Succeeded, "")
		if *f.run.PR != pullRequest() {
			t.Errorf("%+v", f.run.PR)
		}
	})
	t.Run("reject", func(t *testing.T) {
		t.Parallel()
		f := atGate(t, run.GateReconcile)
		f.post(run.RejectedEvent{Gate: gateRef(f.run), Reason: "Leave it."}).ended(run.Failed, run.CodePRCreationFailed)
	})
}

// TestBaseMoved: A19, D-15. A base that moved in the patch's own files sends the same
// patch to be verified on the new base; the approval is carried for the same
// change only; the fourth time a person decides.
func TestBaseMoved(t *testing.T) {
	t.Parallel()
	move := run.BaseHasMoved{NewBase: "ba5e2", Overlaps: []string{"main.go"}}
	t.Run("carried", func(t *testing.T) {
		t.Parallel()
		f := publishing(t).claim().command(move).in(run.PatchReady)
		if f.run.Patch.Base != "ba5e2" || f.run.PatchRevision != 2 || f.run.Verification != "" || f.run.BaseMoves != 1 {
			t.Errorf("patch %+v, verification %q", f.run.Patch, f.run.Verification)
		}
		f.facts.Policy.CarriedApprovals = 1
		f.verify(true, "").judge(run.VerdictPass, 0.9).in(run.PRCreating)
		if f.log[len(f.log)-1].Kind() != run.KindApprovalCarried {
			t.Errorf("went on by %s", f.log[len(f.log)-1].Kind())
		}
		f.publish().ended(run.Succeeded, "")
	})
	t.Run("another change is asked about", func(t *testing.T) {
		t.Parallel()
		f := publishing(t).claim().command(move)
		f.facts.Policy.CarriedApprovals = 1
		f.verify(false, "does not build").in(run.Executing).claim().patch("change-b").verify(true, "").in(run.Judging)
		refused[*run.GuardError](f, payload(f.run, run.KindApprovalCarried, first{}))
		f.judge(run.VerdictPass, 0.9).gateOf(run.GatePatch)
	})
	t.Run("sent back is not approved", func(t *testing.T) {
		t.Parallel()
		f := publishing(t).claim().command(move).verify(true, "").judge(run.VerdictPass, 0.2).gateOf(run.GatePatch)
		f.post(run.ChangesRequestedEvent{Gate: gateRef(f.run), Instruction: "Not like this."})
		f.facts.Policy.CarriedApprovals = 1
		f.claim().patch("change-a").verify(true, "").judge(run.VerdictPass, 0.9).gateOf(run.GatePatch)
	})
	t.Run("fourth time", func(t *testing.T) {
		t.Parallel()
		f := publishing(t)
		f.facts.Policy.CarriedApprovals = 1
		for range 3 {
			f.claim().command(move).verify(true, "").judge(run.VerdictPass, 0.9).in(run.PRCreating)
		}
		f.claim().command(move).gateOf(run.GatePatch)
		if f.run.ApprovedPatchID != "" || f.run.BaseMoves != 4 {
			t.Errorf("approved %q after %d moves", f.run.ApprovedPatchID, f.run.BaseMoves)
		}
		f.approve().claim().command(move).in(run.PatchReady)
		f.verify(true, "").judge(run.VerdictPass, 0.9).publish().ended(run.Succeeded, "")
	})
	f := publishing(t).claim()
	refused[*run.EvidenceError](f, run.BaseMovedEvent{NewBase: "ba5e2"})
}

// TestBranchTouched: somebody else's commit on the branch ends the run, hands off,
// and offers a new one.
func TestBranchTouched(t *testing.T) {
	t.Parallel()
	f := publishing(t).claim().command(run.BranchWasTouched{Branch: "agent/task/run", SHA: "5ha2"}).ended(run.Failed, run.CodeBranchTouched)
	if f.run.Failure.Category != run.CatPRCreationFailed || f.run.Failure.Retryable {
		t.Errorf("%+v", f.run.Failure)
	}
}

// TestAttestation: only an accepted attestation makes a result VERIFIED; refusing
// or ignoring it ends otherwise, and where a pull request exists, closing it is
// offered.
func TestAttestation(t *testing.T) {
	t.Parallel()
	waiting := func(t *testing.T, mode run.Mode) *flow {
		f := newFlow(t, mode, policy.RiskLow)
		f.facts.Policy.AttestationAsked = true
		if mode.WantsPR() {
			f.judged().approve().publish()
		} else {
			f.judged()
		}
		return f.in(run.AwaitingVerification)
	}
	for _, mode := range []run.Mode{run.ModePRCreated, run.ModePatchReady} {
		for name, c := range map[string]struct {
			p    run.Payload
			want run.State
			code run.Code
		}{
			"accepted": {run.AttestationAcceptedEvent{Statement: "s"}, run.Succeeded, ""},
			"refused":  {run.AttestationRefusedEvent{Statement: "s", Reason: "Does not build here."}, run.Failed, run.CodeAttestationRefused},
			"fail":     {run.AttestationExpiredEvent{Outcome: run.ExpiryFail}, run.Failed, run.CodeAttestationExpired},
			"parked":   {run.AttestationExpiredEvent{Outcome: run.ExpiryExpire}, run.Expired, run.CodeAttestationExpired},
			"cancel":   {run.CancelRequestedEvent{Reason: "Enough."}, run.Cancelled, run.CodeCancelledByUser},
		} {
			t.Run(string(mode)+"/"+name, func(t *testing.T) {
				t.Parallel()
				f := waiting(t, mode)
				f.post(run.AttestationExpiredEvent{Outcome: run.ExpiryEscalate}).in(run.AwaitingVerification)
				f.post(c.p).ended(c.want, c.code)
				if f.run.Attested != (name == "accepted") {
					t.Errorf("attested %t", f.run.Attested)
				}
				offers := slices.ContainsFunc(effects[run.FollowUp](f), func(e run.FollowUp) bool { return e.What == run.FollowUpClosePR && e.Detail[0] == pullRequest().URL })
				if want := mode.WantsPR() && c.want != run.Succeeded; offers != want {
					t.Errorf("offers to close the pull request: %t, want %t", offers, want)
				}
				if c.want == run.Failed && f.run.Failure.Category != run.CatVerificationFailed {
					t.Errorf("%+v", f.run.Failure)
				}
			})
		}
	}
	f := newFlow(t, run.ModePRCreated, policy.RiskLow).judged().approve().claim()
	refused[*run.EvidenceError](f, run.PRCreatedEvent{PR: pullRequest(), Attest: true})
	refused[*run.EvidenceError](f, run.PRCreatedEvent{PR: run.PullRequest{URL: "u", SHA: "s"}, AttestExpiresAt: time.Now()})
}
