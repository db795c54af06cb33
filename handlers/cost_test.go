package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"signalbox/internal/wire"
)

// R-COST-1: what a run cost is on its page and in the API, with what was reported told apart from what was estimated.
func TestCostOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	l.do(t, wire.RunCommand{Command: wire.CmdStart})
	l.call(t, "POST", "/runs/"+l.as.RunId+"/usage", wire.UsageReport{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 1,
		Model: "m", InputTokens: 1200, OutputTokens: 300, ProviderCalls: 2, CostMicros: new(int64(12_300))}).want(t, http.StatusOK)
	c := into[wire.RunCost](t, w.cli(t, rita).call(t, "GET", "/runs/"+l.as.RunId+"/cost", nil).want(t, http.StatusOK))
	if c.TokensIn.Actual != 1200 || c.TokensOut.Actual != 300 || c.ReportedMicros != 12_300 || c.UnpricedCalls != 0 || c.EstimatedMicros != 0 || c.MaxMicros == 0 {
		t.Errorf("cost %+v", c)
	}
	page := b.get(t, "/runs/"+l.as.RunId).want(t, http.StatusOK)
	for _, want := range []string{"0.0123 reported, limit 10.0000", "1200, at most 5000000", "300, at most 500000", "2, at most 10000", "Sandboxes"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// A call without a price is told as that, on the page, of the run and of the tenant.
	l.call(t, "POST", "/runs/"+l.as.RunId+"/usage", wire.UsageReport{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 2,
		Model: "m", InputTokens: 5, ProviderCalls: 1}).want(t, http.StatusOK)
	if want := "0.0123 reported, cost unknown for 1 call, limit"; !strings.Contains(b.get(t, "/runs/"+l.as.RunId).body, want) {
		t.Errorf("the page does not say %q", want)
	}
	all := into[wire.TenantCost](t, w.cli(t, rita).call(t, "GET", "/cost", nil).want(t, http.StatusOK))
	var sum wire.DayCost
	for _, d := range all.Days { // two where the test is at work at midnight
		sum.TokensIn, sum.TokensOut, sum.ProviderCalls = sum.TokensIn+d.TokensIn, sum.TokensOut+d.TokensOut, sum.ProviderCalls+d.ProviderCalls
		sum.ReportedMicros, sum.UnpricedCalls = sum.ReportedMicros+d.ReportedMicros, sum.UnpricedCalls+d.UnpricedCalls
	}
	if want := (wire.DayCost{TokensIn: 1205, TokensOut: 300, ProviderCalls: 3, ReportedMicros: 12_300, UnpricedCalls: 1}); sum != want || all.TimeZone != "UTC" {
		t.Errorf("the tenant's cost %+v", all)
	}
	w.cli(t, rita).call(t, "GET", "/runs/run_01k000000000000000000000zz/cost", nil).want(t, http.StatusNotFound)
}
