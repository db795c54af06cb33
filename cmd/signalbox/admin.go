package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"signalbox/db"
	"signalbox/handlers"
	"signalbox/internal/config"
	"signalbox/internal/run"
	"signalbox/web"
)

type adminCmd struct {
	Link adminLinkCmd `cmd:"" help:"Print a one-time link that makes whoever opens it and signs in an administrator."`
}

type adminLinkCmd struct {
	Force bool `help:"Also where there is an administrator; that stays in the audit log."`
}

// Run makes the link in the database that SIGNALBOX_DATABASE_URL names: whoever can read it could do anything anyway.
func (c adminLinkCmd) Run(ctx context.Context, t terminal) error {
	cfg, err := config.LoadServer("link", t.Env)
	if err != nil {
		return fmt.Errorf("no link was made:\n%w", err)
	}
	if cfg.DatabaseURL.Reveal() == "" {
		return errors.New("no link was made: SIGNALBOX_DATABASE_URL is not set (nor SIGNALBOX_DATABASE_URL_FILE)")
	}
	store, err := db.Open(ctx, db.Options{URL: cfg.DatabaseURL.Reveal(), MaxConns: 2})
	if err != nil {
		return err
	}
	defer store.Close()
	secret, result := db.Mint(db.PrefixAdminLink), "recorded"
	if c.Force {
		result = "forced"
	}
	err = store.MakeAdminLink(ctx, secret, handlers.AdminLinkLife, c.Force, &db.Audit{
		Tenant: db.DefaultTenant, By: run.Actor{Kind: run.ControlPlane, Name: "the server's command line"}, Action: "admin.link", ObjectType: "admin_link", Result: result,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(t.Err, "Open this in a browser within %d minutes and sign in. It works once.\n", int(handlers.AdminLinkLife.Minutes()))
	_, err = fmt.Fprintln(t.Out, strings.TrimSuffix(cfg.PublicURL, "/")+web.AdminLinkURL(secret))
	return err
}
