package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"signalbox/db"
)

const (
	// answerTime is how long the database may take to be called reachable.
	answerTime = time.Second
	// readinessAge is how long one look answers those who ask: anybody may, so that asking must cost nothing.
	readinessAge = time.Second
)

// check is one condition of readiness. The detail says what to do and never what an error said.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

type readiness struct {
	Ready  bool    `json:"ready"`
	Checks []check `json:"checks"`
}

// health remembers the last look at the database.
type health struct {
	mu   sync.Mutex
	at   time.Time
	last [2]check
}

// getHealth says that the process answers, and nothing about what it needs.
func (s *server) getHealth(w http.ResponseWriter, r *http.Request) error {
	s.probe(w, r, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// getReady says whether the process can serve now, and which condition fails. It needs no login and tells nothing else.
func (s *server) getReady(w http.ResponseWriter, r *http.Request) error {
	state := s.ready(r.Context())
	code := http.StatusOK
	if !state.Ready {
		code = http.StatusServiceUnavailable
	}
	s.probe(w, r, code, state)
	return nil
}

func (s *server) ready(ctx context.Context) readiness {
	looked := s.lookAtDatabase(ctx)
	draining := check{Name: "draining", OK: true}
	select {
	case <-s.closing:
		draining = check{Name: "draining", Detail: "the server is stopping"}
	default:
	}
	out := readiness{Ready: true, Checks: append(looked[:], draining)}
	for _, c := range out.Checks {
		out.Ready = out.Ready && c.OK
	}
	return out
}

func (s *server) lookAtDatabase(ctx context.Context) [2]check {
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	if time.Since(s.health.at) < readinessAge {
		return s.health.last
	}
	// The look is everybody's: who asked first may go away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	database, schema := check{Name: "database", OK: true}, check{Name: "schema", OK: true}
	err := s.store.SchemaCurrent(ctx)
	switch {
	case errors.Is(err, db.ErrOldSchema):
		schema = check{Name: "schema", Detail: "migrations are missing: run signalbox migrate"}
	case err != nil:
		s.log.ErrorContext(ctx, "not ready", "error", err)
		database = check{Name: "database", Detail: "no answer within 1 s"}
		schema = check{Name: "schema", Detail: "not known without the database"}
	}
	s.health.last, s.health.at = [2]check{database, schema}, time.Now()
	return s.health.last
}

func (s *server) probe(w http.ResponseWriter, r *http.Request, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	raw, err := json.Marshal(body)
	if err != nil {
		s.note(r, err)
		return
	}
	s.write(w, r, append(raw, '\n'))
}

// Probes answers /healthz and /readyz and nothing else, for a listener beside the main one.
func (h *Handler) Probes() http.Handler {
	mux := http.NewServeMux()
	for pattern, do := range map[string]handler{"GET /healthz": h.s.getHealth, "GET /readyz": h.s.getReady} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := do(w, r); err != nil {
				h.s.log.ErrorContext(r.Context(), "probe failed", "error", err)
			}
		})
	}
	return mux
}
