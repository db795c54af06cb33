package e2e_test

import (
	"strings"
	"testing"

	"signalbox/internal/e2e/rig"
)

// 2.1, R-UI-2: in My turn a row of low risk opens to all of the patch, is approved at its end, and says in its place what came of it;
// the list itself is never loaded again.
func TestBrowserReadsAndApprovesInTheList(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	_, run := r.Person("rita").Submit(raiseTax(r.Repository("acme/shop", rig.Shop())))
	gate := r.AwaitGate(run)
	ana := newTab(r, t, "ana")
	ana.signIn("ana")
	ana.open("/inbox")
	loads, row := ana.loaded(), "#quick-"+gate

	ana.click("#gate-" + gate + " a[hx-get]")
	ana.until("the row is open to the patch", `document.querySelector("`+row+`[open] form button[value=approve]")`)
	if got := eval[string](ana, `document.querySelector("`+row+`").textContent`); !strings.Contains(got, "rate=20") || !strings.Contains(got, "What happens on approve") {
		t.Errorf("the row shows %s", got)
	}
	// The keyboard goes on where the content begins, and the button stands below all of it.
	ana.until("the row has the focus", `document.querySelector("`+row+`").contains(document.activeElement)`)
	if !eval[bool](ana, `(() => { const q = document.querySelector("`+row+`"), bottom = e => e.getBoundingClientRect().bottom;
		return bottom(q.querySelector("button[value=approve]")) > Math.max(...[...q.querySelectorAll("table")].map(bottom)) })()`) {
		t.Error("the button does not stand below the patch")
	}
	ana.shot("inbox-quick")
	ana.click(row + " summary")
	ana.until("the row is closed", `!document.querySelector("`+row+`").open`)
	ana.click(row + " summary")

	ana.click(row + ` button[value="approve"]`)
	ana.until("the row says that it is approved", `/Approved/.test(document.querySelector("`+row+`").innerText) && !document.querySelector("`+row+` form")`)
	ana.shot("inbox-quick-approved")
	if ana.path() != "/inbox" || ana.loaded() != loads {
		t.Errorf("the list was left for %s, or loaded %d times more", ana.path(), ana.loaded()-loads)
	}
	r.Await(run, "SUCCEEDED")
	ana.open("/inbox")
	if ana.has("#gate-" + gate + " a[hx-get]") {
		t.Error("what was approved is offered again")
	}
}
