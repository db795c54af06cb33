package e2e_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"signalbox/internal/e2e/rig"
)

// back goes one page back, as the browser's button does.
func (b *tab) back() {
	b.t.Helper()
	eval[bool](b, `history.back(), true`)
}

// U19: back and forward give the list with its filters and the page with its open parts and its place, as whole pages; a run's page
// comes from the browser's memory, and its stream goes on.
// Field reports: riverui#495, htmx#1201, htmx#497, htmx#724, htmx#3037.
func TestBackAndForward(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	run := rita.submitTask(raiseTax(repo, "rita-is-back"))
	rita.do("a small window", chromedp.EmulateViewport(700, 500))

	rita.open("/runs")
	rita.until("the list", `document.querySelector("form.filters [name=q]")`)
	rita.write("form.filters [name=q]", "tax")
	rita.press("\r")
	rita.until("the filtered list", `new URLSearchParams(location.search).get("q") === "tax" && document.querySelector('tbody a[href="/runs/`+run+`"]')`)
	rita.click(`tbody a[href="/runs/` + run + `"]`)
	rita.until("the run, live", `document.querySelector("#e7") && document.querySelector("#live").dataset.live === "live"`)

	const place = `Math.round(scrollY)`
	eval[bool](rita, `(() => { window.kept = "in memory"; const d = document.querySelector("main details"); if (d) d.open = true; scrollTo(0, 300); return true; })()`)
	at, open := eval[int](rita, place), eval[int](rita, `document.querySelectorAll("main details[open]").length`)
	rita.back()
	rita.until("the list again, with its filter", `location.pathname === "/runs" && document.querySelector("form.filters [name=q]").value === "tax" && document.querySelector("header nav") && document.querySelectorAll("tbody tr").length === 1`)
	eval[bool](rita, `history.forward(), true`)
	rita.until("the run's page again", `location.pathname === "/runs/`+run+`" && document.querySelector("header nav") && document.querySelector("#run-panel")`)
	if got := eval[string](rita, `String(window.kept)`); got != "in memory" {
		t.Errorf("the page was not kept in memory: %s", strings.TrimSpace(eval[string](rita, `JSON.stringify(performance.getEntriesByType("navigation")[0]?.notRestoredReasons || null)`)))
	}
	if got := eval[int](rita, place); got != at {
		t.Errorf("the page was at %d and is at %d", at, got)
	}
	if got := eval[int](rita, `document.querySelectorAll("main details[open]").length`); got != open {
		t.Errorf("%d parts were open, and %d are", open, got)
	}
	rita.until("live again", `document.querySelector("#live").dataset.live === "live"`)
	r.Signal("rita-is-back")
	r.AwaitGate(run)
	rita.until("what happened since, live", `document.querySelector('#run-panel a[href^="/gates/"]')`)
	rita.gapless(rita.rows())
}
