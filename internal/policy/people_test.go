package policy_test

import (
	"strings"
	"testing"

	"signalbox/internal/policy"
)

func ana() policy.Actor {
	return policy.Actor{User: "user_ana", Roles: []policy.Role{policy.RoleApprover}, LivePerson: true}
}

// D-16 and D-17: separation of duties.
func TestMayDecide(t *testing.T) {
	t.Parallel()
	type in struct {
		r policy.Rules
		f policy.Facts
		a policy.Actor
		v policy.GateVerdict
	}
	for _, tc := range []struct {
		name   string
		change func(*in)
		may    bool
		words  string
	}{
		{"approver", func(*in) {}, true, ""},
		{"requester", func(i *in) { i.a.User = "user_req" }, false, "asked for this change"},
		{"requester who is admin and approver", func(i *in) {
			i.a.User, i.a.Roles = "user_req", policy.Roles()
		}, false, "asked for this change"},
		{"contributor", func(i *in) { i.f.Gate.Contributors = []string{"user_x", "user_ana"} }, false, "had a part"},
		{"admin alone", func(i *in) { i.a.Roles = []policy.Role{policy.RoleAdmin, policy.RoleRequester} }, false, "role approver"},
		{"token", func(i *in) { i.a.LivePerson = false }, false, "live login"},
		{"nobody", func(i *in) { i.a.User = "" }, false, "live login"},
		{"twice", func(i *in) {
			i.f.Gate.Decisions = []policy.Decided{{User: "user_ana", Verdict: policy.Approve}}
		}, false, "already"},
		{"expired", func(i *in) { i.f.Gate.Expired = true }, false, "Ask again"},
		{"expired, reject is allowed", func(i *in) { i.f.Gate.Expired, i.v = true, policy.Reject }, true, ""},
		{"last instructor, quorum 1", func(i *in) { i.f.Gate.LastInstructor = "user_ana" }, true, ""},
		{"last instructor, quorum 2", func(i *in) {
			i.f.Gate.LastInstructor, i.r.Gates.Patch.Quorum = "user_ana", 2
		}, false, "change request"},
		{"last instructor, barred by policy", func(i *in) {
			i.f.Gate.LastInstructor, i.r.Gates.LastInstructorMayNotApprove = "user_ana", new(true)
		}, false, "change request"},
		{"last instructor, allowed by policy", func(i *in) {
			i.f.Gate.LastInstructor, i.r.Gates.Patch.Quorum, i.r.Gates.LastInstructorMayNotApprove = "user_ana", 2, new(false)
		}, true, ""},
		{"changes to a budget", func(i *in) { i.f.Gate.Kind, i.v = policy.GateBudget, policy.RequestChanges }, false, "budget gate"},
		{"changes to a reconcile", func(i *in) { i.f.Gate.Kind, i.v = policy.GateReconcile, policy.RequestChanges }, false, "reconcile gate"},
		{"unknown verdict", func(i *in) { i.v = "lgtm" }, false, "must be"},
		{"requester rejects", func(i *in) { i.a.User, i.v = "user_req", policy.Reject }, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, f := good()
			f.Gate.Kind = policy.GatePatch
			i := in{r, f, ana(), policy.Approve}
			tc.change(&i)
			may, words := policy.MayDecide(i.r, i.f, i.a, i.v)
			if may != tc.may || !strings.Contains(words, tc.words) || may != (words == "") {
				t.Errorf("%v %q", may, words)
			}
		})
	}
}

func TestMayBypass(t *testing.T) {
	t.Parallel()
	_, f := good()
	a := ana()
	if ok, _ := policy.MayBypass(f, a); ok {
		t.Error("an approver may not bypass")
	}
	a.Roles = []policy.Role{policy.RoleBreakglass}
	if ok, words := policy.MayBypass(f, a); !ok {
		t.Error(words)
	}
	f.Gate.Expired = true
	if ok, _ := policy.MayBypass(f, a); ok {
		t.Error("expired")
	}
	f.Gate.Expired, a.LivePerson = false, false
	if ok, _ := policy.MayBypass(f, a); ok {
		t.Error("token")
	}
}

// A27: a bypass stands in for approvals: not for money, not for what is denied, and not for a rejection that blocks.
func TestBypassable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*policy.Rules, *policy.Facts)
		may    bool
		words  string
	}{
		"open":    {func(*policy.Rules, *policy.Facts) {}, true, ""},
		"budget":  {func(_ *policy.Rules, f *policy.Facts) { f.Gate.Kind = policy.GateBudget }, false, "budget gate"},
		"effects": {func(_ *policy.Rules, f *policy.Facts) { f.Gate.Kind = policy.GateReconcile }, false, "reconcile gate"},
		"rejected": {func(r *policy.Rules, f *policy.Facts) {
			r.Gates.AnyRejectBlocks, f.Gate.Decisions = true, []policy.Decided{{User: "x", Verdict: policy.Reject}}
		}, false, "a rejection stands"},
		"taken back": {func(r *policy.Rules, f *policy.Facts) {
			r.Gates.AnyRejectBlocks, f.Gate.Decisions = true, []policy.Decided{{User: "x", Verdict: policy.Reject}, {User: "x", Verdict: policy.Approve}}
		}, true, ""},
		"plan, rejected": {func(r *policy.Rules, f *policy.Facts) {
			f.Gate.Kind, r.Gates.AnyRejectBlocks, f.Gate.Decisions = policy.GatePlan, true, []policy.Decided{{User: "x", Verdict: policy.Reject}}
		}, false, "a rejection stands"},
		"a secret": {func(_ *policy.Rules, f *policy.Facts) { f.SecretScan = policy.ScanFindings }, false, "No person can override"},
	} {
		r, f := good()
		f.Gate.Kind = policy.GatePatch
		c.change(&r, &f)
		if may, words := policy.Bypassable(r, f); may != c.may || !strings.Contains(words, c.words) || may != (words == "") {
			t.Errorf("%s: %v %q", name, may, words)
		}
	}
}

// R-TRN-8: what a person overrides, and what nobody does.
func TestMayOverride(t *testing.T) {
	t.Parallel()
	soft := map[policy.GuardName]bool{policy.GuardJudge: true, policy.GuardRisk: true, policy.GuardAutoPR: true}
	for _, n := range policy.GuardNames() {
		ok, words := policy.MayOverride([]policy.Guard{{Name: n, Words: "It did not pass."}})
		if ok != soft[n] || ok != (words == "") {
			t.Errorf("%s: %v %q", n, ok, words)
		}
		if ok, _ := policy.MayOverride([]policy.Guard{{Name: n, Passed: true}}); !ok {
			t.Errorf("%s passed and yet blocks", n)
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	ok, no, chg := policy.Approve, policy.Reject, policy.RequestChanges
	for _, tc := range []struct {
		name   string
		quorum int
		blocks bool
		given  []policy.Decided
		check  func(policy.Tally) bool
	}{
		{"none", 1, false, nil, func(t policy.Tally) bool { return !t.Satisfied && t.Needed == 1 }},
		{"one of one", 1, false, []policy.Decided{{"a", ok}}, func(t policy.Tally) bool { return t.Satisfied }},
		{"one of two", 2, false, []policy.Decided{{"a", ok}}, func(t policy.Tally) bool { return !t.Satisfied && strings.Contains(t.Words, "1 more") }},
		{"one person twice", 2, false, []policy.Decided{{"a", ok}, {"a", ok}}, func(t policy.Tally) bool { return !t.Satisfied && t.Approvals == 1 }},
		{"two of two", 2, false, []policy.Decided{{"a", ok}, {"b", ok}}, func(t policy.Tally) bool { return t.Satisfied }},
		{"requester counts for nothing", 2, false, []policy.Decided{{"a", ok}, {"user_req", ok}}, func(t policy.Tally) bool { return !t.Satisfied && t.Approvals == 1 }},
		{"contributor counts for nothing", 1, false, []policy.Decided{{"c", ok}}, func(t policy.Tally) bool { return !t.Satisfied }},
		{"nobody counts for nothing", 1, false, []policy.Decided{{"", ok}}, func(t policy.Tally) bool { return !t.Satisfied }},
		{"reject ends", 1, false, []policy.Decided{{"a", no}}, func(t policy.Tally) bool { return t.Rejected && !t.Blocked }},
		{"reject ends, before a late approval", 1, false, []policy.Decided{{"a", no}, {"b", ok}}, func(t policy.Tally) bool { return t.Rejected && !t.Satisfied }},
		{"reject blocks", 1, true, []policy.Decided{{"a", no}, {"b", ok}}, func(t policy.Tally) bool { return t.Blocked && !t.Satisfied && !t.Rejected }},
		{"reject withdrawn", 1, true, []policy.Decided{{"a", no}, {"a", ok}}, func(t policy.Tally) bool { return t.Satisfied && !t.Blocked }},
		{"changes end", 2, false, []policy.Decided{{"a", ok}, {"b", chg}}, func(t policy.Tally) bool { return t.ChangesRequested && !t.Satisfied }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, f := good()
			f.Gate = policy.GateFacts{Kind: policy.GatePatch, Contributors: []string{"c"}, Decisions: tc.given}
			r.Gates.Patch.Quorum, r.Gates.AnyRejectBlocks = tc.quorum, tc.blocks
			if got := policy.Count(r, f); !tc.check(got) || got.Words == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}
