package policy_test

import (
	"os"
	"strings"
	"testing"

	"signalbox/internal/policy"
)

// The documentation's example is a policy that is accepted, and does what the text says.
func TestDocumentedPolicyIsAccepted(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(raw), "```yaml\n")[1:] {
		document, _, _ := strings.Cut(part, "```")
		if _, err := policy.Accept([]byte(document), func(string) bool { return true }); err != nil {
			t.Error(err)
		}
	}
	_, rest, _ := strings.Cut(string(raw), "```yaml\nschema: 1\nversion: example-3\n")
	document, _, ok := strings.Cut(rest, "```")
	document = "version: example-3\n" + document
	if !ok {
		t.Fatal("docs/policy.md has no example")
	}
	r, err := policy.Parse([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if r.Concurrency.Providers["stoic"] != 20 || r.Installation.Tenants["acme"].Weight != 2 || r.Budget.DailyCents != 5000 {
		t.Errorf("%+v", r)
	}
	f := asking()
	f.Repository, f.Priority = "sample/java-shop", 5
	if got := r.Routing.Route(f); got.Queue != "java" || got.Provider != "stoic" || got.Priority != 3 || len(got.Requires) != 3 {
		t.Errorf("routed to %+v", got)
	}
	for _, code := range []string{policy.CodeRepository, policy.CodeAnalysisOnly, policy.CodeRisk, policy.CodeMode, policy.CodeRole, policy.CodeIncident,
		policy.CodeDailyBudget, policy.CodeProviderOff, policy.CodeQueueQuota, policy.CodeActiveQuota, policy.CodeReviewers, policy.CodeRule} {
		if !strings.Contains(string(raw), code) {
			t.Errorf("docs/policy.md does not explain %s", code)
		}
	}
}
