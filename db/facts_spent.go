package db

import (
	"context"
	"fmt"
	"sync"
	"time"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/money"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// spentFacts compares what the run used up with its snapshotted limits.
func (s *Store) spentFacts(r run.Run, row sqlc.Run, now time.Time, k sqlc.FactsOfRunsRow, f *run.Facts) {
	words := overspent(r.Limits, sqlc.RunSpentRow{InputTokens: k.InputTokens, OutputTokens: k.OutputTokens, ToolCalls: k.ToolCalls, AgentIterations: k.AgentIterations,
		ToolMs: k.ToolMs, ProviderCalls: k.ProviderCalls, CostMicros: k.CostMicros, SandboxSeconds: k.SandboxSeconds, VerifierSeconds: k.VerifierSeconds}, s.money)
	active := time.Duration(row.ActiveMs) * time.Millisecond
	if counts(r.State) {
		active += now.Sub(row.StateSince)
	}
	if l := r.Limits.RunTimeout.Std(); l > 0 && active > l {
		f.Overdue = true
		words = fmt.Sprintf("The run has been active for %s; the limit is %s.", active.Round(time.Second), l)
	}
	f.Drained = k.Drained
	f.Policy.BudgetLeft, f.Policy.BudgetWords = words == "", words
	f.Spent = words != ""
}

// further are the kinds of event with which a run gets further.
var further = sync.OnceValue(func() (out []string) {
	for _, k := range run.GetsFurther() {
		out = append(out, string(k))
	}
	return out
})

// releaseFacts counts how often the run was given back since it last got further.
func (s *Store) releaseFacts(ctx context.Context, h sqlc.DBTX, r run.Run, f *run.Facts) error {
	n, err := s.q.ReleasesOfRun(ctx, h, further(), r.ID)
	f.Released = int(n)
	return wrap("count how often the run was given back", err)
}

// costExceeded reports whether the limit of cost itself is reached.
func costExceeded(l run.Limits, u sqlc.RunSpentRow) bool {
	return l.CostCents > 0 && u.CostMicros >= l.CostCents*10_000
}

// overspent says in words which limit is reached, or ""; money is counted in that currency.
func overspent(l run.Limits, u sqlc.RunSpentRow, in money.Currency) string {
	for _, c := range []struct {
		used, limit int64
		what        string
	}{
		{u.InputTokens, l.TokensIn, "input tokens"}, {u.OutputTokens, l.TokensOut, "output tokens"},
		{u.ToolCalls, int64(l.ToolCalls), "tool calls"}, {u.AgentIterations, int64(l.AgentIterations), "agent iterations"},
		{u.ProviderCalls, l.ProviderCalls, "calls of the model's provider"},
	} {
		if c.limit > 0 && c.used >= c.limit {
			return fmt.Sprintf("The run used %d %s; the limit is %d.", c.used, c.what, c.limit)
		}
	}
	if costExceeded(l, u) {
		return fmt.Sprintf("The run cost %s; the limit is %s.", in.Of(u.CostMicros), in.OfCents(l.CostCents))
	}
	for _, c := range []struct {
		used  time.Duration
		limit policy.Duration
		what  string
	}{
		{time.Duration(u.ToolMs) * time.Millisecond, l.ShellTime, "in the agent's commands"},
		{seconds(u.VerifierSeconds), l.VerifierTime, "verifying"},
		{seconds(u.SandboxSeconds), l.SandboxTime, "in sandboxes"},
	} {
		if c.limit > 0 && c.used >= c.limit.Std() {
			return fmt.Sprintf("The run spent %s %s; the limit is %s.", c.used.Round(time.Second), c.what, c.limit)
		}
	}
	return ""
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
