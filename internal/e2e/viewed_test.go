package e2e_test

import (
	"testing"

	"signalbox/internal/e2e/rig"
)

// 2.3, rules 17 and 18: a tick folds its file, counts, is announced and keeps the focus, and nothing that is being written is lost.
func TestBrowserTicksAFile(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	_, run := r.Person("rita").Submit(raiseTax(r.Repository("acme/shop", rig.Shop())))
	gate := r.AwaitGate(run)
	ana := newTab(r, t, "ana")
	ana.signIn("ana")
	ana.open("/gates/" + gate)
	ana.shot("gate-diff")
	ana.click(`.dfile a[data-line]`)
	ana.write(`.dfile textarea`, "Not sent yet")
	ana.click("#viewed-1")
	ana.until("the file is folded", `document.querySelector("#viewed-1").ariaPressed === "true" && !document.querySelector("#fold-1").open`)
	ana.until("the button has the focus and it was said", `document.activeElement.id === "viewed-1" && /Viewed\. 1 of/.test(document.querySelector("#announce").textContent)`)
	ana.until("it is counted", `/^1 of/.test(document.querySelector("#viewed-count").textContent)`)
	if got := eval[string](ana, `document.querySelector(".dfile textarea").value`); got != "Not sent yet" {
		t.Errorf("the comment is now %q", got)
	}
	ana.shot("gate-viewed")
	ana.click("#viewed-1")
	ana.until("it is open again", `document.querySelector("#viewed-1").ariaPressed === "false" && document.querySelector("#fold-1").open`)

	plain := ana.another("ana, without script")
	plain.withoutScript()
	plain.open("/gates/" + gate)
	plain.click("#viewed-1")
	plain.until("ticked", `document.querySelector("#viewed-1")?.ariaPressed === "true" && location.hash === "#file-1"`)
}
