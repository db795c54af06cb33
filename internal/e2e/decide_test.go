package e2e_test

import (
	"net/url"
	"strings"
	"testing"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// U15, R-UI-2: task, request for changes and approval in a browser whose JavaScript is off.
func TestBrowserWithoutScript(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita, ana := newTab(r, t, "rita"), newTab(r, t, "ana")
	rita.withoutScript()
	ana.withoutScript()
	rita.signIn("rita")
	run := rita.submitTask(raiseTax(repo))
	rita.open("/runs/" + run)
	if rita.has(`[data-powered], html[data-htmx-powered]`) || rita.text("#live") != "Live updates need JavaScript" {
		t.Errorf("scripts run, or the page does not say that it is not live: %q", rita.text("#live"))
	}

	gate := r.AwaitGate(run)
	ana.signIn("ana")
	ana.open("/gates/" + gate)
	ana.click(`button[value="request_changes"]`)
	ana.until("the form comes back: an instruction is missing", `document.querySelector("#f-text[aria-invalid]")`)
	ana.forgive("422")
	ana.write("#f-text", `Say why in the notes.`)
	ana.click(`button[value="request_changes"]`)
	ana.until("the request is recorded", `/Changes requested/.test(document.querySelector("#flash").innerText)`)
	if got := ana.text("#gate-panel"); !strings.Contains(got, "Changes requested") {
		t.Errorf("the gate after the request: %s", got)
	}

	second := r.AwaitGate(run, gate)
	ana.open("/gates/" + second)
	ana.click(`button[value="approve"]`)
	ana.until("the approval is recorded", `/Approved/.test(document.querySelector("#flash").innerText)`)
	r.Await(run, wire.RunStateSUCCEEDED)
	rita.open("/runs/" + run)
	rita.gapless(rita.rows())
	if got := rita.text("#run-panel"); !strings.Contains(got, "Succeeded") {
		t.Errorf("the run's page: %s", got)
	}
	repo.Published(run)
}

// A4, A6, A8, R-UI-2, U7: what was seen is what is decided.
func TestBrowserStaleAndForbidden(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	_, run := r.Person("ruth").Submit(raiseTax(repo))
	gate := r.AwaitGate(run)

	// The requester sees no button, and why, although she holds the role (A8); so does somebody without the role (A11).
	for subject, why := range map[string]string{"ruth": "you asked for this change, so another person must approve it", "adam": "asks for the role approver, which you do not hold"} {
		b := newTab(r, t, subject)
		b.signIn(subject)
		b.open("/gates/" + gate)
		if b.has(`button[name="verdict"]`) {
			t.Errorf("%s is offered a decision", subject)
		}
		if got := b.text("#gate-panel"); !strings.Contains(got, why) || !strings.Contains(got, "Can decide: people with the role approver") {
			t.Errorf("%s is told: %s", subject, got)
		}
		b.shot("gate-" + subject)
	}

	// Ana has the gate open twice, with text in one; its time runs out, and Ben asks again: another revision.
	ana := newTab(r, t, "ana")
	ana.signIn("ana")
	ana.open("/gates/" + gate)
	plain := ana.another("ana, without script")
	plain.withoutScript()
	plain.open("/gates/" + gate)
	const typed = "I have read all of it."
	ana.write("#f-text", typed)
	plain.write("#f-text", typed)
	r.Expire(gate)
	ben := r.Person("ben")
	if page := ben.Fill("/gates/"+gate, "/gates/"+gate+"/reopen", url.Values{}); page.Status != 200 {
		t.Fatalf("ask again: %d %s", page.Status, page.Alert())
	}
	ana.until("the page says that the gate moved", `document.querySelector("#gate-notice").innerText.trim() !== ""`)
	if got := eval[string](ana, `document.querySelector("#f-text").value`); got != typed {
		t.Errorf("the live notice touched what was typed: %q", got)
	}
	for _, b := range []*tab{ana, plain} {
		b.forgive("409")
		b.click(`button[value="approve"]`)
		b.until("the approval is refused", `/Nothing was approved/.test(document.querySelector("#gate-panel").innerText)`)
		if got := eval[string](b, `(document.querySelector("#f-text") || document.querySelector("#f-kept")).value`); got != typed {
			t.Errorf("%s: the text is now %q", b.name, got)
		}
		if got := eval[string](b, `document.querySelector("#gate-panel input[name=revision]").value`); got != "2" {
			t.Errorf("%s: the form is about revision %s", b.name, got)
		}
		if n := eval[int](b, `document.querySelectorAll("main").length + document.querySelectorAll("#gate-notice").length`); n != 2 || b.text("#gate-notice") != "" {
			t.Errorf("%s: the page did not move on as a whole: %s", b.name, b.text("#gate-notice"))
		}
	}
	ana.shot("gate-stale")
	if state := r.Run(run).State; state != wire.RunStateWAITINGFORAPPROVAL {
		t.Fatalf("the run is %s", state)
	}
	if n := r.Decisions(gate); n != 0 {
		t.Errorf("%d decisions are stored", n)
	}

	// What came back is about the newest revision: pressed again, it counts. Ben's stale click is answered in words (A6).
	late := ben.GateForm(gate, "approve")
	late.Values.Set("text", typed)
	ana.write("#f-text", " Really.")
	ana.click(`button[value="request_changes"]`)
	ana.until("the request is recorded", `/Changes requested/.test(document.querySelector("#gate-panel").innerText)`)
	page := ben.Send(late)
	if page.Status != 409 || !strings.Contains(page.Alert(), "Nothing was approved") || !strings.Contains(page.Alert(), "Ana Approver") {
		t.Errorf("the late approval: %d %s", page.Status, page.Alert())
	}
	if kept := page.Doc.Find("#f-kept, #f-text").First().Text(); kept != typed {
		t.Errorf("the late approval's text is now %q", kept)
	}
	second := r.AwaitGate(run, gate)
	r.Person("ben").Approve(second)
	r.Await(run, wire.RunStateSUCCEEDED)
	repo.Published(run)
}
