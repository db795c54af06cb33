package run_test

import (
	"slices"
	"testing"

	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// standing makes a run in the state, with a worker where the state has one.
func standing(t testing.TB, s run.State) *flow {
	t.Helper()
	switch s {
	case run.Created:
		return newFlow(t, run.ModePRCreated, policy.RiskLow)
	case run.Queued:
		return newFlow(t, run.ModePRCreated, policy.RiskLow).admit()
	case run.WaitingForApproval:
		return atGate(t, run.GatePatch)
	case run.AwaitingVerification:
		f := newFlow(t, run.ModePatchReady, policy.RiskLow)
		f.facts.Policy.AttestationAsked = true
		return f.judged()
	case run.Cancelling:
		return working(t, run.Executing).postAs(run.Human, run.CancelRequestedEvent{Reason: "First."})
	case run.Succeeded:
		return atGate(t, run.GatePatch).approve().publish()
	case run.Failed:
		f := atGate(t, run.GatePatch)
		return f.post(run.RejectedEvent{Gate: gateRef(f.run), Reason: "No."})
	case run.Cancelled:
		return standing(t, run.Queued).postAs(run.Human, run.CancelRequestedEvent{Reason: "No."})
	case run.Expired:
		return standing(t, run.Queued).post(run.TimeoutEvent{Code: run.CodeQueueTimeout})
	}
	return working(t, s)
}

// TestCancelInEveryState: R-CAN-1, R-CAN-2, R-CAN-3. With a worker the run is
// CANCELLING until it confirms; without one it is CANCELLED at once and lets go of
// item, gate and request; a pull request that exists is not undone; a second
// request changes nothing; a finished run answers what it is.
// cancel rule 13: nothing goes on in CANCELLING. cancel rule 8: a blocked run is cancelled like any other.
func TestCancelInEveryState(t *testing.T) {
	t.Parallel()
	ask := run.CancelRequestedEvent{Reason: "Not needed."}
	for _, s := range run.States() {
		if s == run.PRCreated {
			continue
		}
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			f := standing(t, s).in(s)
			before := f.run
			switch {
			case s.Terminal():
				if err := refused[*run.IllegalError](f, ask); err.State != s {
					t.Error(err)
				}
				if _, ok := run.CancelRuleOf(s); ok {
					t.Error("a finished run has a rule for cancelling")
				}
			case s == run.Cancelling:
				f.postAs(run.Human, ask).in(run.Cancelling)
				if f.run.Version != before.Version+1 || f.run.Cancel.Reason != "First." || len(f.last.Effects) != 0 {
					t.Errorf("version %d, cancel %+v, effects %v: recorded and nothing else", f.run.Version, f.run.Cancel, f.last.Effects)
				}
			case s.NeedsWork() && s != run.Queued:
				f.postAs(run.Human, ask).in(run.Cancelling)
				if f.run.Lease == nil || f.run.Cancel == nil || len(effects[run.CleanUp](f)) != 0 {
					t.Error("requested is not confirmed: the worker still holds the lease")
				}
				cancelConfirmed(t, f.fork(t), s)
				cancelForced(t, f.fork(t), s)
				cancelWithoutLease(t, s)
			default:
				f.postAs(run.Human, ask).ended(run.Cancelled, run.CodeCancelledByUser)
			}
		})
	}
}

func cancelConfirmed(t *testing.T, f *flow, s run.State) {
	t.Helper()
	f.facts.Unresolved = []string{"push_branch app"}
	for _, c := range []run.Command{run.ConfirmCancel{}, run.Stopped{Why: run.StopCancel, Summary: "Stopped after the push."}, run.Stopped{Why: run.StopDrain},
		run.Stopped{Why: run.StopBudget}, run.Release{Reason: "going down"}, run.AttemptHasFailed{Code: run.CodeAgentExit, Summary: "It broke."}} {
		g := f.fork(t)
		g.command(c).ended(run.Cancelled, run.CodeCancelledByUser)
		l, a := effects[run.EndLease](g), effects[run.EndAttempt](g)
		if len(l) != 1 || l[0].As != run.LeaseReleased || len(a) != 1 || a[0].As != run.AttemptAborted || g.run.Cancel.Forced {
			t.Errorf("%s: lease %+v, attempt %+v, forced %t", c.Name(), l, a, g.run.Cancel.Forced)
		}
		reconcile := effects[run.FollowUp](g)
		if want := s == run.PRCreating; want != (len(reconcile) == 1 && reconcile[0].What == run.FollowUpReconcile && slices.Equal(reconcile[0].Detail, f.facts.Unresolved)) {
			t.Errorf("%s from %s: follow-ups %+v", c.Name(), s, reconcile)
		}
	}
	for _, c := range []run.Command{run.Start{}, run.PatchSubmitted{}, run.VerifyReported{}, run.PRReported{}} {
		if _, err := run.Decide(f.run, c, f.known(c)); err == nil {
			t.Errorf("%s goes on in CANCELLING", c.Name())
		}
	}
}

// cancelForced: the worker says nothing, or its lease expires: it never requeues.
func cancelForced(t *testing.T, f *flow, s run.State) {
	t.Helper()
	f.facts.Unresolved = []string{"push_branch app"}
	f.lose().in(run.Cancelled)
	if l := effects[run.EndLease](f); len(l) != 1 || l[0].As != run.LeaseRevoked || !f.run.Cancel.Forced || f.run.Queued != "" {
		t.Errorf("%s: lease %+v, forced %t, item %q", s, l, f.run.Cancel.Forced, f.run.Queued)
	}
}

// cancelWithoutLease: the same state with a READY item and nobody at work.
func cancelWithoutLease(t *testing.T, s run.State) {
	t.Helper()
	f := working(t, s)
	if s.Phase() == run.PhaseExecute {
		return // without a lease such a run is QUEUED
	}
	f.command(run.Release{Reason: "drain"}).in(s)
	f.postAs(run.Human, run.CancelRequestedEvent{Reason: "Now.", Unresolved: []string{"push_branch app"}}).in(run.Cancelled)
	if q := effects[run.Dequeue](f); len(q) != 1 {
		t.Errorf("%s: the item stays: %v", s, q)
	}
	follow := effects[run.FollowUp](f)
	if want := s == run.PRCreating; want != (len(follow) == 1 && slices.Equal(follow[0].Detail, []string{"push_branch app"})) {
		t.Errorf("%s: follow-ups %+v", s, follow)
	}
}

// TestCancelPullRequestThatExists: R-CAN-2. Refused; closing it is offered.
func TestCancelPullRequestThatExists(t *testing.T) {
	t.Parallel()
	f := atGate(t, run.GatePatch).approve().claim()
	res, err := run.Reduce(f.run, event(f.run, run.PRCreatedEvent{PR: pullRequest()}, run.GitIntegration))
	if err != nil || res.Run.State != run.PRCreated {
		t.Fatal(res.Run.State, err)
	}
	_, err = run.Reduce(res.Run, event(res.Run, run.CancelRequestedEvent{Reason: "No."}, run.Human))
	if e, ok := err.(*run.GuardError); !ok || e.Guard != "pull_request" || e.Sentence == "" {
		t.Errorf("got %v", err)
	}
}

// TestCancelRules: R-CAN-2. Every active state says what a cancel does, what stays
// and what goes.
func TestCancelRules(t *testing.T) {
	t.Parallel()
	if len(run.CancelRules()) != len(run.ActiveStates()) {
		t.Errorf("%d rules for %d active states", len(run.CancelRules()), len(run.ActiveStates()))
	}
	for _, s := range run.ActiveStates() {
		if r, ok := run.CancelRuleOf(s); !ok || r.Does == "" || r.Stays == "" || r.Goes == "" {
			t.Errorf("%s: %+v", s, r)
		}
	}
}

// TestCancelWithoutAReason: R-DOM-13. CANCELLED always says why.
func TestCancelWithoutAReason(t *testing.T) {
	t.Parallel()
	f := standing(t, run.Queued).postAs(run.Human, run.CancelRequestedEvent{}).in(run.Cancelled)
	if f.run.Cancel.Reason == "" || f.run.Cancel.By.Kind != run.Human {
		t.Errorf("%+v", f.run.Cancel)
	}
}

// TestTerminalIsFinal: R-DOM-10, R-CAN-1. No event of any kind, by anybody, moves
// a finished run, and nothing revives a cancelled one.
func TestTerminalIsFinal(t *testing.T) {
	t.Parallel()
	for _, s := range []run.State{run.Succeeded, run.Failed, run.Cancelled, run.Expired} {
		r := standing(t, s).run
		for _, k := range run.Kinds() {
			for _, by := range run.ActorKinds() {
				every(func(c chooser) {
					if _, err := run.Reduce(r, event(r, payload(r, k, c), by)); err == nil {
						t.Errorf("%s by %s moved a run that is %s", k, by, s)
					}
				})
			}
		}
	}
}
