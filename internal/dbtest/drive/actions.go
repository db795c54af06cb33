package drive

import (
	"context"
	"fmt"
	"time"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// actions lists what may be done to the present run, by whoever may do it in the product.
func (g *generator) actions() []action {
	s := g.info.State
	as := []action{
		{run.KindCancelRequested, 0, func(ctx context.Context) error { _, err := g.Cancel(ctx, g.ref); return err }},
	}
	post := func(by run.ActorKind, p run.Payload) action {
		return action{p.Kind(), 0, func(ctx context.Context) error { _, err := g.Post(ctx, g.ref, by, p); return err }}
	}
	if s != run.Cancelling {
		as = append(as, post(run.Scheduler, run.RunTimeoutEvent{Fail: g.rng.IntN(2) == 0}))
	}
	if s.NeedsWork() || s == run.Created {
		as = append(as, post(run.Policy, run.PolicyDeniedEvent{PolicyVersion: "generated", Code: run.CodePolicyDenied, Reasons: []string{"Not today."}}))
		if g.info.Lease == nil {
			code := run.CodeQueueTimeout
			if s == run.Created {
				code = run.CodeDeferTimeout
			}
			as = append(as, post(run.Scheduler, run.TimeoutEvent{Code: code}))
		}
	}
	switch {
	case s == run.Created:
		return append(as,
			action{run.KindEnqueued, 2, func(ctx context.Context) error {
				g.n++
				if err := g.SetPolicy(ctx, g.policy(true)); err != nil {
					return err
				}
				return g.admit(ctx)
			}},
			action{run.KindDeferred, 0, g.admit})
	case s == run.WaitingForApproval:
		return append(as, g.atGate()...)
	case s == run.AwaitingVerification:
		return append(as, post(run.Attestor, run.AttestationAcceptedEvent{Statement: "Seen in production."}),
			post(run.Attestor, run.AttestationRefusedEvent{Statement: "Does not work.", Reason: "It fails."}),
			action{run.KindAttestationExpired, 0.3, func(ctx context.Context) error {
				if err := g.AttestationDue(ctx, g.ref); err != nil {
					return err
				}
				return g.Store.ExpireAttestation(ctx, g.ref)
			}},
			post(run.Scheduler, run.AttestationExpiredEvent{Outcome: run.ExpiryExpire}))
	case g.info.Lease == nil:
		return append(as, g.unheld()...)
	case s == run.Cancelling:
		return append(as, g.command(run.KindCancelConfirmed, 1, run.ConfirmCancel{}), g.command(run.KindCancelConfirmed, 0.3, run.Release{Reason: "drain"}),
			action{run.KindCancelConfirmed, 0.3, func(ctx context.Context) error { _, err := g.Reap(ctx, g.ref); return err }})
	}
	return append(append(as, g.disturbed()...), g.progress()...)
}

func (g *generator) admit(ctx context.Context) error {
	_, err := g.Store.Admit(ctx, g.ref)
	return err
}

func (g *generator) command(k run.Kind, way float64, c run.Command) action {
	return action{k, way, func(ctx context.Context) error { _, err := g.lease.Do(ctx, c); return err }}
}

// unheld is a run that waits for a worker.
func (g *generator) unheld() []action {
	as := []action{{run.KindLeaseAcquired, 4, func(ctx context.Context) (err error) {
		if err = g.Due(ctx, g.ref); err != nil {
			return err
		}
		g.lease, err = g.ClaimRun(ctx, g.Workers[g.rng.IntN(len(g.Workers))], g.ref)
		return err
	}}}
	if d := g.info.Dispatched; d != nil {
		as = append(as, action{run.KindApprovalWithdrawn, 0.2, func(ctx context.Context) error {
			_, err := g.Withdraw(ctx, d.ID, g.Approvers[0])
			return err
		}})
	}
	return as
}

// disturbed is what may happen to any held run.
func (g *generator) disturbed() []action {
	by := run.Actor{Kind: run.Scheduler, ID: "drive"}
	return []action{
		g.command(run.KindAttemptFailed, 0, run.AttemptHasFailed{Code: pick(g, run.CodeDiskFull, run.CodeAgentExit, run.CodeForgeUnavailable), Summary: "It failed."}),
		g.command(run.KindNonRetryableFailure, 0, run.AttemptHasFailed{Code: pick(g, run.CodeGitAuthFailed, run.CodeUnknown, run.CodePatchTooLarge)}),
		g.command(run.KindLeaseReleased, 0, run.Release{Reason: "drain"}),
		{run.KindWorkerLost, 0, func(ctx context.Context) error { _, err := g.Reap(ctx, g.ref); return err }},
		{run.KindAttemptFailed, 0, func(ctx context.Context) error {
			_, err := g.Store.Apply(ctx, g.ref, db.Intent{Key: g.Key("clock"), By: by, Payload: run.AttemptFailedEvent{Code: run.CodeAttemptTimeout, Summary: "Too long."}})
			return err
		}},
		{run.KindBudgetExceeded, 0, func(ctx context.Context) error {
			_, err := g.lease.Do(ctx, run.Stopped{Why: run.StopBudget, Summary: "The budget is spent."})
			return err
		}},
	}
}

// atGate is what people and clocks do at a gate.
func (g *generator) atGate() []action {
	gate := *g.info.Gate
	decide := func(k run.Kind, way float64, v policy.GateVerdict, text string) action {
		return action{k, way, func(ctx context.Context) error {
			verdict, err := g.Verdict(ctx, g.ref, g.Approvers[g.rng.IntN(len(g.Approvers))], v, text)
			if err != nil {
				return err
			}
			if gate.Kind == run.GateReconcile && g.rng.IntN(2) == 0 {
				verdict.Adopt = &run.PullRequest{URL: "http://localhost/pulls/1", SHA: Tree, Branch: g.info.Branch, Number: 1}
			}
			_, err = g.Store.Decide(ctx, verdict)
			return err
		}}
	}
	as := []action{
		decide(run.KindApproved, 2.5, policy.Approve, pick(g, "", "Mind the tests.")),
		decide(run.KindChangesRequested, 0.4, policy.RequestChanges, "Do it differently."),
		decide(run.KindRejected, 0, policy.Reject, "No."),
		{run.KindApprovalExpired, 0, func(ctx context.Context) error {
			return g.Store.ExpireGate(ctx, db.DueGate{Ref: g.ref, Gate: gate.ID, Revision: gate.Revision, Parked: gate.Expired && g.rng.IntN(2) == 0})
		}},
		{run.KindGateBypassed, 0, func(ctx context.Context) error {
			a := run.Approval{Gate: run.GateRef{ID: gate.ID, Revision: gate.Revision, Digest: gate.Digest}, Deciders: []run.Actor{g.Admin.Actor()},
				Attest: g.c.Attestation, AttestExpiresAt: time.Now().UTC().Truncate(time.Microsecond).Add(time.Hour), Policy: run.PolicyWords{Version: g.info.PolicyVersion}}
			if gate.Kind == run.GateBudget {
				a.Limits = &g.info.Limits
			}
			_, err := g.Store.Apply(ctx, g.ref, db.Intent{Key: g.Key("bypass"), By: g.Admin.Actor(), Payload: run.GateBypassedEvent{Approval: a, Reason: "Production is down."}})
			return err
		}},
	}
	if gate.Expired {
		as = append(as, action{run.KindApprovalReopened, 2, func(ctx context.Context) error {
			_, err := g.AskAgain(ctx, gate.ID, g.Requester, pick(g, "", "fedcba9876543210fedcba9876543210fedcba98"))
			return err
		}})
	}
	return as
}

// progress is the straight way, with its branches.
func (g *generator) progress() []action {
	l := g.lease
	ack := func(k run.Kind, way float64, do func(context.Context) (db.Ack, error)) action {
		return action{k, way, func(ctx context.Context) error { _, err := do(ctx); return err }}
	}
	switch g.info.State {
	case run.Leased:
		return []action{g.command(run.KindWorkerStarted, 4, run.Start{})}
	case run.Preparing:
		return []action{g.command(run.KindSandboxReady, 4, run.SandboxIsReady{Tier: "bwrap", Base: Base})}
	case run.ContextBuilding:
		return []action{{run.KindContextReady, 4, func(ctx context.Context) error {
			a, err := l.Put(ctx, "context", g.Key("context"))
			if err != nil {
				return err
			}
			return l.All(ctx, run.ContextIsReady{Artifact: a})
		}}}
	case run.Planning:
		if g.plan == "" || g.rng.IntN(3) == 0 {
			g.plan = g.Key("plan")
		}
		return []action{ack(run.KindPlanCreated, 4, func(ctx context.Context) (db.Ack, error) { return l.Plan(ctx, g.plan) })}
	case run.Executing:
		return g.executed(ack)
	case run.PatchReady:
		return []action{{run.KindVerificationStarted, 4, func(ctx context.Context) error {
			_, digest, err := g.Store.CommandSet(ctx, g.ref)
			if err != nil {
				return err
			}
			return l.All(ctx, run.VerifyStarted{Commands: []string{"true"}, Digest: digest})
		}}}
	case run.Verifying:
		report := func(k run.Kind, way float64, v db.VerificationRecord) action {
			return ack(k, way, func(ctx context.Context) (db.Ack, error) { return l.Report(ctx, v) })
		}
		return []action{report(run.KindVerificationPassed, 4, db.VerificationRecord{Passed: true, Summary: "All passed."}),
			report(run.KindVerificationFailed, 1, db.VerificationRecord{Summary: "One failed.", Fingerprint: pick(g, "same", g.Key("other"))}),
			report(run.KindAttemptFailed, 0, db.VerificationRecord{Infrastructure: true, Summary: "No disk."})}
	case run.Judging:
		judge := func(k run.Kind, way float64, verdict string, confidence float64) action {
			return ack(k, way, func(ctx context.Context) (db.Ack, error) { return l.Judge(ctx, verdict, confidence) })
		}
		return []action{judge(run.KindHumanApprovalRequired, 3, run.VerdictPass, pick(g, 0.4, 0.95, 0.95)), judge(run.KindJudgeRequiresFix, 0.8, run.VerdictFix, 0.8),
			judge(run.KindNonRetryableFailure, 0, run.VerdictFail, 0.9)}
	}
	return g.published(ack)
}

func (g *generator) executed(ack func(run.Kind, float64, func(context.Context) (db.Ack, error)) action) []action {
	l := g.lease
	none := g.command(run.KindNoChangeReported, 0.3, run.NoChangeSubmitted{Summary: "Nothing to change."})
	if g.c.Mode == run.ModeAnalysis {
		return []action{none, ack(run.KindReportCreated, 3, func(ctx context.Context) (db.Ack, error) {
			a, err := l.Put(ctx, "report", g.Key("analysis"))
			if err != nil {
				return db.Ack{}, err
			}
			return l.Do(ctx, run.ReportSubmitted{Artifact: a})
		})}
	}
	return []action{none, ack(run.KindPatchCreated, 4, func(ctx context.Context) (db.Ack, error) {
		return l.HandIn(ctx, Diff("main.go", fmt.Sprintf("line %d", g.rng.IntN(3))))
	})}
}

func (g *generator) published(ack func(run.Kind, float64, func(context.Context) (db.Ack, error)) action) []action {
	l := g.lease
	return []action{
		ack(run.KindPRCreated, 1.5, l.Publish),
		g.command(run.KindBaseMoved, 1, run.BaseHasMoved{NewBase: fmt.Sprintf("%040x", g.rng.Uint64()), Overlaps: []string{"main.go"}}),
		g.command(run.KindBranchTouched, 0, run.BranchWasTouched{Branch: g.info.Branch, SHA: Tree}),
		g.command(run.KindReconciliationRequired, 0.2, run.EffectIsAmbiguous{Operations: []string{"push"}, Summary: "The forge did not answer."}),
		{run.KindWorkerLost, 0.2, func(ctx context.Context) error {
			if err := l.Effect(ctx, "push_branch", "push:"+g.info.Branch, ""); err != nil {
				return err
			}
			_, err := g.Reap(ctx, g.ref)
			return err
		}},
	}
}
