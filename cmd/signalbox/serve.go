package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/handlers"
	"signalbox/internal/artifact"
	"signalbox/internal/config"
	"signalbox/internal/control"
	"signalbox/internal/egress"
	"signalbox/internal/feed"
	"signalbox/internal/forge"
	"signalbox/internal/git"
	"signalbox/internal/metrics"
	"signalbox/internal/policy"
	"signalbox/internal/secret"
	"signalbox/internal/trail"
	"signalbox/migrations"
	"signalbox/web"
)

type serveCmd struct{}

// Run serves pages, API and loops until the first termination signal.
func (serveCmd) Run(ctx context.Context, t terminal) error {
	cfg, err := config.LoadServer("serve", t.Env)
	if err != nil {
		return fmt.Errorf("nothing was started:\n%w", err)
	}
	log := logger(cfg, t)
	for _, name := range config.Unknown(os.Environ()) {
		log.WarnContext(ctx, "unknown variable has no effect", "variable", name)
	}
	var l net.ListenConfig
	listener, err := l.Listen(ctx, "tcp", cfg.Addr)
	if err != nil {
		return fmt.Errorf("nothing was started: %w", err)
	}
	if err := saveProvider(ctx, cfg, log); err != nil {
		return errors.Join(err, listener.Close())
	}
	p := product{Config: cfg, Listener: listener, Log: log}
	if cfg.MetricsAddr != "" {
		if p.Monitoring, err = l.Listen(ctx, "tcp", cfg.MetricsAddr); err != nil {
			return errors.Join(fmt.Errorf("nothing was started: %w", err), listener.Close())
		}
		log.InfoContext(ctx, "answering metrics and probes", "addr", p.Monitoring.Addr())
	}
	collectSeldom()
	log.InfoContext(ctx, "serving", "addr", listener.Addr(), "public_url", cfg.PublicURL, "version", version())
	return serveProduct(ctx, p)
}

func logger(cfg config.Server, t terminal) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(t.Err, options))
	}
	return slog.New(slog.NewJSONHandler(t.Err, options))
}

// saveProvider writes the provider that the environment names; without one, those of earlier starts stay.
func saveProvider(ctx context.Context, cfg config.Server, log *slog.Logger) error {
	if cfg.Issuer == "" {
		return nil
	}
	groups := map[string][]policy.Role{}
	for _, pair := range cfg.GroupRoles {
		role, group, ok := strings.Cut(pair, "=")
		if !ok || group == "" {
			return fmt.Errorf("nothing was started: SIGNALBOX_OIDC_ROLES has %q, want role=group", pair)
		}
		groups[group] = append(groups[group], policy.Role(role))
	}
	keys, err := secret.ParseRing(cfg.SecretKeys.Reveal())
	if err != nil {
		return fmt.Errorf("nothing was started: SIGNALBOX_SECRET_KEYS: %w", err)
	}
	store, err := db.Open(ctx, db.Options{URL: cfg.DatabaseURL.Reveal(), MaxConns: 1, Keys: keys, Log: log})
	if err != nil {
		return err
	}
	defer store.Close()
	_, err = store.SaveProvider(ctx, db.Provider{
		Name: cfg.ProviderName, Issuer: cfg.Issuer, ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret, GroupsClaim: cfg.GroupsClaim, Groups: groups,
	})
	return err
}

// product is one server process: what serve and dev have in common.
type product struct {
	Config   config.Server
	Listener net.Listener
	// Monitoring answers metrics and probes; nil where nobody asked for it.
	Monitoring net.Listener
	// People are shown on the login page; dev mode alone has some.
	People []web.DevPerson
	Log    *slog.Logger
}

// serveProduct serves until ctx ends, then lets requests in progress finish within the configured grace. It returns
// when nothing of it is running any more.
func serveProduct(ctx context.Context, p product) (err error) {
	cfg := p.Config
	defer func() { err = errors.Join(err, closed(p.Monitoring)) }()
	allow, err := egress.ParseAllow("SIGNALBOX_OIDC_ALLOW", cfg.ProviderAllow)
	if err != nil {
		return errors.Join(fmt.Errorf("nothing was started: %w", err), p.Listener.Close())
	}
	keys, err := secret.ParseRing(cfg.SecretKeys.Reveal())
	if err != nil {
		return errors.Join(fmt.Errorf("nothing was started: SIGNALBOX_SECRET_KEYS: %w", err), p.Listener.Close())
	}
	if keys.Newest() == "" {
		p.Log.WarnContext(ctx, "there is no key to store secrets under (SIGNALBOX_SECRET_KEYS): ID tokens are not kept, so that signing out does not reach the login provider")
	}
	counted := metrics.New(version(), p.Log)
	store, err := db.Open(ctx, db.Options{
		URL: cfg.DatabaseURL.Reveal(), AppURL: cfg.DatabaseAppURL.Reveal(), Log: p.Log, MaxConns: 24, Keys: keys, Currency: cfg.Currency, Observer: counted.Observer(),
		Timing: db.Timing{LeaseTTL: cfg.LeaseTTL, CancelGrace: cfg.CancelGrace, BackoffScale: cfg.BackoffScale},
	})
	if err != nil {
		return errors.Join(err, p.Listener.Close())
	}
	defer store.Close()
	artifacts, err := artifact.Open(ctx, cfg.ArtifactURL)
	if err != nil {
		return errors.Join(err, p.Listener.Close())
	}
	defer func() { err = errors.Join(err, artifacts.Close()) }()
	local, forget, err := localForge(ctx, cfg.LocalForge)
	if err != nil {
		return errors.Join(err, p.Listener.Close())
	}
	defer forget()

	defer counted.Watch(store)()
	tracer, flush, err := trail.Open(ctx, "signalbox", version(), os.LookupEnv)
	if err != nil {
		return errors.Join(err, p.Listener.Close())
	}
	defer func() {
		ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if err := flush(ended); err != nil {
			p.Log.WarnContext(ended, "traces were not sent", "error", err)
		}
	}()
	if tracer != nil {
		defer store.Watch(traced(trail.Begin(context.WithoutCancel(ctx), tracer)))()
	}
	hub := feed.New(store, p.Log)
	points, err := checkpoints(cfg, store)
	if err != nil {
		return errors.Join(err, p.Listener.Close())
	}
	loops := control.Loops(store, control.Options{Tick: cfg.ReaperTick, Checkpoints: points, Log: p.Log})
	for _, l := range loops {
		l.Ran = func(n int, took time.Duration, err error) { counted.LoopRan(l.Name, n, took, err) }
	}
	handler, err := handlers.New(handlers.Options{
		Store: store, Hub: hub, Artifacts: artifacts, Forge: local, PublicURL: cfg.PublicURL, SessionKey: []byte(cfg.SessionKey.Reveal()), OldSessionKey: []byte(cfg.SessionKeyOld.Reveal()), DevPeople: p.People, Log: p.Log, ProviderAllow: allow,
		Admin:  handlers.Subject{Issuer: cfg.Issuer, Subject: cfg.AdminSubject},
		Tracer: tracer, Served: counted.Served, Vitals: counted.Read, Version: strings.TrimSuffix(version(), "+changes"),
		AuditFault: auditFault(points),
		Proxies:    cfg.Proxies, Currency: cfg.Currency, Rates: handlers.Rates{Requests: bound(cfg.RequestsPerMinute), Logins: bound(cfg.LoginsPerMinute)},
		Admit: func() {
			for _, l := range loops {
				if l.Name == "admission" {
					l.Wake()
				}
			}
		},
	})
	if err != nil {
		return errors.Join(err, p.Listener.Close())
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelWarn),
	}

	// Loops and hub outlive the requests, which may wait for them.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { hub.Run(background) })
	for _, l := range loops {
		wg.Go(func() { l.Run(background) })
	}
	if p.Monitoring != nil {
		// It answers until everything else has ended, so that a drain can be watched.
		monitoring := monitor(p.Monitoring, counted, handler, p.Log)
		defer func() { err = errors.Join(err, monitoring.Close()) }()
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(p.Listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	handler.Drain()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.ShutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("requests did not finish within %s and were cut off: %w", cfg.ShutdownGrace, err), server.Close())
	}
	return nil
}

// auditFault asks the checkpoints what is wrong with a tenant's audit log; nil where none are made.
func auditFault(points *control.Checkpoints) func(uuid.UUID) string {
	if points == nil {
		return nil
	}
	return points.Fault
}

// localForge opens the folder of bare repositories, nil where none is configured. forget removes what git needed.
func localForge(ctx context.Context, root string) (local *forge.Local, forget func(), err error) {
	if root == "" {
		return nil, func() {}, nil
	}
	home, err := os.MkdirTemp("", "signalbox-git-")
	if err != nil {
		return nil, nil, fmt.Errorf("local forge: %w", err)
	}
	forget = func() { _ = os.RemoveAll(home) }
	g, err := git.New(ctx, git.Config{Home: home, LocalRoot: root})
	if err == nil {
		local, err = forge.NewLocal(g, root)
	}
	if err != nil {
		forget()
		return nil, nil, fmt.Errorf("local forge: %w", err)
	}
	return local, forget, nil
}

type migrateCmd struct{}

// Run brings the schema to this program's version.
func (migrateCmd) Run(ctx context.Context, t terminal) error {
	cfg, err := config.LoadServer("migrate", t.Env)
	if err != nil {
		return fmt.Errorf("nothing was migrated:\n%w", err)
	}
	if err := migrations.Up(ctx, cfg.DatabaseOwnerURL.Reveal()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.Out, "The schema is at this program's version.")
	return err
}

// bound turns the environment's 0, no bound, into that of the handlers.
func bound(n int) int {
	if n == 0 {
		return -1
	}
	return n
}
