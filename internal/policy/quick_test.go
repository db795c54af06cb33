package policy_test

import (
	"testing"

	"signalbox/internal/policy"
)

// A26: only a whole plan or patch of low risk without hidden characters is approved from a list; what nobody looked at is
// not, and each reason is said.
func TestQuick(t *testing.T) {
	t.Parallel()
	whole := policy.QuickContent{Whole: true}
	for name, c := range map[string]struct {
		kind    policy.GateKind
		risk    policy.Risk
		content policy.QuickContent
		reasons int
	}{
		"a patch":            {policy.GatePatch, policy.RiskLow, whole, 0},
		"a plan":             {policy.GatePlan, policy.RiskLow, whole, 0},
		"a report":           {policy.GateReport, policy.RiskLow, whole, 1},
		"a budget":           {policy.GateBudget, policy.RiskLow, whole, 1},
		"medium":             {policy.GatePatch, policy.RiskMedium, whole, 1},
		"critical":           {policy.GatePatch, policy.RiskCritical, whole, 1},
		"no risk":            {policy.GatePatch, "", whole, 1},
		"nobody looked":      {policy.GatePatch, policy.RiskLow, policy.QuickContent{}, 1},
		"not whole":          {policy.GatePatch, policy.RiskLow, policy.QuickContent{Missing: "1 file is not shown whole."}, 1},
		"hidden":             {policy.GatePlan, policy.RiskLow, policy.QuickContent{Whole: true, Hidden: true}, 1},
		"everything at once": {policy.GateReconcile, policy.RiskHigh, policy.QuickContent{Hidden: true}, 4},
	} {
		if why := policy.Quick(c.kind, c.risk, c.content); len(why) != c.reasons {
			t.Errorf("%s: %q, want %d reasons", name, why, c.reasons)
		}
	}
}
