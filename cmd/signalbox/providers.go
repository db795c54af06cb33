package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"signalbox/internal/wire"
)

type providersCmd struct {
	List   providersListCmd   `cmd:"" help:"List model providers that asked to slow down, and whose run was turned away."`
	Resume providersResumeCmd `cmd:"" help:"End the pause of a provider for everybody."`
}

type providersListCmd struct{ remote }

func (c providersListCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ListProvidersWithResponse(ctx)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		line(w, "PROVIDER", "PAUSED", "UNTIL", "IN A ROW", "RUN", "ASKED BY", "REASON")
		for _, p := range res.JSON200.Paused {
			until := when(p.Until)
			if p.Probing {
				until = "one run tries it now"
			}
			line(w, p.Provider, ago(p.Since), until, strconv.Itoa(p.Failures), cmp.Or(p.RunId, "of another tenant"), cmp.Or(p.RequestedBy, "-"), cmp.Or(p.Reason, "-"))
		}
	})
}

type providersResumeCmd struct {
	Provider string `arg:"" help:"Name of the provider."`
}

func (c providersResumeCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ResumeProviderWithResponse(ctx, c.Provider, &wire.ResumeProviderParams{IdempotencyKey: key()})
	if err != nil {
		return err
	}
	if res.StatusCode() != http.StatusNoContent {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	_, err = fmt.Fprintln(t.Out, "Resumed. Who is turned away again pauses it again.")
	return err
}
