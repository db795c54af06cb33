package policy

import "fmt"

// limits checks the ranges of limits. Nothing may be without bound, and
// the lease must outlive several heartbeats, or every hiccup loses a worker.
func (c *checker) limits(l Limits) {
	for _, n := range []struct {
		path   string
		v      int64
		lo, hi int64
	}{
		{"max_attempts", int64(l.MaxAttempts), 1, 20},
		{"max_runs", int64(l.MaxRuns), 1, 20},
		{"repair_rounds", int64(l.RepairRounds), 0, 20},
		{"redeliveries", int64(l.Redeliveries), 0, 20},
		{"max_base_moves", int64(l.MaxBaseMoves), 0, 20},
		{"max_crashes", int64(l.MaxCrashes), 1, 20},
		{"max_rate_limits", int64(l.MaxRateLimits), 1, 1000},
		{"provider_calls", l.ProviderCalls, 1, 1_000_000_000},
		{"changed_files", int64(l.ChangedFiles), 1, 10_000},
		{"diff_lines", int64(l.DiffLines), 1, 1_000_000},
		{"patch_bytes", l.PatchBytes, 1, 16 << 20},
		{"agent_iterations", int64(l.AgentIterations), 1, 100_000},
		{"tool_calls", int64(l.ToolCalls), 1, 1_000_000},
		{"tokens_in", l.TokensIn, 0, 1_000_000_000_000},
		{"tokens_out", l.TokensOut, 0, 1_000_000_000_000},
		{"cost_cents", l.CostCents, 0, 1_000_000_000_000},
	} {
		path := "limits." + n.path
		c.ok(n.v >= n.lo && n.v <= n.hi, path, fmt.Sprintf("%d is outside %d to %d", n.v, n.lo, n.hi))
	}
	for _, d := range []struct {
		path   string
		v      Duration
		lo, hi string
	}{
		{"start_timeout", l.StartTimeout, "1s", "1h"},
		{"command_timeout", l.CommandTimeout, "1s", "1d"},
		{"step_timeout", l.StepTimeout, "1s", "1d"},
		{"attempt_timeout", l.AttemptTimeout, "1s", "7d"},
		{"run_timeout", l.RunTimeout, "1s", "30d"},
		{"queue_timeout", l.QueueTimeout, "1s", "30d"},
		{"approval_timeout", l.ApprovalTimeout, "1s", "90d"},
		{"attestation_timeout", l.AttestationTimeout, "1s", "90d"},
		{"max_defer", l.MaxDefer, "1s", "30d"},
		{"max_park", l.MaxPark, "1s", "365d"},
		{"merge_wait", l.MergeWait, "1s", "365d"},
		{"task_idle", l.TaskIdle, "1s", "365d"},
		{"cancel_grace", l.CancelGrace, "0s", "10m"},
		{"stop_grace", l.StopGrace, "0s", "10m"},
		{"lease_ttl", l.LeaseTTL, "1s", "1h"},
		{"heartbeat", l.Heartbeat, "100ms", "10m"},
		{"shell_time", l.ShellTime, "1s", "7d"},
		{"verifier_time", l.VerifierTime, "1s", "7d"},
		{"sandbox_time", l.SandboxTime, "1s", "30d"},
	} {
		c.within("limits."+d.path, d.v, d.lo, d.hi)
	}
	c.ok(l.LeaseTTL >= 3*l.Heartbeat, "limits.heartbeat",
		fmt.Sprintf("%s is too slow for a lease of %s: at least three heartbeats must fit", l.Heartbeat, l.LeaseTTL))
	c.ok(l.AttemptTimeout <= l.RunTimeout, "limits.attempt_timeout",
		fmt.Sprintf("%s is longer than the run's %s", l.AttemptTimeout, l.RunTimeout))
}
