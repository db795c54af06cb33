package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"signalbox/internal/policy"
	"signalbox/internal/wire"
)

type policyCmd struct {
	List     policyListCmd     `cmd:"" help:"List the versions of the policy, and the change that waits."`
	Show     policyShowCmd     `cmd:"" help:"Print a version."`
	Diff     policyDiffCmd     `cmd:"" help:"Show what two versions differ in."`
	Test     policyTestCmd     `cmd:"" help:"Check a policy file and try its examples, without a server."`
	Simulate policySimulateCmd `cmd:"" help:"Say what a policy file would have decided differently about past runs."`
	Put      policyPutCmd      `cmd:"" help:"Put a policy file in force, or propose it where two administrators are asked."`
	Confirm  policyConfirmCmd  `cmd:"" help:"Put the change that another administrator proposed in force."`
	Withdraw policyWithdrawCmd `cmd:"" help:"End the change that waits."`
}

type policyListCmd struct{ remote }

func (c policyListCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ListPoliciesWithResponse(ctx)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		line(w, "VERSION", "SINCE", "BY", "CONFIRMED BY", "WHY")
		if p := res.JSON200.Proposed; p.Version != "" {
			line(w, p.Version, "waits", p.By, "-", p.Reason)
		}
		for _, v := range res.JSON200.Versions {
			line(w, v.Version, when(v.At), orDash(v.By), orDash(v.ConfirmedBy), v.Reason)
		}
	})
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

type policyShowCmd struct {
	Version string `arg:"" help:"Name of the version."`
}

func (c policyShowCmd) Run(ctx context.Context, t terminal) error {
	doc, err := policyText(ctx, t, c.Version)
	if err == nil {
		_, err = io.WriteString(t.Out, doc)
	}
	return err
}

func policyText(ctx context.Context, t terminal, version string) (string, error) {
	client, _, err := dial(t)
	if err != nil {
		return "", err
	}
	res, err := client.GetPolicyWithResponse(ctx, version)
	if err != nil {
		return "", err
	}
	if res.JSON200 == nil {
		return "", refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return res.JSON200.Document, nil
}

type policyDiffCmd struct {
	From string `arg:"" help:"Name of a version."`
	To   string `arg:"" help:"Name of another."`
}

func (c policyDiffCmd) Run(ctx context.Context, t terminal) error {
	a, err := policyText(ctx, t, c.From)
	if err != nil {
		return err
	}
	b, err := policyText(ctx, t, c.To)
	if err != nil {
		return err
	}
	for _, l := range policy.DiffLines(a, b) {
		if l.Op != ' ' {
			fmt.Fprintf(t.Out, "%c %s\n", l.Op, l.Text)
		}
	}
	return nil
}

type policyTestCmd struct {
	File string `arg:"" type:"existingfile" help:"A policy document."`
}

// Run checks the file as the server would; what is wrong is told with its line, and the exit code is 1.
func (c policyTestCmd) Run(_ context.Context, t terminal) error {
	doc, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	rules, err := policy.Accept(doc, func(zone string) bool {
		_, err := time.LoadLocation(zone)
		return err == nil
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.Out, "%s can be stored as version %s, with %d rules of its own; %d examples came out as they say.\n", c.File, rules.Version, len(rules.Rules), len(rules.Tests))
	return err
}

type policySimulateCmd struct {
	remote
	File string `arg:"" type:"existingfile" help:"A policy document."`
	Last int    `default:"500" help:"How many of the newest runs, at most 10000."`
}

func (c policySimulateCmd) Run(ctx context.Context, t terminal) error {
	doc, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.SimulatePolicyWithResponse(ctx, wire.PolicyDraft{Document: string(doc), Last: c.Last})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		s := res.JSON200
		fmt.Fprintf(w, "%d of %d runs would have been decided differently by %s than by %s.\n", s.Changed, s.Runs, s.Draft, s.Against)
		for _, k := range s.Kinds {
			fmt.Fprintf(w, "%s %s\n", strconv.Itoa(k.Runs), k.Words)
		}
		for _, r := range s.List {
			for _, words := range r.Changes {
				line(w, r.RunId, r.Title, words)
			}
		}
	})
}

type policyPutCmd struct {
	File   string `arg:"" type:"existingfile" help:"A policy document."`
	Reason string `required:"" help:"Why; everybody who asks later reads it."`
}

func (c policyPutCmd) Run(ctx context.Context, t terminal) error {
	doc, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ChangePolicyWithResponse(ctx, &wire.ChangePolicyParams{IdempotencyKey: key()}, wire.PolicyChange{Document: string(doc), Reason: c.Reason})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	words := "is in force."
	if !res.JSON200.InForce {
		words = "is proposed. Another administrator confirms it."
	}
	_, err = fmt.Fprintf(t.Out, "Version %s %s\n", res.JSON200.Version, words)
	return err
}

type policyConfirmCmd struct {
	Version string `arg:"" help:"Name of the version that waits."`
}

func (c policyConfirmCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ConfirmPolicyWithResponse(ctx, c.Version, &wire.ConfirmPolicyParams{IdempotencyKey: key()})
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	_, err = fmt.Fprintf(t.Out, "Version %s is in force.\n", c.Version)
	return err
}

type policyWithdrawCmd struct {
	Version string `arg:"" help:"Name of the version that waits."`
}

func (c policyWithdrawCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.WithdrawPolicyWithResponse(ctx, c.Version, &wire.WithdrawPolicyParams{IdempotencyKey: key()})
	if err != nil {
		return err
	}
	if res.StatusCode() != http.StatusNoContent {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	_, err = fmt.Fprintln(t.Out, "Withdrawn.")
	return err
}
