package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"signalbox/internal/e2e/rig"
)

// saved waits until the server has a text of somebody.
func saved(r *rig.Rig, text string) {
	r.T.Helper()
	r.Eventually(fmt.Sprintf("%q is kept on the server", text), 30*time.Second, func() (bool, string) {
		var n int
		if err := r.Owner.QueryRow(r.T.Context(), `SELECT count(*) FROM drafts WHERE body = $1`, text).Scan(&n); err != nil {
			return false, err.Error()
		}
		return n == 1, fmt.Sprintf("%d drafts", n)
	})
}

const typedText = `document.querySelector("#f-text").value`

// U7: what is written at a gate and in the form of a new task outlives the page, in every tab of the person, until it is
// sent or discarded.
func TestBrowserKeepsWhatIsWritten(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	_, run := r.Person("rita").Submit(raiseTax(repo))
	gate := r.AwaitGate(run)
	ana := newTab(r, t, "ana")
	ana.signIn("ana")

	// Leaving the page saves at once; waiting does, too.
	ana.open("/gates/" + gate)
	ana.write("#f-text", "Say why.")
	ana.open("/inbox")
	saved(r, "Say why.")
	ana.open("/gates/" + gate)
	ana.append("#f-text", " And when.")
	saved(r, "Say why. And when.")
	second := ana.another("ana's second tab")
	second.open("/gates/" + gate)
	second.until("the text is there", typedText+` === "Say why. And when." && /^Your text of \d\d:\d\d UTC was kept\.$/.test(document.querySelector(".kept span").innerText)`)
	second.shot("gate-kept")

	// Discarding forgets it, also what this page holds and what the tab that still shows it sends later.
	second.append("#f-text", " More.")
	second.click(`.kept button`)
	second.until("discarded", `/discarded/.test(document.querySelector("#flash").innerText) && `+typedText+` === ""`)
	second.open("/gates/" + gate)
	second.until("nothing came back", typedText+` === "" && document.querySelector(".kept").hidden`)

	// A decision ends what it was made from: neither the server nor the tab has it afterwards.
	second.write("#f-text", "Shorter, please.")
	second.click(`button[value="request_changes"]`)
	second.until("the request is recorded", `/Changes requested/.test(document.querySelector("#gate-panel").innerText)`)
	second.open("/gates/" + gate)
	second.until("no text is left", `!document.querySelector("#gate-panel textarea") && Object.keys(sessionStorage).length === 0`)
	if n := drafts(r); n != 0 {
		t.Errorf("%d drafts are left", n)
	}

	// The same for the goal of a new task.
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	rita.open("/tasks/new")
	rita.write("#f-goal", "Half a thought")
	rita.open("/inbox")
	saved(r, "Half a thought")
	rita.open("/tasks/new")
	rita.until("the goal is there", `document.querySelector("#f-goal").value === "Half a thought"`)
	rita.shot("task-kept")
	rita.choose("#f-repository", repo.Name)
	rita.append("#f-goal", " and the rest")
	rita.click(`form[action="/tasks"] button[data-once]`)
	rita.until("the task's page", `/^\/tasks\/task_/.test(location.pathname) && document.querySelector("#flash")`)
	rita.open("/tasks/new")
	rita.until("the form is empty", `document.querySelector("#f-goal").value === "" && Object.keys(sessionStorage).length === 0`)
	if n := drafts(r); n != 0 {
		t.Errorf("%d drafts are left", n)
	}
}

// append types a text after what a text area holds.
func (b *tab) append(css, text string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => { const f = document.querySelector(%q); f.focus(); f.setSelectionRange(f.value.length, f.value.length); return true })()`, css))
	b.write(css, text)
}

// drafts is how many texts the server keeps.
func drafts(r *rig.Rig) (n int) {
	r.T.Helper()
	if err := r.Owner.QueryRow(r.T.Context(), `SELECT count(*) FROM drafts`).Scan(&n); err != nil {
		r.T.Fatal(err)
	}
	return n
}
