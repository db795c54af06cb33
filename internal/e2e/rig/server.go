package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/handlers"
	"signalbox/internal/control"
	"signalbox/internal/egress"
	"signalbox/internal/feed"
	"signalbox/internal/loop"
)

// server is one life of the product: listener, hub and loops.
type server struct {
	http    *http.Server
	handler *handlers.Handler
	stop    context.CancelFunc
	wg      sync.WaitGroup
	ended   chan error
}

const sessionKey = "end-to-end tests sign cookies with this"

// StartServer serves the product on the rig's address, again after StopServer.
func (r *Rig) StartServer() {
	r.T.Helper()
	hub := feed.New(r.Store, r.log.slog)
	loops := control.Loops(r.Store, control.Options{Tick: 50 * time.Millisecond, Slow: 200 * time.Millisecond, StopGrace: 2 * time.Second, Silent: 10 * time.Second, Log: r.log.slog})
	allow, err := egress.ParseAllow("test", []string{"127.0.0.1:*"})
	r.must(err, "open loopback to the provider")
	handler, err := handlers.New(handlers.Options{
		Store: r.Store, Hub: hub, Artifacts: r.artifacts, Forge: r.forge, PublicURL: r.URL, SessionKey: []byte(sessionKey), Log: r.log.slog,
		Rates:         handlers.Rates{Requests: -1, Logins: -1}, // hundreds of people share this address
		ProviderAllow: allow,
		Admit:         func() { wake(loops, "admission") },
		Vitals:        func(route, vital string, value float64) { r.vitals.Store(route+" "+vital, value) },
	})
	r.must(err, "make the handler")
	l, err := net.Listen("tcp", strings.TrimPrefix(r.URL, "http://"))
	r.must(err, "listen")
	ctx, stop := context.WithCancel(context.Background())
	s := &server{
		http:    &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(r.log.slog.Handler(), slog.LevelWarn)},
		handler: handler, stop: stop, ended: make(chan error, 1),
	}
	s.wg.Go(func() { hub.Run(ctx) })
	for _, one := range loops {
		s.wg.Go(func() { one.Run(ctx) })
	}
	go func() { s.ended <- s.http.Serve(l) }()
	r.server = s
}

// Vital is what a browser measured last of a page: lcp or inp in seconds, or cls; 0 where none told it.
func (r *Rig) Vital(route, vital string) float64 {
	v, _ := r.vitals.Load(route + " " + vital)
	n, _ := v.(float64)
	return n
}

func wake(loops []*loop.Loop, name string) {
	for _, l := range loops {
		if l.Name == name {
			l.Wake()
		}
	}
}

// StopServer cuts every connection, as a crash does, and returns when nothing of the server is running any more.
func (r *Rig) StopServer() {
	r.T.Helper()
	s := r.server
	if s == nil {
		return
	}
	r.server = nil
	s.handler.Drain()
	if err := s.http.Close(); err != nil {
		r.T.Errorf("rig: close the server: %v", err)
	}
	if err := <-s.ended; !errors.Is(err, http.ErrServerClosed) {
		r.T.Errorf("rig: the server ended: %v", err)
	}
	s.stop()
	s.wg.Wait()
}

// log keeps what the server says: in a file for whoever looks, and every error for the test.
type log struct {
	slog *slog.Logger
	path string

	mu     sync.Mutex
	errors []string
}

func newLog(t testing.TB, path string, failures bool) *log {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatalf("rig: %v", err)
	}
	l := &log{path: path}
	l.slog = slog.New(&errorKeeper{Handler: slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug}), log: l})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", tail(path, 4<<10))
		}
		if err := f.Close(); err != nil {
			t.Errorf("rig: %v", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.errors) > 0 && !failures {
			t.Errorf("the server logged %d errors:\n%s", len(l.errors), strings.Join(l.errors[:min(len(l.errors), 10)], "\n"))
		}
	})
	return l
}

// errorKeeper remembers records of level ERROR on their way into the file.
type errorKeeper struct {
	slog.Handler
	log *log
}

// Handle implements slog.Handler.
func (k *errorKeeper) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s", r.Message)
		r.Attrs(func(a slog.Attr) bool {
			fmt.Fprintf(&b, " %s=%s", a.Key, a.Value)
			return true
		})
		k.log.mu.Lock()
		k.log.errors = append(k.log.errors, b.String())
		k.log.mu.Unlock()
	}
	return k.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (k *errorKeeper) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &errorKeeper{k.Handler.WithAttrs(attrs), k.log}
}

// WithGroup implements slog.Handler.
func (k *errorKeeper) WithGroup(name string) slog.Handler {
	return &errorKeeper{k.Handler.WithGroup(name), k.log}
}

// tail is the end of a log, and of what came before it the warnings: those say why.
func tail(path string, most int) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	cut := max(0, len(raw)-most)
	var warnings strings.Builder
	for line := range bytes.Lines(raw[:cut]) {
		if (bytes.Contains(line, []byte("level=WARN")) || bytes.Contains(line, []byte("level=ERROR"))) && warnings.Len() < most {
			warnings.Write(line)
		}
	}
	return warnings.String() + string(raw[cut:])
}
