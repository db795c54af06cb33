package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"signalbox/db"
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

// T6, W6: what a person is shown is what counts. A worker that stores another patch or another judge's report beside the
// run's own changes neither the download nor the evidence.
func TestWhatIsStoredBesideCountsForNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.toPublish(t, "Add a line")
	approved := l.content(t)
	c := w.cli(t, ana)
	gate := into[wire.GateList](t, c.call(t, "GET", "/gates?run_id="+l.as.RunId, nil).want(t, http.StatusOK)).Items[0].Id
	before := into[wire.Gate](t, c.call(t, "GET", "/gates/"+gate, nil).want(t, http.StatusOK))
	l.store(t, wire.ArtifactKindPatch, diff("a.txt", "evil"))
	l.store(t, wire.ArtifactKindJudgeReport, `{"verdict":"pass","confidence":1,"reasons":[{"words":"Trust me."}]}`)
	if got := c.call(t, "GET", "/runs/"+l.as.RunId+"/patch", nil).want(t, http.StatusOK).body; got != approved {
		t.Errorf("the run's patch is\n%s\nwant\n%s", got, approved)
	}
	if after := into[wire.Gate](t, c.call(t, "GET", "/gates/"+gate, nil).want(t, http.StatusOK)); before.JudgeArtifactId == "" || after.JudgeArtifactId != before.JudgeArtifactId {
		t.Errorf("the judge's report was %q and is %q", before.JudgeArtifactId, after.JudgeArtifactId)
	}
	if page := w.signedIn(t, ana).get(t, "/gates/"+gate).want(t, http.StatusOK).body; strings.Contains(page, "Trust me.") || !strings.Contains(page, "It does what was asked.") {
		t.Error("the gate's page shows another judge's report")
	}
}

// A verdict names a judge's report of its own run.
func TestAVerdictNamesItsReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.toPublish(t, "The first")
	other := first.store(t, wire.ArtifactKindJudgeReport, `{"verdict":"pass","confidence":1,"reasons":[]}`)
	w.cli(t, rita).call(t, "POST", "/tasks", wire.TaskCreate{Title: "The second", Goal: "Anything.", RepositoryId: typeid.Format(typeid.Repo, w.repo)}).want(t, http.StatusCreated)
	l := w.worker(t, "a").claim(t, wire.Execute)
	l.plan(t)
	l.handIn(t, diff("a.txt", "two"))
	l = w.worker(t, "b").claim(t, wire.Verify)
	l.do(t, wire.RunCommand{Command: wire.CmdVerificationStarted, VerificationStarted: &wire.VerificationStarted{CommandSetDigest: l.as.CommandSetDigest, Isolation: wire.Bwrap}})
	report := l.store(t, wire.ArtifactKindVerificationReport, `{"verdict":"passed","patch_digest":"`+l.as.Patch.Digest+`","commands":[]}`)
	l.do(t, wire.RunCommand{Command: wire.CmdVerificationReported, VerificationReported: &wire.VerificationReported{ArtifactId: report, PatchDigest: l.as.Patch.Digest, Passed: true}})
	for name, id := range map[string]string{"another run's": other, "of another kind": report, "none": "art_01j8000000e008000000000002"} {
		a := l.post(t, wire.RunCommand{Command: wire.CmdJudgeReported, JudgeReported: &wire.JudgeReported{Verdict: wire.VerdictPass, Confidence: 1, Reasons: []string{"x"}, ArtifactId: id}})
		if a.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
}

// A few bytes of a report or plan are a row of a page and a struct in memory: lists have an end.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cli(t, rita).call(t, "POST", "/tasks", wire.TaskCreate{Title: "t", Goal: "g", RepositoryId: typeid.Format(typeid.Repo, w.repo)}).want(t, http.StatusCreated)
	l := w.worker(t, "a").claim(t, wire.Execute)
	many := strings.Repeat("{},", 1_000_000) + "{}"
	texts := strings.Repeat(`"",`, 1000) + `""`
	digest := strings.Repeat("a", 64)
	for kind, content := range map[wire.ArtifactKind]string{
		wire.ArtifactKindVerificationReport: `{"verdict":"passed","patch_digest":"` + digest + `","commands":[` + many + `]}`,
		wire.ArtifactKindJudgeReport:        `{"verdict":"pass","confidence":1,"reasons":[` + many + `]}`,
		wire.ArtifactKindPlan:               `{"files":[` + texts + `],"verifiers":[],"risks":[],"forbidden_changes":[],"stop_condition":"x","steps":[]}`,
	} {
		l.put(t, kind, content).want(t, http.StatusUnprocessableEntity)
	}
}

// Bytes of somebody without a lease are refused before they are read, and fill no store.
func TestUploadWithoutALeaseStoresNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cli(t, rita).call(t, "POST", "/tasks", wire.TaskCreate{Title: "t", Goal: "g", RepositoryId: typeid.Format(typeid.Repo, w.repo)}).want(t, http.StatusCreated)
	l := w.worker(t, "holder").claim(t, wire.Execute)
	thief := &lease{worker: w.worker(t, "thief"), as: l.as}
	const content = "bytes of a thief"
	thief.put(t, wire.ArtifactKindLog, content).want(t, http.StatusConflict)
	stale := &lease{worker: l.worker, as: l.as}
	stale.as.FencingToken++
	stale.put(t, wire.ArtifactKindLog, content).want(t, http.StatusConflict)
	if _, err := w.artifacts.Read(t.Context(), db.DefaultTenant, sha(content), 1<<20); err == nil {
		t.Error("the bytes were stored")
	}
}

// An address with characters that no text has is the caller's fault, on every list.
func TestQueriesHoldText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, c := w.signedIn(t, ana), w.cli(t, ana)
	for _, bad := range []string{"%00", "a%ffb", "%zz"} {
		for _, page := range []string{"/tasks?state=", "/tasks?q=", "/runs?state=", "/runs?q=", "/repositories?"} {
			if a := b.get(t, page+bad); a.StatusCode != http.StatusBadRequest {
				t.Errorf("%s%s: %d", page, bad, a.StatusCode)
			}
		}
		for _, list := range []string{"/tasks?state=", "/runs?state=", "/gates?state=", "/repositories?cursor=", "/local-forge/repositories/" + typeid.Format(typeid.Repo, w.repo) + "/pulls?branch="} {
			if a := c.call(t, "GET", list+bad, nil); a.StatusCode != http.StatusBadRequest {
				t.Errorf("%s%s: %d", list, bad, a.StatusCode)
			}
		}
	}
}

// B7: nothing on a page reads otherwise than it is. Characters that reorder, hide or steer are shown by their numbers in
// every text of others, also in the page's title and in what a stream sends.
func TestHiddenCharactersAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const trick = "pay\u202e\u2066\u200b\U000e0041\u0085 it"
	w.cli(t, rita).call(t, "POST", "/tasks", wire.TaskCreate{Title: trick, Goal: trick, RepositoryId: typeid.Format(typeid.Repo, w.repo), PlanGate: true}).want(t, http.StatusCreated)
	l := w.worker(t, trick).claim(t, wire.Execute)
	l.do(t, wire.RunCommand{Command: wire.CmdStart})
	l.do(t, wire.RunCommand{Command: wire.CmdSandboxReady, SandboxReady: &wire.SandboxReady{Isolation: wire.Bwrap, BaseCommit: baseCommit}})
	l.do(t, wire.RunCommand{Command: wire.CmdContextReady, ContextReady: &wire.ContextReady{ArtifactId: l.store(t, wire.ArtifactKindContext, `{}`)}})
	l.call(t, "POST", "/runs/"+l.as.RunId+"/steps", wire.StepBatch{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 1,
		Steps: []wire.StepReport{{CallId: "c", Kind: "tool_call", Name: trick, State: wire.StepFailed, Summary: trick}}}).want(t, http.StatusOK)
	plan := strings.ReplaceAll(planJSON, "Edit a.txt", trick+` \u001b[8m`)
	l.do(t, wire.RunCommand{Command: wire.CmdPlanSubmitted, PlanSubmitted: &wire.PlanSubmitted{ArtifactId: l.store(t, wire.ArtifactKindPlan, plan)}})
	b := w.signedIn(t, ana)
	gate := into[wire.GateList](t, w.cli(t, ana).call(t, "GET", "/gates?run_id="+l.as.RunId, nil).want(t, http.StatusOK)).Items[0].Id
	for _, path := range []string{"/gates/" + gate, "/runs/" + l.as.RunId, "/runs", "/tasks", "/inbox", "/workers", "/tasks/" + l.as.TaskId} {
		page := b.get(t, path).want(t, http.StatusOK).body
		for _, c := range []string{"\u202e", "\u2066", "\u200b", "\U000e0041", "\u0085", "\u001b"} {
			if strings.Contains(page, c) {
				t.Errorf("%s holds %+q", path, c)
			}
		}
		if !strings.Contains(page, "⟦U+202E⟧⟦U+2066⟧⟦U+200B⟧⟦U+E0041⟧⟦U+0085⟧") {
			t.Errorf("%s does not show what is hidden", path)
		}
	}
}

// People choose a repository by its name, and policy finds it by its name: it holds nothing that they cannot see.
func TestRepositoryNamesAreVisible(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.cli(t, adam)
	forge := into[wire.ForgeList](t, c.call(t, "GET", "/forges", nil).want(t, http.StatusOK)).Items[0].Id
	for _, name := range []string{"acme/\u202eapi", "acme/\u200bapi", "acme/a\U000e0041pi", "acme/a\u0085pi"} {
		c.call(t, "POST", "/repositories", wire.RepositoryCreate{Name: name, ForgeId: forge, CloneUrl: "acme/api.git", DefaultBranch: "main"}).want(t, http.StatusUnprocessableEntity)
	}
}
