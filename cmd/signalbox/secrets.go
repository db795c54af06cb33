package main

import (
	"context"
	"errors"
	"fmt"

	"signalbox/db"
	"signalbox/internal/config"
	"signalbox/internal/secret"
)

type secretsCmd struct {
	Key    secretsKeyCmd    `cmd:"" help:"Print a new key for SIGNALBOX_SECRET_KEYS."`
	Reseal secretsResealCmd `cmd:"" help:"Seal all stored secrets under the newest key, and say how many each key opens."`
}

type secretsKeyCmd struct {
	Name string `arg:"" help:"Name of the key: small letters, digits and dashes, for example the year."`
}

// Run prints one line for the file of keys.
func (c secretsKeyCmd) Run(_ context.Context, t terminal) error {
	line := secret.NewKey(c.Name)
	if _, err := secret.ParseRing(line); err != nil {
		return fmt.Errorf("no key was made: %w", err)
	}
	_, err := fmt.Fprintln(t.Out, line)
	return err
}

type secretsResealCmd struct{}

// Run does at once what a server does every hour.
func (secretsResealCmd) Run(ctx context.Context, t terminal) error {
	cfg, err := config.LoadServer("secrets", t.Env)
	if err != nil {
		return fmt.Errorf("nothing was sealed:\n%w", err)
	}
	keys, err := secret.ParseRing(cfg.SecretKeys.Reveal())
	switch {
	case err != nil:
		return fmt.Errorf("nothing was sealed: SIGNALBOX_SECRET_KEYS: %w", err)
	case keys.Newest() == "":
		return errors.New("nothing was sealed: SIGNALBOX_SECRET_KEYS is not set (nor SIGNALBOX_SECRET_KEYS_FILE)")
	case !cfg.DatabaseURL.IsSet():
		return errors.New("nothing was sealed: SIGNALBOX_DATABASE_URL is not set (nor SIGNALBOX_DATABASE_URL_FILE)")
	}
	store, err := db.Open(ctx, db.Options{URL: cfg.DatabaseURL.Reveal(), MaxConns: 2, Keys: keys})
	if err != nil {
		return err
	}
	defer store.Close()
	n, failed := store.Reseal(ctx)
	fmt.Fprintf(t.Out, "Sealed %d.\n", n)
	counts, err := store.SecretKeys(ctx)
	if err != nil {
		return errors.Join(failed, err)
	}
	for _, k := range counts {
		fmt.Fprintf(t.Out, "Under the key %q lie %d.\n", k.Name, k.Secrets)
	}
	if failed == nil {
		fmt.Fprintln(t.Out, "Keys that are not named here open nothing any more and may be taken out.")
	}
	return failed
}
