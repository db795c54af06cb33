package e2e_test

import (
	"fmt"
	"testing"

	"signalbox/internal/e2e/rig"
)

// front makes a page believe that its tab is in front or behind others; a browser without a screen shows all of them.
func (b *tab) front(front bool) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => {
		Object.defineProperty(document, "hidden", {configurable: true, get: () => %t});
		Object.defineProperty(document, "visibilityState", {configurable: true, get: () => %t ? "visible" : "hidden"});
		document.dispatchEvent(new Event("visibilitychange"));
		return true;
	})()`, !front, front))
}

// U8, rule 14 of the pages: over HTTP/1.1 a browser holds six connections to a server. Seven tabs of one run do not hang: those that
// nobody sees let go of their stream, the one in front is live, and one that comes to the front again has missed nothing.
// Field reports: woodpecker#6511, freenet-core#5213, profilarr#434, agent-dashboard#19.
func TestSevenTabs(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	run := rita.submitTask(raiseTax(repo, "seven-tabs-are-open"))
	tabs := []*tab{rita}
	for n := range 6 {
		tabs = append(tabs, rita.another(fmt.Sprint("rita, tab ", n+2)))
	}
	const live = `document.querySelector("#live").dataset.live === "live"`
	for i, b := range tabs {
		b.open("/runs/" + run)
		b.until("live", live)
		if i < len(tabs)-1 {
			b.front(false)
		}
	}
	last := tabs[len(tabs)-1]
	last.until("the agent works", `document.querySelector("#e7")`)
	r.Signal("seven-tabs-are-open")
	r.AwaitGate(run)
	last.until("the gate, live", `document.querySelector('#run-panel a[href^="/gates/"]')`)
	if rita.has(`#run-panel a[href^="/gates/"]`) {
		t.Error("a tab that nobody sees held its stream")
	}
	loads := rita.loaded()
	rita.front(true)
	rita.until("the first tab has it, too", `document.querySelector('#run-panel a[href^="/gates/"]') && `+live)
	rita.gapless(rita.rows())
	if rita.loaded() != loads || len(rita.rows()) != len(r.Events(run)) {
		t.Errorf("the first tab was loaded %d times more and has the rows %v", rita.loaded()-loads, rita.rows())
	}
}
