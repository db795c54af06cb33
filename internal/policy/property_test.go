package policy_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/policy"
)

func anyFacts(t *rapid.T) policy.Facts {
	words := rapid.SliceOfN(rapid.StringN(0, 5, 20), 0, 3)
	return policy.Facts{
		Repository:          rapid.SampledFrom([]string{"", "acme/shop", "x"}).Draw(t, "repo"),
		Requester:           "user_req",
		RequesterRoles:      rapid.SliceOf(rapid.SampledFrom(policy.Roles())).Draw(t, "roles"),
		Risk:                rapid.SampledFrom(append(policy.Risks(), "", "odd")).Draw(t, "risk"),
		Mode:                rapid.SampledFrom(append(policy.Modes(), "", "odd")).Draw(t, "mode"),
		AutoPRAsked:         rapid.Bool().Draw(t, "auto"),
		AttestationAsked:    rapid.Bool().Draw(t, "attest"),
		Result:              rapid.SampledFrom([]policy.Result{"patch", "patch", "report", "no_change", ""}).Draw(t, "result"),
		VerificationPassed:  rapid.Bool().Draw(t, "verified"),
		Verdict:             rapid.SampledFrom([]policy.Verdict{"pass", "pass", "fix", "fail", "", "odd"}).Draw(t, "verdict"),
		Confidence:          rapid.SampledFrom([]float64{0, 0.5, 0.7, 1, 2, -1, math.NaN(), math.Inf(1)}).Draw(t, "confidence"),
		SecretScan:          rapid.SampledFrom([]policy.SecretScan{"clean", "clean", "findings", "not_scanned", ""}).Draw(t, "scan"),
		SecretFindings:      words.Draw(t, "secrets"),
		ForbiddenHits:       words.Draw(t, "forbidden"),
		ProtectedHits:       words.Draw(t, "protected"),
		GeneratedViolations: words.Draw(t, "generated"),
		HiddenText:          words.Draw(t, "hidden"),
		BudgetLeft:          rapid.Bool().Draw(t, "budget"),
		RepairRoundsLeft:    rapid.IntRange(-1, 2).Draw(t, "rounds"),
		AttemptsLeft:        rapid.IntRange(-1, 2).Draw(t, "attempts"),
		SameFailureAgain:    rapid.Bool().Draw(t, "same"),
		CarriedApprovals:    rapid.IntRange(0, 2).Draw(t, "carried"),
	}
}

func anyRules(t *rapid.T) policy.Rules {
	r := policy.Default()
	when := rapid.SampledFrom([]policy.When{policy.Never, policy.Always, policy.ByRisk})
	r.Gates.Patch.When, r.Gates.Report.When, r.Gates.Plan.When = when.Draw(t, "patch"), when.Draw(t, "report"), when.Draw(t, "plan")
	r.Gates.Patch.Quorum = rapid.IntRange(1, 3).Draw(t, "quorum")
	r.AutoPR.Allowed = rapid.Bool().Draw(t, "auto allowed")
	r.Attestation.Required = rapid.Bool().Draw(t, "attest required")
	r.Admission.Incident.On = rapid.Bool().Draw(t, "incident")
	return r
}

// R-TRN-8: for all rules and facts, nothing opens a pull request without a
// person unless all eight hold, restated here without the code under test.
func TestAutomaticNeedsEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, f := anyRules(t), anyFacts(t)
		d := policy.Judged(r, f)
		all := f.VerificationPassed && f.Verdict == policy.VerdictPass && f.Confidence >= 0.7 &&
			f.SecretScan == policy.ScanClean && len(f.SecretFindings) == 0 && len(f.ForbiddenHits) == 0 &&
			len(f.GeneratedViolations) == 0 && f.AutoPRAsked && r.AutoPR.Allowed && f.BudgetLeft &&
			(f.Risk == policy.RiskLow || f.Risk == policy.RiskMedium) && len(f.ProtectedHits) == 0 && len(f.HiddenText) == 0
		switch d.Outcome {
		case policy.OutcomeAutoPR:
			if !all || !f.Mode.OpensPR() || f.Result == policy.ResultReport || f.Result == policy.ResultNoChange {
				t.Fatalf("automatic pull request over %+v", f)
			}
			if r.Gates.Patch.When == policy.Always {
				t.Fatal("automatic where a person is always asked")
			}
		case policy.OutcomeCarried:
			if f.CarriedApprovals < r.Gates.Patch.Quorum || !f.VerificationPassed || len(f.ForbiddenHits) > 0 ||
				f.SecretScan != policy.ScanClean || len(f.GeneratedViolations) > 0 || !f.Mode.OpensPR() {
				t.Fatalf("carried over %+v", f)
			}
		case policy.OutcomeComplete, policy.OutcomeAttest:
			if f.Verdict != policy.VerdictPass || !(f.Confidence >= 0.7) {
				t.Fatalf("%s without a judge's pass", d.Outcome)
			}
		case policy.OutcomeGate:
			// Whatever reaches a person, a person may approve.
			if ok, words := policy.MayOverride(d.Guards); !ok {
				t.Fatalf("a gate that nobody can approve: %s", words)
			}
		case policy.OutcomeFix:
			if f.RepairRoundsLeft <= 0 || !f.BudgetLeft {
				t.Fatal("fix without rounds or budget")
			}
		case policy.OutcomeExhausted:
			if f.AttemptsLeft <= 0 {
				t.Fatal("exhausted without attempts")
			}
		case policy.OutcomeBudget, policy.OutcomeFail:
		default:
			t.Fatalf("unknown outcome %q", d.Outcome)
		}
		if len(d.Guards) != 8 || len(d.Reasons) == 0 || slices.Contains(d.Reasons, "") || d.PolicyVersion == "" {
			t.Fatalf("%+v", d)
		}
		if diff := cmp.Diff(d, policy.Judged(r, f)); diff != "" {
			t.Fatalf("not deterministic: %s", diff)
		}
	})
}

// A tighter fact or rule never gives a looser answer.
func TestMonotone(t *testing.T) {
	t.Parallel()
	loose := map[policy.JudgedOutcome]int{policy.OutcomeAutoPR: 2, policy.OutcomeCarried: 2, policy.OutcomeComplete: 2, policy.OutcomeAttest: 1}
	rapid.Check(t, func(t *rapid.T) {
		r, f := anyRules(t), anyFacts(t)
		before := policy.Judged(r, f).Outcome
		switch rapid.IntRange(0, 7).Draw(t, "tighten") {
		case 0:
			f.VerificationPassed = false
		case 1:
			f.Confidence = 0
		case 2:
			f.SecretScan = policy.NotScanned
		case 3:
			f.ForbiddenHits = append(f.ForbiddenHits, "x")
		case 4:
			f.Risk = policy.RiskCritical
		case 5:
			r.AutoPR.Allowed = false
		case 6:
			f.BudgetLeft = false
		case 7:
			r.Gates.Patch.When, r.Gates.Report.When = policy.Always, policy.Always
		}
		if after := policy.Judged(r, f).Outcome; loose[after] > loose[before] {
			t.Fatalf("%s became %s", before, after)
		}
	})
}

// Contributors never satisfy a gate, however the decisions are arranged.
func TestContributorsNeverSatisfy(t *testing.T) {
	t.Parallel()
	people := []string{"user_req", "c1", "c2", "a", "b"}
	rapid.Check(t, func(t *rapid.T) {
		r, f := anyRules(t), anyFacts(t)
		r.Gates.AnyRejectBlocks = rapid.Bool().Draw(t, "blocks")
		f.Gate = policy.GateFacts{Kind: policy.GatePatch, Contributors: []string{"c1", "c2"}}
		outside := map[string]bool{}
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			u := rapid.SampledFrom(people).Draw(t, "who")
			v := rapid.SampledFrom([]policy.GateVerdict{policy.Approve, policy.Approve, policy.Reject}).Draw(t, "what")
			f.Gate.Decisions = append(f.Gate.Decisions, policy.Decided{User: u, Verdict: v})
			if u == "a" || u == "b" {
				outside[u] = true
			}
		}
		if got := policy.Count(r, f); got.Satisfied && len(outside) < r.Gates.Patch.Quorum {
			t.Fatalf("%+v satisfied by %v", got, f.Gate.Decisions)
		}
	})
}

// Facts and rules survive JSON, since decisions store them.
func TestStoredFactsDecideTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, f := anyRules(t), anyFacts(t)
		if math.IsNaN(f.Confidence) || math.IsInf(f.Confidence, 0) {
			f.Confidence = 0
		}
		var r2 policy.Rules
		var f2 policy.Facts
		for from, to := range map[any]any{&r: &r2, &f: &f2} {
			b, err := json.Marshal(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, to); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(policy.Judged(r, f), policy.Judged(r2, f2)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(r, r2); diff != "" {
			t.Fatal(diff)
		}
	})
}
