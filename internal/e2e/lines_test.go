package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"signalbox/internal/e2e/rig"
)

// 2.3, R-UI-2: a reader sees the lines around a change, from a worker that stored them to the page: by keyboard, with the focus on
// what has come and what is being written left alone, and by plain links without a script.
func TestBrowserShowsLinesAroundAChange(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	files := rig.Shop()
	for n := 5; n <= 70; n++ {
		files["lib/price.sh"] += fmt.Sprintf("# note %d <b>of the shop</b>\n", n)
	}
	_, run := r.Person("rita").Submit(raiseTax(r.Repository("acme/shop", files)))
	gate := r.AwaitGate(run)
	ana := newTab(r, t, "ana")
	ana.signIn("ana")
	ana.open("/gates/" + gate)
	ana.click(`.dfile a[data-line]`)
	ana.write(`.dfile textarea`, "Not sent yet")
	const offer = `document.querySelector(".dhunk a[hx-get]")`
	name := eval[string](ana, offer+`.textContent`)
	if !strings.HasPrefix(name, "Show 20 lines below, lines 7 to 26 of ") {
		t.Errorf("the link is called %q", name)
	}
	ana.shot("gate-lines-offered")
	eval[bool](ana, `(`+offer+`.focus(), true)`)
	ana.press(kb.Enter)
	ana.until("the lines are there, with the focus", `document.querySelector("#file-1-R26")?.textContent.includes("note 26 <b>of the shop</b>") && document.activeElement.id === "lines-1-7"`)
	ana.until("it was said", `document.querySelector("#announce").textContent.includes("Lines 7 to 26 are shown.")`)
	ana.until("the next ones are offered", offer+`.textContent.startsWith("Show 20 lines below, lines 27 to 46 of ")`)
	ana.click(`.dhunk a[hx-get]:last-of-type`)
	ana.until("all lines are there", `document.querySelector("#file-1-R70") && !document.querySelector(".dhunk a[hx-get]")`)
	if got := eval[string](ana, `document.querySelector(".dfile textarea").value`); got != "Not sent yet" {
		t.Errorf("the comment is now %q", got)
	}
	ana.shot("gate-lines-shown")

	plain := ana.another("ana, without script")
	plain.withoutScript()
	plain.open("/gates/" + gate + "?view=split")
	plain.shot("gate-lines-split")
	plain.click(`.dhunk a[hx-get]`)
	plain.until("the page with the lines", `document.querySelector("#file-1-R26")?.dataset.n === "26" && location.hash === "#file-1-R7"`)
}
