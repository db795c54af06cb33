package main

import (
	"context"
	"io"
	"strconv"

	"signalbox/internal/wire"
)

type auditListCmd struct {
	remote
	Who    string `help:"Id of a person or worker, or a part of a name."`
	Action string `help:"An action such as gate.approve, its beginning such as 'gate.*', or forced or access."`
	Object string `help:"Id of an object, or its kind such as run."`
	Result string `help:"A result such as recorded or refused."`
	Since  string `help:"The first instant, such as 2026-11-30T14:00."`
	Until  string `help:"The first instant that is no longer chosen."`
	Zone   string `help:"Time zone of both, such as Europe/Zurich; UTC without it."`
	Before int64  `help:"Only rows with a smaller number: the last one of the page before."`
	Limit  int    `default:"50" help:"Rows of a page, at most 500."`
}

func (c auditListCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ListAuditWithResponse(ctx, &wire.ListAuditParams{Who: c.Who, Action: c.Action, Object: c.Object, Result: c.Result, Since: c.Since, Until: c.Until, Zone: c.Zone, Before: c.Before, Limit: &c.Limit})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		line(w, "NUMBER", "AT", "WHO", "ACTION", "OBJECT", "RESULT", "REASON")
		for _, a := range res.JSON200.Items {
			line(w, strconv.FormatInt(a.Number, 10), when(a.At), orDash(a.ActorName), a.Action, orDash(a.ObjectId), a.Result, a.Reason)
		}
	})
}
