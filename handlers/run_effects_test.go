package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"signalbox/internal/wire"
)

// R-UI-1: the steps of tools can be looked at alone, in the order in which they ended among the events around them, and what a
// worker wrote stays text. Field report: temporalio/ui#1825, each row names the concrete step.
func TestToolsOfATimeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	l.step(t, "c-1", "go <b>vet</b>", wire.StepSucceeded)
	l.step(t, "c-2", "go test", wire.StepFailed)
	l.plan(t)
	l.step(t, "c-3", "go build", wire.StepRunning)
	path := "/runs/" + l.as.RunId
	for level, raws := range map[string]bool{"summary": false, "raw": true} {
		page := b.get(t, path+"?show=tool&level="+level).want(t, http.StatusOK).page(t)
		inspect(t, "tools", page)
		var rows []string
		page.Find("#timeline-rows li.tl-row .tl-text").Each(func(_ int, p *goquery.Selection) { rows = append(rows, p.Text()) })
		at := 0
		for _, want := range []string{"go <b>vet</b>", "go test” failed", "plan", "go build” started"} {
			for at < len(rows) && !strings.Contains(strings.ReplaceAll(rows[at], `"`, "”"), want) {
				at++
			}
		}
		if at >= len(rows) || page.Find("#timeline-rows b").Length() != 0 || page.Find(".tl-fold").Length() != 0 || (page.Find("pre.tl-raw").Length() > 0) != raws {
			t.Errorf("%s: the tools' rows are %q", level, rows)
		}
	}
	// Of a long log only those of the part that is looked at.
	w.lengthen(t, l.as.RunId, 5000)
	page := b.get(t, path+"?show=tool&from=2500").want(t, http.StatusOK).page(t)
	if text := page.Find("#timeline-rows").Text(); strings.Contains(text, "vet") || strings.Contains(text, "go test") {
		t.Errorf("a later part shows earlier steps: %s", text)
	}
}

// R-RCV-3, R-COST-1: effects outside and the cost of each model are on the page of a run, live as its facts are.
func TestEffectsOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, k := w.signedIn(t, rita), w.worker(t, "one")
	effects := func(run string) string {
		return b.get(t, "/runs/"+run).page(t).Find("section[aria-labelledby=effects]").Text()
	}
	p, pull := w.publishing(t, b, k)
	if text := effects(p.as.RunId); !strings.Contains(text, "Sent, not seen yet") || !strings.Contains(text, "nobody looked yetIdentity pr:"+pull.HeadBranch) {
		t.Errorf("an effect that nobody saw yet: %s", text)
	}
	p.report(t, pull)
	if text := effects(p.as.RunId); !strings.Contains(text, "Open the pull requestHappened") || strings.Contains(text, "nobody looked") {
		t.Errorf("an effect that was seen: %s", text)
	}
	b.submit(t, "Replace one word.")
	l := k.claim(t, "execute")
	path := "/runs/" + l.as.RunId
	if page := b.get(t, path).page(t); page.Find("#effects, #models").Length() != 0 {
		t.Error("a run without effects and models lists them")
	}
	l.call(t, "POST", path+"/usage", wire.UsageReport{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 1, Model: "<i>m</i>", InputTokens: 12, OutputTokens: 3, ProviderCalls: 2, CostMicros: new(int64(12_300))}).want(t, http.StatusOK)
	l.call(t, "POST", path+"/usage", wire.UsageReport{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 2, Model: "<i>m</i>", InputTokens: 5, ProviderCalls: 1}).want(t, http.StatusOK)
	text := strings.Join(strings.Fields(b.get(t, path).page(t).Find("section[aria-labelledby=models]").Text()), " ")
	for _, want := range []string{"<i>m</i>", "0.0123 USD reported 12 tokens in, 3 out, 2 calls", "cost unknown for 1 call 5 tokens in, 0 out, 1 call"} {
		if !strings.Contains(text, want) {
			t.Errorf("the cost by model lacks %q: %s", want, text)
		}
	}
}
