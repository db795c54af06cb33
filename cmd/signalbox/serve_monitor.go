package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/handlers"
	"signalbox/internal/metrics"
	"signalbox/internal/trail"
	"signalbox/internal/typeid"
)

// monitor answers /metrics, /healthz and /readyz on a listener of their own, without a login: whoever reaches the
// listener may read them. The returned server is to be closed.
func monitor(l net.Listener, m *metrics.Metrics, h *handlers.Handler, log *slog.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	mux.Handle("/", h.Probes())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics and probes are no longer answered", "error", err)
		}
	}()
	return server
}

// closed closes the listener where there is one; that a server closed it before is no error.
func closed(l net.Listener) error {
	if l == nil {
		return nil
	}
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// traced makes a span of every event of a run, on the run's own trace.
func traced(ctx context.Context) func(db.Change) {
	return func(c db.Change) {
		for _, m := range c.Moves {
			chain := trail.Chain{Tenant: m.Tenant.String(), Task: typeid.Format(typeid.Task, m.Task), Run: typeid.Format(typeid.Run, m.Run), AttemptNo: m.AttemptNo}
			if m.Lease != nil {
				chain.Lease, chain.Token = typeid.Format(typeid.Lease, m.Lease.ID), m.Lease.Token
				if id, err := uuid.Parse(m.Lease.Worker); err == nil {
					chain.Worker = typeid.Format(typeid.Worker, id)
				}
			}
			_, span := trail.Start(trail.With(ctx, chain), "run "+string(m.Kind), trail.Internal)
			span.Set("signalbox.from_state", string(m.From))
			span.Set("signalbox.to_state", string(m.To))
			span.End(nil)
		}
	}
}
