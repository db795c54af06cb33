package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/devmode"
	"signalbox/web"
)

// selftestTime is generous, because the first start of a slow machine is part of it.
const selftestTime = 5 * time.Minute

type devCmd struct {
	Selftest bool   `help:"Walk one whole journey in a throw-away folder, say what happened, and end."`
	Sandbox  string `help:"Isolation of the worker: bwrap, or process, which isolates nothing." enum:"bwrap,process" default:"bwrap"`
	Keep     bool   `help:"With --selftest: keep the throw-away folder and say where it is."`
}

// Run starts everything on this machine, or takes the self-test through it.
func (c devCmd) Run(ctx context.Context, t terminal) error {
	if c.Selftest {
		return c.selftest(ctx, t)
	}
	cfg, err := config.LoadDev(t.Env)
	if err != nil {
		return err
	}
	began := time.Now()
	d, err := devmode.Start(ctx, devmode.Options{Data: cfg.Data, Addr: cfg.Addr, Sandbox: c.Sandbox, Out: t.Out})
	if running, ok := errors.AsType[*devmode.RunningError](err); ok {
		fmt.Fprintf(t.Out, "Signalbox is running already: %s\n", running.URL)
		return nil
	}
	if err != nil {
		return err
	}
	return c.serve(ctx, d, func(ctx context.Context) error {
		next := "a sample task is on its way"
		if d.Sampled() {
			next = "everything of last time is here"
		}
		fmt.Fprintf(t.Out, "Serving %s after %.1f s; %s …\n", d.URL(), time.Since(began).Seconds(), next)
		waiting, err := d.Sample(ctx)
		if err != nil {
			return err
		}
		d.Greet(waiting)
		fmt.Fprintf(t.Out, "  Ready after %.1f s.\n", time.Since(began).Seconds())
		<-ctx.Done()
		fmt.Fprintln(t.Out, "Stopping …")
		return nil
	})
}

// serve serves the product on the surroundings of d while during runs, and stops all of it in order.
func (devCmd) serve(ctx context.Context, d *devmode.Dev, during func(context.Context) error) (err error) {
	// The product outlives ctx by a moment, so that the worker can hand its leases back.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		ended <- serveProduct(serving, product{Config: d.Config(), Listener: d.Listener(), People: devPeople(d), Log: d.Log()})
	}()
	work, stopWork := context.WithCancelCause(ctx)
	defer stopWork(nil)
	gone := make(chan error, 1)
	go func() {
		err := <-ended
		stopWork(errors.Join(errors.New("the server ended"), err))
		gone <- err
	}()
	defer func() {
		err = errors.Join(err, d.StopWorker())
		stopServing()
		err = errors.Join(err, <-gone, d.Stop())
	}()
	if err := d.StartWorker(); err != nil {
		return err
	}
	if err := during(work); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func devPeople(d *devmode.Dev) []web.DevPerson {
	var people []web.DevPerson
	for _, p := range d.People() {
		people = append(people, web.DevPerson{Name: p.Name, Roles: p.About})
	}
	return people
}

func (c devCmd) selftest(ctx context.Context, t terminal) (err error) {
	dir, err := os.MkdirTemp("", "signalbox-selftest-")
	if err != nil {
		return fmt.Errorf("make a throw-away folder: %w", err)
	}
	// Postgres and the sandboxes run as other users, who have to pass through.
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("open the throw-away folder: %w", err)
	}
	defer func() {
		if c.Keep {
			fmt.Fprintln(t.Out, "kept:", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	say := func(format string, args ...any) {
		fmt.Fprintln(t.Out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, selftestTime, fmt.Errorf("the self-test took longer than %s", selftestTime))
	defer cancel()
	began := time.Now()
	d, err := devmode.Start(ctx, devmode.Options{Data: filepath.Join(dir, "data"), Addr: "127.0.0.1:0", Sandbox: c.Sandbox, Fresh: true, Out: t.Out})
	if err != nil {
		return err
	}
	var journey devmode.Journey
	err = c.serve(ctx, d, func(ctx context.Context) error {
		say("serving %s after %.1f s", d.URL(), time.Since(began).Seconds())
		var err error
		journey, err = d.Walk(ctx, say)
		return err
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("the self-test failed: %w", err)
	}
	say("")
	journey.Print(say)
	say("self-test passed in %.1f s", time.Since(began).Seconds())
	return nil
}
