package e2e_test

import (
	"math"
	"testing"

	"github.com/chromedp/chromedp"

	"signalbox/internal/e2e/rig"
)

// U11, ux.md 2.6: who reads a run's timeline is not moved when the panel above it changes, at the sizes of a screen, of half a screen
// and of a phone, also with the end of the panel in sight.
func TestReaderIsNotMoved(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita, ana := r.Person("rita"), newTab(r, t, "ana")
	ana.signIn("ana")
	for _, width := range []int64{1280, 700, 390} {
		_, run := rita.Submit(raiseTax(repo))
		r.AwaitGate(run)
		ana.do("take the size", chromedp.EmulateViewport(width, 844))
		ana.open("/runs/" + run)
		ana.until("live", isLive)
		const place = `document.querySelector("#e5").getBoundingClientRect().top`
		before := eval[float64](ana, `(scrollTo(0, document.querySelector("#run-panel").getBoundingClientRect().bottom - 60), `+place+`)`)
		await(ana, painted) // only what was painted is kept in its place
		high := eval[float64](ana, `document.querySelector("#run-panel").offsetHeight`)
		rita.Cancel(run, "It is not needed any more.")
		ana.until("the panel says so", `/^Cancelled/.test(document.querySelector("#state-sentence").innerText)`)
		await(ana, painted)
		after := eval[float64](ana, place)
		if grown := eval[float64](ana, `document.querySelector("#run-panel").offsetHeight`) - high; grown == 0 {
			t.Errorf("at %d the panel is as high as before, so this shows nothing", width)
		} else if math.Abs(after-before) > 2 {
			t.Errorf("at %d the panel grew by %g px, and the reader was moved by %g", width, grown, after-before)
		}
	}
}
