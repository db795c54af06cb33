package web_test

import (
	"testing"

	"signalbox/web"
)

// cancel rule 9: the four causes of an end are told apart.
// Field report: argo-cd#20849.
func TestCauses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ state, by, code, want string }{
		{"CANCELLED", "human", "CANCELLED_BY_USER", "Cancelled by a person"},
		{"CANCELLED", "control_plane", "CANCELLED_BY_USER", "Superseded or ended with its task"},
		{"CANCELLED", "policy", "CANCELLED_BY_USER", "Stopped by policy or budget"},
		{"FAILED", "", "POLICY_DENIED", "Stopped by policy or budget"},
		{"FAILED", "", "BUDGET_EXCEEDED", "Stopped by policy or budget"},
		{"CANCELLED", "scheduler", "APPROVAL_EXPIRED", "Timed out"},
		{"EXPIRED", "", "QUEUE_TIMEOUT", "Timed out"},
		{"FAILED", "", "VERIFIER_FAILED", ""},
	} {
		if got := web.Cause(c.state, c.by, c.code); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
