package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// cancel rule 2: the question says where the run is, what it took so far, what stays and what goes, and that nothing was pushed;
// somebody else's run asks for a reason. cancel rule 14: it is a page with a form, so no key cancels by itself.
func TestCancelQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	l.plan(t)
	path := "/runs/" + l.as.RunId + "/cancel"
	page := b.get(t, path).want(t, http.StatusOK).page(t)
	inspect(t, "question", page)
	text := page.Find("main").Text()
	for _, want := range []string{"Cancel this run?", ", attempt 1 of ", " of work", "What stays", "What goes", "nothing was pushed"} {
		if !strings.Contains(text, want) {
			t.Errorf("the question does not say %q: %s", want, text)
		}
	}
	if page.Find("input[name=pull]").Length() != 0 || page.Find("[accesskey], main [data-key]").Length() != 0 {
		t.Error("closing a pull request is offered where none exists, or a key cancels")
	}
	admin := w.signedIn(t, adam)
	page = admin.post(t, path, url.Values{"idempotency_key": {"without-a-reason"}, "reason": {" "}}).want(t, http.StatusUnprocessableEntity).page(t)
	if !strings.Contains(page.Find("main").Text(), "say why, because somebody else asked for this run") {
		t.Errorf("without a reason: %s", page.Find("main").Text())
	}
	if r := into[wire.Run](t, w.cli(t, rita).call(t, "GET", "/runs/"+l.as.RunId, nil)); r.State != "EXECUTING" {
		t.Errorf("the run is %s", r.State)
	}
}

// cancel rule 2: no question for a queued run of one's own; where it began meanwhile, nothing is cancelled and the question is asked.
func TestCancelWithoutAQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	queued := func() (id string, form url.Values) {
		b.submit(t, "Replace one word.")
		id = b.get(t, "/runs?state=QUEUED").page(t).Find("input[name=run]").AttrOr("value", "")
		return id, fields(b.get(t, "/runs/"+id).page(t).Find("form.cancelnow"))
	}
	id, form := queued()
	if n := w.signedIn(t, adam).get(t, "/runs/"+id).page(t).Find("form.cancelnow").Length(); n != 0 {
		t.Error("somebody else's run is cancelled without a question")
	}
	b.post(t, "/runs/"+id+"/cancel", form).want(t, http.StatusSeeOther)
	state := func(id string) wire.RunState {
		return into[wire.Run](t, w.cli(t, rita).call(t, "GET", "/runs/"+id, nil)).State
	}
	if s := state(id); s != "CANCELLED" {
		t.Errorf("the queued run is %s", s)
	}
	id, form = queued()
	if l := w.worker(t, "one").claim(t, "execute"); l.as.RunId != id {
		t.Fatalf("claimed %s", l.as.RunId)
	}
	page := b.post(t, "/runs/"+id+"/cancel", form).want(t, http.StatusConflict).page(t).Find("main").Text()
	if !strings.Contains(page, "It is no longer in the queue") || !strings.Contains(page, "Cancel this run?") || state(id) != "LEASED" {
		t.Errorf("the run that began is %s: %s", state(id), page)
	}
}

// publishing brings a run to where its publisher has opened the pull request and nobody knows of it yet.
func (w *world) publishing(t *testing.T, b *browser, k *worker) (l *lease, pull wire.LocalPull) {
	t.Helper()
	b.submit(t, "Replace one word.")
	gate, _ := w.waiting(t, k)
	approver := w.signedIn(t, ana)
	form := approver.gateForm(t, gate)
	form.Set("verdict", "approve")
	approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	l = k.claim(t, "publish")
	return l, l.open(t)
}

// cancel rule 2: a pull request that exists is closed and its branch deleted with the cancel where that is ticked, by the same door
// as on its own page. cancel rule 6: a run that ends first is information: it says how long before, and what exists.
func TestCancelWithPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, k := w.signedIn(t, rita), w.worker(t, "one")
	l, pull := w.publishing(t, b, k)
	path := "/runs/" + l.as.RunId + "/cancel"
	page := b.get(t, path).want(t, http.StatusOK).page(t)
	if text := page.Find("main").Text(); !strings.Contains(text, "Also close pull request #1 and delete the branch "+pull.HeadBranch) || strings.Contains(text, "nothing was pushed") {
		t.Errorf("the question: %s", text)
	}
	form := fields(page.Find("form[action$='/cancel']"))
	form.Set("pull", "close")
	for range 2 {
		b.post(t, path, form).want(t, http.StatusSeeOther)
	}
	of := func() db.PullInfo {
		return got(w.store.Pull(t.Context(), db.DefaultTenant, got(typeid.Parse(typeid.Pull, pull.Id))(t)))(t)
	}
	if s := of().State; s != "CLOSED" {
		t.Errorf("the pull request is %s", s)
	}
	if refs := w.git("--git-dir=acme/api.git", "for-each-ref", "--format=%(refname:short)"); refs != "main" {
		t.Errorf("the branches are %q", refs)
	}
	l.do(t, wire.RunCommand{Command: wire.CmdCancelConfirmed})

	// The next run ends before its cancel.
	l, pull = w.publishing(t, b, k)
	path = "/runs/" + l.as.RunId + "/cancel"
	form = cancelForm(b, t, l.as.RunId)
	l.report(t, pull)
	page = b.post(t, path, form).want(t, http.StatusOK).page(t)
	inspect(t, "too late", page)
	if text := page.Find("main").Text(); !strings.Contains(text, "The run finished ") || !strings.Contains(text, " s earlier: succeeded. Pull request #2 is open.") {
		t.Errorf("too late: %s", text)
	}
	// Somebody writes to the branch: the pull request is closed all the same, and the branch is kept.
	href := page.Find("main a[href^='/pulls/']").AttrOr("href", "")
	closing := fields(b.get(t, href).want(t, http.StatusOK).page(t).Find("form[action$='/close']"))
	closing.Set("branch", "delete")
	w.commit(w.git("--git-dir=acme/api.git", "rev-parse", "main^{tree}"), pull.HeadBranch, "by hand", pull.HeadSha)
	w.signedIn(t, vera).post(t, href+"/close", closing).want(t, http.StatusForbidden)
	if kept := b.post(t, href+"/close", closing).want(t, http.StatusConflict); !strings.Contains(kept.body, "closed, but its branch was kept") {
		t.Errorf("the branch that somebody wrote to: %s", kept.body)
	}
	if s, refs := of().State, w.git("--git-dir=acme/api.git", "for-each-ref", "--format=%(refname:short)"); s != "CLOSED" || !strings.Contains(refs, pull.HeadBranch) {
		t.Errorf("the pull request is %s, the branches are %q", s, refs)
	}
	if page := b.get(t, href).want(t, http.StatusOK).page(t); page.Find("main form").Length() != 0 {
		t.Error("a closed pull request offers an action")
	}
}

// cancel rule 7: the gate of a run that is cancelled closes and leaves every inbox, and who decides too late is told. cancel rule 8: a
// run that waits for a person is cancelled as any other.
func TestCancelClosesTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, approver := w.signedIn(t, rita), w.signedIn(t, ana)
	b.submit(t, "Replace one word.")
	gate, run := w.waiting(t, w.worker(t, "one"))
	turn := func() int {
		return approver.get(t, "/inbox").page(t).Find(`main a[href^="/gates/` + gate + `"]`).Length()
	}
	if turn() == 0 {
		t.Fatal("the gate is in nobody's inbox")
	}
	form := approver.gateForm(t, gate)
	form.Set("verdict", "approve")
	b.post(t, "/runs/"+run+"/cancel", cancelForm(b, t, run)).want(t, http.StatusSeeOther)
	if turn() != 0 {
		t.Error("the gate of a cancelled run is still somebody's turn")
	}
	if a := approver.post(t, "/gates/"+gate+"/decisions", form); a.StatusCode != http.StatusGone && a.StatusCode != http.StatusConflict {
		t.Errorf("who approves too late gets %d", a.StatusCode)
	}
	wantRungs(t, b, run, "done Requested by you @", "done Cancelled @")
}

// cancel rule 15: an administrator reads how long a run went on after the request and what it used up meanwhile; nobody else does.
func TestCancelIsMeasured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	b.post(t, "/runs/"+l.as.RunId+"/cancel", url.Values{"idempotency_key": {"stop-this-one"}}).want(t, http.StatusSeeOther)
	use := wire.UsageReport{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 1, Model: "m", InputTokens: 30, OutputTokens: 12, ProviderCalls: 1}
	l.call(t, "POST", "/runs/"+l.as.RunId+"/usage", use).want(t, http.StatusOK)
	l.do(t, wire.RunCommand{Command: wire.CmdCancelConfirmed})
	panel := func(b *browser) string { return b.get(t, "/runs/"+l.as.RunId).page(t).Find("#run-panel").Text() }
	if text := panel(w.signedIn(t, adam)); !strings.Contains(text, "until then it used 42 more tokens") || !strings.Contains(text, "Cancelled by a person") {
		t.Errorf("an administrator reads %s", text)
	}
	if text := panel(b); strings.Contains(text, "more tokens") {
		t.Errorf("a requester reads %s", text)
	}
}
