package main

import (
	"context"
	"io"

	"signalbox/internal/wire"
)

type resumeCmd struct {
	remote
	Run_ string `arg:"" name:"run" help:"Run id."`
}

// Run lets a run that seems to stand still go on, and says what was found.
func (c resumeCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ResumeRunWithResponse(ctx, c.Run_, &wire.ResumeRunParams{IdempotencyKey: key()})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		line(w, "run", res.JSON200.RunId)
		line(w, "state", string(res.JSON200.State))
		for _, n := range res.JSON200.Found {
			line(w, "found", n.Text)
		}
		for _, n := range res.JSON200.Done {
			line(w, "done", n.Text)
		}
		line(w, "next", res.JSON200.Next)
		line(w, "page", address+"/runs/"+res.JSON200.RunId)
	})
}
