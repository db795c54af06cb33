package db

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// Step is a worker's report of one granular action.
type Step struct {
	CallID   string
	Kind     string
	Name     string
	State    run.StepState
	Summary  string
	ExitCode *int
	Duration time.Duration
}

// Chunk is output of a program, at most 64 KiB.
type Chunk struct {
	Stream string
	CallID string
	Data   []byte
}

// Used is what was used up since the report before.
type Used struct {
	// Provider is who served the model; empty is the provider that the run was routed to.
	Provider        string
	Model           string
	InputTokens     int64
	OutputTokens    int64
	ToolCalls       int64
	AgentIterations int64
	ToolTime        time.Duration
	SandboxTime     time.Duration
	ProviderCalls   int64
	// CostMicros is what the agent says it cost, in millionths of the installation's currency; nil: it does not say.
	CostMicros *int64
}

// Batch is facts under one sequence number, which counts from 1 per lease and
// per kind of fact; exactly one of the three is set.
type Batch struct {
	Sequence int64
	Steps    []Step
	Chunks   []Chunk
	Used     *Used
}

func (b Batch) kind() string {
	switch {
	case b.Steps != nil:
		return "steps"
	case b.Chunks != nil:
		return "logs"
	}
	return "usage"
}

// Append stores facts that are no transitions: steps, log chunks, usage. A batch
// whose number was seen before is answered as stored and written no second time; the
// budget is looked at all the same, because whoever stored it may have died before that.
func (s *Store) Append(ctx context.Context, h Holder, b Batch) (replayed bool, err error) {
	var cost bill
	if b.kind() == "usage" {
		if cost, err = s.bill(ctx, h.Ref, *b.Used); err != nil {
			return false, err
		}
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		g, err := s.guard(ctx, tx, h, b.kind(), b.Sequence)
		if err != nil {
			return err
		}
		if replayed = !g.Fresh; replayed {
			return nil
		}
		return s.append(ctx, tx, h, g, b, cost)
	})
	if err != nil {
		return replayed, translate(err, "run")
	}
	usage := b.kind() == "usage"
	if !replayed {
		s.ring(Change{Tenant: h.Ref.Tenant, Run: h.Ref.Run})
		// A late repeat is no answer of the provider's now.
		if usage && b.Used.ProviderCalls > 0 {
			if _, err := s.q.PassProbe(ctx, s.pool, &h.Ref.Run); err != nil {
				return false, fmt.Errorf("end the provider's pause: %w", err)
			}
		}
	}
	if usage {
		return replayed, s.checkBudget(ctx, h)
	}
	return replayed, nil
}

func (s *Store) append(ctx context.Context, tx pgx.Tx, h Holder, g sqlc.GuardLeaseRow, b Batch, cost bill) error {
	switch b.kind() {
	case "steps":
		rows := make([]sqlc.Step, 0, len(b.Steps))
		at := map[string]int{}
		for _, x := range b.Steps {
			row := sqlc.Step{ID: typeid.New(), TenantID: g.TenantID, RunID: g.RunID, AttemptNo: g.AttemptNo, LeaseID: h.Lease.ID, Phase: g.Phase,
				CallID: x.CallID, Kind: x.Kind, Name: x.Name, State: string(x.State), Summary: x.Summary}
			if x.ExitCode != nil {
				row.ExitCode = new(int32(*x.ExitCode))
			}
			if x.Duration > 0 {
				row.DurationMs = new(x.Duration.Milliseconds())
			}
			// One statement may name a row once: the last word about a call counts.
			if n, ok := at[x.CallID]; ok {
				rows[n] = row
				continue
			}
			at[x.CallID] = len(rows)
			rows = append(rows, row)
		}
		raw, err := encode(rows)
		if err != nil {
			return err
		}
		return wrap("store steps", s.q.UpsertSteps(ctx, tx, raw))
	case "logs":
		rows := make([]sqlc.LogChunk, 0, len(b.Chunks))
		for i, c := range b.Chunks {
			rows = append(rows, sqlc.LogChunk{ID: int64(i), TenantID: g.TenantID, RunID: g.RunID, AttemptNo: g.AttemptNo, LeaseID: h.Lease.ID,
				Stream: c.Stream, CallID: c.CallID, Data: c.Data, Lines: int32(bytes.Count(c.Data, []byte("\n")))}) // #nosec G115 -- a chunk has at most 65536 bytes
		}
		raw, err := encode(rows)
		if err != nil {
			return err
		}
		return wrap("store logs", s.q.InsertLogs(ctx, tx, raw))
	}
	u := b.Used
	raw, err := encode(sqlc.Usage{TenantID: g.TenantID, RunID: g.RunID, AttemptNo: g.AttemptNo, LeaseID: h.Lease.ID, Provider: cost.provider, Model: u.Model, Source: cost.source,
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, ToolCalls: u.ToolCalls, AgentIterations: u.AgentIterations,
		ToolMs: u.ToolTime.Milliseconds(), SandboxMs: u.SandboxTime.Milliseconds(), ProviderCalls: u.ProviderCalls, CostMicros: cost.micros})
	if err != nil {
		return err
	}
	return wrap("store usage", s.q.InsertUsage(ctx, tx, raw))
}

// checkBudget tells the worker to stop where a limit is reached: the signal goes
// with the next heartbeat, and the worker stores diff and logs first. It is a
// statement of its own, because the usage is stored under the lease's lock and
// the run's comes before that one.
func (s *Store) checkBudget(ctx context.Context, h Holder) error {
	row, err := s.q.LoadRun(ctx, s.pool, h.Ref.Tenant, h.Ref.Run)
	if err != nil {
		return fmt.Errorf("load run: %w", err)
	}
	r, err := toRun(row.Run)
	if err != nil {
		return err
	}
	u, err := s.q.RunSpent(ctx, s.pool, r.ID)
	if err != nil {
		return fmt.Errorf("load usage: %w", err)
	}
	if overspent(r.Limits, u, s.money) == "" {
		return nil
	}
	_, err = s.q.SignalBudget(ctx, s.pool, costExceeded(r.Limits, u), r.Tenant, r.ID)
	return wrap("signal the budget", err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
