package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"signalbox/internal/wire"
)

type queueCmd struct {
	List   queueListCmd   `cmd:"" help:"List queues, and what waits in them for which reason."`
	Pause  queuePauseCmd  `cmd:"" help:"Stop giving out a queue's work; what runs goes on."`
	Resume queueResumeCmd `cmd:"" help:"Give out a queue's work again."`
}

type queueListCmd struct{ remote }

func (c queueListCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ListQueuesWithResponse(ctx)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		line(w, "QUEUE", "OLDEST", "WAITING", "LATER", "RUNNING", "WORKERS", "IN/MIN", "OUT/MIN", "STATE")
		for _, q := range res.JSON200.Queues {
			state := "open"
			if q.Paused {
				state = fmt.Sprintf("paused by %s at %s: %s", q.PausedBy, when(q.PausedAt), q.PauseReason)
			}
			line(w, q.Name, ago(q.OldestAt), strconv.Itoa(q.Depth), strconv.Itoa(q.Delayed), strconv.Itoa(q.Running), strconv.Itoa(q.Workers),
				fmt.Sprintf("%.1f", q.ArrivalsPerMinute), fmt.Sprintf("%.1f", q.CompletionsPerMinute), state)
		}
		if len(res.JSON200.Waiting) == 0 {
			return
		}
		fmt.Fprintln(w)
		line(w, "RUN", "WAITS", "QUEUE", "WHY")
		for _, i := range res.JSON200.Waiting {
			line(w, i.RunId, ago(i.Since), i.Queue, i.Reason)
		}
	})
}

// ago is how long something has lasted, "-" where it has not begun.
func ago(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return max(time.Since(since), 0).Round(time.Second).String()
}

type queuePauseCmd struct {
	Queue  string `arg:"" help:"Name of the queue."`
	Reason string `required:"" help:"Why; everybody whose run waits reads it."`
}

func (c queuePauseCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.PauseQueueWithResponse(ctx, c.Queue, &wire.PauseQueueParams{IdempotencyKey: key()}, wire.Reason{Reason: c.Reason})
	if err != nil {
		return err
	}
	if res.StatusCode() != http.StatusNoContent {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	_, err = fmt.Fprintln(t.Out, "Paused. What runs goes on.")
	return err
}

type queueResumeCmd struct {
	Queue string `arg:"" help:"Name of the queue."`
}

func (c queueResumeCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ResumeQueueWithResponse(ctx, c.Queue, &wire.ResumeQueueParams{IdempotencyKey: key()})
	if err != nil {
		return err
	}
	if res.StatusCode() != http.StatusNoContent {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	_, err = fmt.Fprintln(t.Out, "Resumed.")
	return err
}
