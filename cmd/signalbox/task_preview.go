package main

import (
	"context"
	"io"
	"strings"

	"signalbox/internal/wire"
)

type taskPreviewCmd struct{ change }

func (c taskPreviewCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	body, err := c.body(ctx, t, client)
	if err != nil {
		return err
	}
	res, err := client.PreviewTaskWithResponse(ctx, body)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) { showPreview(w, *res.JSON200) })
}

func showPreview(w io.Writer, p wire.TaskPreview) {
	line(w, "verdict", p.Message)
	// some leaves out what nothing is known of.
	some := func(label string, sentences ...string) {
		for _, s := range sentences {
			if s != "" {
				line(w, label, s)
			}
		}
	}
	some("because", p.Reasons...)
	for _, g := range p.Gates {
		line(w, "asks", g.Title)
		some("", g.Reasons...)
		some("", strings.Join(g.Approvers, ", "), g.Short)
	}
	some("does not ask", p.NotAsked...)
	some("attestation", p.Attestation)
	some("you", p.MayNotWhy)
	if p.Wait != nil {
		some("wait", p.Wait.Message)
		if !p.Wait.WorkerFree {
			some("", p.Wait.Reason)
		}
	}
	if p.LastRuns != nil {
		some("cost", p.LastRuns.Cost)
		some("time", p.LastRuns.Time)
	}
	some("at most", p.Limits)
	line(w, "policy", p.PolicyVersion)
}
