package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"signalbox/internal/wire"
)

type workersCmd struct {
	List   workersListCmd   `cmd:"" help:"List workers and when they were last heard of."`
	Advise workersAdviseCmd `cmd:"" help:"Say how many runs and workers fit, and what binds now."`
	Drain  workersDrainCmd  `cmd:"" help:"Ask a worker to finish what it has and end."`
}

type workersListCmd struct{ remote }

func (c workersListCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ListWorkersWithResponse(ctx)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		line(w, "WORKER", "NAME", "STATE", "HEARD", "BUSY", "PHASES", "ISOLATION", "VERSION")
		for _, k := range res.JSON200.Items {
			line(w, k.Id, k.Name, k.State, ago(k.LastHeartbeatAt)+" ago", fmt.Sprintf("%d of %d", k.ActiveLeases, k.MaxConcurrentRuns), fmt.Sprint(k.Phases), string(k.Isolation), k.Version)
		}
	})
}

type workersAdviseCmd struct{ remote }

func (c workersAdviseCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.AdviseWorkersWithResponse(ctx)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		a := res.JSON200
		fmt.Fprintln(w, safe(a.Words))
		fmt.Fprintln(w)
		line(w, "BOUND", "RUNS AT ONCE", "FROM")
		for _, b := range a.Bounds {
			runs := "no bound"
			if b.Known {
				runs = strconv.Itoa(b.Runs)
			}
			if b.Name == a.Binds {
				runs += " (binds now)"
			}
			line(w, b.Name, runs, b.Words)
		}
	})
}

type workersDrainCmd struct {
	Worker string `arg:"" help:"Worker id (wrk_…)."`
}

func (c workersDrainCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.DrainWorkerWithResponse(ctx, c.Worker, &wire.DrainWorkerParams{IdempotencyKey: key()})
	if err != nil {
		return err
	}
	if res.StatusCode() != http.StatusNoContent {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	_, err = fmt.Fprintln(t.Out, "Asked. It hears of it with its next heartbeat.")
	return err
}
