package web_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"signalbox/web"
)

type panelFacts struct {
	verdicts []string // values of the submit buttons, in order
	hidden   map[string]string
	text     string // of the textarea that is sent
	all      string
}

func panelOf(t *testing.T, d web.GatePanelData) panelFacts {
	t.Helper()
	out := panelFacts{hidden: map[string]string{}}
	for n := range parse(t, render(t, web.GatePanel(d))).Descendants() {
		switch {
		case n.Type == html.TextNode:
			out.all += n.Data
		case n.Type != html.ElementNode:
		case n.Data == "button" && attr(n, "name") == "verdict":
			out.verdicts = append(out.verdicts, attr(n, "value"))
		case n.Data == "input" && attr(n, "type") == "hidden":
			out.hidden[attr(n, "name")] = attr(n, "value")
		case n.Data == "textarea" && n.FirstChild != nil:
			out.text += n.FirstChild.Data
		}
	}
	return out
}

// TestDecisionForm: approve, request changes and reject in the browser, bound to what was seen (R-UI-2).
// Field reports: atlantis#1508, codex#23477, Aperant#1697.
func TestDecisionForm(t *testing.T) {
	t.Parallel()
	p := panelOf(t, sampleGatePanel())
	if got := strings.Join(p.verdicts, " "); got != "request_changes reject approve" {
		t.Errorf("verdicts %q: approve must be last and never the button that Enter presses", got)
	}
	want := map[string]string{"gate_id": gateID, "revision": "2", "digest": digest, "idempotency_key": "01JDX3KEY"}
	for name, value := range want {
		if p.hidden[name] != value {
			t.Errorf("%s = %q, want %q", name, p.hidden[name], value)
		}
	}
	if !strings.Contains(p.all, "What happens on approve") {
		t.Error("the effect of approving is not said")
	}
}

// TestNobodyGetsADeadButton: who may not decide sees why, and no button (A8, A11), and nobody gets one while the agent prepares the revision (A1).
// Field report: gitlab-ee#11215.
func TestNobodyGetsADeadButton(t *testing.T) {
	t.Parallel()
	d := sampleGatePanel()
	d.MayDecide, d.WhyNot, d.WhoCan = false, "You created this task, so you cannot decide about it.", "approvers (2 people)"
	p := panelOf(t, d)
	if len(p.verdicts) != 0 {
		t.Errorf("verdicts %v", p.verdicts)
	}
	for _, want := range []string{d.WhyNot, "Can decide: approvers (2 people)."} {
		if !strings.Contains(p.all, want) {
			t.Errorf("%q is missing in %q", want, p.all)
		}
	}
	for _, state := range []string{"preparing", "satisfied", "changes_requested", "rejected", "superseded", "expired", "cancelled", "bypassed"} {
		d := sampleGatePanel()
		d.State = state
		if p := panelOf(t, d); len(p.verdicts) != 0 {
			t.Errorf("gate %s still has buttons %v", state, p.verdicts)
		}
	}
}

// TestRefusalsSayFirstThatNothingHappened and keep the person's text (A4, A6, A12, A13, A22, A23, A25).
func TestRefusalsSayFirstThatNothingHappened(t *testing.T) {
	t.Parallel()
	for _, kind := range []web.OutcomeKind{web.OutcomeStale, web.OutcomeDecided, web.OutcomeInvalid, web.OutcomeForbidden, web.OutcomeSession, web.OutcomeGone} {
		for _, may := range []bool{true, false} {
			d := sampleGatePanel()
			d.MayDecide, d.Text, d.Outcome = may, "my careful words", &web.Outcome{Kind: kind, Text: "because"}
			p := panelOf(t, d)
			if !strings.Contains(p.all, "Nothing was ") {
				t.Errorf("%s: does not say that nothing happened", kind)
			}
			if p.text != "my careful words" {
				t.Errorf("%s (may decide: %v): text is %q", kind, may, p.text)
			}
		}
	}
}

// TestApprovedAndUnclaimed: A32, what was approved and nobody took is said, and is a problem after a minute.
// Field report: meho#2293.
func TestApprovedAndUnclaimed(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{
		42 * time.Second: "Approved, waiting for a worker (42 s in the queue).", 3 * time.Minute: "Approved 3 min ago, and no worker has taken it.",
	} {
		d := sampleGatePanel()
		d.State, d.WaitsSince = "satisfied", d.Now.Add(-wait)
		if text := render(t, web.GatePanel(d)); !strings.Contains(text, want) || strings.Contains(text, "Nothing is lost") != (wait > time.Minute) {
			t.Errorf("after %s: %s", wait, text)
		}
	}
}

// TestGatesThatCannotGoBack: budget and reconcile gates refuse a change request, so they do not offer one.
func TestGatesThatCannotGoBack(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"plan": "request_changes reject approve", "report": "request_changes reject approve", "budget": "reject approve", "reconcile": "reject approve"} {
		d := sampleGatePanel()
		d.Kind = kind
		if got := strings.Join(panelOf(t, d).verdicts, " "); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

// TestCancelPageSaysWhatStaysAndGoes (R-UI-6).
func TestCancelPageSaysWhatStaysAndGoes(t *testing.T) {
	t.Parallel()
	text := render(t, web.CancelPage(web.CancelPageData{Shell: shell(), Run: sampleRows()[1], Stays: []string{"All logs."}, Goes: []string{"The sandbox."}, IdempotencyKey: "K"}))
	for _, want := range []string{"What stays", "All logs.", "nothing was pushed", "What goes", "The sandbox.", `action="` + web.RunCancelURL(sampleRows()[1].ID) + `"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	text = render(t, web.CancelPage(web.CancelPageData{Shell: shell(), Run: sampleRows()[4], Refused: "It finished."}))
	if strings.Contains(text, "Cancel run</button>") || !strings.Contains(text, "Nothing was cancelled.") {
		t.Error("a finished run must not offer a button")
	}
}

// TestLiveFragments: a message carries whole regions under stable ids, and no form is inside one (rule 17).
// Field reports: nixbot PR#129, idiomorph#55.
func TestLiveFragments(t *testing.T) {
	t.Parallel()
	text := render(t, web.RunLive(web.RunLiveData{Panel: web.RunPanelData{Run: sampleRun(), Now: now}, Facts: sampleFacts(), Rows: sampleTimeline(), Stage: "Waiting"}))
	page := render(t, web.RunPage(sampleRunPage()))
	for _, id := range []string{"run-panel", "run-facts", "timeline-rows", "announce"} {
		if !strings.Contains(text, `hx-target="#`+id+`"`) || !strings.Contains(page, `id="`+id+`"`) {
			t.Errorf("region %s is missing in the message or on the page", id)
		}
	}
	for _, bad := range []string{"<form", "<input", "<textarea", "<button"} {
		if strings.Contains(text, bad) {
			t.Errorf("%s inside a live region", bad)
		}
	}
	for _, ev := range sampleEvents() {
		if ev.Seq > 0 && !strings.Contains(page, `id="e`+web.RunEventURL("x", ev.Seq)[strings.Index(web.RunEventURL("x", ev.Seq), "#e")+2:]+`"`) {
			t.Errorf("event %d has no permalink", ev.Seq)
		}
	}
}

// parts is a page as a browser gets it: what stood there at each flush.
type parts struct {
	strings.Builder
	flushed []string
}

// Flush implements http.Flusher.
func (p *parts) Flush() { p.flushed = append(p.flushed, p.String()) }

// U11, ux.md 6.2 rule 28: who decides has the buttons before the lines of a large patch are compared and coloured.
func TestGateComesBeforeItsPatch(t *testing.T) {
	t.Parallel()
	var p parts
	d := sampleGatePage(t)
	diff := d.Diff
	d.Diff = func() *web.DiffView {
		if len(p.flushed) != 1 || !strings.Contains(p.flushed[0], `value="approve"`) {
			t.Errorf("the patch is looked at after %d flushes, before the buttons were sent", len(p.flushed))
		}
		return diff()
	}
	if err := web.GatePage(d).Render(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.String(), "</html>") {
		t.Error("the page has no end")
	}
}
