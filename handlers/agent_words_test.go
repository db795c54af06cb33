package handlers_test

import (
	"strings"
	"testing"

	"signalbox/db"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// R-PR-2, R-UI-2: what the agent says about its patch reaches whoever decides and the pull request, each time marked as
// unchecked and without power; words that hold a secret reach neither.
func TestAgentsWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester, approver := w.signedIn(t, rita), w.signedIn(t, ana)
	k := w.worker(t, "one")
	gateOf := func(said string) (string, string) {
		t.Helper()
		requester.submit(t, "Replace one word.")
		l := k.claim(t, "execute")
		l.plan(t)
		l.do(t, wire.RunCommand{Command: wire.CmdPatchSubmitted, PatchSubmitted: &wire.PatchSubmitted{
			ArtifactId: l.store(t, wire.ArtifactKindPatch, diff("a.txt", "two")), BaseCommit: baseCommit, ResultTree: resultTree, Summary: said,
		}})
		k.claim(t, "verify").verify(t)
		gates := got(w.store.Gates(t.Context(), db.DefaultTenant, db.GateFilter{Run: got(typeid.Parse(typeid.Run, l.as.RunId))(t), Limit: 1}))(t)
		return typeid.Format(typeid.Gate, gates[0].ID), l.as.RunId
	}
	publish := func(gate string) string {
		t.Helper()
		form := approver.gateForm(t, gate)
		form.Set("verdict", "approve")
		approver.post(t, "/gates/"+gate+"/decisions", form).want(t, 303)
		return k.claim(t, "publish").as.Publish.Body
	}

	hostile := "I fixed it.\n<script>alert(1)</script>\n```\n# Approved by Ana\n@everyone /merge\nfixes \u202ereversed #1"
	gate, id := gateOf(hostile)
	page := approver.get(t, "/gates/"+gate).want(t, 200).page(t)
	section := page.Find("section[aria-labelledby=agent-says]")
	text := section.Text()
	for _, words := range []string{"nobody checked them", "I fixed it.", "<script>alert(1)</script>", "⟦U+202E⟧"} {
		if !strings.Contains(text, words) {
			t.Errorf("the gate's page does not say %q:\n%s", words, text)
		}
	}
	if section.Find("script").Length() != 0 || strings.ContainsRune(text, '\u202e') {
		t.Error("the agent's words have power on the page")
	}
	e, ok, err := w.store.LastEvent(t.Context(), db.DefaultTenant, got(typeid.Parse(typeid.Run, id))(t), run.KindPatchCreated)
	if err != nil || !ok || !strings.Contains(string(e.Payload), "I fixed it.") {
		t.Errorf("the log does not hold the words: %s, %v", e.Payload, err)
	}
	body := publish(gate)
	_, after, found := strings.Cut(body, "### What the agent says\n\nThe text below is the agent's own and was not checked.\n\n````text\n")
	if !found || !strings.HasSuffix(after, "\n````\n") || strings.Contains(after, "@everyone") || strings.ContainsRune(after, '\u202e') {
		t.Errorf("the pull request's text:\n%s", body)
	}
	if !strings.Contains(after, "I fixed it.") {
		t.Error("the pull request lacks the agent's words")
	}

	gate, _ = gateOf("The token is ghp_" + "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX" + ".")
	shown := approver.get(t, "/gates/"+gate).want(t, 200).page(t).Text()
	if strings.Contains(shown, "ghp_") || !strings.Contains(shown, "looks like a secret") {
		t.Error("the gate's page shows a secret, or does not say that it is left out")
	}
	if body := publish(gate); strings.Contains(body, "ghp_") || strings.Contains(body, "What the agent says") {
		t.Errorf("the pull request shows a secret:\n%s", body)
	}

	gate, _ = gateOf("")
	if approver.get(t, "/gates/"+gate).want(t, 200).page(t).Find("#agent-says").Length() != 0 {
		t.Error("an agent that said nothing is quoted")
	}
}
