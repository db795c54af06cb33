package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"signalbox/internal/money"
	"signalbox/internal/wire"
)

type runCostCmd struct {
	remote
	Run_ string `arg:"" name:"run" help:"Run id."`
}

// Run shows what a run cost, each kind of number for itself.
func (c runCostCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.GetRunCostWithResponse(ctx, c.Run_)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) { showCost(w, *res.JSON200) })
}

func showCost(w io.Writer, c wire.RunCost) {
	count := func(n int64) string { return fmt.Sprint(n) }
	span := func(ms int64) string { return (time.Duration(ms) * time.Millisecond).Round(time.Second).String() }
	in := money.Currency(c.Currency)
	for _, d := range []struct {
		name string
		of   wire.CostAmount
		as   func(int64) string
	}{
		{"tokens in", c.TokensIn, count}, {"tokens out", c.TokensOut, count}, {"tools", c.ToolMs, span}, {"sandbox", c.SandboxMs, span},
		{"checks", c.CiMs, span}, {"review", c.ReviewMs, span}, {"stored bytes", c.StorageBytes, count}, {"model calls", c.ProviderCalls, count},
	} {
		text := d.as(d.of.Actual)
		if d.of.Estimated > 0 {
			text += ", and " + d.as(d.of.Estimated) + " estimated"
		}
		if d.of.Maximum > 0 {
			text += ", at most " + d.as(d.of.Maximum)
		}
		line(w, d.name, text)
	}
	line(w, "reported", in.Of(c.ReportedMicros).String())
	line(w, "estimated", in.Of(c.EstimatedMicros).String())
	if c.UnpricedCalls > 0 {
		line(w, "unknown", fmt.Sprintf("the cost of %d model calls", c.UnpricedCalls))
	}
	if c.MaxMicros > 0 {
		line(w, "limit", in.Of(c.MaxMicros).String())
	}
	if !c.ExceededAt.IsZero() {
		line(w, "limit reached", c.ExceededAt.UTC().Format(time.RFC3339))
	}
}
