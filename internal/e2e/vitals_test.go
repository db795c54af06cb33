package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"signalbox/internal/e2e/rig"
)

// slowLine is the command that slows a line down, with a parameter that some versions of chromium ask for (148 does).
var slowLine = cdp.Command[slowLineParams, network.EmulateNetworkConditionsByRuleResult]{Method: network.CommandEmulateNetworkConditionsByRule}

type slowLineParams struct {
	Offline bool                  `json:"offline"`
	Matched []*network.Conditions `json:"matchedNetworkConditions"`
}

// slow makes a tab as slow as a modest telephone: a quarter of this machine, ten megabit, 20 ms to the server.
func slow(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
	const megabit = 1e6 / 8
	_, err := cdp.Call(ctx, target, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: 4})
	if err == nil {
		_, err = cdp.Call(ctx, target, slowLine, slowLineParams{Matched: []*network.Conditions{{Latency: 20, DownloadThroughput: 10 * megabit, UploadThroughput: 10 * megabit}}})
	}
	return chromedp.Void{}, err
}

// observe begins to keep what the browser measures of a page, with what it measured before.
const observe = `(() => {
	const v = window.vitals = {lcp: 0, cls: 0, inp: 0, moved: []};
	const on = (type, take, more) => new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({type, buffered: true, ...more});
	on("largest-contentful-paint", (e) => { v.lcp = Math.max(v.lcp, e.startTime); });
	on("layout-shift", (e) => {
		if (e.hadRecentInput) return;
		v.cls += e.value;
		for (const s of e.sources) v.moved.push((s.node?.outerHTML || s.node?.data || "gone").slice(0, 120) + ": " + JSON.stringify(s.previousRect) + " to " + JSON.stringify(s.currentRect));
	});
	on("event", (e) => { if (e.interactionId) v.inp = Math.max(v.inp, e.duration); }, {durationThreshold: 16});
	return true;
})()`

// painted is when two frames were painted and what the observers have of them was told.
const painted = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true), 0))))`

type vitals struct {
	LCP float64 `json:"lcp"`
	CLS float64 `json:"cls"`
	INP float64 `json:"inp"`
	// Moved says what jumped, from where and to where.
	Moved []string `json:"moved"`
}

// U11: on a slow machine and a slow line the pages that people decide on do not jump, while they load and while somebody types; how
// long they take is printed (make bench) and asserted nowhere.
func TestPagesStandStill(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	_, run := r.Person("rita").Submit(raiseTax(repo))
	gate := r.AwaitGate(run)
	rita, ana := newTab(r, t, "rita"), newTab(r, t, "ana")
	rita.signIn("rita")
	ana.signIn("ana")
	rita.do("be slow", slow)
	ana.do("be slow", slow)
	for _, p := range []struct {
		name, path string
		who        *tab
		act        func(*tab)
	}{
		{"inbox", "/inbox", ana, func(b *tab) { b.press("j") }},
		{"run", "/runs/" + run, rita, func(b *tab) { b.click("#pause") }},
		{"patch gate", "/gates/" + gate, ana, func(b *tab) { b.write("#f-text", "Say why.") }},
		{"new task", "/tasks/new", rita, func(b *tab) { b.write("#f-goal", "Say what.") }},
	} {
		p.who.open(p.path)
		p.who.until(p.name+" is there", `document.querySelector("main h1")`)
		eval[bool](p.who, observe)
		p.who.until(p.name+" is painted", `window.vitals.lcp > 0`) // a browser measures no paint after the first key
		p.act(p.who)
		await(p.who, painted)
		v := eval[vitals](p.who, `window.vitals`)
		if v.CLS > 0.02 {
			t.Errorf("%s jumps by %.3f, more than 0.02:\n%s", p.name, v.CLS, strings.Join(v.Moved, "\n"))
		}
		fmt.Printf("U11 %-10s LCP %4.0f ms, INP %3.0f ms, CLS %.3f (4 times slower, 10 Mbit/s, 20 ms)\n", p.name, v.LCP, v.INP, v.CLS)
	}
	// Each page tells the server the same when it is left.
	ana.open("/inbox")
	rita.open("/tasks")
	r.Eventually("what the browsers measured", rig.Patience, func() (bool, string) {
		for _, route := range []string{"/inbox", "/runs/{id}", "/gates/{id}", "/tasks/new"} {
			if lcp := r.Vital(route, "lcp"); lcp <= 0 || lcp > 600 {
				return false, fmt.Sprintf("%s: LCP %g s", route, lcp)
			}
		}
		return true, ""
	})
}

// await evaluates a promise until it is kept.
func await(b *tab, promise string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, tabPatience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](promise, chromedp.EvalAwaitPromise)); err != nil {
		b.t.Fatalf("%s: %v", b.name, err)
	}
}
