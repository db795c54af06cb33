package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/internal/policy"
)

// good is a task and result with which every guard passes, under rules that
// allow an automatic pull request.
func good() (policy.Rules, policy.Facts) {
	r := policy.Default()
	r.Version = "p-9"
	r.AutoPR.Allowed = true
	return r, policy.Facts{
		Repository: "acme/shop", Requester: "user_req", RequesterRoles: []policy.Role{policy.RoleRequester},
		Risk: policy.RiskLow, Mode: policy.ModePRCreated, AutoPRAsked: true,
		Result: policy.ResultPatch, VerificationPassed: true, Verdict: policy.VerdictPass, Confidence: 0.9,
		SecretScan: policy.ScanClean, BudgetLeft: true, RepairRoundsLeft: 1, AttemptsLeft: 1,
	}
}

// R-ADM-1 R-ADM-4 R-TEST-1 R-TEST-2: every refusal names its reason in words.
func TestAdmission(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		change  func(*policy.Rules, *policy.Facts)
		verdict policy.AdmissionVerdict
		code    string
		words   string
	}{
		{"admitted", func(*policy.Rules, *policy.Facts) {}, policy.Admit, policy.CodeAdmitted, "p-9 admits"},
		{"repository", func(r *policy.Rules, _ *policy.Facts) { r.Admission.Repositories = []string{"other/*"} }, policy.Deny, policy.CodeRepository, "acme/shop"},
		{"no repository", func(_ *policy.Rules, f *policy.Facts) { f.Repository = "" }, policy.Deny, policy.CodeRepository, "(none)"},
		{"risk", func(r *policy.Rules, f *policy.Facts) {
			r.Admission.Risks = []policy.Risk{policy.RiskLow}
			f.Risk = policy.RiskHigh
		}, policy.Deny, policy.CodeRisk, "HIGH"},
		{"unknown risk", func(_ *policy.Rules, f *policy.Facts) { f.Risk = "NONE" }, policy.Deny, policy.CodeRisk, "NONE"},
		{"mode", func(r *policy.Rules, _ *policy.Facts) { r.Admission.Modes = []policy.Mode{policy.ModeReport} }, policy.Deny, policy.CodeMode, "pr_created"},
		{"campaign mode is not a task's", func(_ *policy.Rules, f *policy.Facts) { f.Mode = policy.ModeBatch }, policy.Deny, policy.CodeMode, "migration_batch"},
		{"analysis only", func(r *policy.Rules, _ *policy.Facts) { r.Admission.AnalysisOnly = []string{"acme/**"} }, policy.Deny, policy.CodeAnalysisOnly, "analysis"},
		{"analysis in analysis only", func(r *policy.Rules, f *policy.Facts) {
			r.Admission.AnalysisOnly = []string{"acme/**"}
			f.Mode = policy.ModeReport
		}, policy.Admit, policy.CodeAdmitted, ""},
		{"role", func(_ *policy.Rules, f *policy.Facts) { f.RequesterRoles = []policy.Role{policy.RoleAdmin} }, policy.Deny, policy.CodeRole, "requester"},
		{"incident", func(r *policy.Rules, _ *policy.Facts) {
			r.Admission.Incident.On, r.Admission.Incident.Message = true, "Registry is down."
		}, policy.Defer, policy.CodeIncident, "Registry is down."},
		{"incident does not hide a refusal", func(r *policy.Rules, f *policy.Facts) {
			r.Admission.Incident.On, f.Mode = true, "x"
		}, policy.Deny, policy.CodeMode, "x"},
		{"capacity", func(_ *policy.Rules, f *policy.Facts) { f.CapacityWords = "Twenty runs are active." }, policy.Defer, policy.CodeCapacity, "Twenty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, f := good()
			tc.change(&r, &f)
			d := policy.Admission(r, f)
			if d.Verdict != tc.verdict || d.Code != tc.code || d.PolicyVersion != "p-9" {
				t.Errorf("%s %s by %s", d.Verdict, d.Code, d.PolicyVersion)
			}
			if !strings.Contains(strings.Join(d.Reasons, " "), tc.words) {
				t.Errorf("%q not in %q", tc.words, d.Reasons)
			}
			if (d.Verdict == policy.Defer) != (d.RetryAfter > 0) {
				t.Errorf("retry after %v with %s", d.RetryAfter, d.Verdict)
			}
			if (d.Verdict == policy.Admit) != (d.Limits == r.Limits) {
				t.Error("limits are snapshotted exactly on ADMIT")
			}
		})
	}
	r, f := good()
	r.Admission.Repositories, f.Mode, f.Risk = nil, "x", "y"
	if d := policy.Admission(r, f); len(d.Reasons) != 3 {
		t.Errorf("every reason must be named: %q", d.Reasons)
	}
}

// R-ATT-1: who made it verifies it only where policy says so, and it is said.
func TestClaim(t *testing.T) {
	t.Parallel()
	r, f := good()
	f.Phase, f.Isolation = "verify", policy.IsolationBwrap
	if d := policy.Claim(r, f); !d.Allowed || len(d.Reasons) != 0 {
		t.Errorf("plain: %+v", d)
	}
	f.SameWorker = true
	if d := policy.Claim(r, f); !d.Allowed || !strings.Contains(strings.Join(d.Reasons, " "), "Same worker") {
		t.Errorf("same worker allowed must be said: %+v", d)
	}
	r.Execution.SameWorkerMayVerify = false
	if d := policy.Claim(r, f); d.Allowed || d.Code != policy.CodeSameWorker {
		t.Errorf("same worker: %+v", d)
	}
	f.Phase = "execute"
	if d := policy.Claim(r, f); !d.Allowed {
		t.Errorf("execute by the same worker is a matter of course: %+v", d)
	}
	for _, iso := range []policy.Isolation{policy.IsolationProcess, "", "microvm?"} {
		f.Isolation = iso
		if d := policy.Claim(r, f); d.Allowed || d.Code != policy.CodeIsolation {
			t.Errorf("%q: %+v", iso, d)
		}
	}
	f.Phase = "publish"
	if d := policy.Claim(r, f); !d.Allowed {
		t.Errorf("publisher runs nothing: %+v", d)
	}
	f.Phase, f.Isolation, r.Execution.MinIsolation = "execute", policy.IsolationProcess, policy.IsolationProcess
	if d := policy.Claim(r, f); !d.Allowed {
		t.Errorf("process where policy allows it: %+v", d)
	}
}

// R-TRN-13: high risk asks about the plan; the approved digest passes again.
func TestPlan(t *testing.T) {
	t.Parallel()
	r, f := good()
	f.PlanDigest = "aa"
	for risk, want := range map[policy.Risk]bool{
		policy.RiskLow: false, policy.RiskMedium: false, policy.RiskHigh: true, policy.RiskCritical: true, "": true, "odd": true,
	} {
		f.Risk = risk
		d := policy.Plan(r, f)
		if d.Gate != want || len(d.Reasons) == 0 || d.PolicyVersion != "p-9" {
			t.Errorf("risk %q: %+v", risk, d)
		}
		if d.Gate && (d.Quorum != 1 || d.Role != policy.RoleApprover || d.Kind != policy.GatePlan) {
			t.Errorf("risk %q: %+v", risk, d)
		}
	}
	f.Risk, f.ApprovedPlanDigest = policy.RiskHigh, "aa"
	if policy.Plan(r, f).Gate {
		t.Error("the approved plan must not be asked about again")
	}
	f.ApprovedPlanDigest = "bb"
	if d := policy.Plan(r, f); !d.Gate || len(d.Reasons) != 2 {
		t.Errorf("another plan must be asked about: %+v", d)
	}
	f.PlanDigest, f.ApprovedPlanDigest = "", ""
	if !policy.Plan(r, f).Gate {
		t.Error("two missing digests are not an approval")
	}
	r.Gates.Plan.When, f.Risk = policy.Always, policy.RiskLow
	if !policy.Plan(r, f).Gate {
		t.Error("always")
	}
	r.Gates.Plan.When, f.Risk = policy.Never, policy.RiskCritical
	if policy.Plan(r, f).Gate {
		t.Error("never")
	}
	f.PlanGateAsked = true
	if !policy.Plan(r, f).Gate {
		t.Error("a task may ask for a plan gate that no rule asks for")
	}
}

// R-TRN-8: each guard alone stops the automatic pull request.
func TestJudged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		change  func(*policy.Rules, *policy.Facts)
		outcome policy.JudgedOutcome
		failed  policy.GuardName // the one guard that does not pass; empty: all pass
		code    string
	}{
		{"all pass", func(*policy.Rules, *policy.Facts) {}, policy.OutcomeAutoPR, "", ""},
		{"not verified", func(_ *policy.Rules, f *policy.Facts) { f.VerificationPassed = false }, policy.OutcomeFix, policy.GuardVerifier, policy.CodeNotVerified},
		{"confidence", func(_ *policy.Rules, f *policy.Facts) { f.Confidence = 0.69 }, policy.OutcomeGate, policy.GuardJudge, ""},
		{"confidence at threshold", func(_ *policy.Rules, f *policy.Facts) { f.Confidence = 0.7 }, policy.OutcomeAutoPR, "", ""},
		{"judge asks for a fix", func(_ *policy.Rules, f *policy.Facts) { f.Verdict = policy.VerdictFix }, policy.OutcomeFix, policy.GuardJudge, policy.CodeJudgeRejected},
		{"fix without rounds", func(_ *policy.Rules, f *policy.Facts) { f.Verdict, f.RepairRoundsLeft = policy.VerdictFix, 0 }, policy.OutcomeExhausted, policy.GuardJudge, policy.CodeJudgeRejected},
		{"same failure again", func(_ *policy.Rules, f *policy.Facts) { f.Verdict, f.SameFailureAgain = policy.VerdictFix, true }, policy.OutcomeExhausted, policy.GuardJudge, policy.CodeJudgeRejected},
		{"fix without attempts", func(_ *policy.Rules, f *policy.Facts) {
			f.Verdict, f.RepairRoundsLeft, f.AttemptsLeft = policy.VerdictFix, 0, 0
		}, policy.OutcomeFail, policy.GuardJudge, policy.CodeJudgeRejected},
		{"judge refuses", func(_ *policy.Rules, f *policy.Facts) { f.Verdict = policy.VerdictFail }, policy.OutcomeFail, policy.GuardJudge, policy.CodeJudgeRejected},
		{"no verdict", func(_ *policy.Rules, f *policy.Facts) { f.Verdict = "" }, policy.OutcomeFail, policy.GuardJudge, policy.CodeJudgeRejected},
		{"secret", func(_ *policy.Rules, f *policy.Facts) {
			f.SecretScan, f.SecretFindings = policy.ScanFindings, []string{"aws-access-token in a.go:3"}
		}, policy.OutcomeFix, policy.GuardSecrets, policy.CodeSecretFound},
		{"not scanned", func(_ *policy.Rules, f *policy.Facts) { f.SecretScan = policy.ScanSkipped }, policy.OutcomeFail, policy.GuardSecrets, policy.CodeNotScanned},
		{"scan missing", func(_ *policy.Rules, f *policy.Facts) { f.SecretScan = "" }, policy.OutcomeFail, policy.GuardSecrets, policy.CodeNotScanned},
		{"clean with findings", func(_ *policy.Rules, f *policy.Facts) { f.SecretFindings = []string{"x"} }, policy.OutcomeFix, policy.GuardSecrets, policy.CodeSecretFound},
		{"forbidden", func(_ *policy.Rules, f *policy.Facts) { f.ForbiddenHits = []string{"secrets/a"} }, policy.OutcomeFix, policy.GuardForbidden, policy.CodeForbiddenPath},
		{"generated", func(_ *policy.Rules, f *policy.Facts) { f.GeneratedViolations = []string{"a.pb.go"} }, policy.OutcomeFix, policy.GuardGenerated, policy.CodeGeneratedFiles},
		{"task does not ask", func(_ *policy.Rules, f *policy.Facts) { f.AutoPRAsked = false }, policy.OutcomeGate, policy.GuardAutoPR, ""},
		{"policy does not allow", func(r *policy.Rules, _ *policy.Facts) { r.AutoPR.Allowed = false }, policy.OutcomeGate, policy.GuardAutoPR, ""},
		{"budget", func(_ *policy.Rules, f *policy.Facts) { f.BudgetLeft = false }, policy.OutcomeBudget, policy.GuardBudget, policy.CodeBudget},
		{"high risk", func(_ *policy.Rules, f *policy.Facts) { f.Risk = policy.RiskHigh }, policy.OutcomeGate, policy.GuardRisk, ""},
		{"critical risk", func(_ *policy.Rules, f *policy.Facts) { f.Risk = policy.RiskCritical }, policy.OutcomeGate, policy.GuardRisk, ""},
		{"unknown risk", func(_ *policy.Rules, f *policy.Facts) { f.Risk = "" }, policy.OutcomeGate, policy.GuardRisk, ""},
		{"protected path", func(_ *policy.Rules, f *policy.Facts) { f.ProtectedHits = []string{".github/workflows/ci.yml"} }, policy.OutcomeGate, policy.GuardRisk, ""},
		{"hidden text", func(_ *policy.Rules, f *policy.Facts) { f.HiddenText = []string{"a.go:3 U+202E"} }, policy.OutcomeGate, policy.GuardRisk, ""},
		{"medium risk", func(_ *policy.Rules, f *policy.Facts) { f.Risk = policy.RiskMedium }, policy.OutcomeAutoPR, "", ""},
		{"always a person", func(r *policy.Rules, _ *policy.Facts) { r.Gates.Patch.When = policy.Always }, policy.OutcomeGate, "", ""},
		{"gate never, guard fails all the same", func(r *policy.Rules, f *policy.Facts) {
			r.Gates.Patch.When, f.Risk = policy.Never, policy.RiskHigh
		}, policy.OutcomeGate, policy.GuardRisk, ""},
		{"carried", func(_ *policy.Rules, f *policy.Facts) { f.Risk, f.CarriedApprovals = policy.RiskHigh, 1 }, policy.OutcomeCarried, policy.GuardRisk, ""},
		{"carried, quorum grew", func(r *policy.Rules, f *policy.Facts) {
			r.Gates.Patch.Quorum, f.Risk, f.CarriedApprovals = 2, policy.RiskHigh, 1
		}, policy.OutcomeGate, policy.GuardRisk, ""},
		{"carried never over a secret", func(_ *policy.Rules, f *policy.Facts) {
			f.SecretScan, f.SecretFindings, f.CarriedApprovals = policy.ScanFindings, []string{"x"}, 3
		}, policy.OutcomeFix, policy.GuardSecrets, policy.CodeSecretFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, f := good()
			tc.change(&r, &f)
			d := policy.Judged(r, f)
			if d.Outcome != tc.outcome || d.Code != tc.code || d.PolicyVersion != "p-9" || len(d.Reasons) == 0 {
				t.Errorf("%s %q %q", d.Outcome, d.Code, d.Reasons)
			}
			names := []policy.GuardName{}
			for _, g := range d.Guards {
				names = append(names, g.Name)
				if g.Passed == (g.Name == tc.failed) {
					t.Errorf("guard %s passed=%v: %s", g.Name, g.Passed, g.Words)
				}
				if g.Words == "" {
					t.Errorf("guard %s has no words", g.Name)
				}
			}
			if !slices.Equal(names, policy.GuardNames()) {
				t.Errorf("guards %v", names)
			}
			if d.Outcome == policy.OutcomeGate && (!d.Gate.Gate || d.Gate.Kind != policy.GatePatch || d.Gate.Quorum < 1 || len(d.Gate.Reasons) == 0) {
				t.Errorf("gate %+v", d.Gate)
			}
		})
	}
}

// R-TRN-12 R-ATT-3 R-DOM-3: the modes without a pull request.
func TestJudgedWithoutPR(t *testing.T) {
	t.Parallel()
	r, f := good()
	r.AutoPR.Allowed, f.AutoPRAsked = false, false
	f.Mode = policy.ModePatchReady
	if d := policy.Judged(r, f); d.Outcome != policy.OutcomeComplete {
		t.Errorf("patch ready for review needs no switch: %+v", d.Outcome)
	}
	f.Risk = policy.RiskHigh
	if d := policy.Judged(r, f); d.Outcome != policy.OutcomeGate || d.Gate.Kind != policy.GatePatch {
		t.Errorf("high risk patch: %+v", d.Outcome)
	}
	f.Risk, f.AttestationAsked = policy.RiskLow, true
	if d := policy.Judged(r, f); d.Outcome != policy.OutcomeAttest {
		t.Errorf("attestation asked by the contract: %v", d.Outcome)
	}
	f = policy.Facts{
		Risk: policy.RiskHigh, Mode: policy.ModeReport, Result: policy.ResultReport,
		Verdict: policy.VerdictPass, Confidence: 0.8, BudgetLeft: true,
	}
	if d := policy.Judged(r, f); d.Outcome != policy.OutcomeComplete {
		t.Errorf("report: %v %v", d.Outcome, d.Reasons)
	}
	f.Confidence = 0.2
	if d := policy.Judged(r, f); d.Outcome != policy.OutcomeGate || d.Gate.Kind != policy.GateReport {
		t.Errorf("unsure report: %v", d.Outcome)
	}
	f.Confidence, f.Mode, f.Result = 0.8, policy.ModePRCreated, policy.ResultNoChange
	if d := policy.Judged(r, f); d.Outcome != policy.OutcomeComplete {
		t.Errorf("no change in a mode with PR completes: %v %v", d.Outcome, d.Reasons)
	}
	r.Attestation.Required = true
	if d := policy.Judged(r, f); d.Outcome != policy.OutcomeAttest {
		t.Errorf("attestation asked by policy: %v", d.Outcome)
	}
	r.Gates.Report.When = policy.Always
	if d := policy.Judged(r, f); d.Outcome != policy.OutcomeGate || d.Gate.Kind != policy.GateReport {
		t.Errorf("a gate comes before attestation: %v", d.Outcome)
	}
}

// R-FAIL-3 R-TEST-3: the list of delays, its last repeated, jitter on top.
func TestDelay(t *testing.T) {
	t.Parallel()
	r := policy.Default().Retry
	for n, want := range map[int]time.Duration{
		-1: 30 * time.Second, 0: 30 * time.Second, 1: 30 * time.Second, 2: 2 * time.Minute,
		3: 10 * time.Minute, 4: 30 * time.Minute, 5: 30 * time.Minute, 1 << 40: 30 * time.Minute,
	} {
		if got := r.Delay(n, 0); got != want {
			t.Errorf("try %d waits %v, want %v", n, got, want)
		}
		if got := r.Delay(n, 1); got != want+want/5 {
			t.Errorf("try %d with jitter waits %v", n, got)
		}
		if got := r.Delay(n, 7); got != want+want/5 {
			t.Errorf("dice beyond 1: %v", got)
		}
	}
	if got := (policy.RetryRules{}).Delay(3, 1); got != 0 {
		t.Errorf("no delays: %v", got)
	}
}
