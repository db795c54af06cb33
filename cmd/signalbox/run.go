package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"signalbox/internal/wire"
)

type runCmd struct {
	List   runListCmd   `cmd:"" help:"List runs, newest first."`
	Show   runShowCmd   `cmd:"" help:"Show one run."`
	Cost   runCostCmd   `cmd:"" help:"Show what one run cost so far."`
	Events runEventsCmd `cmd:"" help:"Tell what happened to a run."`
	Logs   runLogsCmd   `cmd:"" help:"Print what programs wrote."`
	Patch  runPatchCmd  `cmd:"" help:"Print the newest stored patch."`
	Cancel runCancelCmd `cmd:"" help:"Ask for a run to be cancelled."`
}

type runListCmd struct {
	remote
	State  string `help:"Only runs in this state."`
	Task   string `help:"Only runs of this task."`
	Limit  int    `help:"At most so many." default:"50"`
	Cursor string `help:"Go on where a list ended."`
}

func (c runListCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	params := wire.ListRunsParams{Limit: &c.Limit}
	if c.State != "" {
		params.State = new(wire.RunState(c.State))
	}
	if c.Task != "" {
		params.TaskId = &c.Task
	}
	if c.Cursor != "" {
		params.Cursor = &c.Cursor
	}
	res, err := client.ListRunsWithResponse(ctx, &params)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		line(w, "RUN", "STATE", "ATTEMPT", "REPOSITORY", "CREATED", "TITLE")
		for _, r := range res.JSON200.Items {
			line(w, r.Id, string(r.State), fmt.Sprint(r.AttemptNo), r.RepositoryName, when(r.CreatedAt), r.TaskTitle)
		}
		more(w, res.JSON200.NextCursor)
	})
}

type runShowCmd struct {
	remote
	Run_ string `arg:"" name:"run" help:"Run id."`
}

func (c runShowCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.GetRunWithResponse(ctx, c.Run_)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) { showRun(w, *res.JSON200, address) })
}

func showRun(w io.Writer, r wire.Run, address string) {
	line(w, "run", r.Id)
	line(w, "task", r.TaskId, r.TaskTitle)
	line(w, "state", string(r.State))
	if r.Sentence != "" {
		line(w, "", r.Sentence)
	}
	line(w, "version", fmt.Sprint(r.Version))
	line(w, "attempt", fmt.Sprint(r.AttemptNo))
	if r.Lease != nil {
		line(w, "worker", r.Lease.Worker, string(r.Lease.Phase), string(r.Lease.Isolation))
	}
	if r.GateId != "" {
		line(w, "gate", r.GateId)
	}
	if r.CancelReason != "" || !r.CancelRequestedAt.IsZero() {
		line(w, "cancel asked", when(r.CancelRequestedAt), r.CancelReason)
	}
	if r.Failure != nil {
		line(w, "failure", r.Failure.Category, r.Failure.ReasonCode, r.Failure.Summary)
	}
	if r.PullRequest != nil {
		line(w, "pull request", r.PullRequest.Url)
		line(w, "branch", r.PullRequest.Branch, r.PullRequest.Sha)
	}
	line(w, "created", when(r.CreatedAt))
	if !r.FinishedAt.IsZero() {
		line(w, "finished", when(r.FinishedAt))
	}
	line(w, "page", address+"/runs/"+r.Id)
}

type runEventsCmd struct {
	remote
	Run_   string `arg:"" name:"run" help:"Run id."`
	After  int64  `help:"Only events after this number."`
	Follow bool   `short:"f" help:"Go on until the run has ended."`
}

func (c runEventsCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	if c.Follow {
		return follow(ctx, client, t, c.Run_, c.After, false)
	}
	events, err := eventsAfter(ctx, client, c.Run_, c.After)
	if err != nil {
		return err
	}
	return c.show(t.Out, events, func(w io.Writer) {
		for _, e := range events {
			showEvent(w, e)
		}
	})
}

func showEvent(w io.Writer, e wire.RunEvent) {
	words := e.Sentence
	if words == "" {
		words = e.Kind
	}
	// Why an attempt failed is what its reader wants to know next.
	if why, ok := e.Payload["summary"].(string); ok && (e.Kind == "attempt_failed" || e.Kind == "non_retryable_failure") {
		words += " " + why
	}
	line(w, fmt.Sprint(e.Seq), when(e.At), string(e.To), words)
}

// eventsAfter reads all events after one, page by page.
func eventsAfter(ctx context.Context, client *wire.ClientWithResponses, run string, after int64) ([]wire.RunEvent, error) {
	var all []wire.RunEvent
	for {
		limit := 500
		res, err := client.ListRunEventsWithResponse(ctx, run, &wire.ListRunEventsParams{After: &after, Limit: &limit})
		if err != nil {
			return nil, err
		}
		if res.JSON200 == nil {
			return nil, refused(res.Status(), res.ApplicationproblemJSONDefault)
		}
		all = append(all, res.JSON200.Items...)
		if len(res.JSON200.Items) < limit {
			return all, nil
		}
		after = all[len(all)-1].Seq
	}
}

// follow prints events as they come until the run has ended or, with untilPerson, waits for somebody.
func follow(ctx context.Context, client *wire.ClientWithResponses, t terminal, run string, after int64, untilPerson bool) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		events, err := eventsAfter(ctx, client, run, after)
		if err != nil {
			return err
		}
		for _, e := range events {
			showEvent(t.Out, e)
			after = e.Seq
		}
		if len(events) > 0 {
			state := events[len(events)-1].To
			switch {
			case state == wire.RunState("SUCCEEDED"):
				return nil
			case state == "FAILED" || state == "CANCELLED" || state == "EXPIRED":
				return &silentError{1}
			case untilPerson && (state == "WAITING_FOR_APPROVAL" || state == "AWAITING_VERIFICATION"):
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

type runPatchCmd struct {
	Run_   string `arg:"" name:"run" help:"Run id."`
	Output string `short:"o" help:"File to write; standard output when absent."`
}

func (c runPatchCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.GetRunPatchWithResponse(ctx, c.Run_)
	if err != nil {
		return err
	}
	if res.StatusCode() != 200 {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	if c.Output != "" {
		return os.WriteFile(c.Output, res.Body, 0o600)
	}
	_, err = t.Out.Write(res.Body)
	return err
}

type runCancelCmd struct {
	remote
	Run_   string `arg:"" name:"run" help:"Run id."`
	Reason string `help:"Why; it is shown and kept."`
}

func (c runCancelCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.CancelRunWithResponse(ctx, c.Run_, &wire.CancelRunParams{IdempotencyKey: key()}, wire.Reason{Reason: c.Reason})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		if res.JSON200.Message != "" {
			line(w, res.JSON200.Message)
		}
		showRun(w, res.JSON200.Run, address)
	})
}
