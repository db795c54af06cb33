package e2e_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"signalbox/internal/e2e/rig"
)

// 2.3, U7, U15, U16: a line takes a comment by its number, by mouse, by keyboard and without a script; it outlives the page.
func TestBrowserCommentsOnALine(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	_, run := r.Person("rita").Submit(raiseTax(r.Repository("acme/shop", rig.Shop())))
	gate := r.AwaitGate(run)
	ana := newTab(r, t, "ana")
	ana.signIn("ana")
	ana.open("/gates/" + gate)
	ref := eval[string](ana, `document.querySelector(".dadd a[data-line]").dataset.line`)
	field := "#f-line-" + ref
	link := fmt.Sprintf(`a[data-line=%q]`, ref)

	// Escape takes an empty field away and leads back to the line.
	eval[bool](ana, fmt.Sprintf(`(document.querySelector('%s').focus(), true)`, link))
	ana.press(kb.Enter)
	ana.until("the field has the focus", fmt.Sprintf(`document.activeElement.id === "f-line-%s"`, ref))
	if v := eval[string](ana, fmt.Sprintf(`JSON.stringify(document.querySelector(%q).value)`, field)); v != `""` {
		t.Errorf("the key that opened the field wrote %s", v)
	}
	ana.press(kb.Escape)
	ana.until("back at the line", fmt.Sprintf(`document.activeElement.dataset.line === %q && !document.querySelector(%q)`, ref, field))
	ana.click(link)
	ana.write(field, "Why so much?")
	ana.shot("gate-line-comment")
	ana.open("/inbox")
	saved(r, "Why so much?")

	plain := ana.another("ana, without script")
	plain.withoutScript()
	plain.open("/gates/" + gate)
	if got := eval[string](plain, `document.querySelector(".dfile tr.dcomment textarea").value`); got != "Why so much?" {
		t.Errorf("without a script: %q", got)
	}
	ana.open("/gates/" + gate + "?view=split")
	ana.until("side by side, too", fmt.Sprintf(`document.querySelector(%q).value === "Why so much?"`, field))
	ana.shot("gate-line-comment-split")
	ana.click(`button[value="request_changes"]`)
	ana.until("the request is recorded", `/Changes requested/.test(document.querySelector("#gate-panel").innerText)`)
	ana.until("no comment is left", `!document.querySelector(".dfile textarea") && Object.keys(sessionStorage).length === 0`)
	if n := drafts(r); n != 0 {
		t.Errorf("%d drafts are left", n)
	}
}
