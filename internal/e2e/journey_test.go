package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/run"
	"signalbox/internal/wire"
)

// lacks fails where a run passed a state that it must not.
func lacks(t *testing.T, r *rig.Rig, id string, states ...wire.RunState) {
	t.Helper()
	passed := r.States(id)
	for _, s := range states {
		if slices.Contains(passed, string(s)) {
			t.Errorf("%s passed %s: %v", id, s, passed)
		}
	}
}

func noBranch(t *testing.T, repo *rig.Repository) {
	t.Helper()
	if branches := repo.Branches(); len(branches) > 0 {
		t.Errorf("branches %q", branches)
	}
}

// Journeys that end without a pull request, or reach it another way. They share one product.
func TestJourneys(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	report := rig.Act{Do: "raw", New: `{"type":"report","report":{"summary":"Tax is set in one place.","places":["lib/price.sh"]}}` + "\n"}

	// R-TRN-12: EXECUTING to JUDGING to SUCCEEDED, no patch, no pull request.
	t.Run("analysis only", func(t *testing.T) {
		repo := r.Repository("acme/analysis", rig.Shop())
		_, id := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Where is the tax?", Mode: string(wire.AnalysisReportCreated), Goal: rig.Recipe("Find where the tax is set.", report)})
		got := r.Await(id, wire.RunStateSUCCEEDED)
		lacks(t, r, id, wire.RunStatePATCHREADY, wire.RunStateVERIFYING, wire.RunStateWAITINGFORAPPROVAL, wire.RunStatePRCREATING)
		if got.Outcome != "report" || got.PullRequest != nil || len(r.Artifacts(id, "patch")) != 0 {
			t.Errorf("outcome %q, pull request %v", got.Outcome, got.PullRequest)
		}
		if reports := r.Artifacts(id, "report"); len(reports) != 1 || !strings.Contains(reports[0], "Tax is set in one place.") {
			t.Errorf("reports %q", reports)
		}
		noBranch(t, repo)
	})

	// R-TRN-12: where only a report was asked for, a change is refused and kept as evidence.
	t.Run("analysis that changes a file", func(t *testing.T) {
		repo := r.Repository("acme/meddling", rig.Shop())
		_, id := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Where is the tax?", Mode: string(wire.AnalysisReportCreated), Goal: rig.Recipe("Find it.", report, rig.Act{Do: "append", File: "README.md", New: "changed\n"})})
		got := r.Await(id, wire.RunStateFAILED)
		if got.Failure == nil || got.Failure.ReasonCode != "UNEXPECTED_DIFF" {
			t.Errorf("failure %+v", got.Failure)
		}
		noBranch(t, repo)
	})

	// R-TRN-13: HIGH risk asks about the plan before EXECUTING and about the patch before PR_CREATING.
	t.Run("high risk", func(t *testing.T) {
		repo := r.Repository("acme/risky", rig.Shop())
		goal := rig.Recipe("Tax is 20 per cent now.",
			rig.Act{Do: "plan", When: "plan", File: "lib/price.sh"}, rig.Act{Do: "write", When: "plan", File: "lib/price.sh", New: "edited while planning\n"},
			rig.Act{Do: "replace", File: "lib/price.sh", Old: "rate=19", New: "rate=20"}, rig.Act{Do: "sh", New: `cp "$SIGNALBOX_INPUT/feedback.json" heard.json`})
		_, id := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Raise the tax", Goal: goal, Risk: "HIGH"})
		plan := r.AwaitGate(id)
		if states := r.States(id); slices.Contains(states, "EXECUTING") || states[len(states)-2] != "PLANNING" {
			t.Errorf("at the plan's gate the run had passed %v", states)
		}
		if page := r.Person("ana").Get("/gates/" + plan); !strings.Contains(page.Main(), "Change lib/price.sh") {
			t.Errorf("the gate does not show the plan: %s", page.Main())
		}
		// A16: what she adds to her approval is in the agent's input, and nowhere lost.
		noted := r.Person("ana").GateForm(plan, "approve")
		noted.Values.Set("text", "Keep the old rate in a comment.")
		noted.Values.Set("comment-1", "Only this file.")
		if page := r.Person("ana").Send(noted); !strings.Contains(page.Body, "Approved with 2 notes for the agent.") || !strings.Contains(page.Main(), "The agent gets them as it starts.") {
			t.Errorf("the answer to an approval with notes: %s", page.Main())
		}
		second := r.AwaitGate(id, plan)
		if page := r.Person("rita").Get("/runs/" + id); !strings.Contains(page.Main(), "approved with 2 notes for the agent; the agent may now change code.") {
			t.Errorf("the timeline: %s", page.Main())
		}
		if states := r.States(id); slices.Contains(states, "PR_CREATING") {
			t.Errorf("at the patch's gate the run had passed %v", states)
		}
		r.Person("ben").Approve(second)
		r.Await(id, wire.RunStateSUCCEEDED)
		branch, _ := repo.Published(id)
		heard := repo.File(branch, "heard.json")
		for _, want := range []string{"Keep the old rate in a comment.", "Comments on the plan, revision 1:", "Only this file."} {
			if !strings.Contains(heard, want) {
				t.Errorf("the agent's input does not hold %q: %s", want, heard)
			}
		}
		if got := repo.Git("diff", "--name-only", "main", branch); got != "heard.json\nlib/price.sh" || strings.Contains(repo.File(branch, "lib/price.sh"), "planning") {
			t.Errorf("the branch changes %q", got)
		}
		if n := r.Count(id, "approved"); n != 2 {
			t.Errorf("%d approvals", n)
		}
	})

	// R-UI-2: a plan that is sent back goes to PLANNING with the words, and comes back as another revision.
	t.Run("plan sent back", func(t *testing.T) {
		repo := r.Repository("acme/planned", rig.Shop())
		goal := rig.Recipe("Tax is 20 per cent now.", rig.Act{Do: "plan", When: "plan", File: "lib/price.sh"}, rig.Act{Do: "replace", When: "execute", File: "lib/price.sh", Old: "rate=19", New: "rate=20"})
		_, id := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Raise the tax", Goal: goal, PlanGate: true})
		first := r.AwaitGate(id)
		r.Person("ana").RequestChanges(first, "Say what could go wrong.")
		second := r.AwaitGate(id, first)
		if states := r.States(id); slices.Contains(states, "EXECUTING") {
			t.Errorf("the run executed before its plan was approved: %v", states)
		}
		r.Person("ana").Approve(second)
		r.Person("ben").Approve(r.AwaitGate(id, first, second))
		r.Await(id, wire.RunStateSUCCEEDED)
		repo.Published(id)
	})

	// A33: nothing to change is an outcome of its own: no gate is opened for nothing, stated by the agent and judged.
	t.Run("no change", func(t *testing.T) {
		repo := r.Repository("acme/done", rig.Shop())
		_, id := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Keep the greeting", Goal: rig.Recipe("It must greet.", rig.Act{Do: "no_change", New: "It greets already."})})
		got := r.Await(id, wire.RunStateSUCCEEDED)
		lacks(t, r, id, wire.RunStatePATCHREADY, wire.RunStatePRCREATING, wire.RunStateWAITINGFORAPPROVAL)
		if got.Outcome != "no_change" || got.PullRequest != nil {
			t.Errorf("outcome %q, pull request %v", got.Outcome, got.PullRequest)
		}
		if page := r.Person("rita").Get("/runs/" + id); !strings.Contains(page.Main(), "It greets already.") {
			t.Errorf("the page does not say why: %s", page.Main())
		}
		noBranch(t, repo)
	})

	// A verified patch is the goal itself; nothing is pushed.
	t.Run("patch ready for review", func(t *testing.T) {
		repo := r.Repository("acme/review", rig.Shop())
		k := raiseTax(repo)
		k.Mode = string(wire.PatchReadyForReview)
		_, id := r.Person("rita").Submit(k)
		got := r.Await(id, wire.RunStateSUCCEEDED)
		lacks(t, r, id, wire.RunStatePRCREATING, wire.RunStatePRCREATED)
		if got.PullRequest != nil || len(r.Artifacts(id, "patch")) != 1 || r.Count(id, "verification_passed") != 1 {
			t.Errorf("pull request %v", got.PullRequest)
		}
		if page := r.Person("rita").Get("/runs/" + id + "/patch"); !strings.Contains(page.Body, "rate=20") || !strings.HasPrefix(page.Header.Get("Content-Disposition"), "attachment") {
			t.Errorf("the patch: %s %s", page.Header.Get("Content-Disposition"), page.Body)
		}
		noBranch(t, repo)
	})

	// R-UI-2, A15: a reject needs a reason, ends the run and keeps the patch.
	t.Run("rejected", func(t *testing.T) {
		repo := r.Repository("acme/rejected", rig.Shop())
		_, id := r.Person("rita").Submit(raiseTax(repo))
		gate := r.AwaitGate(id)
		if page := r.Person("ana").Decide(gate, "reject", ""); page.Status != http.StatusUnprocessableEntity {
			t.Errorf("a reject without a reason: %d %s", page.Status, page.Alert())
		}
		if page := r.Person("ana").Decide(gate, "reject", "The rate is set by law elsewhere."); page.Status != http.StatusOK {
			t.Fatalf("reject: %d %s", page.Status, page.Alert())
		}
		got := r.Await(id, wire.RunStateFAILED)
		if got.Failure == nil || got.Failure.ReasonCode != "HUMAN_REJECTED" || got.Failure.Category != "JUDGE_REJECTED" {
			t.Errorf("failure %+v", got.Failure)
		}
		if page := r.Person("rita").Get("/runs/" + id); !strings.Contains(page.Main(), "The rate is set by law elsewhere.") {
			t.Errorf("the requester is not told why: %s", page.Main())
		}
		if page := r.Person("rita").Get("/runs/" + id + "/patch"); !strings.Contains(page.Body, "rate=20") {
			t.Errorf("the patch is gone: %s", page.Body)
		}
		noBranch(t, repo)
	})

	// R-TRN-14, R-DOM-14: the agent's "done" is a proposal; a failed verification goes back with its output, is repaired in the same attempt, and passes.
	t.Run("repaired", func(t *testing.T) {
		repo := r.Repository("acme/repaired", rig.Shop())
		goal := rig.Recipe("Tax is 20 per cent now.", rig.Act{Do: "replace", When: "first", File: "lib/price.sh", Old: "rate=19", New: "rate=25"},
			rig.Act{Do: "replace", When: "verifier", File: "lib/price.sh", Old: "rate=25", New: "rate=20"})
		_, id := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Raise the tax", Goal: goal})
		gate := r.AwaitGate(id)
		if r.Count(id, "verification_failed_retryable") != 1 || r.Count(id, "attempt_failed") != 0 || r.Run(id).AttemptNo != 1 {
			t.Errorf("history:\n%s", r.History(id))
		}
		r.Person("ana").Approve(gate)
		r.Await(id, wire.RunStateSUCCEEDED)
		branch, _ := repo.Published(id)
		if !strings.Contains(repo.File(branch, "lib/price.sh"), "rate=20") {
			t.Error("the branch has not the repaired file")
		}
	})

	// R-ATT-1, R-LEASE-2: the change is verified under another lease, in another sandbox and on a fresh checkout of exactly
	// the stored patch; the page says where that was the same worker.
	t.Run("independent verification", func(t *testing.T) {
		repo := r.Repository("acme/independent", rig.Shop())
		goal := rig.Recipe("Tax is 20 per cent now.", rig.Act{Do: "replace", File: "lib/price.sh", Old: "rate=19", New: "rate=20"},
			// What the agent leaves beside its change is not there when the change is verified.
			rig.Act{Do: "write", File: ".git/hooks/pre-commit", New: "#!/bin/sh\nexit 1\n"}, rig.Act{Do: "write", File: "ignored/left-behind", New: "x\n"}, rig.Act{Do: "write", File: ".gitignore", New: "ignored/\n"})
		_, id := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Raise the tax", Goal: goal})
		gate := r.AwaitGate(id)
		if page := r.Person("ana").Get("/gates/" + gate); !strings.Contains(page.Main(), "the same worker that made the patch") {
			t.Errorf("the page does not say who verified: %s", page.Main())
		}
		r.Person("ana").Approve(gate)
		r.Await(id, wire.RunStateSUCCEEDED)
		branch, _ := repo.Published(id)
		if files := repo.Git("diff", "--name-only", "main", branch); files != ".gitignore\nlib/price.sh" {
			t.Errorf("the branch changes %q", files)
		}
		seen := map[string]bool{}
		last := 0.0
		for _, e := range r.Events(id) {
			if e.Kind != "lease_acquired" {
				continue
			}
			lease, _ := e.Payload["lease"].(map[string]any)
			token, _ := lease["token"].(float64)
			name, _ := lease["id"].(string)
			if name == "" || seen[name] || token <= last {
				t.Errorf("lease %v after token %v", lease, last)
			}
			seen[name], last = true, token
		}
		if len(seen) != 3 {
			t.Errorf("%d leases, want one each to execute, verify and publish", len(seen))
		}
	})

	// R-PR-2: a merge of the local pull request by a person moves the base, and a task that asks for it is done then.
	t.Run("merged", func(t *testing.T) {
		repo := r.Repository("acme/merged", rig.Shop())
		k := raiseTax(repo)
		k.Mode = string(wire.PrMerged)
		task, id := r.Person("rita").Submit(k)
		r.Person("ana").Approve(r.AwaitGate(id))
		got := r.Await(id, wire.RunStateSUCCEEDED)
		branch, commit := repo.Published(id)
		pull := strings.TrimPrefix(got.PullRequest.Url, r.URL)
		if page := r.Person("ana").Fill(pull, pull+"/merge", nil); page.Status != http.StatusOK || !strings.Contains(page.Main(), "merged") {
			t.Fatalf("merge: %d %s", page.Status, page.Alert())
		}
		if !strings.Contains(repo.File("main", "lib/price.sh"), "rate=20") || repo.Git("merge-base", "main", branch) != commit {
			t.Error("main does not have the change")
		}
		r.Eventually("the task is completed", rig.Patience, func() (bool, string) {
			answer, err := r.API().GetTaskWithResponse(t.Context(), task)
			if err != nil || answer.JSON200 == nil {
				t.Fatalf("read the task: %v", err)
			}
			return string(answer.JSON200.State) == string(run.TaskCompleted), string(answer.JSON200.State)
		})
	})
}

// Where policy and task agree, a verified patch of low risk goes out without a person.
func TestJourneyAutomatic(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady(), Policy: "schema: 1\nversion: automatic-1\nauto_pr: {allowed: true}\n"})
	repo := r.Repository("acme/shop", rig.Shop())
	k := raiseTax(repo)
	k.AutoPR = true
	_, id := r.Person("rita").Submit(k)
	r.Await(id, wire.RunStateSUCCEEDED)
	lacks(t, r, id, wire.RunStateWAITINGFORAPPROVAL)
	if r.Count(id, "auto_pr_allowed") != 1 || r.Count(id, "approved") != 0 {
		t.Errorf("history:\n%s", r.History(id))
	}
	repo.Published(id)
	// The task has to ask for it.
	other := r.Repository("acme/asks", rig.Shop())
	_, asks := r.Person("rita").Submit(raiseTax(other))
	r.AwaitGate(asks)
	noBranch(t, other)
}

// Where an attestation is asked for, the run halts without a lease, shown as not yet verified.
func TestJourneyAttestation(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady(), Policy: "schema: 1\nversion: attested-1\nattestation: {required: true}\n"})
	repo := r.Repository("acme/shop", rig.Shop())
	_, id := r.Person("rita").Submit(raiseTax(repo))
	r.Person("ana").Approve(r.AwaitGate(id))
	got := r.Await(id, wire.RunStateAWAITINGVERIFICATION)
	if got.Lease != nil || got.Terminal {
		t.Errorf("lease %+v, terminal %t", got.Lease, got.Terminal)
	}
	for _, table := range []string{"run_queue", "run_delayed", "run_leases"} {
		var n int
		if err := r.Owner.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d rows in %s (%v)", n, table, err)
		}
	}
	repo.Published(id)
	page := r.Person("rita").Get("/runs/" + id)
	if text := page.Main(); !strings.Contains(text, "ttestation") || strings.Contains(page.Doc.Find("#run-panel").Text(), "Succeeded") {
		t.Errorf("the page: %s", text)
	}
}

// U5, U6, A5: twenty people approve one gate at once: one event, one queue row, and nineteen answers that say
// that theirs was not needed; all twenty are stored.
func TestTwentyApproveAtOnce(t *testing.T) {
	t.Parallel()
	const people = 20
	// Nobody claims the approved run, so its queue row can be counted.
	r := rig.New(t, rig.Options{Timing: steady(), Approvers: people, Workers: -1})
	w := r.StartWorker(rig.WorkerOptions{Name: "no-publisher", Phases: []run.Phase{run.PhaseExecute, run.PhaseVerify}})
	repo := r.Repository("acme/shop", rig.Shop())
	_, id := r.Person("rita").Submit(raiseTax(repo))
	var browsers []*rig.Browser
	for i := range people {
		browsers = append(browsers, r.SignIn(fmt.Sprintf("a%d", i+1)).Browser)
	}
	gate := r.AwaitGate(id)
	type answer struct {
		page rig.Page
		err  error
	}
	answers := make([]answer, people)
	var forms sync.WaitGroup
	send := make([]rig.Form, people)
	for i, b := range browsers {
		forms.Go(func() {
			page, err := b.Get(t.Context(), "/gates/"+gate)
			if err == nil {
				send[i], err = page.FormWith("verdict", "approve")
			}
			answers[i].err = err
		})
	}
	forms.Wait()
	var sent sync.WaitGroup
	for i, b := range browsers {
		if answers[i].err != nil {
			t.Fatal(answers[i].err)
		}
		sent.Go(func() { answers[i].page, answers[i].err = b.Send(t.Context(), send[i]) })
	}
	sent.Wait()
	outcomes := map[string]int{}
	for i, a := range answers {
		if a.err != nil || a.page.Status != http.StatusOK {
			t.Fatalf("a%d: %d %v %s", i+1, a.page.Status, a.err, a.page.Alert())
		}
		outcomes[a.page.URL.Query().Get("done")]++
	}
	if outcomes["satisfied"] != 1 || outcomes["extra"] != people-1 {
		t.Errorf("outcomes %v, want one satisfied and %d extra", outcomes, people-1)
	}
	if n := r.Count(id, "approved"); n != 1 {
		t.Errorf("%d approved events", n)
	}
	if n := r.Decisions(gate); n != people {
		t.Errorf("%d decisions stored", n)
	}
	var queued int
	if err := r.Owner.QueryRow(t.Context(), `SELECT count(*) FROM run_queue WHERE phase = 'publish'`).Scan(&queued); err != nil || queued != 1 {
		t.Errorf("%d queue rows (%v)", queued, err)
	}
	w.Terminate()
	r.StartWorker(rig.WorkerOptions{Name: "publisher"})
	r.Await(id, wire.RunStateSUCCEEDED)
	repo.Published(id)
	var event struct {
		Deciders []struct {
			Name string `json:"name"`
		} `json:"deciders"`
	}
	for _, e := range r.Events(id) {
		if e.Kind == "approved" {
			raw, err := json.Marshal(e.Payload)
			if err != nil || json.Unmarshal(raw, &event) != nil {
				t.Errorf("payload %v", e.Payload)
			}
		}
	}
	if len(event.Deciders) != 1 || !strings.HasPrefix(event.Deciders[0].Name, "Approver ") {
		t.Errorf("deciders %+v", event.Deciders)
	}
}
