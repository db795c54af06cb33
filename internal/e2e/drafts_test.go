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
// Field reports: isaacs/github#14, isaacs/github#376, gitea#31710, sapling#382.
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

// U7: what is swapped into a page whose form was just sent, as the preview of a task is, makes no draft of the sent text.
func TestSentTextIsNoDraft(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	r.Repository("acme/shop", rig.Shop())
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	rita.open("/tasks/new")
	rita.write("#f-goal", "Sent.")
	eval[bool](rita, `(() => {
		const form = document.querySelector("#f-goal").form;
		form.addEventListener("submit", (e) => e.preventDefault()); // the answer takes its time
		form.noValidate = true;
		form.requestSubmit();
		document.dispatchEvent(new Event("htmx:after:swap"));
		return true;
	})()`)
	rita.open("/inbox")
	rita.open("/tasks")
	if n := drafts(r); n != 0 {
		t.Errorf("%d drafts of a text that was sent", n)
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

// A25, U7: the session ends while somebody writes. The decision is refused in words, nothing is decided, and after the
// login the form has the text again; whoever else signs in in that tab sees nothing of it.
// Field reports: gitea#17282, gitea#11182, gitlabhq#6525, rietveld#198.
func TestBrowserSessionEndsAtTheGate(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	_, run := r.Person("rita").Submit(raiseTax(r.Repository("acme/shop", rig.Shop())))
	gate := r.AwaitGate(run)
	const text = "Not before the first of May."
	tabs := map[string]*tab{"ana": newTab(r, t, "ana"), "ben": newTab(r, t, "ben")}
	for name, b := range tabs {
		b.forgive("401")
		b.signIn(name)
		b.open("/gates/" + gate)
	}
	// First the page that nobody keeps anything for: a draft of the others would already stand in it.
	plain := tabs["ana"].another("ana, without script")
	plain.forgive("401")
	plain.withoutScript()
	plain.open("/gates/" + gate)
	plain.write("#f-text", text)
	for _, b := range tabs {
		b.write("#f-text", text)
	}
	if _, err := r.Owner.Exec(t.Context(), `DELETE FROM sessions`); err != nil {
		t.Fatal(err)
	}
	for _, b := range tabs {
		b.click(`button[value="approve"]`)
		b.until("the end of the session is told", `/Nothing was decided/.test(document.querySelector("#session-ended")?.innerText)`)
		if got := eval[string](b, typedText); got != text {
			t.Errorf("the text is now %q", got)
		}
	}
	tabs["ana"].shot("gate-session-ended")
	plain.click(`button[value="approve"]`)
	plain.until("the text is on the answer", `document.querySelector("#u-text")?.value === `+fmt.Sprintf("%q", text))
	plain.shot("session-ended-without-script")
	if !plain.has(`main a[target="_blank"][href*="return_to="]`) {
		t.Error("without a script the way to the login leaves the page with the text")
	}

	tabs["ana"].signInAgain("ana")
	tabs["ana"].until("back at the gate, with the text", fmt.Sprintf(`location.pathname === "/gates/%s" && %s === %q && !document.querySelector(".kept").hidden`, gate, typedText, text))
	tabs["ana"].shot("gate-signed-in-again")
	tabs["ben"].signInAgain("ruth")
	tabs["ben"].until("somebody else's page has nothing of it", fmt.Sprintf(`location.pathname === "/gates/%s" && %s === "" && Object.keys(sessionStorage).length === 0`, gate, typedText))
	if n := r.Decisions(gate); n != 0 {
		t.Fatalf("%d decisions are stored", n)
	}
	tabs["ana"].click(`button[value="request_changes"]`)
	tabs["ana"].until("the request is recorded", `/Changes requested/.test(document.querySelector("#gate-panel").innerText)`)
	if r.Decisions(gate) != 1 || drafts(r) != 0 {
		t.Errorf("%d decisions, %d drafts", r.Decisions(gate), drafts(r))
	}
}

// signInAgain follows the banner's link.
func (b *tab) signInAgain(subject string) {
	b.t.Helper()
	b.click(`#session-ended a`)
	b.click(`a[href^="/login/"]`)
	b.click(`button[name="person"][value="` + subject + `"]`)
}

// A13, U7: a comment on a step of the plan is kept while it is written, sent with the decision and with nothing else, and
// the agent answers it with another revision.
// Field reports: orca#8382, vibe-kanban#1335.
func TestBrowserCommentsOnAPlan(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	goal := rig.Recipe("Tax is 20 per cent now.", rig.Act{Do: "plan", When: "plan", File: "lib/price.sh"}, rig.Act{Do: "replace", When: "execute", File: "lib/price.sh", Old: "rate=19", New: "rate=20"})
	_, run := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Raise the tax", Goal: goal, PlanGate: true})
	gate := r.AwaitGate(run)
	ana := newTab(r, t, "ana")
	ana.signIn("ana")
	ana.open("/gates/" + gate)
	ana.click("#step-1 summary")
	ana.write("#f-comment-1", "Say what could go wrong.")
	ana.open("/inbox")
	saved(r, "Say what could go wrong.")
	ana.open("/gates/" + gate)
	ana.until("the comment is there", `document.querySelector("#step-1 details").open && document.querySelector("#f-comment-1").value === "Say what could go wrong."`)
	ana.shot("gate-plan-comment")
	ana.click(`button[value="request_changes"]`)
	ana.until("the request is recorded", `/Changes requested/.test(document.querySelector("#gate-panel").innerText) && !document.querySelector("#f-comment-1")`)
	if n := drafts(r); n != 0 || eval[int](ana, `Object.keys(sessionStorage).length`) != 0 {
		t.Errorf("%d drafts are left", n)
	}
	ana.shot("gate-plan-sent-back")
	r.AwaitGate(run, gate)
}
