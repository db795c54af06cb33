package e2e_test

import (
	"strings"
	"testing"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// R-TEST-18: a sandbox that cannot be started is tried again, because the next worker may be a better one, and then ends the
// run with its own code and a sentence; nobody is charged for the agent's work, and no sandbox is left behind.
func TestSandboxDoesNotStart(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Policy: "schema: 1\nversion: twice-1\nlimits: {max_attempts: 2, max_runs: 1}\n", Agents: map[string]rig.Agent{
		"default": {Argv: []string{"sh", "-c", rig.Follow, rig.Follow}, Plan: "auto", Wall: "1m", Grace: "1s", Mounts: []rig.Mount{{Host: "/no/such/toolchain", Inside: "/opt/toolchain"}}},
	}})
	repo := r.Repository("acme/shop", rig.Shop())
	_, run := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", good())})
	got := r.Await(run, wire.RunStateFAILED)
	if f := got.Failure; f == nil || f.Category != "INFRASTRUCTURE" || f.ReasonCode != "SANDBOX_START_FAILED" || !strings.Contains(f.Summary, "sandbox") {
		t.Errorf("failure %+v\n%s", got.Failure, r.History(run))
	}
	if n := r.Count(run, "attempt_failed"); n != 2 {
		t.Errorf("%d attempts failed, want both\n%s", n, r.History(run))
	}
	if n := r.Count(run, "plan_created"); n != 0 {
		t.Error("the agent worked without a sandbox")
	}
	var left int
	if err := r.Owner.QueryRow(t.Context(), `SELECT count(*) FROM sandboxes WHERE state IN ('REQUESTED', 'READY')`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d sandboxes are left, %v", left, err)
	}
	if b := repo.Branches(); len(b) != 0 {
		t.Errorf("branches: %v", b)
	}
}
