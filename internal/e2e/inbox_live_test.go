package e2e_test

import (
	"testing"

	"signalbox/internal/e2e/rig"
)

// A23, ux.md 2.1: what somebody else decides is said in its row of an open My turn, and what is new is offered above; no row moves,
// nothing that was ticked is lost, and nothing is loaded again.
func TestBrowserInboxIsLive(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady(), Approvers: 1})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := r.Person("rita")
	_, run := rita.Submit(raiseTax(repo))
	gate := r.AwaitGate(run)
	_, other := rita.Submit(raiseTax(repo))
	second := r.AwaitGate(other)
	ana := newTab(r, t, "ana")
	ana.signIn("ana")
	ana.open("/inbox")
	ana.until("live", isLive)
	loads, place := ana.loaded(), `document.querySelector("#gate-`+second+`").getBoundingClientRect().top + scrollY`
	ana.click("#gate-" + second + " input[type=checkbox]")

	before := eval[float64](ana, place)
	_, third := rita.Submit(raiseTax(repo))
	fresh := r.AwaitGate(third)
	ana.until("what is new is offered", `/Show 1 new item/.test(document.querySelector("#inbox-news").innerText)`)
	r.Person("a1").Approve(gate)
	ana.until("the row says who decided", `/approved this at/.test(document.querySelector("#news-`+gate+`").innerText)`)
	if ana.has("#gate-"+fresh) || ana.loaded() != loads || !eval[bool](ana, `document.querySelector("#gate-`+second+` input[type=checkbox]").checked`) {
		t.Errorf("the list was loaded %d times more, or lost its tick", ana.loaded()-loads)
	}
	if after := eval[float64](ana, place); after != before {
		t.Errorf("a row moved from %g to %g", before, after)
	}
	ana.shot("inbox-live")
	ana.click("#inbox-news a")
	ana.until("the list as it is now", `document.querySelector("#gate-`+fresh+`") && !document.querySelector("#gate-`+gate+` .button-primary")`)
}
