package handlers_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/handlers"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// home is a tenant with a repository, as one of its people sees it.
type home struct {
	id, repo            uuid.UUID
	requester, approver client
}

// elsewhere makes another tenant beside the default one: with people, a forge and a repository of its own.
func (w *world) elsewhere(t testing.TB) home {
	t.Helper()
	asks, decides := w.user(t, rita), w.user(t, ana)
	h := home{id: w.tenant(t, "elsewhere", asks.User)}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	got(conn.Exec(t.Context(), "INSERT INTO memberships (tenant_id, user_id, roles) VALUES ($1, $2, '{approver}')", h.id, decides.User))(t)
	forge := typeid.New()
	got(conn.Exec(t.Context(), "INSERT INTO forges (id, tenant_id, name, kind) VALUES ($1, $2, 'local', 'local')", forge, h.id))(t)
	h.repo = got(w.store.CreateRepository(t.Context(), h.id, uuid.Nil, db.RepositoryInfo{
		Name: "acme/api", Forge: forge, CloneURL: "acme/api.git", DefaultBranch: "main", Verification: []run.Check{{Name: "test", Kind: "test", Argv: []string{"true"}}},
	}))(t).ID
	for _, p := range []struct {
		to   *client
		user uuid.UUID
	}{{&h.requester, asks.User}, {&h.approver, decides.User}} {
		secret := db.Mint(db.PrefixLogin)
		must(t, second(w.store.CreateToken(t.Context(), db.Token{Tenant: h.id, User: p.user, Login: true, Name: "test", AuthTime: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}, secret)))
		*p.to = client{w, secret}
	}
	return h
}

func (h home) submit(t testing.TB, title string) {
	t.Helper()
	h.requester.call(t, "POST", "/tasks", wire.TaskCreate{Title: title, Goal: "Anything.", RepositoryId: typeid.Format(typeid.Repo, h.repo)}).want(t, http.StatusCreated)
}

func (h home) approve(t testing.TB, id string) {
	t.Helper()
	g := into[wire.GateList](t, h.approver.call(t, "GET", "/gates?run_id="+id, nil).want(t, http.StatusOK)).Items[0]
	h.approver.call(t, "POST", "/gates/"+g.Id+"/decisions", wire.DecisionCreate{Verdict: wire.DecideApprove, Revision: g.Revision, Digest: g.Digest}).want(t, http.StatusOK)
}

// R-TEN-1, T2: a worker that serves every tenant works for that of the lease in its hands, through a whole run of each, with
// every route that a worker has; what it stores is its tenant's.
func TestOneWorkerServesTwoTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	homes := []home{{db.DefaultTenant, w.repo, w.cli(t, rita), w.cli(t, ana)}, w.elsewhere(t)}
	k := w.workerOf(t, uuid.Nil, "everywhere")
	for i, h := range homes {
		h.submit(t, fmt.Sprintf("Task %d", i))
		l := k.claim(t, wire.Execute)
		path := "/runs/" + l.as.RunId
		l.plan(t)
		l.facts(t)
		key := []string{"Idempotency-Key", rand.Text()}
		handIn := wire.RunCommand{Command: wire.CmdPatchSubmitted, PatchSubmitted: &wire.PatchSubmitted{
			ArtifactId: l.store(t, wire.ArtifactKindPatch, diff("a.txt", fmt.Sprint("line ", i))), BaseCommit: baseCommit, ResultTree: resultTree}}
		into[wire.CommandAck](t, l.post(t, handIn, key...).want(t, http.StatusOK))
		if again := into[wire.CommandAck](t, l.post(t, handIn, key...).want(t, http.StatusOK)); !again.Replayed {
			t.Error("a repeat after the lease's end is not answered as before")
		}
		l.store(t, wire.ArtifactKindLog, "late evidence")
		k.claim(t, wire.Verify).verify(t)
		h.approve(t, l.as.RunId)
		l = k.claim(t, wire.Publish)
		if beat := into[wire.HeartbeatAck](t, k.beat(t, l).want(t, http.StatusOK)); len(beat.Leases) != 1 || beat.Leases[0].Signal != "alive" {
			t.Errorf("heartbeat: %+v", beat)
		}
		if all := into[wire.ArtifactList](t, l.call(t, "GET", path+"/artifacts", nil).want(t, http.StatusOK)); len(all.Items) < 5 {
			t.Errorf("%d artifacts", len(all.Items))
		}
		l.call(t, "GET", path, nil).want(t, http.StatusOK)
		l.call(t, "GET", "/artifacts/"+l.as.Patch.ArtifactId, nil).want(t, http.StatusOK)
		if ack := l.publish(t); ack.Run.State != wire.RunStateSUCCEEDED {
			t.Errorf("after publishing: %+v", ack)
		}
		// Over the lease, over the sight.
		l.call(t, "GET", path, nil).want(t, http.StatusForbidden)
		pulls := got(w.store.Pulls(t.Context(), h.id, db.PullFilter{}))(t)
		if len(pulls) != 1 || typeid.Format(typeid.Run, pulls[0].Run) != l.as.RunId {
			t.Errorf("the tenant's pull requests: %+v", pulls)
		}
	}
	if log := w.log.String(); !strings.Contains(log, homes[1].id.String()) {
		t.Error("no line of the log names the tenant that the worker worked for")
	}
}

// facts stores one of every kind.
func (l *lease) facts(t testing.TB) {
	t.Helper()
	for _, r := range l.requests("") {
		if r.facts {
			l.call(t, r.method, r.path, r.body).want(t, http.StatusOK)
		}
	}
}

func (k *worker) beat(t testing.TB, l *lease) answer {
	t.Helper()
	return k.call(t, "POST", "/workers/heartbeat", wire.Heartbeat{BootId: k.boot, State: wire.WorkerReady,
		Leases: []wire.HeldLease{{RunId: l.as.RunId, LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken}}})
}

// foreign is a request about somebody's run.
type foreign struct {
	operation, method, path string
	body                    any
	facts                   bool
	header                  []string
}

// requests are those about this lease's run, one or more of every route that a worker has. pull is a pull request of it.
func (l *lease) requests(pull string) []foreign {
	path, id, token := "/runs/"+l.as.RunId, l.as.LeaseId, l.as.FencingToken
	patch := ""
	if l.as.Patch != nil {
		patch = "/artifacts/" + l.as.Patch.ArtifactId
	}
	pulls := "/local-forge/repositories/" + l.as.Repository.Id + "/pulls"
	upload := url.Values{"kind": {"log"}, "name": {"x"}, "sha256": {sha("x")}, "lease_id": {id}, "fencing_token": {fmt.Sprint(token)}}
	all := []foreign{
		{operation: "getRun", method: "GET", path: path},
		{operation: "listRunArtifacts", method: "GET", path: path + "/artifacts"},
		{operation: "getArtifact", method: "GET", path: patch},
		{operation: "getArtifactContent", method: "GET", path: patch + "/content"},
		{operation: "listLocalPulls", method: "GET", path: pulls},
		{operation: "getLocalPull", method: "GET", path: "/local-forge/pulls/" + pull},
		{operation: "postRunSteps", method: "POST", path: path + "/steps", facts: true, body: wire.StepBatch{LeaseId: id, FencingToken: token, Sequence: 7,
			Steps: []wire.StepReport{{CallId: "c", Kind: "tool_call", Name: "n", State: wire.StepSucceeded}}}},
		{operation: "postRunLogs", method: "POST", path: path + "/logs", facts: true, body: wire.LogBatch{LeaseId: id, FencingToken: token, Sequence: 7,
			Chunks: []wire.LogChunkReport{{Stream: "stdout", Data: []byte("x")}}}},
		{operation: "postRunUsage", method: "POST", path: path + "/usage", facts: true, body: wire.UsageReport{LeaseId: id, FencingToken: token, Sequence: 7, InputTokens: 1, ProviderCalls: 1}},
		{operation: "uploadRunArtifact", method: "POST", path: path + "/artifacts?" + upload.Encode(), body: "x", header: []string{"Content-Type", "application/octet-stream"}},
	}
	for _, c := range []wire.RunCommand{
		{Command: wire.CmdStart}, {Command: wire.CmdCancelConfirmed}, {Command: wire.CmdRelease, Release: &wire.Release{Reason: "x"}},
		{Command: wire.CmdOperationIntended, OperationIntended: &wire.OperationIntended{Kind: wire.OpOpenPullRequest, Identity: "pr:x", Parameters: map[string]string{}}},
		{Command: wire.CmdOperationDispatched, OperationDispatched: &wire.OperationDispatched{Identity: "pr:x"}},
		{Command: wire.CmdOperationObserved, OperationObserved: &wire.OperationObserved{Identity: "pr:x", Outcome: wire.OutcomeSucceeded, Result: map[string]string{}}},
		{Command: wire.CmdOperationObserved, OperationObserved: &wire.OperationObserved{Identity: "pr:x", Outcome: wire.OutcomeAmbiguous, Result: map[string]string{}}},
		{Command: wire.CmdVerificationStarted, VerificationStarted: &wire.VerificationStarted{CommandSetDigest: l.as.CommandSetDigest, Isolation: wire.Bwrap}},
		{Command: wire.CmdBranchTouched, BranchTouched: &wire.BranchTouched{Sha: baseCommit}},
		{Command: wire.CmdAttemptFailed, AttemptFailed: &wire.AttemptFailed{ReasonCode: "INFRASTRUCTURE", Summary: "x"}},
	} {
		c.LeaseId, c.FencingToken = id, token
		all = append(all, foreign{operation: "postRunCommand", method: "POST", path: path + "/commands", body: c})
	}
	if p := l.as.Publish; p != nil {
		all = append(all, foreign{operation: "ensureLocalPull", method: "POST", path: pulls, body: wire.LocalPullEnsure{RunId: l.as.RunId, LeaseId: id, FencingToken: token,
			HeadBranch: p.Branch, BaseBranch: p.BaseBranch, HeadSha: baseCommit, Title: p.Title, Body: p.Body}})
	}
	return all
}

// plain is a failure without what differs from request to request.
func (a answer) plain(t testing.TB) wire.Problem {
	t.Helper()
	p := into[wire.Problem](t, a)
	p.Instance = ""
	return p
}

// R-TEN-1, R-LEASE-2, T1, T2: what a worker holds no lease of it cannot touch, by any route. For a worker of another tenant, and
// for one of all tenants, it is answered as what does not exist; a colleague is told to stop.
func TestAWorkerReachesOnlyItsOwnRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.toPublish(t, "Not yours")
	pull := l.open(t)
	// The same requests about nothing: a lease's ids that were never given out.
	nothing := *l
	nothing.as.RunId, nothing.as.LeaseId = typeid.Format(typeid.Run, typeid.New()), typeid.Format(typeid.Lease, typeid.New())
	nothing.as.Repository.Id = typeid.Format(typeid.Repo, typeid.New())
	nothing.as.Patch = &wire.AssignedPatch{ArtifactId: typeid.Format(typeid.Artifact, typeid.New())}
	unknown, theirs := nothing.requests(typeid.Format(typeid.Pull, typeid.New())), l.requests(pull.Id)

	covered := map[string]bool{}
	before := got(w.store.RunInfo(t.Context(), db.DefaultTenant, got(typeid.Parse(typeid.Run, l.as.RunId))(t)))(t)
	there := w.elsewhere(t)
	strangers := map[string]*worker{"of another tenant": w.workerOf(t, there.id, "stranger"), "of every tenant": w.workerOf(t, uuid.Nil, "everywhere")}
	colleague := w.worker(t, "colleague")
	for i, r := range theirs {
		covered[r.operation] = true
		for name, k := range strangers {
			a, none := k.call(t, r.method, r.path, r.body, r.header...), k.call(t, unknown[i].method, unknown[i].path, unknown[i].body, unknown[i].header...)
			if r.operation == "listLocalPulls" && a.StatusCode == http.StatusOK && a.body == none.body {
				continue // nothing is in either list
			}
			if a.StatusCode != http.StatusNotFound || a.plain(t).Detail != none.plain(t).Detail || a.plain(t).Code != none.plain(t).Code {
				t.Errorf("%s by a worker %s: %d %s\nof a run that does not exist: %d %s", r.operation, name, a.StatusCode, a.body, none.StatusCode, none.body)
			}
		}
		if r.operation == "listLocalPulls" || r.operation == "getLocalPull" {
			continue // of its own tenant, which is no secret
		}
		if a := colleague.call(t, r.method, r.path, r.body, r.header...); a.StatusCode != http.StatusForbidden && a.StatusCode != http.StatusConflict || !a.plain(t).Stop {
			t.Errorf("%s by a colleague without the lease: %d %s", r.operation, a.StatusCode, a.body)
		}
	}
	for name, k := range strangers {
		if beat := into[wire.HeartbeatAck](t, k.beat(t, l).want(t, http.StatusOK)); beat.Leases[0].Signal != "lost" {
			t.Errorf("heartbeat of a worker %s: %+v", name, beat)
		}
		k.call(t, "POST", "/workers/deregister", wire.BootRef{BootId: l.boot}).want(t, http.StatusNotFound)
	}
	if after := got(w.store.RunInfo(t.Context(), db.DefaultTenant, before.ID))(t); after.Version != before.Version || after.Lease == nil {
		t.Errorf("the run was moved: version %d, then %d", before.Version, after.Version)
	}
	// A new route of workers belongs into the list above, or is about no run.
	about := map[string]bool{"getPrincipal": true, "registerWorker": true, "heartbeat": true, "claim": true, "deregisterWorker": true}
	h := got(handlers.New(handlers.Options{Store: w.store, Hub: w.hub, PublicURL: "http://127.0.0.1:1", SessionKey: []byte(strings.Repeat("k", 32))}))(t)
	for _, r := range h.Routes() {
		if slices.Contains(r.Kinds, "worker") && !covered[r.Operation] && !about[r.Operation] {
			t.Errorf("nobody tried %s on a run of others", r.Operation)
		}
	}
	if ack := l.report(t, pull); ack.Run.State != wire.RunStateSUCCEEDED {
		t.Errorf("its holder goes on: %+v", ack)
	}
}
