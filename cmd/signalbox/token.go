package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"signalbox/internal/wire"
)

type tokenCmd struct {
	List   tokenListCmd   `cmd:"" help:"List your tokens and logins."`
	Create tokenCreateCmd `cmd:"" help:"Make an API token; the secret is printed once."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke a token."`
}

type tokenListCmd struct{ remote }

func (c tokenListCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ListTokensWithResponse(ctx)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		line(w, "TOKEN", "KIND", "NAME", "SCOPES", "EXPIRES", "LAST USED", "REVOKED")
		for _, k := range res.JSON200.Items {
			line(w, k.Id, k.Kind, k.Name, strings.Join(k.Scopes, ","), when(k.ExpiresAt), when(k.LastUsedAt), when(k.RevokedAt))
		}
	})
}

type tokenCreateCmd struct {
	remote
	Name  string   `arg:"" help:"A label."`
	Scope []string `help:"read, tasks or repositories." default:"read"`
	Days  int      `help:"Days until it stops working, at most 365." default:"30"`
}

func (c tokenCreateCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	body := wire.TokenCreate{Name: c.Name, ExpiresAt: time.Now().Add(time.Duration(c.Days) * 24 * time.Hour).UTC().Truncate(time.Second)}
	for _, s := range c.Scope {
		body.Scopes = append(body.Scopes, wire.Scope(s))
	}
	res, err := client.CreateTokenWithResponse(ctx, &wire.CreateTokenParams{IdempotencyKey: key()}, body)
	if err != nil {
		return err
	}
	if res.JSON201 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON201, func(w io.Writer) { minted(w, *res.JSON201) })
}

func minted(w io.Writer, m wire.MintedToken) {
	line(w, m.Id, m.Name)
	line(w, "secret", m.Secret)
	if !m.ExpiresAt.IsZero() {
		line(w, "expires", when(m.ExpiresAt))
	}
	fmt.Fprintln(w, "Keep it now: it cannot be shown again.")
}

type tokenRevokeCmd struct {
	Token string `arg:"" help:"Token id."`
}

func (c tokenRevokeCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.RevokeTokenWithResponse(ctx, c.Token)
	if err != nil {
		return err
	}
	if res.StatusCode() != http.StatusNoContent {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	_, err = fmt.Fprintln(t.Out, "Revoked.")
	return err
}

type workerCredentialCmd struct {
	List   credentialListCmd   `cmd:"" help:"List workers' credentials."`
	Create credentialCreateCmd `cmd:"" help:"Make a worker's credential; the secret is printed once."`
	Enrol  credentialEnrolCmd  `cmd:"" help:"Make a one-time token, which a worker trades for its credential; it is printed once."`
	Revoke credentialRevokeCmd `cmd:"" help:"Revoke a worker's credential."`
}

type credentialListCmd struct{ remote }

func (c credentialListCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.ListWorkerCredentialsWithResponse(ctx)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON200, func(w io.Writer) {
		line(w, "CREDENTIAL", "NAME", "PHASES", "LAST USED", "REVOKED")
		for _, k := range res.JSON200.Items {
			line(w, k.Id, k.Name, fmt.Sprint(k.Phases), when(k.LastUsedAt), when(k.RevokedAt))
		}
	})
}

type credentialCreateCmd struct {
	remote
	Name  string   `arg:"" help:"A label."`
	Phase []string `help:"What it may claim." default:"execute,verify,publish"`
}

func (c credentialCreateCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	body := wire.WorkerCredentialCreate{Name: c.Name}
	for _, p := range c.Phase {
		body.Phases = append(body.Phases, wire.Phase(p))
	}
	res, err := client.CreateWorkerCredentialWithResponse(ctx, &wire.CreateWorkerCredentialParams{IdempotencyKey: key()}, body)
	if err != nil {
		return err
	}
	if res.JSON201 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON201, func(w io.Writer) { minted(w, *res.JSON201) })
}

type credentialEnrolCmd struct {
	remote
	Name  string   `arg:"" help:"The label that its worker gets."`
	Phase []string `help:"What its worker may claim." default:"execute,verify,publish"`
}

func (c credentialEnrolCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	body := wire.WorkerCredentialCreate{Name: c.Name}
	for _, p := range c.Phase {
		body.Phases = append(body.Phases, wire.Phase(p))
	}
	res, err := client.CreateWorkerEnrolmentWithResponse(ctx, &wire.CreateWorkerEnrolmentParams{IdempotencyKey: key()}, body)
	if err != nil {
		return err
	}
	if res.JSON201 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	return c.show(t.Out, res.JSON201, func(w io.Writer) {
		minted(w, *res.JSON201)
		fmt.Fprintln(w, "Give it to the worker: signalbox-worker --enrol reads it from standard input. It is worth one worker.")
	})
}

type credentialRevokeCmd struct {
	Credential string `arg:"" help:"Credential id, or the id of an enrolment token."`
}

func (c credentialRevokeCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	if strings.HasPrefix(c.Credential, "enr_") {
		res, err := client.RevokeWorkerEnrolmentWithResponse(ctx, c.Credential)
		if err != nil {
			return err
		}
		if res.StatusCode() != http.StatusNoContent {
			return refused(res.Status(), res.ApplicationproblemJSONDefault)
		}
		_, err = fmt.Fprintln(t.Out, "Withdrawn; it makes no worker.")
		return err
	}
	res, err := client.RevokeWorkerCredentialWithResponse(ctx, c.Credential)
	if err != nil {
		return err
	}
	if res.StatusCode() != http.StatusNoContent {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	_, err = fmt.Fprintln(t.Out, "Revoked; its leases end when they expire.")
	return err
}
