package policy_test

import (
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/policy"
)

// R-ADM-4: under two policies together work is asked at least what each of them asks alone, whichever is the newer.
func TestWithinLoosensNothing(t *testing.T) {
	t.Parallel()
	rank := map[policy.JudgedOutcome]int{policy.OutcomeAutoPR: 0, policy.OutcomeComplete: 0, policy.OutcomeCarried: 1, policy.OutcomeAttest: 1, policy.OutcomeGate: 2,
		policy.OutcomeBudget: 3, policy.OutcomeFix: 3, policy.OutcomeExhausted: 3, policy.OutcomeFail: 4}
	draw := func(t *rapid.T, version string) policy.Rules {
		r := anyRules(t)
		r.Version = version
		r.Gates.AnyRejectBlocks = rapid.Bool().Draw(t, "reject blocks")
		r.Execution.SameWorkerMayVerify = rapid.Bool().Draw(t, "same worker")
		r.Gates.LastInstructorMayNotApprove = rapid.SampledFrom([]*bool{nil, new(true), new(false)}).Draw(t, "instructor")
		r.Paths.GeneratedRule = rapid.SampledFrom([]policy.Generated{policy.GeneratedAllow, policy.GeneratedForbid, policy.GeneratedRequire}).Draw(t, "generated rule")
		globs := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "**"}), func(s string) string { return s })
		r.Paths.Generated, r.Paths.GeneratedSources = globs.Draw(t, "generated"), globs.Draw(t, "sources")
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		now, then, f := draw(t, "now"), draw(t, "then"), anyFacts(t)
		both := now.Within(then)
		for _, alone := range []policy.Rules{now, then} {
			a, b := policy.Judged(alone, f), policy.Judged(both, f)
			if rank[b.Outcome] < rank[a.Outcome] || a.Gate.Gate && b.Gate.Gate && b.Gate.Quorum < a.Gate.Quorum {
				t.Fatalf("%s alone: %s, both: %s", alone.Version, a.Outcome, b.Outcome)
			}
			if policy.Plan(alone, f).Gate && !policy.Plan(both, f).Gate {
				t.Fatalf("%s alone asks about the plan", alone.Version)
			}
			if alone.Gates.AnyRejectBlocks && !both.Gates.AnyRejectBlocks || !alone.Execution.SameWorkerMayVerify && both.Execution.SameWorkerMayVerify {
				t.Fatalf("%s alone is stricter about rejections or workers", alone.Version)
			}
			who := policy.Actor{User: "last", Roles: policy.Roles(), LivePerson: true}
			asked := f
			for _, kind := range policy.GateKinds() {
				asked.Gate = policy.GateFacts{Kind: kind, LastInstructor: who.User}
				mayAlone, _ := policy.MayDecide(alone, asked, who, policy.Approve)
				mayBoth, words := policy.MayDecide(both, asked, who, policy.Approve)
				if !mayAlone && mayBoth {
					t.Fatalf("%s alone bars the last instructor from the %s: %s", alone.Version, kind, words)
				}
			}
			generatedHolds(t, alone.Paths, both.Paths)
		}
	})
}

// generatedHolds restates what each rule about generated files refuses, for changes of the files a and b.
func generatedHolds(t *rapid.T, alone, both policy.PathRules) {
	hits := func(globs []string, files []string) (n int) {
		for _, f := range files {
			for _, g := range globs {
				if g == f || g == "**" {
					n++
					break
				}
			}
		}
		return n
	}
	refuses := func(p policy.PathRules, files []string) bool {
		switch p.GeneratedRule {
		case policy.GeneratedForbid:
			return hits(p.Generated, files) > 0
		case policy.GeneratedRequire:
			return hits(p.GeneratedSources, files) > 0 && hits(p.Generated, files) == 0
		}
		return false
	}
	for _, files := range [][]string{{"a"}, {"b"}, {"a", "b"}} {
		// Where one policy forbids what the other requires, the prohibition holds.
		if alone.GeneratedRule == policy.GeneratedRequire && both.GeneratedRule == policy.GeneratedForbid {
			continue
		}
		if refuses(alone, files) && !refuses(both, files) {
			t.Fatalf("a change of %v is refused by %+v alone and not by %+v", files, alone, both)
		}
	}
}

// A version that cannot be read any more asks a person about everything.
func TestStrictest(t *testing.T) {
	t.Parallel()
	r, f := good()
	if d := policy.Judged(r.Within(policy.Strictest("gone")), f); d.Outcome != policy.OutcomeGate {
		t.Errorf("%+v", d)
	}
	for doc, want := range map[string]bool{"changes: {second_admin: true}\nunknown: 1\n": true, "version: a\n": false, "\t": false, "changes: 3\n": false} {
		if got := policy.ChangesOf([]byte(doc)).SecondAdmin; got != want {
			t.Errorf("%q asks for a second administrator: %t", doc, got)
		}
	}
}
