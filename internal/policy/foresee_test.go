package policy_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/policy"
)

// R-ADM-1 R-TRN-8: what is foreseen holds later. Work of which a person was said to be asked never goes on without one, whatever the
// run finds, and what admission and plan gate answered before is what they answer then.
func TestWhatIsForeseenHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, f := anyRules(t), anyFacts(t)
		f.CarriedApprovals = 0 // nobody approved an equal patch before
		asked := policy.Facts{Repository: f.Repository, Requester: f.Requester, RequesterRoles: f.RequesterRoles, Risk: f.Risk, Mode: f.Mode,
			AutoPRAsked: f.AutoPRAsked, AttestationAsked: f.AttestationAsked, PlanGateAsked: rapid.Bool().Draw(t, "plan asked")}
		f.PlanGateAsked = asked.PlanGateAsked
		before := policy.Foresee(r, asked)
		if diff := cmp.Diff(before.Plan, policy.Plan(r, f)); diff != "" {
			t.Errorf("the plan's gate is another one (-foreseen +later): %s", diff)
		}
		if diff := cmp.Diff(before.Admission, policy.Admission(r, f)); diff != "" {
			t.Errorf("the admission is another one (-foreseen +later): %s", diff)
		}
		f.Result = policy.ResultPatch
		if !f.Mode.HasPatch() {
			f.Result = policy.ResultReport
		}
		later := policy.Judged(r, f)
		alone := []policy.JudgedOutcome{policy.OutcomeAutoPR, policy.OutcomeAttest, policy.OutcomeComplete}
		if before.Result.Outcome == policy.OutcomeGate && slices.Contains(alone, later.Outcome) {
			t.Errorf("a person was said to decide (%v), and the run goes on by itself: %s", before.Result.Reasons, later.Outcome)
		}
		if g := before.Result.Gate; g.Gate && later.Gate.Gate && (g.Kind != later.Gate.Kind || g.Role != later.Gate.Role || g.Quorum != later.Gate.Quorum) {
			t.Errorf("foreseen %+v, asked %+v", g, later.Gate)
		}
		if must, words := policy.Attest(r, f); must != (before.Attested != "") || words != before.Attested {
			t.Errorf("the attestation is said to be %q, and is %q", before.Attested, words)
		}
	})
}

// D-16: whoever asks is never among those who may approve, with whatever roles.
func TestApproversLeaveOutWhoAsked(t *testing.T) {
	t.Parallel()
	r, f := good()
	person := func(user string, roles ...policy.Role) policy.Actor {
		return policy.Actor{User: user, Roles: roles, LivePerson: true}
	}
	people := []policy.Actor{person("user_req", policy.Roles()...), person("user_ana", policy.RoleApprover), person("user_adm", policy.RoleAdmin), person("user_ben", policy.RoleApprover, policy.RoleAdmin)}
	got := policy.Approvers(r, f, policy.GatePatch, people)
	if len(got) != 2 || got[0].User != "user_ana" || got[1].User != "user_ben" {
		t.Errorf("approvers: %+v", got)
	}
}

func TestForeseeProtectedPaths(t *testing.T) {
	t.Parallel()
	r, f := good()
	before := policy.Foresee(r, f)
	if before.Result.Outcome != policy.OutcomeAutoPR || before.Protected.Outcome != policy.OutcomeGate {
		t.Errorf("without protected paths %s, with them %s", before.Result.Outcome, before.Protected.Outcome)
	}
	if f.Mode = policy.ModeReport; policy.Foresee(r, f).Protected.Outcome != "" {
		t.Error("a report is said to touch paths")
	}
}
