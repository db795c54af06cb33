package web_test

import (
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"signalbox/web"
)

// R-UI-1: a run that failed leads to the log of the step that failed last, not to one of an attempt that another followed;
// any other run leads to none.
func TestFailedRunLeadsToItsLog(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		page web.RunPageData
		href string
	}{{"failed", failedRun(), web.StepURL(runID, "s2")}, {"waiting", sampleRunPage(), ""}, {"succeeded", succeededRun(), ""}} {
		doc := got(goquery.NewDocumentFromReader(strings.NewReader(render(t, web.RunPage(tc.page)))))(t)
		if href := doc.Find(`#run-panel .actions a[href*="/steps/"]`).AttrOr("href", ""); href != tc.href {
			t.Errorf("a run that is %s leads to %q, want %q", tc.name, href, tc.href)
		}
	}
	old := failedRun()
	old.Steps = old.Steps[2:]
	if doc := render(t, web.RunPanel(old.Panel, old.Steps)); strings.Contains(doc, "/steps/") {
		t.Error("the log of an attempt that another followed is offered")
	}
}

// R-UI-2: whoever can decide is asked; anybody else reads how it stands, never a question.
func TestOnlyWhoDecidesIsAsked(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"gate_patch": "Approve the patch?", "gate_plan_mine": "Plan: waiting for others", "gate_expired": "Patch: expired", "gate_budget": "Raise the limit of active time?"} {
		doc := got(goquery.NewDocumentFromReader(strings.NewReader(render(t, pages(t)[name]))))(t)
		if h1 := doc.Find("h1").Text(); h1 != want {
			t.Errorf("%s asks %q, want %q", name, h1, want)
		}
	}
}
