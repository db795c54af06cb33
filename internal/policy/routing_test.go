package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/policy"
)

const routing = `schema: 1
version: routed-1
routing:
  max_priority: 3
  agents:
    big: {provider: anthropic, requires: [docker]}
  queues:
    - {queue: security-review, risks: [HIGH, CRITICAL], pool: gvisor}
    - {queue: java-large, repositories: ['acme/java-*'], requires: ['jdk >= 21']}
    - {queue: reports, modes: [analysis_report_created]}
`

// R-TEST-5, R-Q-8: the first rule that matches says where work waits and what its worker must offer; without one it waits
// in the default queue. A priority above the cap is lowered to it.
func TestRoute(t *testing.T) {
	t.Parallel()
	r, err := policy.Parse([]byte(routing))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		facts policy.Facts
		want  policy.Route
	}{
		"nothing matches": {policy.Facts{Repository: "acme/shop", Risk: policy.RiskLow, AgentProfile: "small"},
			policy.Route{Queue: "default", Provider: "small", Agent: "small", Requires: nil}},
		"risk before repository": {policy.Facts{Repository: "acme/java-api", Risk: policy.RiskHigh},
			policy.Route{Queue: "security-review", Pool: "gvisor"}},
		"repository, with what agent and task require": {policy.Facts{Repository: "acme/java-api", Risk: policy.RiskLow, AgentProfile: "big", Requires: []string{"docker", "go"}},
			policy.Route{Queue: "java-large", Provider: "anthropic", Agent: "big", Requires: []string{"docker", "go", "jdk >= 21"}}},
		"mode, priority capped": {policy.Facts{Repository: "acme/shop", Risk: policy.RiskLow, Mode: policy.ModeReport, Priority: 5},
			policy.Route{Queue: "reports", Priority: 3}},
		"a low priority stays": {policy.Facts{Repository: "acme/shop", Risk: policy.RiskLow, Priority: -5}, policy.Route{Queue: "default", Priority: -5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, r.Routing.Route(c.facts)); diff != "" {
				t.Errorf("route (-want +got):\n%s", diff)
			}
		})
	}
	big := policy.Route{Agent: "big", Requires: []string{"jdk >= 21"}}
	for phase, want := range map[string][]string{"execute": {"agent:big", "jdk >= 21"}, "verify": {"jdk >= 21"}, "publish": nil} {
		if diff := cmp.Diff(want, big.Of(phase)); diff != "" {
			t.Errorf("%s must offer (-want +got):\n%s", phase, diff)
		}
	}
}
