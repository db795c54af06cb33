package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/internal/e2e/rig"
)

// A request that failed never looks as if nothing had happened: that the server was not reached, or could not do it, is said and stays
// said, what was written is still there, and the same button sends it again, which counts once.
// Field reports: experimenter#17393, htmx#494.
func TestBrowserFailuresAreSaid(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	_, run := r.Person("rita").Submit(raiseTax(r.Repository("acme/shop", rig.Shop())))
	gate := r.AwaitGate(run)
	ana := newTab(r, t, "ana")
	ana.signIn("ana")
	ana.underRemote()
	ana.open("/gates/" + gate)
	const text = "Say why."
	ana.write("#f-text", text)
	ana.forgive(`htmx:error`, `cable`, `503`)
	for i, failure := range []struct{ answer, says string }{
		{`Promise.reject(new TypeError("the cable is out"))`, "The server could not be reached."},
		{`Promise.resolve(new Response("<p>No.</p>", {status: 503, headers: {"Content-Type": "text/html", "X-Request-Id": "REQ7"}}))`, "The server could not carry this out."},
	} {
		eval[bool](ana, `(remote.answer = () => `+failure.answer+`, true)`)
		ana.click(`button[value="request_changes"]`)
		ana.until(failure.says, fmt.Sprintf(`document.querySelectorAll("#toasts .toast").length === %d && document.querySelector("#toasts .toast:last-child").innerText.includes(%q)`, i+1, failure.says))
		if got := eval[string](ana, typedText); got != text || ana.has("#gate-panel p.No") || r.Decisions(gate) != 0 {
			t.Errorf("%s: the text is %q, %d decisions", failure.says, got, r.Decisions(gate))
		}
	}
	if words := ana.text("#toasts .toast:last-child"); !eval[bool](ana, `/REQ7/.test(document.querySelector("#toasts .toast:last-child").innerText)`) {
		t.Errorf("the number of the request is not said: %s", words)
	}
	eval[bool](ana, `(remote.answer = null, true)`)
	ana.click(`button[value="request_changes"]`)
	ana.until("the request is recorded", `/Changes requested/.test(document.querySelector("#gate-panel").innerText)`)
	if n := r.Decisions(gate); n != 1 {
		t.Errorf("%d decisions", n)
	}
}

// A page whose session is over says so and asks for no stream again, whether the stream told it or a new one was refused.
// Field report: htmx-extensions#134.
func TestBrowserStreamEndsWithTheSession(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady(), Failures: true})
	repo := r.Repository("acme/shop", rig.Shop())
	_, run := r.Person("rita").Submit(raiseTax(repo, "signed-out"))
	for _, c := range []struct {
		who, says string
		cut       func()
	}{
		{"rita", "Not signed in any more Reload", func() { r.StopServer(); r.StartServer() }},
		{"ana", "Your session ended Reload", func() { r.Signal("signed-out") }},
	} {
		b := newTab(r, t, c.who)
		b.signIn(c.who)
		b.underRemote()
		b.open("/runs/" + run)
		b.until("the agent works, live", `document.querySelector("#e7") && `+isLive)
		b.forgive(`log network: Failed to load resource`, `htmx:sse:error`)
		if _, err := r.Owner.Exec(t.Context(), `DELETE FROM sessions`); err != nil {
			t.Fatal(err)
		}
		c.cut()
		// The library forgets a connection when it will not try again.
		b.until("the page has given up", isStale+` && !document.querySelector("#stream")._htmx.sse`)
		if got := b.text("#live"); got != c.says {
			t.Errorf("the chip of %s says %q", c.who, got)
		}
		asked := eval[int](b, streams)
		if again := eval[int](b, `(dispatchEvent(new Event("online")), dispatchEvent(new Event("pageshow")), `+streams+`)`); again != asked {
			t.Errorf("%s: %d more streams are asked for", c.who, again-asked)
		}
	}
}

// What arrives takes nothing from a reader: rows come at the end and nowhere else, and a link that has the focus keeps it though the
// panel around it is rendered anew.
// Field reports: temporalio/web#361, idiomorph#55.
func TestBrowserFocusStays(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	run := rita.submitTask(raiseTax(repo, "rita-reads"))
	rita.open("/runs/" + run)
	rita.until("the agent works, live", `document.querySelector("#e7") && `+isLive)
	const focused = `document.activeElement.closest("#run-panel") ? document.activeElement.getAttribute("href") : document.activeElement.outerHTML.slice(0, 100)`
	eval[bool](rita, `(document.querySelector('#run-panel a[href^="/tasks/"]').focus(), window.stays = [...document.querySelectorAll("#timeline-rows > li.tl-row")], true)`)
	link := eval[string](rita, focused)
	r.Signal("rita-reads")
	gate := r.AwaitGate(run)
	rita.until("the gate, live", `document.querySelector('#run-panel a[href="/gates/`+gate+`"]')`)
	if now := eval[string](rita, focused); now != link || !strings.HasPrefix(link, "/tasks/") {
		t.Errorf("the focus was on %q and is on %q", link, now)
	}
	if !eval[bool](rita, `window.stays.every((li, i) => document.querySelectorAll("#timeline-rows > li.tl-row")[i] === li)`) {
		t.Error("a row that was read is another, or stands elsewhere")
	}
	rita.gapless(rita.rows())
}
