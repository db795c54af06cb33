package handlers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"signalbox/internal/wire"
)

// document reads a download as JSON.
func document(t testing.TB, a answer) (doc map[string]any) {
	t.Helper()
	a.want(t, http.StatusOK)
	if d := a.Header.Get("Content-Disposition"); !strings.HasPrefix(d, `attachment; filename="signalbox-`) || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("disposition %q, type %q", d, a.Header.Get("Content-Type"))
	}
	must(t, json.Unmarshal([]byte(a.body), &doc))
	return doc
}

func listed(doc map[string]any, name string) []any {
	all, _ := doc[name].([]any)
	return all
}

// R-UI-1: the evidence of a run and its diagnostic bundle are one link away, hold what happened with its hashes and decisions, stay small
// whatever the run's length, and hold no secret, be it one that a worker did not know.
func TestRunDownloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	secret := "ghp_" + "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX"
	b.submit(t, "Replace one word.", "title", "The token "+secret)
	k := w.worker(t, "one")
	l := k.claim(t, "execute")
	l.plan(t)
	l.step(t, "c1", "token = "+secret, wire.StepFailed)
	l.say(t, "c1", "one line\ntoken = "+secret+"\nthe last line\n")
	l.handIn(t, diff("a.txt", "two"))
	k.claim(t, "verify").verify(t)
	path := "/runs/" + l.as.RunId
	for _, link := range []string{path + "/export", path + "/diagnostics"} {
		if b.get(t, path).page(t).Find(`main a[download][href="`+link+`"]`).Length() != 1 {
			t.Errorf("the page does not lead to %s", link)
		}
	}
	whole := document(t, b.get(t, path+"/export"))
	events := listed(whole, "events")
	if first := events[0].(map[string]any); first["kind"] != "run_created" || len(first["hash"].(string)) != 64 || whole["events_left_out"] != 0.0 {
		t.Errorf("the first event is %v, left out %v", first, whole["events_left_out"])
	}
	if gates := listed(whole, "gates"); len(gates) != 1 || gates[0].(map[string]any)["digest"] == "" {
		t.Errorf("gates %v", gates)
	}
	if len(listed(whole, "artifacts")) == 0 || len(listed(whole, "attempts")) != 1 {
		t.Errorf("artifacts %v, attempts %v", whole["artifacts"], whole["attempts"])
	}

	answer := b.get(t, path+"/diagnostics")
	bundle := document(t, answer)
	if strings.Contains(answer.body, secret) || !strings.Contains(answer.body, "looks like a secret was left out") || !strings.Contains(answer.body, "the last line") {
		t.Errorf("the tail of the log: %v", bundle["steps"])
	}
	if bundle["server"] == nil || bundle["versions"] == nil || len(listed(bundle, "events")) != len(events) {
		t.Errorf("server %v, versions %v, %d events", bundle["server"], bundle["versions"], len(listed(bundle, "events")))
	}

	approver, gate := w.signedIn(t, ana), listed(whole, "gates")[0].(map[string]any)["id"].(string)
	form := approver.gateForm(t, gate)
	form.Set("verdict", "request_changes")
	form.Set("text", "Use another one. token = "+secret)
	approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	for _, name := range []string{"/diagnostics", "/export"} {
		if answer = b.get(t, path+name); strings.Contains(answer.body, secret) || !strings.Contains(answer.body, "request_changes") {
			t.Errorf("a person's text in %s: %s", name, answer.body)
		}
	}

	w.lengthen(t, l.as.RunId, 20_000)
	answer = b.get(t, path+"/diagnostics")
	bundle = document(t, answer)
	events = listed(bundle, "events")
	if n := len(events); n != 300 || bundle["events_left_out"] != 19_700.0 || events[299].(map[string]any)["seq"] != 20_000.0 || len(answer.body) > 1<<20 {
		t.Errorf("%d events, %v left out, %d bytes", n, bundle["events_left_out"], len(answer.body))
	}
	w.browser().get(t, path+"/diagnostics").want(t, http.StatusSeeOther)
}
