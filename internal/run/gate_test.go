package run_test

import (
	"testing"
	"time"

	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// atGate makes a run that waits at the kind of gate.
func atGate(t testing.TB, kind run.GateKind) *flow {
	t.Helper()
	switch kind {
	case run.GatePlan:
		return newFlow(t, run.ModePRCreated, policy.RiskHigh).admit().prepare().plan("plan-a").gateOf(kind)
	case run.GatePatch:
		return newFlow(t, run.ModePRCreated, policy.RiskLow).judged().gateOf(kind)
	case run.GateReport:
		f := newFlow(t, run.ModeAnalysis, policy.RiskLow)
		f.rules.Gates.Report.When = policy.Always
		return f.admit().prepare().plan("plan-a").command(run.ReportSubmitted{Artifact: "art-report"}).claim().judge(run.VerdictPass, 0.9).gateOf(kind)
	case run.GateBudget:
		return newFlow(t, run.ModePRCreated, policy.RiskLow).admit().prepare().plan("plan-a").command(run.Stopped{Why: run.StopBudget}).gateOf(kind)
	case run.GateReconcile:
		return publishing(t).claim().command(run.EffectIsAmbiguous{Operations: []string{"open_pull_request app"}, Summary: "The forge cannot be asked."}).gateOf(kind)
	}
	t.Fatalf("no way to gate %s", kind)
	return nil
}

// publishing makes a run in PR_CREATING that nobody has claimed yet.
func publishing(t testing.TB) *flow {
	t.Helper()
	return atGate(t, run.GatePatch).approve().in(run.PRCreating)
}

// TestGateApproved: D-2, each kind of gate leads on, with the item that is the
// dispatch, in the same step.
func TestGateApproved(t *testing.T) {
	t.Parallel()
	for kind, want := range map[run.GateKind]run.State{run.GatePlan: run.Executing, run.GatePatch: run.PRCreating, run.GateReport: run.Succeeded,
		run.GateBudget: run.Executing, run.GateReconcile: run.PRCreating} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := atGate(t, kind)
			f.approve().in(want)
			if q := effects[run.Enqueue](f); want.NeedsWork() && (len(q) != 1 || q[0].Phase != want.Phase() || q[0].Delay != 0) {
				t.Errorf("queued %+v", q)
			}
		})
	}
}

// TestGateNotes: A16, notes with an approval are given to the agent at every kind of gate, also where the run ends with it.
func TestGateNotes(t *testing.T) {
	t.Parallel()
	for _, kind := range []run.GateKind{run.GatePlan, run.GatePatch, run.GateReport, run.GateReconcile} {
		f := atGate(t, kind)
		by := []run.Actor{{Kind: run.Human, ID: "a", Name: "Ana"}, {Kind: run.Human, ID: "b", Name: "Ben"}}
		f.post(run.ApprovedEvent{Approval: run.Approval{Gate: gateRef(f.run), Deciders: by, Notes: "Last.", Earlier: []run.Note{{By: by[0], Text: "First."}}, NoteCount: 2}})
		if got := effects[run.GiveFeedback](f); len(got) != 2 || got[0].Text != "First." || got[0].Author != "Ana" || got[1].Text != "Last." || got[1].Source != "human" {
			t.Errorf("%s: notes %+v", kind, got)
		}
	}
}

// TestGateStale: a decision about another gate, revision or digest is refused and
// nothing is decided; a gate that expired is not approved.
func TestGateStale(t *testing.T) {
	t.Parallel()
	f := atGate(t, run.GatePatch)
	good := gateRef(f.run)
	for why, ref := range map[string]run.GateRef{
		"other_gate": {ID: uid("elsewhere"), Revision: good.Revision, Digest: good.Digest},
		"stale":      {ID: good.ID, Revision: good.Revision, Digest: "what was shown before"},
	} {
		decided := run.Approval{Gate: ref, Deciders: []run.Actor{{Kind: run.Human, ID: "u"}}}
		for _, p := range []run.Payload{run.ApprovedEvent{Approval: decided}, run.GateBypassedEvent{Approval: decided, Reason: "r"},
			run.ChangesRequestedEvent{Gate: ref, Instruction: "i"}, run.RejectedEvent{Gate: ref, Reason: "r"}} {
			if err := refused[*run.GateError](f, p); err.Why != why {
				t.Errorf("%s: %s, want %s", p.Kind(), err.Why, why)
			}
		}
	}
	old := good
	old.Revision--
	if err := refused[*run.GateError](f, run.RejectedEvent{Gate: old, Reason: "r"}); err.Why != "stale" {
		t.Errorf("older revision: %s", err.Why)
	}
	refused[*run.EvidenceError](f, run.ApprovedEvent{Approval: run.Approval{Gate: good}})
	refused[*run.EvidenceError](f, run.ChangesRequestedEvent{Gate: good})
	refused[*run.EvidenceError](f, run.RejectedEvent{Gate: good})
	f.post(run.ApprovalExpiredEvent{Gate: good.ID, Outcome: run.ExpiryEscalate}).in(run.WaitingForApproval)
	decided := run.Approval{Gate: good, Deciders: []run.Actor{{Kind: run.Human, ID: "u"}}}
	for _, p := range []run.Payload{run.ApprovedEvent{Approval: decided}, run.GateBypassedEvent{Approval: decided, Reason: "r"}, run.ChangesRequestedEvent{Gate: good, Instruction: "i"},
		run.ApprovalExpiredEvent{Gate: good.ID, Outcome: run.ExpiryEscalate}} {
		if err := refused[*run.GateError](f, p); err.Why != "expired" {
			t.Errorf("%s on an expired gate: %s", p.Kind(), err.Why)
		}
	}
	f.post(run.RejectedEvent{Gate: good, Reason: "Too late."}).in(run.Failed)
}

// TestGateChangesRequested: an instruction sends plan, patch and report back to
// the agent, in the same attempt and with its repair rounds as they are; a budget
// or reconcile gate has nothing to revise.
func TestGateChangesRequested(t *testing.T) {
	t.Parallel()
	for kind, want := range map[run.GateKind]run.State{run.GatePlan: run.Planning, run.GatePatch: run.Executing, run.GateReport: run.Executing, run.GateBudget: "", run.GateReconcile: ""} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := atGate(t, kind)
			p := run.ChangesRequestedEvent{Gate: gateRef(f.run), Instruction: "Leave generated files alone."}
			if want == "" {
				refused[*run.GuardError](f, p)
				return
			}
			repairs := f.run.Repairs
			f.post(p).in(want)
			if got := effects[run.GiveFeedback](f); len(got) != 1 || got[0].Source != "human" || got[0].Text != p.Instruction {
				t.Errorf("feedback %+v", got)
			}
			if f.run.Repairs != repairs || f.run.AttemptNo != 1 || f.run.Queued != run.PhaseExecute {
				t.Errorf("repairs %d, attempt %d, item %q", f.run.Repairs, f.run.AttemptNo, f.run.Queued)
			}
		})
	}
	f := atGate(t, run.GatePatch)
	f.post(run.ChangesRequestedEvent{Gate: gateRef(f.run), Instruction: "Rename it."}).claim().patch("change-b").
		verify(true, "").judge(run.VerdictPass, 0.9).gateOf(run.GatePatch)
	if f.run.Gate.Revision != 2 {
		t.Errorf("the new gate shows revision %d", f.run.Gate.Revision)
	}
	f.approve().publish().ended(run.Succeeded, "")
}

// TestGateRejected: R-FAIL-1. A person's no ends the run; the category says what
// was refused, and the control plane does not try again by itself.
func TestGateRejected(t *testing.T) {
	t.Parallel()
	for kind, want := range map[run.GateKind]run.Failure{
		run.GatePlan:      {Category: run.CatPlanningFailed, Code: run.CodeHumanRejected},
		run.GatePatch:     {Category: run.CatJudgeRejected, Code: run.CodeHumanRejected},
		run.GateReport:    {Category: run.CatJudgeRejected, Code: run.CodeHumanRejected},
		run.GateBudget:    {Category: run.CatBudgetExceeded, Code: run.CodeBudgetExceeded},
		run.GateReconcile: {Category: run.CatPRCreationFailed, Code: run.CodePRCreationFailed},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := atGate(t, kind)
			f.post(run.RejectedEvent{Gate: gateRef(f.run), Reason: "Not wanted."}).ended(run.Failed, want.Code)
			got := *f.run.Failure
			if got.Category != want.Category || got.Retryable || got.Summary != "Not wanted." {
				t.Errorf("%+v", got)
			}
			if follow := effects[run.FollowUp](f); (kind == run.GateReconcile) != (len(follow) == 1 && follow[0].What == run.FollowUpReconcile) {
				t.Errorf("follow-ups %+v", follow)
			}
			task := run.Task{State: run.TaskWaiting, Mode: f.run.Mode, MaxRuns: 3, RunsUsed: 1, Active: true}
			task, err := run.ReduceTask(task, run.TaskEvent{Kind: run.TaskEvRunEnded, By: run.Actor{Kind: run.ControlPlane}, Run: &f.run})
			if err != nil || task.State != run.TaskReady || task.Auto {
				t.Errorf("task %+v, %v: a person said no", task, err)
			}
		})
	}
}

// TestGateExpired: by default the gate only expires and asking again opens a new
// revision; with a base that moved, the plan is made and the patch verified anew;
// policy may cancel or fail instead; after max_park it is cancelled.
func TestGateExpired(t *testing.T) {
	t.Parallel()
	until := t0.Add(200 * time.Hour)
	for _, kind := range run.GateKinds() {
		t.Run("again/"+string(kind), func(t *testing.T) {
			t.Parallel()
			f := atGate(t, kind)
			g := *f.run.Gate
			if err := refused[*run.GateError](f, run.ApprovalReopenedEvent{Gate: g.ID, ExpiresAt: until}); err.Why != "not_expired" {
				t.Error(err)
			}
			f.post(run.ApprovalExpiredEvent{Gate: g.ID, Outcome: run.ExpiryEscalate}).gateOf(kind)
			f.post(run.ApprovalReopenedEvent{Gate: g.ID, ExpiresAt: until}).gateOf(kind)
			if now := *f.run.Gate; now.ID != g.ID || now.Revision != g.Revision+1 || now.Expired {
				t.Errorf("gate %+v", now)
			}
			f.approve()
			if f.run.State == run.WaitingForApproval {
				t.Error("the new revision cannot be approved")
			}
			f.replays()
		})
		t.Run("base moved/"+string(kind), func(t *testing.T) {
			t.Parallel()
			f := atGate(t, kind)
			f.post(run.ApprovalExpiredEvent{Gate: f.run.Gate.ID, Outcome: run.ExpiryEscalate})
			f.post(run.ApprovalReopenedEvent{Gate: f.run.Gate.ID, ExpiresAt: until, NewBase: "ba5e2"})
			switch kind {
			case run.GatePlan:
				f.in(run.Planning).claim().plan("plan-b").gateOf(run.GatePlan).approve().in(run.Executing)
			case run.GatePatch:
				f.in(run.PatchReady)
				if f.run.Patch.Base != "ba5e2" || f.run.Patch.Revision != 2 || f.run.Verification != "" {
					t.Errorf("patch %+v, verification %q", f.run.Patch, f.run.Verification)
				}
				f.verify(true, "").judge(run.VerdictPass, 0.9).gateOf(run.GatePatch).approve().publish().ended(run.Succeeded, "")
			default:
				f.gateOf(kind)
			}
		})
	}
	for name, c := range map[string]struct {
		p    run.ApprovalExpiredEvent
		want run.State
	}{
		"cancel": {run.ApprovalExpiredEvent{Outcome: run.ExpiryCancel}, run.Cancelled},
		"fail":   {run.ApprovalExpiredEvent{Outcome: run.ExpiryFail}, run.Failed},
		"parked": {run.ApprovalExpiredEvent{Outcome: run.ExpiryEscalate, Parked: true}, run.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := atGate(t, run.GatePatch)
			c.p.Gate = f.run.Gate.ID
			if c.p.Parked {
				f.post(run.ApprovalExpiredEvent{Gate: f.run.Gate.ID, Outcome: run.ExpiryEscalate})
			}
			f.post(c.p).ended(c.want, run.CodeApprovalExpired)
			if c.want == run.Failed && (f.run.Failure.Category != run.CatPolicyDenied || f.run.Failure.Retryable) {
				t.Errorf("%+v", f.run.Failure)
			}
		})
	}
}

// TestGateWithdrawn: an approval is taken back while nobody has claimed its item;
// the same gate reopens. Afterwards only a cancel helps.
func TestGateWithdrawn(t *testing.T) {
	t.Parallel()
	for _, kind := range []run.GateKind{run.GatePlan, run.GatePatch, run.GateBudget, run.GateReconcile} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := atGate(t, kind)
			g := *f.run.Gate
			f.approve()
			withdraw := run.ApprovalWithdrawnEvent{Gate: g.ID, ExpiresAt: t0.Add(time.Hour)}
			late := f.fork(t).claim()
			refused[*run.LeaseHeldError](late, withdraw)
			late.postAs(run.Human, run.CancelRequestedEvent{Reason: "Stop."}).in(run.Cancelling)
			f.post(withdraw).gateOf(kind)
			if *f.run.Gate != g || f.run.Queued != "" || f.run.Dispatched != nil || f.run.ApprovedPlan != "" {
				t.Errorf("gate %+v, was %+v; item %q, dispatched %v", *f.run.Gate, g, f.run.Queued, f.run.Dispatched)
			}
			f.approve().replays()
			if kind == run.GatePatch {
				f.publish().ended(run.Succeeded, "")
			}
		})
	}
	f := atGate(t, run.GatePlan).approve().claim().command(run.Release{Reason: "drain"}).prepare()
	if err := refused[*run.IllegalError](f, run.ApprovalWithdrawnEvent{ExpiresAt: t0}); err.State != run.Planning {
		t.Error(err)
	}
}

// TestGateBypassed: breaking the glass needs a reason, leaves a review to do, and
// is not withdrawn.
func TestGateBypassed(t *testing.T) {
	t.Parallel()
	f := atGate(t, run.GatePatch)
	g := f.run.Gate.ID
	a := run.Approval{Gate: gateRef(f.run), Deciders: []run.Actor{{Kind: run.Human, ID: "u-eve"}}}
	refused[*run.EvidenceError](f, run.GateBypassedEvent{Approval: a})
	f.post(run.GateBypassedEvent{Approval: a, Reason: "The site is down."}).in(run.PRCreating)
	if got := effects[run.FollowUp](f); len(got) != 1 || got[0].What != run.FollowUpBypass {
		t.Errorf("follow-ups %+v", got)
	}
	refused[*run.GateError](f, run.ApprovalWithdrawnEvent{Gate: g, ExpiresAt: t0})
	f.publish().ended(run.Succeeded, "")
}
