package handlers_test

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"signalbox/handlers"
	"signalbox/internal/wire"
)

// R-COST-1: what a run cost is on its page and in the API, with what was reported told apart from what was estimated.
func TestCostOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	l.plan(t)
	l.call(t, "POST", "/runs/"+l.as.RunId+"/usage", wire.UsageReport{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 1,
		Model: "m", InputTokens: 1200, OutputTokens: 300, ProviderCalls: 2, CostMicros: new(int64(12_300))}).want(t, http.StatusOK)
	c := into[wire.RunCost](t, w.cli(t, rita).call(t, "GET", "/runs/"+l.as.RunId+"/cost", nil).want(t, http.StatusOK))
	if c.TokensIn.Actual != 1200 || c.TokensOut.Actual != 300 || c.ReportedMicros != 12_300 || c.UnpricedCalls != 0 || c.EstimatedMicros != 0 || c.MaxMicros == 0 {
		t.Errorf("cost %+v", c)
	}
	page := b.get(t, "/runs/"+l.as.RunId).want(t, http.StatusOK)
	for _, want := range []string{"0.0123\u00a0USD reported, limit 10.00\u00a0USD", "1200, at most 5000000", "300, at most 500000", "2, at most 10000", "Sandboxes"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// A call without a price is told as that, on the page, of the run and of the tenant.
	l.call(t, "POST", "/runs/"+l.as.RunId+"/usage", wire.UsageReport{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 2,
		Model: "m", InputTokens: 5, ProviderCalls: 1}).want(t, http.StatusOK)
	if want := "0.0123\u00a0USD reported, cost unknown for 1 call, limit"; !strings.Contains(b.get(t, "/runs/"+l.as.RunId).body, want) {
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
	// What stops the run says what it cost, as people write money.
	l.call(t, "POST", "/runs/"+l.as.RunId+"/usage", wire.UsageReport{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 3,
		Model: "m", ProviderCalls: 1, CostMicros: new(int64(11_000_000))}).want(t, http.StatusOK)
	l.do(t, wire.RunCommand{Command: wire.CmdStopped, Stopped: &wire.Stopped{Why: wire.StoppedBudget}})
	if want := "The run cost 11.01\u00a0USD; the limit is 10.00\u00a0USD."; !strings.Contains(b.get(t, "/runs/"+l.as.RunId).body, want) {
		t.Errorf("the page does not say %q", want)
	}
}

var (
	amountNamed = regexp.MustCompile(`\d+\.\d+\x{00a0}CHF`)
	// amountBare is an amount of money as it must not stand on a page; no version, address or factor is written so.
	amountBare = regexp.MustCompile(`(?:[^\d.:v]|^)\d+\.\d{2,6}(?:[^\d.]|$)`)
)

// R-COST-1: every amount on pages and in the API is in the currency that the installation counts in, and none is a bare number.
func TestCostsNameTheCurrency(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, adam)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	l.do(t, wire.RunCommand{Command: wire.CmdStart})
	l.call(t, "POST", "/runs/"+l.as.RunId+"/usage", wire.UsageReport{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 1,
		Model: "m", InputTokens: 1200, OutputTokens: 300, ProviderCalls: 2, CostMicros: new(int64(3_200_000))}).want(t, http.StatusOK)

	swiss := rated{got(handlers.New(handlers.Options{Store: w.store, Hub: w.hub, Artifacts: w.artifacts, PublicURL: w.url, SessionKey: bytes.Repeat([]byte("k"), 32), Rates: unbounded, Currency: "CHF"}))(t), w}
	var cookies []string
	for _, c := range b.Jar.Cookies(got(url.Parse(w.url))(t)) {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	for path, amount := range map[string]string{
		"/runs":                           "3.20\u00a0CHF",
		"/runs/" + l.as.RunId:             "3.20\u00a0CHF reported, limit 10.00\u00a0CHF",
		"/runs/" + l.as.RunId + "/cancel": "cost 3.20\u00a0CHF reported",
		"/admin/budgets":                  "3.20\u00a0CHF",
	} {
		a := swiss.ask(t, "GET", path, "127.0.0.1", "", "Cookie", strings.Join(cookies, "; "))
		text := got(goquery.NewDocumentFromReader(a.Body))(t).Find("main").Text()
		if a.Code != http.StatusOK || !strings.Contains(text, amount) {
			t.Errorf("%s is answered %d and does not say %q", path, a.Code, amount)
		}
		if bare := amountBare.FindString(amountNamed.ReplaceAllString(text, "")); bare != "" {
			t.Errorf("%s shows %q, an amount of nothing", path, bare)
		}
	}
	for _, path := range []string{"/runs/" + l.as.RunId + "/cost", "/cost"} {
		a := swiss.ask(t, "GET", "/api/v1"+path, "127.0.0.1", w.cli(t, adam).token)
		if body := a.Body.String(); !strings.Contains(body, `"currency":"CHF"`) || !strings.Contains(body, `"reported_micros":3200000`) {
			t.Errorf("%s says %s", path, body)
		}
	}
}
