package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// T11: bodies are read strictly, and each fault is named.
func TestStrictJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.cli(t, rita)
	repo := typeid.Format(typeid.Repo, w.repo)
	cases := map[string]struct {
		body    string
		headers []string
		code    int
		field   string
	}{
		"unknown field":              {body: `{"title":"t","goal":"g","repository_id":"` + repo + `","state":"READY"}`, code: 422, field: "state"},
		"wrong type":                 {body: `{"title":1,"goal":"g","repository_id":"` + repo + `"}`, code: 422, field: "title"},
		"missing":                    {body: `{"title":"t"}`, code: 422, field: "goal"},
		"an id of another sort":      {body: `{"title":"t","goal":"g","repository_id":"` + typeid.Format(typeid.Run, typeid.New()) + `"}`, code: 422, field: "repository_id"},
		"no such repository":         {body: `{"title":"t","goal":"g","repository_id":"` + typeid.Format(typeid.Repo, typeid.New()) + `"}`, code: 422, field: "repository_id"},
		"a branch that is an option": {body: `{"title":"t","goal":"g","repository_id":"` + repo + `","base_ref":"--upload-pack=x"}`, code: 422, field: "base_ref"},
		"a broken pattern":           {body: `{"title":"t","goal":"g","repository_id":"` + repo + `","scope":["a[" ]}`, code: 422, field: "scope"},
		"not JSON":                   {body: `{"title":`, code: 400},
		"two values":                 {body: `{} {}`, code: 400},
		"not UTF-8":                  {body: "{\"title\":\"\xff\"}", code: 400},
		"empty":                      {body: ` `, code: 400},
		"another content type":       {body: `{}`, headers: []string{"Content-Type", "text/plain"}, code: 422},
		"no idempotency key":         {body: `{}`, headers: []string{"Idempotency-Key", ""}, code: 422, field: "Idempotency-Key"},
		"too large":                  {body: `{"goal":"` + strings.Repeat("a", 2<<20) + `"}`, code: 413},
	}
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			a := c.call(t, "POST", "/tasks", k.body, k.headers...).want(t, k.code)
			p := into[wire.Problem](t, a)
			if a.Header.Get("Content-Type") != "application/problem+json" || p.Status != k.code || p.Detail == "" || p.Instance == "" {
				t.Errorf("problem %+v as %s", p, a.Header.Get("Content-Type"))
			}
			if k.field != "" && !slices.ContainsFunc(p.Errors, func(e wire.FieldError) bool { return e.Field == k.field }) {
				t.Errorf("the faults %+v do not name %s", p.Errors, k.field)
			}
		})
	}
	if list := into[wire.TaskList](t, c.call(t, "GET", "/tasks", nil)); len(list.Items) != 0 {
		t.Errorf("%d tasks were stored", len(list.Items))
	}
}

// R-TRN-6: the same key with the same content makes one task; with other content it is refused.
func TestCreateTaskOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.token(t, rita, "read", "tasks")
	body := wire.TaskCreate{Title: "t", Goal: "g", RepositoryId: typeid.Format(typeid.Repo, w.repo)}
	one := into[wire.Task](t, c.call(t, "POST", "/tasks", body, "Idempotency-Key", "the-same-key").want(t, http.StatusCreated))
	a := c.call(t, "POST", "/tasks", body, "Idempotency-Key", "the-same-key").want(t, http.StatusCreated)
	if two := into[wire.Task](t, a); two.Id != one.Id || a.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the second answer is %s, replayed %q", two.Id, a.Header.Get("Idempotency-Replayed"))
	}
	body.Goal = "another"
	c.call(t, "POST", "/tasks", body, "Idempotency-Key", "the-same-key").want(t, http.StatusUnprocessableEntity)
	if list := into[wire.TaskList](t, c.call(t, "GET", "/tasks", nil)); len(list.Items) != 1 {
		t.Errorf("%d tasks", len(list.Items))
	}
}

// Lists go on by key: every item once, in order, whatever the page size.
func TestPaging(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.cli(t, rita)
	var made []string
	for i := range 7 {
		made = append(made, into[wire.Task](t, c.call(t, "POST", "/tasks", wire.TaskCreate{Title: fmt.Sprintf("task %d", i), Goal: "g", RepositoryId: typeid.Format(typeid.Repo, w.repo)}).want(t, 201)).Id)
	}
	slices.Reverse(made)
	for _, size := range []int{1, 2, 3, 7, 50} {
		var seen []string
		next := ""
		for {
			list := into[wire.TaskList](t, c.call(t, "GET", "/tasks?limit="+strconv.Itoa(size)+"&cursor="+url.QueryEscape(next), nil).want(t, 200))
			for _, task := range list.Items {
				seen = append(seen, task.Id)
			}
			if next = list.NextCursor; next == "" {
				break
			}
		}
		if !slices.Equal(seen, made) {
			t.Errorf("pages of %d: %v, want %v", size, seen, made)
		}
	}
	c.call(t, "GET", "/tasks?cursor=nonsense", nil).want(t, http.StatusUnprocessableEntity)
	c.call(t, "GET", "/tasks?limit=501", nil).want(t, http.StatusUnprocessableEntity)
	c.call(t, "GET", "/tasks?limit=0", nil).want(t, http.StatusUnprocessableEntity)
}

// R-LEASE-2, S13: after a lease is gone its holder changes nothing, and is told to stop.
func TestStaleLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	k := w.worker(t, "one")
	l := k.claim(t, "execute")
	l.do(t, wire.RunCommand{Command: wire.CmdStart})
	must(t, w.lapse(t))
	before := into[wire.Run](t, w.cli(t, rita).call(t, "GET", "/runs/"+l.as.RunId, nil))
	sandbox := wire.RunCommand{Command: wire.CmdSandboxReady, SandboxReady: &wire.SandboxReady{Isolation: wire.Bwrap, BaseCommit: baseCommit}}
	for name, a := range map[string]answer{
		"command": l.post(t, sandbox),
		"steps":   l.call(t, "POST", "/runs/"+l.as.RunId+"/steps", wire.StepBatch{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 1, Steps: []wire.StepReport{{CallId: "1", Kind: "k", Name: "n", State: wire.StepRunning}}}),
		"logs":    l.call(t, "POST", "/runs/"+l.as.RunId+"/logs", wire.LogBatch{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 1, Chunks: []wire.LogChunkReport{{Stream: "agent", Data: []byte("x")}}}),
		"usage":   l.call(t, "POST", "/runs/"+l.as.RunId+"/usage", wire.UsageReport{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: 1, InputTokens: 5}),
	} {
		if p := into[wire.Problem](t, a.want(t, http.StatusConflict)); !p.Stop {
			t.Errorf("%s: the worker is not told to stop: %s", name, a.body)
		}
	}
	beat := into[wire.HeartbeatAck](t, k.call(t, "POST", "/workers/heartbeat", wire.Heartbeat{BootId: k.boot, Leases: []wire.HeldLease{{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, RunId: l.as.RunId}}}).want(t, 200))
	if len(beat.Leases) != 1 || beat.Leases[0].Signal != wire.SignalLost {
		t.Errorf("heartbeat %+v", beat)
	}
	if after := into[wire.Run](t, w.cli(t, rita).call(t, "GET", "/runs/"+l.as.RunId, nil)); after.Version != before.Version {
		t.Errorf("the run moved from version %d to %d", before.Version, after.Version)
	}
	t.Run("another worker with the same lease and token", func(t *testing.T) {
		other := &lease{worker: w.worker(t, "two"), as: l.as}
		other.post(t, sandbox).want(t, http.StatusConflict)
		if a := other.call(t, "GET", "/runs/"+l.as.RunId, nil); a.StatusCode != http.StatusForbidden {
			t.Errorf("a worker reads a run that it does not hold: %d", a.StatusCode)
		}
	})
	t.Run("late evidence is kept and moves nothing", func(t *testing.T) {
		if a := into[wire.Artifact](t, l.put(t, wire.ArtifactKindLog, "what I still had").want(t, http.StatusCreated)); !a.Late {
			t.Error("the artifact is not marked as late")
		}
	})
}

// lapse lets every lease run out by the database's clock.
func (w *world) lapse(t testing.TB) error {
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	_, err := conn.Exec(t.Context(), "UPDATE run_leases SET expires_at = clock_timestamp() - interval '1 second'")
	return err
}

// A repeated command is answered again; a command carries its own content and no other.
func TestCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	k := w.worker(t, "one")
	l := k.claim(t, "execute")
	one := l.post(t, wire.RunCommand{Command: wire.CmdStart}, "Idempotency-Key", "start-0123456").want(t, http.StatusOK)
	two := l.post(t, wire.RunCommand{Command: wire.CmdStart}, "Idempotency-Key", "start-0123456").want(t, http.StatusOK)
	if two.Header.Get("Idempotency-Replayed") != "true" || into[wire.CommandAck](t, one).Run != into[wire.CommandAck](t, two).Run {
		t.Errorf("the second answer is %s", two.body)
	}
	l.post(t, wire.RunCommand{Command: wire.CmdStart}).want(t, http.StatusConflict)
	for name, c := range map[string]wire.RunCommand{
		"no content":      {Command: wire.CmdSandboxReady},
		"foreign content": {Command: wire.CmdRelease, Release: &wire.Release{Reason: "r"}, SandboxReady: &wire.SandboxReady{Isolation: wire.Bwrap, BaseCommit: baseCommit}},
		"not of the form": {Command: wire.CmdSandboxReady, SandboxReady: &wire.SandboxReady{Isolation: "none", BaseCommit: "HEAD"}},
	} {
		if a := l.post(t, c); a.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	// A command of another phase is not the holder's to post.
	l.post(t, wire.RunCommand{Command: wire.CmdPrReported, PrReported: &wire.PrReported{Url: "u", Branch: "b", Sha: baseCommit}}).want(t, http.StatusForbidden)
	if r := into[wire.Run](t, w.cli(t, rita).call(t, "GET", "/runs/"+l.as.RunId, nil)); r.State != "PREPARING" || r.Lease == nil || r.Lease.Isolation != "bwrap" {
		t.Errorf("run %+v", r)
	}
	t.Run("a claim id is answered again with the same leases", func(t *testing.T) {
		w.signedIn(t, rita).submit(t, "A second one.")
		claim := wire.Claim{ClaimId: "claim-0123456789", BootId: k.boot, Phases: []wire.Phase{"execute"}, Max: 3, WaitSeconds: 5}
		a := into[wire.ClaimAck](t, k.call(t, "POST", "/workers/claims", claim).want(t, 200))
		b := into[wire.ClaimAck](t, k.call(t, "POST", "/workers/claims", claim).want(t, 200))
		if len(a.Assignments) != 1 || len(b.Assignments) != 1 || a.Assignments[0].LeaseId != b.Assignments[0].LeaseId || !b.Replayed {
			t.Errorf("first %d assignments, then %d, replayed %t", len(a.Assignments), len(b.Assignments), b.Replayed)
		}
	})
	t.Run("a phase that the credential does not allow", func(t *testing.T) {
		claim := wire.Claim{ClaimId: "claim-9876543210", BootId: k.boot, Phases: []wire.Phase{"execute"}, Max: 1}
		conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
		defer conn.Close(t.Context())
		got(conn.Exec(t.Context(), "UPDATE worker_credentials SET phases = '{verify}'"))(t)
		k.call(t, "POST", "/workers/claims", claim).want(t, http.StatusForbidden)
	})
}

// R-TRN-8, R-PLAN-1: what guards stand on is what the server found itself.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	k := w.worker(t, "one")
	l := k.claim(t, "execute")
	l.plan(t)
	secret := "AKIA" + "IOSFODNN7" + "EXAMPLQ"
	cases := map[string]struct {
		kind    wire.ArtifactKind
		content string
		code    int
	}{
		"a plan that lacks something": {wire.ArtifactKindPlan, `{"files":[]}`, 422},
		"a plan that is not JSON":     {wire.ArtifactKindPlan, `no`, 422},
		"a report about nothing":      {wire.ArtifactKindVerificationReport, `{"verdict":"passed"}`, 422},
		"a report that is not JSON":   {wire.ArtifactKindVerificationReport, `passed`, 422},
		"a log":                       {wire.ArtifactKindLog, "bytes \x00\xff", 201},
		"a patch that cannot be read": {wire.ArtifactKindPatch, "hello", 201},
		"a patch":                     {wire.ArtifactKindPatch, diff("a.txt", "x"), 201},
		"a patch with a secret":       {wire.ArtifactKindPatch, diff("a.txt", `aws_key = "`+secret+`"`), 201},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := l.put(t, c.kind, c.content).want(t, c.code)
			if c.code != 201 || c.kind != wire.ArtifactKindPatch {
				return
			}
			facts := into[wire.Artifact](t, a).Patch
			if facts == nil || (name == "a patch") != (facts.Files == 1 && len(facts.Findings) == 0) {
				t.Errorf("facts %+v", facts)
			}
		})
	}
	t.Run("a digest that is not the body's", func(t *testing.T) {
		q := url.Values{"kind": {"log"}, "name": {"l"}, "sha256": {sha("other")}, "lease_id": {l.as.LeaseId}, "fencing_token": {strconv.FormatInt(l.as.FencingToken, 10)}}
		l.call(t, "POST", "/runs/"+l.as.RunId+"/artifacts?"+q.Encode(), "body", "Content-Type", "application/octet-stream").want(t, http.StatusUnprocessableEntity)
	})
	t.Run("B10: a download is a file and nothing else", func(t *testing.T) {
		id := l.store(t, wire.ArtifactKindReport, "<script>alert(1)</script>")
		a := w.signedIn(t, rita).get(t, "/artifacts/"+id).want(t, http.StatusOK)
		want := map[string]string{
			"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment; filename=report.txt",
			"Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'", "Cache-Control": "no-store",
		}
		for name, value := range want {
			if a.Header.Get(name) != value {
				t.Errorf("%s: %q, want %q", name, a.Header.Get(name), value)
			}
		}
		if a.body != "<script>alert(1)</script>" {
			t.Errorf("body %q", a.body)
		}
	})
	t.Run("an empty patch is no patch", func(t *testing.T) {
		a := l.post(t, wire.RunCommand{Command: wire.CmdPatchSubmitted, PatchSubmitted: &wire.PatchSubmitted{ArtifactId: l.store(t, wire.ArtifactKindPatch, ""), BaseCommit: baseCommit, ResultTree: resultTree}})
		if ack := into[wire.CommandAck](t, a.want(t, http.StatusOK)); ack.Run.State == "PATCH_READY" {
			t.Errorf("an empty patch gave %s", ack.Run.State)
		}
	})
}

// R-CAN-3: requested and confirmed are two facts; a second request changes nothing; a finished run says so.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	k := w.worker(t, "one")
	l := k.claim(t, "execute")
	form := fields(b.get(t, "/runs/"+l.as.RunId+"/cancel").want(t, http.StatusOK).page(t).Find("form[action$='/cancel']"))
	form.Set("reason", "Wrong repository.")
	b.post(t, "/runs/"+l.as.RunId+"/cancel", form).want(t, http.StatusSeeOther)
	c := w.cli(t, rita)
	r := into[wire.Run](t, c.call(t, "GET", "/runs/"+l.as.RunId, nil))
	if r.State != "CANCELLING" || r.CancelReason != "Wrong repository." || r.CancelRequestedBy == nil || r.CancelRequestedBy.Name != rita.name {
		t.Fatalf("run %+v", r)
	}
	again := into[wire.CancelAck](t, c.call(t, "POST", "/runs/"+l.as.RunId+"/cancel", wire.Reason{Reason: "again"}).want(t, http.StatusOK))
	if !again.Already || again.Run.CancelReason != "Wrong repository." {
		t.Errorf("second request: %+v", again)
	}
	beat := into[wire.HeartbeatAck](t, k.call(t, "POST", "/workers/heartbeat", wire.Heartbeat{BootId: k.boot, Leases: []wire.HeldLease{{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, RunId: l.as.RunId}}}))
	if beat.Leases[0].Signal != wire.SignalCancelRequested {
		t.Errorf("R-LEASE-4: signal %s", beat.Leases[0].Signal)
	}
	if ack := l.do(t, wire.RunCommand{Command: wire.CmdCancelConfirmed}); ack.Run.State != "CANCELLED" || ack.Continue {
		t.Errorf("confirmed: %+v", ack)
	}
	if done := into[wire.CancelAck](t, c.call(t, "POST", "/runs/"+l.as.RunId+"/cancel", wire.Reason{}).want(t, http.StatusOK)); !done.Already || done.Run.State != "CANCELLED" {
		t.Errorf("after the end: %+v", done)
	}
	if page := b.get(t, "/runs/"+l.as.RunId).want(t, http.StatusOK); !strings.Contains(page.body, "Wrong repository.") {
		t.Error("the page does not say why")
	}
}
