package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"signalbox/internal/wire"
)

// A19: a base that moved under an equal patch keeps the approval; the run's page and the gate's history say so, and whose it is.
func TestAKeptApprovalSaysWhose(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	k, b := w.worker(t, "one"), w.signedIn(t, ana)
	gate, run := w.waiting(t, k)
	form := b.gateForm(t, gate)
	form.Set("verdict", "approve")
	b.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	k.claim(t, "publish").do(t, wire.RunCommand{Command: wire.CmdBaseMoved, BaseMoved: &wire.BaseMoved{NewBase: strings.Repeat("b", 40), Overlapping: []string{"a.txt"}, Commits: 12}})
	if ack := k.claim(t, "verify").verify(t); ack.Run.State != "PR_CREATING" {
		t.Fatalf("after the base moved: %+v", ack)
	}
	task := b.get(t, "/runs/"+run).want(t, http.StatusOK).page(t).Find("a[href^='/tasks/task_']").AttrOr("href", "")
	heads := b.get(t, task).want(t, http.StatusOK).page(t).Find(".talk-head").Text()
	if strings.Count(heads, "Ana Approver") != 1 || !strings.Contains(heads, "approved") {
		t.Errorf("the conversation is %q", strings.Join(strings.Fields(heads), " "))
	}
	const kept = "; the patch is the same (same patch id), so Ana Approver’s approval was kept."
	for path, says := range map[string][]string{
		"/runs/" + run:   {"The base moved" + kept, "The base branch moved by 12 commits and changed the same files"},
		"/gates/" + gate: {"The base moved by 12 commits" + kept},
	} {
		words := b.get(t, path).want(t, http.StatusOK).page(t).Find("main").Text()
		for _, text := range says {
			if !strings.Contains(words, text) {
				t.Errorf("%s does not say %q", path, text)
			}
		}
	}
}

// A19: the approval of somebody who may not decide any more is not carried: the gate asks again.
func TestAnApprovalIsNotKeptForWhoMayNotDecide(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]string{"no role": "UPDATE memberships SET roles = '{viewer}' WHERE user_id = ", "shut out": "UPDATE users SET disabled_at = now() WHERE id = "} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.signedIn(t, rita).submit(t, "Replace one word.")
			k, b := w.worker(t, "one"), w.signedIn(t, ana)
			gate, _ := w.waiting(t, k)
			form := b.gateForm(t, gate)
			form.Set("verdict", "approve")
			b.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
			k.claim(t, "publish").do(t, wire.RunCommand{Command: wire.CmdBaseMoved, BaseMoved: &wire.BaseMoved{NewBase: strings.Repeat("b", 40), Overlapping: []string{"a.txt"}, Commits: 12}})
			w.sql(t, change+"(SELECT id FROM users WHERE name = 'Ana Approver')")
			if ack := k.claim(t, "verify").verify(t); ack.Run.State != "WAITING_FOR_APPROVAL" {
				t.Errorf("after the base moved: %+v", ack)
			}
		})
	}
}
