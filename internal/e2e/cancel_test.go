package e2e_test

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// R-UI-6, R-CAN-3: a cancel from the page says what stays and what goes, is shown as asked for and then as done, and
// keeps what was made.
// cancel rule 10: plan and logs are kept and can be read after the end.
func TestBrowserCancel(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	run := rita.submitTask(raiseTax(repo, "never"))
	rita.open("/runs/" + run)
	rita.until("the agent works", `document.querySelector("#e7")`)
	loads := rita.loaded()
	watching := rita.another("rita, watching")
	watching.open("/runs/" + run)
	rita.click(`a[href="/runs/` + run + `/cancel"]`)
	rita.until("the page that asks", `document.querySelector('form[action="/runs/`+run+`/cancel"]')`)
	words := eval[string](rita, `document.querySelector("main").innerText`)
	for _, want := range []string{"Stays", "Goes"} {
		if !strings.Contains(strings.ToLower(words), strings.ToLower(want)) && !strings.Contains(words, "keep") {
			t.Errorf("the page does not say what %s:\n%s", want, words)
		}
	}
	rita.shot("cancel")
	rita.write(`[name="reason"]`, "Wrong repository.")
	rita.click(`form[action="/runs/` + run + `/cancel"] button[type=submit]`)
	rita.until("back at the run, cancelling or cancelled", `location.pathname === "/runs/`+run+`" && /Cancel/.test(document.querySelector("#run-panel").innerText)`)
	if rita.loaded() <= loads {
		t.Error("no page was loaded")
	}
	watching.until("the other tab sees the end, live", `/Cancelled/.test(document.querySelector("#run-panel .badge").innerText)`)
	watching.gapless(watching.rows())
	if got := watching.text(".rail-cancelled .rail-name"); got != "Execute" {
		t.Errorf("the rail says that the run ended at %q", got)
	}
	watching.shot("run-cancelled")
	r.Await(run, wire.RunStateCANCELLED)

	kinds := strings.Join(r.Kinds(run), " ")
	if r.Count(run, "cancel_requested") != 1 || r.Count(run, "cancel_confirmed") != 1 {
		t.Errorf("asked for and done are not two facts: %s", kinds)
	}
	timeline := watching.text("#timeline-rows")
	if !strings.Contains(timeline, "Rita Requester") || !strings.Contains(timeline, "Wrong repository.") {
		t.Errorf("the timeline does not say who and why: %s", timeline)
	}
	if branches := repo.Branches(); len(branches) != 0 {
		t.Errorf("branches %q", branches)
	}
	if plans := r.Artifacts(run, "plan"); len(plans) != 1 {
		t.Errorf("%d plans kept", len(plans))
	}
}

// R-CAN-5: a browser that goes away cancels nothing, whatever it was doing.
func TestBrowserLeaves(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	run := rita.submitTask(raiseTax(repo, "browser-is-gone"))
	rita.open("/runs/" + run)
	rita.until("the agent works, live", `document.querySelector("#e7") && document.querySelector("#live").dataset.live === "live"`)
	rita.quiet()
	if err := chromedp.Cancel(rita.ctx); err != nil && context.Cause(rita.ctx) == nil {
		t.Fatal(err)
	}
	r.Signal("browser-is-gone")
	r.Person("ana").Approve(r.AwaitGate(run))
	r.Await(run, wire.RunStateSUCCEEDED)
	if n := r.Count(run, "cancel_requested"); n != 0 {
		t.Errorf("%d cancels", n)
	}
	repo.Published(run)
}
