package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// steady is for journeys that are not about lost leases: a machine that is busy with other tests loses none.
func steady() db.Timing { return db.Timing{LeaseTTL: 15 * time.Second} }

// raiseTax is an ordinary change, held at two points until the test says go on.
func raiseTax(repo *rig.Repository, holds ...string) rig.Task {
	acts := []rig.Act{{Do: "say", New: "Looking for the rate."}}
	for _, h := range holds {
		acts = append(acts, rig.Await(h), rig.Act{Do: "step", New: "Past " + h})
	}
	acts = append(acts, rig.Act{Do: "replace", When: "first", File: "lib/price.sh", Old: "rate=19", New: "rate=20"}, rig.Act{Do: "instruction", When: "human", File: "NOTES.md"})
	return rig.Task{Repository: repo, Title: "Raise the tax to 20 per cent", Goal: rig.Recipe("Tax is 20 per cent now.", acts...)}
}

// R-UI-1, R-UI-2, R-PR-2, R-DOM-14, R-TRN-14: the whole journey in a browser, with one request for changes.
func TestBrowserJourney(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita, ana := newTab(r, t, "rita"), newTab(r, t, "ana")
	rita.signIn("rita")
	run := rita.submitTask(raiseTax(repo, "agent-may-work"))
	rita.shot("task")
	rita.open("/runs/" + run)

	// The timeline arrives while the agent works, without a reload (R-UI-1).
	loads := rita.loaded()
	rita.until("the run executes, live", `/Execut|working|Agent/i.test(document.querySelector("#state-sentence").innerText) && document.querySelector("#e7")`)
	rita.until("the agent's steps arrive, live, without an event", `/execute with default/.test(document.querySelector("#run-steps").innerText)`)
	before := rita.rows()
	rita.shot("run-executing")
	r.Signal("agent-may-work")
	rita.until("the gate shows on the page", `document.querySelector('#run-panel a[href^="/gates/"]')`)
	after := rita.rows()
	if rita.loaded() != loads {
		t.Errorf("the run's page was loaded %d times more", rita.loaded()-loads)
	}
	if len(after) <= len(before) || !slices.Equal(after[:len(before)], before) {
		t.Errorf("rows %v became %v", before, after)
	}
	rita.gapless(after)

	// The approver sends it back with an instruction, which reaches the agent.
	gate := r.AwaitGate(run)
	ana.signIn("ana")
	ana.shot("inbox")
	if got := ana.text("#mine + .turns"); !strings.Contains(got, "Raise the tax") {
		t.Errorf("the inbox shows %q", got)
	}
	if ana.has(`a[href="/tasks/new"]`) {
		t.Error("somebody who may not ask for changes is offered the form")
	}
	ana.click(`a[href="/gates/` + gate + `"].button`)
	ana.until("the gate's page", `document.querySelector("#gate-panel form")`)
	ana.shot("gate")
	const instruction = `replace "hello" with "hello, world" in greeting.txt`
	ana.write("#f-text", instruction)
	ana.click(`button[value="request_changes"]`)
	ana.until("the request is recorded", `/Changes requested/.test(document.querySelector("#gate-panel").innerText)`)
	if ana.path() != "/gates/"+gate {
		t.Errorf("the answer left the page for %s", ana.path())
	}
	ana.shot("gate-sent-back")
	second := r.AwaitGate(run, gate)
	ana.open("/gates/" + second)
	// The text as it is in the document: what is far below is not laid out yet.
	if got := eval[string](ana, `document.querySelector(".gate-main").textContent`); !strings.Contains(got, "hello, world") || !strings.Contains(got, "rate=20") {
		t.Errorf("the new revision does not show both changes: %s", got)
	}
	feedback := r.Artifacts(run, "patch")
	if len(feedback) != 2 || !strings.Contains(feedback[1], "hello, world") {
		t.Errorf("%d patches stored; the last: %s", len(feedback), feedback[len(feedback)-1])
	}
	ana.shot("gate-revision-2")

	// And approves; the requester watches the pull request appear.
	ana.click(`button[value="approve"]`)
	ana.until("the approval is recorded", `/Approved/.test(document.querySelector("#gate-panel").innerText)`)
	rita.until("the run has succeeded, live", `/Succeeded/.test(document.querySelector("#run-panel").innerText) && document.querySelector('#run-panel a[href*="/pulls/"]')`)
	rita.until("the page says that it is finished", `document.querySelector("#live")?.dataset.live === "done"`)
	rita.gapless(rita.rows())
	// What stands beside the timeline is as true as the timeline, without a reload.
	if got := rita.text("#run-parts"); strings.Contains(got, "In progress") || !strings.Contains(got, "change.patch") || !strings.Contains(got, "Approved") {
		t.Errorf("beside the timeline stands: %s", got)
	}
	if got := rita.text("#run-steps"); strings.Contains(got, "Running") || !strings.Contains(got, "Take the patch") {
		t.Errorf("the steps are: %s", got)
	}
	if rita.loaded() != loads {
		t.Errorf("the run's page was loaded %d times more", rita.loaded()-loads)
	}
	rita.shot("run-succeeded")
	r.Await(run, wire.RunStateSUCCEEDED)
	branch, commit := repo.Published(run)
	rita.click(`#run-panel a[href*="/pulls/"]`)
	rita.until("the pull request's page", `location.pathname.startsWith("/pulls/") && document.querySelector("main h1")`)
	for _, want := range []string{branch, commit[:7], "hello, world", "Ana Approver"} {
		if got := eval[string](rita, `document.querySelector("main").textContent`); !strings.Contains(got, want) {
			t.Errorf("the pull request's page lacks %q:\n%s", want, got)
		}
	}
	rita.shot("pull")
}
