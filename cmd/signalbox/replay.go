package main

import (
	"context"
	"errors"
	"fmt"

	"signalbox/db"
	"signalbox/internal/config"
	"signalbox/internal/typeid"
)

type replayCmd struct {
	All bool `help:"Replay every run of the database that SIGNALBOX_DATABASE_URL names."`
}

// maxShown bounds the differences that are printed; all are counted.
const maxShown = 20

// Run folds every log from nothing and compares it with what is stored; it ends with code 1 where anything differs.
func (c replayCmd) Run(ctx context.Context, t terminal) error {
	if !c.All {
		return errors.New("nothing was replayed: say --all")
	}
	url, ok := t.Env("SIGNALBOX_DATABASE_URL")
	if !ok || url == "" {
		cfg, err := config.LoadServer("replay", t.Env)
		if err != nil {
			return fmt.Errorf("nothing was replayed:\n%w", err)
		}
		url = cfg.DatabaseURL.Reveal()
	}
	if url == "" {
		return errors.New("nothing was replayed: SIGNALBOX_DATABASE_URL is not set (nor SIGNALBOX_DATABASE_URL_FILE)")
	}
	store, err := db.Open(ctx, db.Options{URL: url, MaxConns: 2})
	if err != nil {
		return err
	}
	defer store.Close()
	differences := 0
	coverage, err := store.Replay(ctx, func(d db.Difference) {
		if differences++; differences > maxShown {
			return
		}
		where := "stored row"
		if d.Seq > 0 {
			where = fmt.Sprintf("event %d", d.Seq)
		}
		fmt.Fprintf(t.Out, "%s, %s: %s\n", typeid.Format(typeid.Run, d.Run), where, d.Why)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(t.Out, "%d runs, %d events, %d states, %d edges: %d differences\n",
		coverage.Runs, coverage.Events, len(coverage.States), len(coverage.Edges), differences)
	if differences > 0 {
		return &silentError{code: 1}
	}
	return nil
}
