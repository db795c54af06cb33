package e2e_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

const tabKey, escapeKey, enterKey = "\t", "\x1b", "\r"

// focused says what is wrong with the element that has the focus, after its name: it cannot be seen, nothing shows that it has the
// focus, something lies over it (WCAG 2.4.11), or it stands before the one that had the focus before it. "" before the name: nothing.
const focused = `(() => {
	const e = document.activeElement, before = window.stop_;
	if (!e || e === document.body) { window.stop_ = null; return "|"; }
	window.stop_ = e;
	const name = e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + " " + (e.innerText || e.value || e.name || "").trim().slice(0, 40);
	const style = getComputedStyle(e), wrong = [];
	const boxes = [...e.getClientRects()].map((b) => ({left: Math.max(b.left, 0), top: Math.max(b.top, 0), right: Math.min(b.right, innerWidth), bottom: Math.min(b.bottom, innerHeight)})).filter((b) => b.right - b.left > 1 && b.bottom - b.top > 1);
	if (!boxes.length || !e.checkVisibility({opacityProperty: true, visibilityProperty: true})) wrong.push("cannot be seen");
	if (!e.matches(":focus-visible") || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) wrong.push("has no ring");
	// What a point of the visible part shows is the element, what is in it, or its label; a corner may be round, so the middle counts.
	const over = boxes.map((b) => document.elementFromPoint((b.left + b.right) / 2, (b.top + b.bottom) / 2)).filter((o) => o && !e.contains(o) && !(e.labels && [...e.labels].some((l) => l.contains(o))));
	if (boxes.length && over.length === boxes.length) wrong.push("is covered by " + over[0].outerHTML.slice(0, 120));
	if (before?.isConnected && before !== e && !(before.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING)) wrong.push("comes after " + before.outerHTML.slice(0, 120));
	return wrong.join(", ") + "|" + name;
})()`

// stop presses Tab and judges where that leads; at the page's end it answers "".
func (b *tab) stop() (name string) {
	b.t.Helper()
	b.press(tabKey)
	wrong, name, _ := strings.Cut(eval[string](b, focused), "|")
	if wrong != "" {
		b.t.Errorf("%s, %s: the focused %s %s", b.name, b.path(), name, wrong)
	}
	return name
}

// walk goes by Tab from where the focus is to what a selector finds.
func (b *tab) walk(css string) {
	b.t.Helper()
	b.until(css+" is there", `document.querySelector(`+strconv.Quote(css)+`)`)
	var stops []string
	for range 150 {
		if stops = append(stops, b.stop()); eval[bool](b, `document.activeElement.matches(`+strconv.Quote(css)+`)`) {
			return
		}
	}
	b.t.Fatalf("%s, %s: Tab does not lead to %s, but to %s", b.name, b.path(), css, strings.Join(stops, " > "))
}

// walkPage goes by Tab from the page's start to its end, and back to its start.
func (b *tab) walkPage() (stops []string) {
	b.t.Helper()
	for range 250 {
		name := b.stop()
		if name == "" {
			return stops
		}
		stops = append(stops, name)
	}
	b.t.Fatalf("%s, %s: Tab does not come to the page's end: %s", b.name, b.path(), strings.Join(stops, " > "))
	return nil
}

// U16: a task is submitted, a gate decided and a run cancelled by keyboard alone. Whatever has the focus is seen, marked and not
// covered, the order is the page's, and Escape leaves a dialog or menu to where it was opened.
func TestBrowserKeyboardAlone(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita, ana := newTab(r, t, "rita"), newTab(r, t, "ana")
	rita.signIn("rita")
	ana.signIn("ana")

	task := raiseTax(repo)
	rita.walk(`main a[href="/tasks/new"]`)
	rita.press(enterKey)
	rita.until("the form", `location.pathname === "/tasks/new" && document.querySelector("#f-goal")`)
	rita.walk("#f-repository")
	rita.press(repo.Name) // a list is chosen from by typing
	rita.until("the repository is chosen", `document.querySelector("#f-repository").selectedOptions[0].label.trim() === `+strconv.Quote(repo.Name))
	rita.walk("#f-goal")
	rita.press(strings.ReplaceAll(task.Goal, "\n", enterKey))
	rita.walk("#f-title")
	rita.press(task.Title + enterKey)
	rita.until("the task's page", `/^\/tasks\/task_/.test(location.pathname) && document.querySelector('a[href^="/runs/run_"]')`)
	rita.walk(`main a[href^="/runs/run_"]`)
	rita.press(enterKey)
	rita.until("the run's page", `/^\/runs\/run_/.test(location.pathname) && document.querySelector("#run-panel")`)
	run := strings.TrimPrefix(rita.path(), "/runs/")
	gate := r.AwaitGate(run)

	for _, size := range [][2]int64{{390, 844}, {1280, 720}} {
		ana.do("a window", chromedp.EmulateViewport(size[0], size[1]))
		ana.open("/gates/" + gate)
		if stops := ana.walkPage(); len(stops) < 15 || !strings.Contains(strings.Join(stops, "\n"), "button Approve") {
			t.Errorf("at %d pixels the gate's page has the stops %q", size[0], stops)
		}
	}
	ana.open("/gates/" + gate)
	ana.walk(".usermenu summary")
	ana.press(enterKey)
	ana.walk(".usermenu a")
	ana.press(escapeKey)
	ana.until("the menu is closed and the focus on what opened it", `!document.querySelector(".usermenu").open && document.activeElement.matches(".usermenu summary")`)
	eval[bool](ana, `(window.stop_ = null, true)`)
	ana.walk(`button[value="reject"]`)
	ana.press(enterKey)
	ana.until("the question whether to reject", `document.activeElement.closest("dialog[open].confirm")`)
	ana.shot("reject-asked")
	ana.press(escapeKey)
	ana.until("the question is gone and the focus on what asked it", `!document.querySelector("dialog[open]") && document.activeElement.matches('button[value="reject"]')`)
	ana.walk(`button[value="approve"]`)
	ana.press(enterKey)
	ana.until("approved, and the focus on the result", `/Approved/.test(document.querySelector("#gate-panel").innerText) && document.activeElement.id === "gate-panel-title"`)
	r.Await(run, wire.RunStateSUCCEEDED)

	_, run = r.Person("rita").Submit(raiseTax(repo, "never"))
	rita.open("/runs/" + run)
	const asks = `document.querySelector('form[action$="/cancel"] #f-reason')`
	leave := `a[href="/runs/` + run + `/cancel"]`
	rita.until("the agent works", `document.querySelector("#e7")`)
	rita.walk(leave)
	rita.press(enterKey)
	rita.until("the page that asks", asks)
	rita.walk(`main form a.button`)
	rita.press(enterKey)
	rita.until("the run again", `location.pathname === "/runs/`+run+`" && document.querySelector("#run-panel")`)
	if n := r.Count(run, "cancel_requested"); n != 0 {
		t.Errorf("%d cancels of a run that was kept", n)
	}
	rita.walk(leave)
	rita.press(enterKey)
	rita.until("the page that asks", asks)
	rita.walk("#f-reason")
	rita.press("Wrong repository." + enterKey)
	rita.until("cancelled", `location.pathname === "/runs/`+run+`" && /Cancel/.test(document.querySelector("#run-panel").innerText)`)
	r.Await(run, wire.RunStateCANCELLED)
}
