package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// submit sends the form of a new task and returns its page.
func (b *browser) submit(t testing.TB, goal string, more ...string) string {
	t.Helper()
	form := b.get(t, "/tasks/new").want(t, http.StatusOK).page(t).Find("form[action='/tasks']")
	key, _ := form.Find("input[name=idempotency_key]").Attr("value")
	v := url.Values{"repository": {typeid.Format(typeid.Repo, b.w.repo)}, "goal": {goal}, "mode": {"pr_created"}, "idempotency_key": {key}}
	for i := 0; i+1 < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	at := b.post(t, "/tasks", v).want(t, http.StatusSeeOther).Header.Get("Location")
	return strings.TrimSuffix(at, "?done=task-submitted")
}

// fields reads a form as a browser would send it, without any button.
func fields(form *goquery.Selection) url.Values {
	v := url.Values{}
	form.Find("input[type=hidden]").Each(func(_ int, s *goquery.Selection) {
		name, _ := s.Attr("name")
		value, _ := s.Attr("value")
		v.Set(name, value)
	})
	return v
}

// gateForm reads the decision form of a gate's page.
func (b *browser) gateForm(t testing.TB, gate string) url.Values {
	t.Helper()
	form := b.get(t, "/gates/"+gate).want(t, http.StatusOK).page(t).Find("form.decide-form")
	if form.Length() != 1 {
		t.Fatalf("%d decision forms", form.Length())
	}
	return fields(form)
}

// waiting drives a run through the API to its patch gate and returns gate and run.
func (w *world) waiting(t testing.TB, k *worker) (gate, run string) {
	t.Helper()
	return w.waitingWith(t, k, diff("a.txt", "two"))
}

// waitingWith is waiting with a patch of one's own.
func (w *world) waitingWith(t testing.TB, k *worker, patch string) (gate, run string) {
	t.Helper()
	l := k.claim(t, "execute")
	l.plan(t)
	if ack := l.handIn(t, patch); ack.Continue || ack.Run.State != "PATCH_READY" {
		t.Fatalf("after the patch: %+v", ack)
	}
	if ack := k.claim(t, "verify").verify(t); ack.Run.State != "WAITING_FOR_APPROVAL" {
		t.Fatalf("after the judge: %+v", ack)
	}
	gates := got(w.store.Gates(t.Context(), db.DefaultTenant, db.GateFilter{Run: got(typeid.Parse(typeid.Run, l.as.RunId))(t), Limit: 1}))(t)
	return typeid.Format(typeid.Gate, gates[0].ID), l.as.RunId
}

// The whole journey, with pages on one side and the worker's API on the other: submit, execute, verify, approve
// without JavaScript, publish, merge.
func TestJourney(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester, approver := w.signedIn(t, rita), w.signedIn(t, ana)
	task := requester.submit(t, "Replace one word.\n\nIn a.txt.")
	k := w.worker(t, "one")
	gate, run := w.waiting(t, k)

	t.Run("the page tells the story", func(t *testing.T) {
		page := requester.get(t, "/runs/"+run).want(t, http.StatusOK).page(t)
		text := page.Find("#timeline-rows").Text()
		for _, words := range []string{"The server parsed", "Verification passed", "A person has to decide"} {
			if !strings.Contains(strings.ToLower(text), strings.ToLower(strings.TrimPrefix(words, "The "))) {
				t.Errorf("the timeline does not say %q:\n%s", words, text)
			}
		}
		requester.get(t, task).want(t, http.StatusOK)
	})
	t.Run("the requester sees the gate and no way to approve", func(t *testing.T) {
		page := requester.get(t, "/gates/"+gate).want(t, http.StatusOK).page(t)
		if page.Find("button[value=approve]").Length() != 0 {
			t.Error("the requester is offered to approve")
		}
	})
	t.Run("the diff and the evidence are on the page", func(t *testing.T) {
		page := approver.get(t, "/gates/"+gate).want(t, http.StatusOK).page(t).Text()
		for _, words := range []string{"a.txt", "two", "true", "0.90", "It does what was asked."} {
			if !strings.Contains(page, words) {
				t.Errorf("the page lacks %q", words)
			}
		}
	})
	form := approver.gateForm(t, gate)
	form.Set("verdict", "approve")
	at := approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther).Header.Get("Location")
	if at != "/gates/"+gate+"?done=satisfied" {
		t.Errorf("redirected to %q", at)
	}
	approver.get(t, at).want(t, http.StatusOK)
	if ack := k.claim(t, "publish").publish(t); ack.Run.State != "SUCCEEDED" || ack.Continue {
		t.Fatalf("after publishing: %+v", ack)
	}
	pulls := got(w.store.Pulls(t.Context(), db.DefaultTenant, db.PullFilter{}))(t)
	if len(pulls) != 1 {
		t.Fatalf("%d pull requests", len(pulls))
	}
	body := pulls[0].Body
	for _, words := range []string{run, "Ana Approver", "test"} {
		if !strings.Contains(body, words) {
			t.Errorf("R-PR-2: the pull request does not say %q:\n%s", words, body)
		}
	}
	message := w.git("--git-dir=acme/api.git", "log", "-1", "--format=%B", pulls[0].Head)
	if !strings.Contains(message, "Agent-Run-ID: "+run) {
		t.Errorf("R-RCV-5: the commit does not name its run:\n%s", message)
	}
	page := "/pulls/" + typeid.Format(typeid.Pull, pulls[0].ID)
	merge := fields(approver.get(t, page).want(t, http.StatusOK).page(t).Find("form[action$='/merge']"))
	approver.post(t, page+"/merge", merge).want(t, http.StatusSeeOther)
	if p := got(w.store.Pulls(t.Context(), db.DefaultTenant, db.PullFilter{}))(t); p[0].State != "MERGED" || p[0].MergedBy != "Ana Approver" {
		t.Errorf("pull request %s by %q", p[0].State, p[0].MergedBy)
	}
	approver.get(t, "/runs/"+run).want(t, http.StatusOK)
	t.Run("a finished run has nothing more to stream", func(t *testing.T) {
		approver.get(t, "/runs/"+run+"/stream?after=1000000").want(t, http.StatusNoContent)
	})
}

// R-UI-2: an instruction sends the work back, reaches the agent, and a new revision comes.
func TestRequestChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	k, approver := w.worker(t, "one"), w.signedIn(t, ana)
	gate, _ := w.waiting(t, k)
	form := approver.gateForm(t, gate)
	form.Set("verdict", "request_changes")
	t.Run("an empty instruction is refused and nothing is decided", func(t *testing.T) {
		a := approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusUnprocessableEntity)
		if a.page(t).Find("textarea[aria-invalid=true]").Length() != 1 {
			t.Error("the field is not marked")
		}
	})
	form = approver.gateForm(t, gate)
	form.Set("verdict", "request_changes")
	form.Set("text", "Use the word “three”.\r\nNothing else.")
	approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	l := k.claim(t, "execute")
	if len(l.as.Feedback) != 1 || l.as.Feedback[0].Text != "Use the word “three”.\nNothing else." || l.as.Feedback[0].Source != wire.FeedbackHuman || l.as.State != "EXECUTING" {
		t.Fatalf("feedback %+v in state %s", l.as.Feedback, l.as.State)
	}
	l.handIn(t, diff("a.txt", "three"))
	k.claim(t, "verify").verify(t)
	page := approver.get(t, "/inbox").want(t, http.StatusOK).page(t)
	if page.Find("main a[href^='/gates/']").Length() == 0 {
		t.Error("the new revision is not in the inbox")
	}
}
