package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// toPublish takes a new run through every phase to a publisher's lease.
func (w *world) toPublish(t testing.TB, title string) *lease {
	t.Helper()
	requester, approver := w.cli(t, rita), w.cli(t, ana)
	requester.call(t, "POST", "/tasks", wire.TaskCreate{Title: title, Goal: "Anything.", RepositoryId: typeid.Format(typeid.Repo, w.repo)}).want(t, http.StatusCreated)
	maker, other := w.worker(t, "maker"), w.worker(t, "other")
	l := maker.claim(t, wire.Execute)
	l.plan(t)
	l.handIn(t, diff("a.txt", "two"))
	other.claim(t, wire.Verify).verify(t)
	gates := into[wire.GateList](t, approver.call(t, "GET", "/gates?run_id="+l.as.RunId, nil).want(t, http.StatusOK))
	g := gates.Items[0]
	approver.call(t, "POST", "/gates/"+g.Id+"/decisions", wire.DecisionCreate{Verdict: wire.DecideApprove, Revision: g.Revision, Digest: g.Digest}).want(t, http.StatusOK)
	return maker.claim(t, wire.Publish)
}

// G9, R-PR-1: what was approved is what is published. A publisher that pushed anything else gets no pull request,
// because the server compares the commit with the stored patch itself.
func TestOnlyTheApprovedChangeIsPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.toPublish(t, "Add a line")
	p := l.as.Publish
	path := "/local-forge/repositories/" + l.as.Repository.Id + "/pulls"
	const bare = "--git-dir=acme/api.git"
	good := w.applied(l.content(t))
	evil := w.gitIn("100644 blob "+w.gitIn("evil\n", bare, "hash-object", "-w", "--stdin")+"\ta.txt\n", bare, "mktree")
	aside := w.commit(evil, "aside", "unapproved", baseCommit)
	for name, head := range map[string]string{
		"another tree":              w.commit(evil, "x1", "m", baseCommit),
		"another base":              w.commit(good, "x2", "m", aside),
		"no base":                   w.commit(good, "x3", "m"),
		"a second parent":           w.commit(good, "x4", "m", baseCommit, aside),
		"the base without a change": baseCommit,
	} {
		w.git(bare, "update-ref", "refs/heads/"+p.Branch, head)
		a := l.call(t, "POST", path, wire.LocalPullEnsure{
			RunId: l.as.RunId, LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, HeadBranch: p.Branch, BaseBranch: p.BaseBranch, HeadSha: head, Title: p.Title, Body: p.Body,
		})
		if a.StatusCode != http.StatusConflict || !strings.Contains(a.body, "other_change") {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if ack := l.publish(t); ack.Run.State != wire.RunStateSUCCEEDED {
		t.Errorf("the approved change: %+v", ack)
	}
}
