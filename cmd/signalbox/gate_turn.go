package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"signalbox/internal/wire"
)

type gateSnoozeCmd struct {
	remote
	Gate  string        `arg:"" help:"Gate id."`
	For   time.Duration `help:"So long, such as 4h; without it and --until: until a new revision." xor:"until"`
	Until time.Time     `help:"Until then, such as 2027-01-04T09:00:00Z." xor:"until"`
}

func (c gateSnoozeCmd) Run(ctx context.Context, t terminal) error {
	until := c.Until
	if c.For != 0 {
		until = time.Now().Add(c.For)
	}
	return c.take(ctx, t, c.Gate, wire.TurnTake{Do: wire.TakeSnooze, Until: until})
}

type gateWakeCmd struct {
	remote
	Gate string `arg:"" help:"Gate id."`
}

func (c gateWakeCmd) Run(ctx context.Context, t terminal) error {
	return c.take(ctx, t, c.Gate, wire.TurnTake{Do: wire.TakeWake})
}

type gateClaimCmd struct {
	remote
	Gate string `arg:"" help:"Gate id."`
}

func (c gateClaimCmd) Run(ctx context.Context, t terminal) error {
	return c.take(ctx, t, c.Gate, wire.TurnTake{Do: wire.TakeClaim})
}

type gateReleaseCmd struct {
	remote
	Gate string `arg:"" help:"Gate id."`
}

func (c gateReleaseCmd) Run(ctx context.Context, t terminal) error {
	return c.take(ctx, t, c.Gate, wire.TurnTake{Do: wire.TakeRelease})
}

type gatePassCmd struct {
	remote
	Gate   string `arg:"" help:"Gate id."`
	Person string `arg:"" optional:"" help:"Name or id of somebody who may decide there; without it, they are listed."`
}

func (c gatePassCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.GetGateTurnWithResponse(ctx, c.Gate)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	if c.Person == "" {
		return c.show(t.Out, res.JSON200.People, func(w io.Writer) {
			line(w, "PERSON", "NAME")
			for _, p := range res.JSON200.People {
				line(w, p.Id, p.Name)
			}
		})
	}
	to, err := oneOf(res.JSON200.People, c.Person)
	if err != nil {
		return fmt.Errorf("nothing was passed on: %w; signalbox gate pass %s lists who may decide there", err, c.Gate)
	}
	return c.take(ctx, t, c.Gate, wire.TurnTake{Do: wire.TakePass, To: to})
}

// oneOf finds the one person of that id or name. Names are not unique, and a turn given to the wrong one is lost.
func oneOf(people []wire.Person, want string) (string, error) {
	var found []string
	for _, p := range people {
		if p.Id == want {
			return p.Id, nil
		}
		if strings.EqualFold(p.Name, want) {
			found = append(found, p.Id)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("nobody called %q may be asked", safe(want))
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%d people are called %q: name the id", len(found), safe(want))
}

// take does something about whose turn it is, and prints how that stands.
func (f remote) take(ctx context.Context, t terminal, gate string, do wire.TurnTake) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.TakeGateTurnWithResponse(ctx, gate, do)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return f.show(t.Out, res.JSON200, func(w io.Writer) { showTurn(w, *res.JSON200) })
}

func showTurn(w io.Writer, turn wire.GateTurn) {
	line(w, "gate", turn.GateId)
	switch {
	case turn.Snoozed && turn.SnoozedUntil.IsZero():
		line(w, "snoozed", "until a new revision")
	case turn.Snoozed:
		line(w, "snoozed", "until "+when(turn.SnoozedUntil))
	}
	for _, on := range turn.Claims {
		line(w, "on it", on.Name, "until "+when(on.Until))
	}
	if turn.PassedTo != "" {
		line(w, "passed to", turn.PassedTo)
	}
	if turn.GivenBy != "" {
		line(w, "given by", turn.GivenBy)
	}
	if !turn.Snoozed && len(turn.Claims) == 0 && turn.PassedTo == "" && turn.GivenBy == "" {
		line(w, "turn", "nobody said anything about it")
	}
}
