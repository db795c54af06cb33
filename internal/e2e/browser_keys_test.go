package e2e_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"signalbox/internal/e2e/rig"
)

// press sends keys to whatever has the focus.
func (b *tab) press(keys string) { b.do("press "+keys, chromedp.KeyEvent(keys)) }

// ux.md 2, U16: lists are walked, rows opened and selected, pages reached and the keys themselves looked up without a mouse; what
// somebody types is never taken for a command, and single keys can be turned off (WCAG 2.1.4).
// Field reports: spreed#7563, npmx.dev#1537.
func TestBrowserKeys(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady(), Workers: -1})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	for range 2 {
		rita.submitTask(raiseTax(repo))
	}

	rita.press("gr")
	rita.until("the runs", `location.pathname === "/runs" && document.querySelectorAll("tbody tr").length === 2`)
	const row = `[...document.querySelectorAll("tbody tr")].findIndex((row) => row.contains(document.activeElement))`
	rita.press("j")
	rita.until("the first row", row+" === 0")
	rita.press("jx")
	rita.until("the second row, selected", row+` === 1 && document.querySelectorAll("tbody input:checked").length === 1`)
	rita.press("jkx")
	rita.until("the first row, selected, too", row+` === 0 && document.querySelectorAll("tbody input:checked").length === 2`)

	rita.press("/")
	rita.until("the search", `document.activeElement.type === "search"`)
	rita.press("gijx?")
	// The protocol sends a key's character whatever the page says about the key; with a keyboard the slash is not typed.
	if got := strings.TrimPrefix(eval[string](rita, `document.activeElement.value`), "/"); got != "gijx?" {
		t.Errorf("the search field holds %q", got)
	}

	rita.open("/runs")
	rita.press("?")
	rita.until("the keys", `document.querySelector("dialog#keys[open] #keys-table tbody tr")`)
	rita.shot("keys")
	rita.press("gi")
	rita.do("press Escape", chromedp.KeyEvent("\x1b"))
	rita.until("the list again", `!document.querySelector("dialog[open]") && location.pathname === "/runs"`)
	rita.press("j\r")
	rita.until("the run's page", `/^\/runs\/run_/.test(location.pathname) && document.querySelector("#run-panel")`)
	rita.press("c")
	rita.until("the form of a new task", `location.pathname === "/tasks/new" && document.querySelector("form textarea")`)

	rita.open("/help/keys")
	rita.click(`button[name="keys"][value="off"]`)
	rita.until("the keys are off", `document.documentElement.dataset.keys === "off" && document.querySelector('button[value="off"][aria-pressed="true"]')`)
	rita.press("gi?")
	rita.open("/help/keys") // were one of them heard, it would have led away by now
	if rita.has("dialog[open]") {
		t.Error("keys that are off open the help")
	}
}
