package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/internal/worker"
)

// everything is what the database and the repository hold that a worker could change, one line a table and branch.
func everything(r *rig.Rig, repo *rig.Repository) []string {
	t := r.T
	t.Helper()
	r.Eventually("all effects are delivered", rig.Patience, func() (bool, string) {
		var n int
		if err := r.Owner.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0, fmt.Sprint(n, " wait")
	})
	var all []string
	for _, table := range []string{
		"tasks", "task_events", "runs", "run_events", "idempotency_keys", "run_queue", "run_delayed", "run_leases", "ended_leases", "attempts", "artifacts", "patches",
		"verifications", "sandboxes", "steps", "log_chunks", "usages", "feedback", "gates", "decisions", "policy_decisions", "operations", "pull_requests", "notices",
	} {
		var n int
		var sum string
		err := r.Owner.QueryRow(t.Context(), `SELECT count(*), coalesce(md5(string_agg(t::text, E'\n' ORDER BY t::text)), '') FROM `+table+` t`).Scan(&n, &sum)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s: %d rows %s", table, n, sum))
	}
	return append(all, strings.Split(repo.Git("for-each-ref"), "\n")...)
}

// as is an API client with a bearer token.
func as(r *rig.Rig, token string) *wire.ClientWithResponses {
	r.T.Helper()
	c, err := wire.NewClientWithResponses(r.URL+"/api/v1", wire.WithRequestEditorFn(func(_ context.Context, q *http.Request) error {
		q.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	if err != nil {
		r.T.Fatal(err)
	}
	return c
}

// R-LEASE-2, R-LEASE-3, R-TEST-12: a worker that was stopped past its lease and comes back when another one has finished the run
// changes nothing, whatever it was about to do, and its sandbox is dead.
func TestZombieChangesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, point string }{
		{"the agent runs", worker.PointInExecution},
		{"about to hand in the patch", worker.PointAfterPatchStored},
		{"about to verify", worker.PointInVerification},
		{"about to open the pull request", worker.PointAfterPush},
		{"about to report the pull request", worker.PointAfterPR},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, rig.Options{Workers: -1})
			p := newPoints(t)
			zombie := r.StartWorker(p.worker(rig.WorkerOptions{Name: "zombie"}))
			repo := r.Repository("acme/shop", rig.Shop())
			acts := []rig.Act{{Do: "say", New: "Looking for the rate."}, {Do: "replace", File: "lib/price.sh", Old: "rate=19", New: "rate=20"}}
			if c.point == worker.PointInExecution {
				// The zombie's agent would never end by itself.
				acts = append(acts, rig.Act{Do: "ignore_term"}, rig.Act{Do: "sh", New: `[ "$SIGNALBOX_ATTEMPT" != 1 ] || sleep 1000`})
			}
			publishing := c.point == worker.PointAfterPush || c.point == worker.PointAfterPR
			p.stop(c.point)
			_, run := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", acts...)})
			if publishing {
				r.Person("ana").Approve(r.AwaitGate(run))
			}
			p.reached(r, c.point)
			held := r.Run(run).Lease
			if held == nil {
				t.Fatalf("the stopped worker holds no lease\n%s", r.History(run))
			}
			token := tokens(r, run)
			stale := token[len(token)-1]
			lease := held.Id

			r.StartWorker(rig.WorkerOptions{Name: "successor"})
			if !publishing {
				r.Person("ana").Approve(r.AwaitGate(run))
			}
			r.Await(run, wire.RunStateSUCCEEDED)
			if r.Count(run, "worker_lost") != 1 {
				t.Errorf("the run ended without the loss of a worker\n%s", r.History(run))
			}
			before := everything(r, repo)
			saysStop(r, zombie.Options.Credential, run, lease, stale)

			zombie.Continue()
			r.Eventually("the zombie gives up", rig.Patience, func() (bool, string) {
				log := zombie.Log()
				return strings.Contains(log, "lease ended"), log
			})
			awaitEmpty(r, zombie.Options.Dir, rig.Patience)
			if diff := cmp.Diff(before, everything(r, repo)); diff != "" {
				t.Errorf("the zombie changed something (-before +after):\n%s\n%s", diff, zombie.Log())
			}
			repo.Published(run)
			wellKept(r, run)
		})
	}
}

// R-WRK-3, R-LEASE-3: a worker that was silent for so long that the server gave it up is no ghost: it registers again and
// works on.
func TestZombieRegistersAgain(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Workers: -1})
	w := r.StartWorker(rig.WorkerOptions{Name: "sleeper"})
	repo := r.Repository("acme/shop", rig.Shop())
	w.Pause()
	// The clock cannot be faked: the rows' instants are.
	if _, err := r.Owner.Exec(t.Context(), `UPDATE worker_boots SET heartbeat_at = heartbeat_at - interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the silent worker is dead", rig.Patience, func() (bool, string) {
		var state string
		if err := r.Owner.QueryRow(t.Context(), `SELECT state FROM worker_boots`).Scan(&state); err != nil {
			t.Fatal(err)
		}
		return state == "DEAD", state
	})
	_, run := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.",
		rig.Act{Do: "replace", File: "lib/price.sh", Old: "rate=19", New: "rate=20"})})
	if got := r.Await(run, wire.RunStateQUEUED, wire.RunStateLEASED); got.State != wire.RunStateQUEUED {
		t.Errorf("work was given to a worker that is dead: %s", r.History(run))
	}
	w.Continue()
	r.Person("ana").Approve(r.AwaitGate(run))
	r.Await(run, wire.RunStateSUCCEEDED)
	var states []string
	if err := r.Owner.QueryRow(t.Context(), `SELECT array_agg(state ORDER BY started_at) FROM worker_boots`).Scan(&states); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"DEAD", "READY"}, states); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	wellKept(r, run)
}

// saysStop asserts that each call under an ended lease is answered 409 with stop, and the heartbeat with lost.
func saysStop(r *rig.Rig, credential, run, lease string, token int64) {
	t := r.T
	t.Helper()
	api, ctx := as(r, credential), t.Context()
	var boot uuid.UUID
	if err := r.Owner.QueryRow(ctx, `SELECT id FROM worker_boots WHERE name = 'zombie'`).Scan(&boot); err != nil {
		t.Fatal(err)
	}
	beat, err := api.HeartbeatWithResponse(ctx, wire.Heartbeat{
		BootId: typeid.Format(typeid.Boot, boot), State: wire.WorkerReady, Leases: []wire.HeldLease{{LeaseId: lease, FencingToken: token, RunId: run}},
	})
	if err != nil {
		t.Fatal(err)
	}
	// By then the server may have given up the whole boot, which says the same.
	over := beat.ApplicationproblemJSONDefault != nil && beat.ApplicationproblemJSONDefault.Code == "unknown_boot" && beat.ApplicationproblemJSONDefault.Stop
	if lost := beat.JSON200 != nil && len(beat.JSON200.Leases) == 1 && beat.JSON200.Leases[0].Signal == wire.SignalLost; !lost && !over {
		t.Errorf("a heartbeat for an ended lease: answered %s: %s", beat.Status(), beat.Body)
	}
	said := func(what string, status int, p *wire.Problem) {
		t.Helper()
		if status != http.StatusConflict || p == nil || !p.Stop || p.State == "" || p.Detail == "" {
			t.Errorf("%s with an ended lease: answered %d %+v", what, status, p)
		}
	}
	for _, c := range []wire.RunCommand{
		{Command: wire.CmdPatchSubmitted, PatchSubmitted: &wire.PatchSubmitted{ArtifactId: "art_01h00000000000000000000000", BaseCommit: strings.Repeat("a", 40), ResultTree: strings.Repeat("b", 40)}},
		{Command: wire.CmdAttemptFailed, AttemptFailed: &wire.AttemptFailed{ReasonCode: "UNKNOWN", Summary: "I am late."}},
		{Command: wire.CmdRelease, Release: &wire.Release{Reason: "late"}},
		{Command: wire.CmdStopped, Stopped: &wire.Stopped{Why: wire.StoppedCancel}},
		{Command: wire.CmdPrReported, PrReported: &wire.PrReported{Url: "https://example.test/1", Branch: "x", Sha: strings.Repeat("c", 40)}},
		{Command: wire.CmdOperationIntended, OperationIntended: &wire.OperationIntended{Kind: wire.OpPushBranch, Identity: "push again", Parameters: map[string]string{"a": "b"}}},
		{Command: wire.CmdCancelConfirmed},
	} {
		c.LeaseId, c.FencingToken = lease, token
		got, err := api.PostRunCommandWithResponse(ctx, run, &wire.PostRunCommandParams{IdempotencyKey: "late-" + string(c.Command)}, c)
		if err != nil {
			t.Fatal(err)
		}
		said(string(c.Command), got.StatusCode(), got.ApplicationproblemJSONDefault)
	}
	steps, err := api.PostRunStepsWithResponse(ctx, run, wire.StepBatch{LeaseId: lease, FencingToken: token, Sequence: 1000, Steps: []wire.StepReport{{CallId: "late", Kind: "x", Name: "late", State: wire.StepRunning}}})
	if err != nil {
		t.Fatal(err)
	}
	said("steps", steps.StatusCode(), steps.ApplicationproblemJSONDefault)
	logs, err := api.PostRunLogsWithResponse(ctx, run, wire.LogBatch{LeaseId: lease, FencingToken: token, Sequence: 1000, Chunks: []wire.LogChunkReport{{Stream: "agent", Data: []byte("late")}}})
	if err != nil {
		t.Fatal(err)
	}
	said("logs", logs.StatusCode(), logs.ApplicationproblemJSONDefault)
	usage, err := api.PostRunUsageWithResponse(ctx, run, wire.UsageReport{LeaseId: lease, FencingToken: token, Sequence: 1000, InputTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	said("usage", usage.StatusCode(), usage.ApplicationproblemJSONDefault)
	pull, err := api.EnsureLocalPullWithResponse(ctx, r.Run(run).RepositoryId, wire.LocalPullEnsure{
		RunId: run, LeaseId: lease, FencingToken: token, HeadBranch: r.Run(run).Branch, BaseBranch: "main", HeadSha: strings.Repeat("c", 40), Title: "late",
	})
	if err != nil {
		t.Fatal(err)
	}
	said("pull request", pull.StatusCode(), pull.ApplicationproblemJSONDefault)
}
