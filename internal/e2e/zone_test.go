package e2e_test

import (
	"context"
	"regexp"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"signalbox/internal/e2e/rig"
)

// unzoned are the instants that a page shows in UTC, though not on purpose.
const unzoned = `[...document.querySelectorAll("time:not([data-utc])")].flatMap((e) => [e.textContent, e.title]).concat([...document.querySelectorAll("#state-sentence, .foot")].map((e) => e.innerText)).filter((text) => / UTC/.test(text)).join("|")`

// ux.md 2.0: times are UTC until a person asks for their own zone; then every instant of every page is in it and says so: the ones in
// sentences, the ones that come by the stream, and the ones in tips. Without a script, which alone knows the zone, nothing is offered.
func TestBrowserTimesInTheReadersZone(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := newTab(r, t, "rita")
	rita.do("a browser in Nepal", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kathmandu"})
		return chromedp.Void{}, err
	})
	rita.signIn("rita")
	run := rita.submitTask(raiseTax(repo, "rest"))
	rita.open("/runs/" + run)
	rita.until("events in UTC", `document.querySelector("#e7 time")`)
	if at := rita.text("#e7 .tl-meta time"); !regexp.MustCompile(`^\d\d:\d\d:\d\d UTC$`).MatchString(at) {
		t.Errorf("at first an event is of %q", at)
	}
	rita.click(".usermenu summary")
	rita.click(".usermenu button[name=times][value=local]")
	rita.until("the page in the reader's zone", `document.documentElement.dataset.times === "local" && `+isLive)
	if at := rita.text("#e7 .tl-meta time"); !regexp.MustCompile(`^\d\d:\d\d:\d\d GMT\+5:45$`).MatchString(at) {
		t.Errorf("an event is of %q", at)
	}
	if foot := rita.text(".foot"); !regexp.MustCompile(`Times are Asia/Kat[a-z]+\. Page made \d\d:\d\d:\d\d GMT\+5:45\.`).MatchString(foot) {
		t.Errorf("the footer says %q", foot)
	}
	if left := eval[string](rita, unzoned); left != "" {
		t.Errorf("still in UTC: %s", left)
	}
	rita.shot("times-local")

	r.Signal("rest")
	gate := r.AwaitGate(run)
	rita.until("what came by the stream", `/Waiting for approval/.test(document.querySelector("#state-sentence").innerText)`)
	if left := eval[string](rita, unzoned); left != "" {
		t.Errorf("what came by the stream is in UTC: %s", left)
	}
	for _, page := range []string{"/gates/" + gate, "/inbox", "/runs", "/tasks", "/workers", "/sessions"} {
		rita.open(page)
		if left := eval[string](rita, unzoned); left != "" || !rita.has("time") {
			t.Errorf("%s in UTC: %s", page, left)
		}
	}
	rita.click(".usermenu summary")
	rita.click(".usermenu button[name=times][value=utc]")
	rita.until("UTC again", `!document.documentElement.dataset.times && / UTC/.test(document.querySelector(".foot time").innerText)`)
}
