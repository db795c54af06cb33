package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"signalbox/internal/wire"
)

type gateCmd struct {
	List           gateListCmd     `cmd:"" help:"List gates, the oldest open one first."`
	Show           gateShowCmd     `cmd:"" help:"Show what is asked and what was decided."`
	Approve        gateApproveCmd  `cmd:"" help:"Approve exactly what you saw."`
	RequestChanges gateChangesCmd  `cmd:"" help:"Send the work back with an instruction."`
	Reject         gateRejectCmd   `cmd:"" help:"Reject and end the run."`
	Reopen         gateReopenCmd   `cmd:"" help:"Ask again after an expiry."`
	Withdraw       gateWithdrawCmd `cmd:"" help:"Withdraw an approval that no worker has taken up."`
	Snooze         gateSnoozeCmd   `cmd:"" help:"Put a gate off for yourself."`
	Wake           gateWakeCmd     `cmd:"" help:"Take back a gate that you put off or passed on."`
	Claim          gateClaimCmd    `cmd:"" help:"Tell everybody for half an hour that you are on it."`
	Release        gateReleaseCmd  `cmd:"" help:"Tell everybody that you are no longer on it."`
	Pass           gatePassCmd     `cmd:"" help:"Pass a gate to somebody who may decide there; of your own work: ask for a review."`
}

type gateListCmd struct {
	remote
	State string `help:"Only gates in this state." default:"open"`
	Limit int    `help:"At most so many." default:"50"`
}

func (c gateListCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	params := wire.ListGatesParams{Limit: &c.Limit}
	if c.State != "" {
		params.State = new(wire.GateState(c.State))
	}
	res, err := client.ListGatesWithResponse(ctx, &params)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		line(w, "GATE", "KIND", "STATE", "REVISION", "RISK", "SINCE", "TITLE")
		for _, g := range res.JSON200.Items {
			line(w, g.Id, string(g.Kind), string(g.State), fmt.Sprint(g.Revision), string(g.Risk), when(g.OpenedAt), g.TaskTitle)
		}
		more(w, res.JSON200.NextCursor)
	})
}

type gateShowCmd struct {
	remote
	Gate string `arg:"" help:"Gate id."`
}

func (c gateShowCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	g, err := getGate(ctx, client, c.Gate)
	if err != nil {
		return err
	}
	return c.show(t.Out, g, func(w io.Writer) { showGate(w, *g, address) })
}

func getGate(ctx context.Context, client *wire.ClientWithResponses, id string) (*wire.Gate, error) {
	res, err := client.GetGateWithResponse(ctx, id)
	if err != nil {
		return nil, err
	}
	if res.JSON200 == nil {
		return nil, refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return res.JSON200, nil
}

func showGate(w io.Writer, g wire.Gate, address string) {
	line(w, "gate", g.Id)
	line(w, "kind", string(g.Kind))
	line(w, "state", string(g.State))
	line(w, "revision", fmt.Sprint(g.Revision))
	line(w, "digest", g.Digest)
	line(w, "task", g.TaskId, g.TaskTitle)
	line(w, "run", g.RunId)
	line(w, "risk", string(g.Risk))
	line(w, "approvals", fmt.Sprintf("%d of %d", g.Approvals, g.Quorum))
	for _, reason := range g.Reasons {
		line(w, "because", reason)
	}
	for _, d := range g.Decisions {
		name := ""
		if d.Actor.Name != "" {
			name = d.Actor.Name
		}
		line(w, "decision", fmt.Sprintf("revision %d", d.Revision), d.Verdict, name, when(d.At), d.Text)
	}
	for _, n := range g.NotShown {
		line(w, "not shown", string(n.Reason), fmt.Sprintf("%d: %s", len(n.Files), strings.Join(n.Files[:min(len(n.Files), 5)], ", ")))
	}
	if !g.MayDecide && g.MayNotWhy != "" {
		line(w, "you", g.MayNotWhy)
	}
	if !g.ExpiresAt.IsZero() {
		line(w, "expires", when(g.ExpiresAt))
	}
	line(w, "page", address+"/gates/"+g.Id)
}

// shown are the flags that bind a decision to what the person saw.
type shown struct {
	remote
	Gate   string `arg:"" help:"Gate id."`
	Digest string `help:"The digest that you saw, from signalbox gate show; its first 8 characters are enough."`
}

// bind finds revision and whole digest of what the person saw. Approving without saying what was seen is refused: the
// newest revision may be another one than the person read.
func (c shown) bind(ctx context.Context, client *wire.ClientWithResponses, verdict wire.DecisionCreateVerdict) (string, int, error) {
	g, err := getGate(ctx, client, c.Gate)
	if err != nil {
		return "", 0, err
	}
	switch {
	case c.Digest == "" && verdict == wire.DecideApprove:
		return "", 0, fmt.Errorf("nothing was approved: say which revision you saw with --digest; signalbox gate show %s prints it", c.Gate)
	case c.Digest == "":
		return g.Digest, g.Revision, nil
	case len(c.Digest) < 8 || !strings.HasPrefix(g.Digest, c.Digest):
		return "", 0, fmt.Errorf("nothing was decided: what you saw has changed; it is revision %d with digest %s now", g.Revision, g.Digest)
	}
	return g.Digest, g.Revision, nil
}

func (c shown) decide(ctx context.Context, t terminal, d wire.DecisionCreate) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	if d.Digest, d.Revision, err = c.bind(ctx, client, d.Verdict); err != nil {
		return err
	}
	res, err := client.DecideGateWithResponse(ctx, c.Gate, &wire.DecideGateParams{IdempotencyKey: key()}, d)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.told(t, *res.JSON200, address)
}

func (f remote) told(t terminal, ack wire.DecisionAck, address string) error {
	return f.show(t.Out, ack, func(w io.Writer) {
		line(w, ack.Message)
		line(w, "gate", string(ack.Gate.State))
		if ack.Run != nil {
			line(w, "run", ack.Run.Id, string(ack.Run.State))
			line(w, "page", address+"/runs/"+ack.Run.Id)
		}
	})
}

type gateApproveCmd struct {
	shown
	Notes     string                `help:"Notes for the agent."`
	Reconcile string                `help:"For a reconcile gate: retry or adopt."`
	AdoptURL  string                `name:"adopt-url" help:"With adopt: the pull request to take over."`
	Reviewed  []wire.NotShownReason `name:"reviewed-elsewhere" help:"You read what the page does not show: too_large, binary or hidden_text; signalbox gate show lists it."`
}

func (c gateApproveCmd) Run(ctx context.Context, t terminal) error {
	return c.decide(ctx, t, wire.DecisionCreate{
		Verdict: wire.DecideApprove, Notes: c.Notes, Reconcile: wire.DecisionCreateReconcile(c.Reconcile), AdoptUrl: c.AdoptURL,
		ReviewedElsewhere: c.Reviewed,
	})
}

type gateChangesCmd struct {
	shown
	Instruction string `arg:"" help:"What should change; the agent gets exactly this text. - reads standard input."`
}

func (c gateChangesCmd) Run(ctx context.Context, t terminal) error {
	text, err := argument(t, c.Instruction)
	if err != nil {
		return err
	}
	return c.decide(ctx, t, wire.DecisionCreate{Verdict: wire.DecideRequestChanges, Text: text})
}

type gateRejectCmd struct {
	shown
	Reason string `arg:"" help:"Why; it is shown and kept. - reads standard input."`
}

func (c gateRejectCmd) Run(ctx context.Context, t terminal) error {
	text, err := argument(t, c.Reason)
	if err != nil {
		return err
	}
	return c.decide(ctx, t, wire.DecisionCreate{Verdict: wire.DecideReject, Text: text})
}

type gateReopenCmd struct {
	remote
	Gate string `arg:"" help:"Gate id."`
}

func (c gateReopenCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ReopenGateWithResponse(ctx, c.Gate, &wire.ReopenGateParams{IdempotencyKey: key()})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.told(t, *res.JSON200, address)
}

type gateWithdrawCmd struct {
	remote
	Gate   string `arg:"" help:"Gate id."`
	Reason string `help:"Why; it is shown and kept."`
}

func (c gateWithdrawCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.WithdrawGateWithResponse(ctx, c.Gate, &wire.WithdrawGateParams{IdempotencyKey: key()}, wire.Reason{Reason: c.Reason})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.told(t, *res.JSON200, address)
}
