package e2e_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// A27, A24, U16: a gate is bypassed, and the bypass reviewed, by keyboard alone. Who has to prove on the way who they are finds again
// what they typed.
func TestBrowserBreakGlassByKeyboard(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	_, run := r.Person("rita").Submit(raiseTax(repo))
	gate := r.AwaitGate(run)
	path := "/gates/" + gate + "/bypass"
	bea, ben := newTab(r, t, "bea"), newTab(r, t, "ben")
	bea.signIn("bea")
	ben.signIn("ben")
	bea.forgive("403") // the login that has become too old
	const reason = "Production is down and nobody answers."

	bea.open("/gates/" + gate)
	bea.walk(`a[href="` + path + `"]`)
	bea.press(enterKey)
	bea.until("the form", `location.pathname === "`+path+`" && document.querySelector("#f-reason")`)
	for _, size := range [][2]int64{{390, 844}, {1280, 720}} {
		bea.do("a window", chromedp.EmulateViewport(size[0], size[1]))
		bea.open(path)
		if stops := strings.Join(bea.walkPage(), "\n"); !strings.Contains(stops, "textarea#f-reason") || !strings.Contains(stops, "button Bypass the gate") {
			t.Errorf("at %d pixels the page has the stops %s", size[0], stops)
		}
	}
	bea.open(path)
	bea.walk("#f-reason")
	bea.press(reason)
	bea.walk("#f-ticket")
	bea.press("INC-4412")
	bea.walk("#f-repository")
	bea.press("acme/shop")
	if _, err := r.Owner.Exec(t.Context(), `UPDATE sessions SET auth_time = now() - interval '16 minutes'`); err != nil {
		t.Fatal(err)
	}
	send := `form[action="` + path + `"] button[data-once]`
	bea.walk(send)
	bea.press(enterKey)
	confirm := `main a[href^="/login/confirm"]`
	bea.until("the question who it is", `document.querySelector(`+strconv.Quote(confirm)+`)`)
	bea.shot("bypass-confirm")
	bea.walk(confirm)
	bea.press(enterKey)
	bea.until("the provider asks who it is", `document.querySelector('button[name="person"]')`)
	for range 20 { // the provider's page is none of ours
		if bea.press(tabKey); eval[bool](bea, `document.activeElement.value === "bea"`) {
			break
		}
	}
	bea.press(enterKey)
	bea.until("the form with what was typed", `location.pathname === "`+path+`" && document.querySelector("#f-reason")?.value === `+strconv.Quote(reason)+
		` && document.querySelector("#f-ticket").value === "INC-4412" && document.querySelector("#f-repository").value === "acme/shop"`)
	if n := r.Count(run, "gate_bypassed"); n != 0 {
		t.Errorf("%d bypasses before the button was pressed again", n)
	}
	bea.walk(send)
	bea.press(enterKey)
	bea.until("bypassed", `/was bypassed by Bea Breaker/.test(document.querySelector("main").innerText) && !document.querySelector("#f-reason")`)
	bea.shot("bypass-done")
	r.Await(run, wire.RunStateSUCCEEDED)
	if n := drafts(r); n != 0 {
		t.Errorf("%d drafts of what was sent", n)
	}

	ben.open("/inbox")
	if ben.has(".empty") {
		t.Errorf("below a bypass to review it says %q", ben.text(".empty"))
	}
	ben.walk(`#main a[href="` + path + `"]`)
	ben.press(enterKey)
	ben.until("the review", `document.querySelector("#f-note")`)
	ben.walk("#f-note")
	ben.press("The rollback was right.")
	ben.walk(`form[action="` + path + `/review"] button[data-once]`)
	ben.press(enterKey)
	ben.until("reviewed", `/Reviewed by Ben/.test(document.querySelector("main").innerText)`)
	ben.shot("bypass-reviewed")
}
