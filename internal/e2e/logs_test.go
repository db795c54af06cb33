package e2e_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"signalbox/internal/e2e/rig"
)

// R-UI-1, U20: the log of an agent arrives while it runs and is followed only while its end is in view; every line has an
// address that shows and marks it, also a range, also one that is folded, also without a script.
// Field reports: prefect legacy-ui#87, cirrus-ci-web#448, gocd PR#1138.
func TestBrowserLog(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	sh := func(script string) rig.Act { return rig.Act{Do: "sh", New: script} }
	_, run := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Print much", Goal: rig.Recipe("Print.",
		sh(`seq 1 700 | sed 's/^/line /'; printf '\033[31mred\033[0m <b>bold</b>\n'; for i in 1 2 3 4 5 6; do echo waiting; done; printf 'half 40%%'`),
		rig.Await("more"), sh(`echo ' done'; echo "the end"`), rig.Await("last"), sh(`seq 1 30`),
		rig.Act{Do: "replace", When: "first", File: "lib/price.sh", Old: "rate=19", New: "rate=20"})})
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	rita.open("/runs/" + run)
	rita.until("the run executes, live", `document.querySelector("#run-steps a[href$='/logs']")`)
	rita.until("the agent prints", `fetch(location.pathname + "/logs").then((a) => a.text()).then((page) => { window.printed = /Execution log/.test(page); }) && window.printed`)
	rita.click(`#run-steps a[href$="/logs"]`)
	rita.until("the list of logs", `[...document.querySelectorAll(".cards a")].some((a) => a.innerText === "Execution log")`)
	rita.shot("logs")
	rita.click(`.cards a[href*="/logs/lease_"]`)
	rita.until("the log, to the unfinished line", `/half 40%$/.test(document.querySelector("#log-open")?.innerText.trim())`)
	log := rita.path()
	loads := rita.loaded()
	const atEnd = `(() => { const b = document.querySelector("#log-box"); return b.scrollHeight - b.scrollTop - b.clientHeight < 30 })()`
	rita.until("the end is in view", atEnd)
	rita.until("how far it is", `document.querySelector("#log-progress")?.value === 40`)
	rita.shot("log-live")
	if got := eval[string](rita, `getComputedStyle(document.querySelector("#log-lines .a-red")).color`); got == "" || rita.has("#log-lines b") || !eval[bool](rita, `/^red <b>bold<.b>$/m.test(document.querySelector("#log-lines").innerText)`) {
		t.Errorf("red is %q, or markup of the log's own came alive", got)
	}
	earlier := rita.text("#log-before")

	// Followed at the end, left alone elsewhere.
	r.Signal("more")
	rita.until("more arrives", `/the end/.test(document.querySelector("#log-lines").innerText) && /half 40% done/.test(document.querySelector("#log-lines").innerText)`)
	rita.until("and is followed", atEnd)
	eval[bool](rita, `(document.querySelector("#log-box").scrollTop = 0, true)`)
	rita.until("the log knows that its end is out of view", `document.querySelector("#log-box").scrollTop === 0`)
	r.Signal("last")
	rita.until("what is new is counted", `/^\d+ new lines?$/.test(document.querySelector("#log-new").innerText) && !document.querySelector("#log-new").hidden`)
	if eval[float64](rita, `document.querySelector("#log-box").scrollTop`) > 100 {
		t.Error("the log moved under the reader")
	}
	rita.until("nothing is there twice", `(() => { const ids = [...document.querySelectorAll("#log-box li[id]")].map((li) => li.id); return new Set(ids).size === ids.length && ids.length >= 500 })()`)
	if got := rita.text("#log-before"); earlier == "" || got != earlier {
		t.Errorf("%q earlier lines were left out, now %q", earlier, got)
	}
	rita.click("#log-new")
	rita.until("the end is in view again", atEnd)
	if rita.loaded() != loads {
		t.Errorf("the page was loaded %d times more", rita.loaded()-loads)
	}

	// An address of a line that is not in the window fetches it; the range of the address is marked.
	rita.open("/inbox")
	rita.open(log + "#L42-L45")
	rita.until("the range is shown", `location.search === "?at=42-45" && document.querySelectorAll(".logmark").length === 4 && document.querySelector("#L42")`)
	if got := rita.text("#L42 code"); !strings.HasPrefix(got, "line ") {
		t.Errorf("line 42 is %q", got)
	}
	rita.click("#L50 .logno")
	rita.until("a line is chosen", `location.search === "?at=50" && location.hash === "#L50" && document.querySelectorAll(".logmark").length === 1`)
	rita.do("extend by key", chromedp.SendKeys(chromedp.CSS("#log-box"), "J"))
	rita.until("two lines are chosen", `location.search === "?at=50-51" && document.querySelectorAll(".logmark").length === 2`)
	rita.shot("log-range")

	// A search leads to a folded line, which is opened.
	rita.write("#log-q", "WAITING")
	rita.click(".logsearch button")
	rita.until("the hits", `/^6 lines hold/.test(document.querySelector(".logfound [role=status]")?.innerText)`)
	rita.shot("log-hits")
	last := eval[string](rita, `[...document.querySelectorAll(".hit")].pop().closest("li").id`)
	rita.open(log + "#" + last)
	rita.until("the folded line is open", `document.querySelector("#`+last+`")?.offsetParent && document.querySelector("#`+last+`").closest("details").open`)
	rita.shot("log-folded")

	// Without a script the same addresses lead to the same lines.
	plain := rita.another("rita without scripts")
	plain.withoutScript()
	plain.open(log + "?at=50-51&t=utc#L50")
	if got := plain.text("#L51.logmark code"); !strings.HasPrefix(got, "line ") || !plain.has("#L50.logmark time") {
		t.Errorf("without a script line 51 is %q", got)
	}
	r.Person("ana").Approve(r.AwaitGate(run))
}
