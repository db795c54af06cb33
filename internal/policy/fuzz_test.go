package policy_test

import (
	"testing"

	"signalbox/internal/policy"
)

// FuzzWithin: of two policies held to each other, none asks for less than either of them, whatever they say, and what one of them
// refuses stays refused.
func FuzzWithin(f *testing.F) {
	for _, pair := range [][2]string{
		{"version: a\n", "version: b\ngates: {patch: {when: always, quorum: 3, role: admin}}\n"}, {"version: a\nauto_pr: {allowed: true}\n", "version: b\npaths: {forbidden: ['**']}\n"},
		{"version: a\nexecution: {min_isolation: process, same_worker_may_verify: true}\n", "version: b\nexecution: {min_isolation: container, same_worker_may_verify: false}\n"},
		{"version: a\nrules:\n  - name: x\n    when: changed_files > 1\n    then: {gates: [patch], approvals: 2}\n", "version: b\nattestation: {required: true}\n"},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]), uint8(3), int64(90))
	}
	f.Fuzz(func(t *testing.T, one, two []byte, files uint8, confidence int64) {
		a, err := policy.Parse(one)
		b, err2 := policy.Parse(two)
		if err != nil || err2 != nil {
			return
		}
		facts := policy.Facts{Repository: "acme/api", Requester: "u", RequesterRoles: []policy.Role{policy.RoleRequester}, Risk: policy.RiskLow, Mode: policy.ModePRCreated, Result: policy.ResultPatch, Verdict: policy.VerdictPass,
			Confidence: float64(confidence%101) / 100, VerificationPassed: true, BudgetLeft: true, ChangedFiles: int(files), SecretScan: policy.ScanClean, Paths: []string{"a.go"}, AutoPRAsked: true}
		held := a.Within(b)
		for _, kind := range policy.GateKinds() {
			x, y, both := a.Gates.For(kind), b.Gates.For(kind), held.Gates.For(kind)
			if both.Quorum < max(x.Quorum, y.Quorum) {
				t.Errorf("%s: %d and %d approvals give %d", kind, x.Quorum, y.Quorum, both.Quorum)
			}
		}
		if held.Execution.MinIsolation.Rank() < max(a.Execution.MinIsolation.Rank(), b.Execution.MinIsolation.Rank()) || held.Execution.SameWorkerMayVerify && !(a.Execution.SameWorkerMayVerify && b.Execution.SameWorkerMayVerify) {
			t.Errorf("execution %+v and %+v give %+v", a.Execution, b.Execution, held.Execution)
		}
		for _, r := range []policy.Rules{a, b} {
			if r.Version == held.Version && r.Version == b.Version && a.Version == b.Version {
				continue // one name is one policy
			}
			x, both := policy.Judged(r, facts), policy.Judged(held, facts)
			if (x.Gate.Gate || x.Outcome != policy.OutcomeAutoPR) && both.Outcome == policy.OutcomeAutoPR {
				t.Errorf("policy %s asks a person (%s), and held to the other nobody is: %s", r.Version, x.Outcome, both.Outcome)
			}
			if attest, _ := policy.Attest(r, facts); attest {
				if still, _ := policy.Attest(held, facts); !still {
					t.Errorf("policy %s asks for an attestation, and held to the other nobody does", r.Version)
				}
			}
		}
	})
}
