package handlers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"signalbox/internal/wire"
)

// gateOf is the main column of the gate that a run waits at.
func (b *browser) gateOf(t testing.TB, run string) string {
	t.Helper()
	href, ok := b.get(t, "/runs/"+run).want(t, http.StatusOK).page(t).Find("#run-panel a[href^='/gates/']").Attr("href")
	if !ok {
		t.Fatal("the run waits at no gate")
	}
	page := b.get(t, href).want(t, http.StatusOK).page(t)
	inspect(t, "gate", page)
	return strings.Join(strings.Fields(page.Find(".gate-main").Text()), " ")
}

// R-UI-2, R-COST-1: who is asked for more time or money sees on the same page what the run has used it for: where the time went,
// the last steps, the attempts, and what each model cost.
func TestBudgetGateShowsTheWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	l.plan(t)
	for n, name := range []string{"a", "b", "c", "go <b>vet</b>", "go test", "go build", "go generate"} {
		l.step(t, "c-"+string(rune('1'+n)), name, wire.StepSucceeded)
	}
	l.call(t, "POST", "/runs/"+l.as.RunId+"/usage", wire.UsageReport{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 1, Model: "m", InputTokens: 12, OutputTokens: 3,
		ProviderCalls: 2, CostMicros: new(int64(12_300))}).want(t, http.StatusOK)
	l.do(t, wire.RunCommand{Command: wire.CmdStopped, Stopped: &wire.Stopped{Why: wire.StoppedBudget, Summary: "The budget is used up."}})
	text := w.signedIn(t, ana).gateOf(t, l.as.RunId)
	for _, want := range []string{"The work so far", "Waited in the queue", "The last 5 steps", "go <b>vet</b>", "go generate", "Attempt 1", "Cost by model", "0.0123 USD reported"} {
		if !strings.Contains(text, want) {
			t.Errorf("the gate lacks %q: %s", want, text)
		}
	}
	if strings.Contains(text, "Effects outside") || strings.Contains(text, "Passedb ") {
		t.Errorf("the gate shows more than it should: %s", text)
	}
}

// R-UI-2, R-RCV-3: who is asked what reached the forge sees on the same page what was sent there, and when.
func TestReconcileGateShowsWhatWasSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l, pull := w.publishing(t, w.signedIn(t, rita), w.worker(t, "one"))
	l.do(t, wire.RunCommand{Command: wire.CmdOperationObserved, OperationObserved: &wire.OperationObserved{Identity: "pr:" + pull.HeadBranch, Outcome: wire.OutcomeAmbiguous,
		Result: map[string]string{"error": "<i>502</i> Bad Gateway"}}})
	text := w.signedIn(t, ana).gateOf(t, l.as.RunId)
	for _, want := range []string{"Effects outside", "Open the pull request", "Not certain", "Dispatched" + time.Now().UTC().Format("2 Jan 2006, "), "<i>502</i> Bad Gateway"} {
		if !strings.Contains(text, want) {
			t.Errorf("the gate lacks %q: %s", want, text)
		}
	}
	if strings.Contains(text, "The work so far") || strings.Contains(text, "Attempt 1") {
		t.Errorf("the gate shows more than it should: %s", text)
	}
}
