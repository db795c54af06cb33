package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"signalbox/internal/e2e/rig"
)

// remote takes a page's clock and its line in hand. The clock stands until a test moves it. While the line is cut, what the server
// sends is swallowed though the socket stays open, as when the machine slept or a proxy lost the connection; lost counts that. What
// the page asks for is kept, and a test may answer instead of the server.
const remote = `(() => {
	const r = window.remote = {now: Date.now(), cut: false, lost: 0, asked: [], answer: null};
	Date.now = () => r.now;
	const {read, cancel} = ReadableStreamDefaultReader.prototype, waiting = new WeakMap();
	ReadableStreamDefaultReader.prototype.read = async function () {
		const got = await read.call(this);
		if (got.done || !r.cut) return got;
		r.lost++;
		await new Promise((go) => waiting.set(this, go));
		return {done: true};
	};
	ReadableStreamDefaultReader.prototype.cancel = function (why) {
		waiting.get(this)?.();
		return cancel.call(this, why);
	};
	const ask = window.fetch;
	window.fetch = (to, how) => {
		r.asked.push(String(to?.url || to));
		return r.answer ? r.answer() : ask(to, how);
	};
})()`

// underRemote gives the pages that the tab loads from now on a clock and a line that obey the test.
func (b *tab) underRemote() {
	b.t.Helper()
	b.do("take clock and line in hand", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: remote})
		return chromedp.Void{}, err
	})
}

const (
	isLive  = `document.querySelector("#live").dataset.live === "live"`
	isStale = `document.querySelector("#live").dataset.live === "stale"`
	// streams is how often the page asked for a stream.
	streams = `remote.asked.filter((url) => /\/stream\?/.test(url)).length`
	ages    = `[...document.querySelectorAll("[data-ago]")].map((e) => e.textContent).join("|")`
)

// U9: the chip follows the last byte and not the socket: 34 seconds after it the page says since when it is stale, a second being left
// for the look at it, counts no times on, and opens another stream by itself; a machine that wakes is right again within the second of
// that look and one attempt, 0.65 seconds later at most, without a reload.
// Field reports: concourse#150, shelley#2, claudecode_webui#1960, concourse#479.
func TestBrowserConnectionTruth(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	run := rita.submitTask(raiseTax(repo, "asleep", "awake"))
	rita.underRemote()
	rita.open("/runs/" + run)
	rita.until("the agent works, live", `document.querySelector("#e7") && `+isLive)
	loads := rita.loaded()

	// The machine sleeps; the agent goes on; nothing tells the page that it woke.
	eval[bool](rita, `remote.cut = true`)
	r.Signal("asleep")
	rita.until("what happened is lost on the way", `remote.lost > 0`)
	if words := rita.text("#run-steps"); strings.Contains(words, "Past asleep") {
		t.Fatalf("the line is not cut: %s", words)
	}
	before := eval[int](rita, streams)
	eval[bool](rita, `remote.cut = false, remote.now += 3600_000, true`)
	rita.until("the page is right again, live", `/Past asleep/.test(document.querySelector("#run-steps").innerText) && `+isLive)
	if n := eval[int](rita, streams); n != before+1 {
		t.Errorf("the page opened %d more streams", n-before)
	}

	// The line falls silent for good: each look at the chip is made to happen where its time comes.
	eval[bool](rita, `remote.lost = 0, remote.cut = true`)
	r.Signal("awake")
	gate := r.AwaitGate(run)
	rita.until("what happened is lost on the way", `remote.lost > 0`)
	last := eval[string](rita, `new Date(remote.now).toISOString().slice(11, 16)`)
	rita.forgive(`htmx:sse:error`)
	look := `dispatchEvent(new Event("pageshow")), `
	if !eval[bool](rita, `remote.answer = () => Promise.reject(new TypeError("asleep")), remote.now += 34_000, `+look+isLive) {
		t.Errorf("34 seconds after the last byte the chip says %q", rita.text("#live"))
	}
	old := eval[string](rita, ages)
	if !eval[bool](rita, `remote.now++, `+look+isStale) {
		t.Errorf("more than 34 seconds after the last byte the chip says %q", rita.text("#live"))
	}
	if got := rita.text("#live"); got != "Stale since "+last+" UTC Reload" {
		t.Errorf("the chip says %q; the last byte came at %s", got, last)
	}
	before = eval[int](rita, streams)
	rita.until("another stream is tried without being asked", fmt.Sprintf("%s > %d", streams, before))
	if now := eval[string](rita, `remote.now += 3600_000, `+look+ages); now != old || !eval[bool](rita, isStale) || rita.has(`#run-panel a[href="/gates/`+gate+`"]`) {
		t.Errorf("a page that is stale counts on from %q to %q", old, now)
	}
	eval[bool](rita, `remote.cut = false, remote.answer = null, dispatchEvent(new Event("online"))`)
	rita.until("the page is right again, live", `document.querySelector('#run-panel a[href="/gates/`+gate+`"]') && `+isLive)
	rita.gapless(rita.rows())
	if n := len(r.Events(run)); len(rita.rows()) != n || rita.loaded() != loads {
		t.Errorf("%d rows for %d events, and the page was loaded %d times more", len(rita.rows()), n, rita.loaded()-loads)
	}
}

// A stream that was asked for and never came, as behind a proxy that lost the request, is asked for anew by the page itself.
func TestBrowserStreamThatNeverCame(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	run := rita.submitTask(raiseTax(repo, "asleep"))
	rita.underRemote()
	rita.do("lose the first request", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `remote.answer = () => new Promise(() => {})`})
		return chromedp.Void{}, err
	})
	rita.open("/runs/" + run)
	rita.until("a stream is asked for", streams+` === 1`)
	eval[bool](rita, `(remote.answer = null, remote.now += 13000, true)`)
	rita.until("the page is live", isLive)
	if n := eval[int](rita, streams); n != 2 {
		t.Errorf("a stream was asked for %d times", n)
	}
	r.Signal("asleep")
	r.AwaitGate(run)
	rita.until("the gate, live", `document.querySelector('#run-panel a[href^="/gates/"]')`)
	rita.gapless(rita.rows())
}
