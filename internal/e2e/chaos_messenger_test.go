package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// messenger stands between everybody and the replicas of the server. It goes to whichever replica listens, and while a
// test asks for that it repeats calls, keeps them for a while, or carries them out and loses the answer.
type messenger struct {
	replicas []string
	next     atomic.Uint64
	mode     atomic.Value // of type trouble

	repeated, delayed, lost, calls atomic.Int64
}

// trouble is what the messenger does to the calls of workers and of the command line.
type trouble string

const (
	faithful trouble = ""
	repeats  trouble = "repeats calls"
	delays   trouble = "delays calls"
	loses    trouble = "loses answers"
)

var errLost = errors.New("the answer was lost")

// newMessenger listens at the address of an URL.
func newMessenger(t testing.TB, at string, replicas ...string) *messenger {
	t.Helper()
	m := &messenger{replicas: replicas}
	m.mode.Store(faithful)
	l, err := net.Listen("tcp", strings.TrimPrefix(at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.Out.Host = p.In.Host },
		Transport:     m,
		FlushInterval: -1,
		// What fails on the way is seen as a connection that breaks.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	s := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l) // until it is closed
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
	return m
}

// RoundTrip implements http.RoundTripper.
func (m *messenger) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	m.calls.Add(1)
	mode, _ := m.mode.Load().(trouble)
	if !strings.HasPrefix(r.URL.Path, "/api/v1/") || r.Method == http.MethodGet {
		mode = faithful
	}
	switch mode {
	case delays:
		m.delayed.Add(1)
		if err := pause(r.Context(), time.Duration(50+rand.IntN(750))*time.Millisecond); err != nil {
			return nil, err
		}
	case repeats:
		m.repeated.Add(1)
		return m.twice(r, body)
	case loses:
		m.lost.Add(1)
		resp, err := m.send(r, body)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			err = errLost
		}
		return nil, err
	}
	return m.send(r, body)
}

// twice sends a call to two replicas at once and answers with what came last.
func (m *messenger) twice(r *http.Request, body []byte) (*http.Response, error) {
	var wg sync.WaitGroup
	answers := make(chan *http.Response, 2)
	var failed error
	var mu sync.Mutex
	for range 2 {
		wg.Go(func() {
			resp, err := m.send(r, body)
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
				return
			}
			answers <- resp
		})
	}
	wg.Wait()
	close(answers)
	var last *http.Response
	for a := range answers {
		if last != nil {
			_ = last.Body.Close()
		}
		last = a
	}
	if last == nil {
		return nil, failed
	}
	return last, nil
}

// send goes to one replica after the other, as long as nobody listens.
func (m *messenger) send(r *http.Request, body []byte) (*http.Response, error) {
	var err error
	first := int(m.next.Add(1))
	for i := range m.replicas {
		q := r.Clone(r.Context())
		q.URL = &url.URL{Scheme: "http", Host: m.replicas[(first+i)%len(m.replicas)], Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
		q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		var resp *http.Response
		if resp, err = http.DefaultTransport.RoundTrip(q); err == nil {
			return resp, nil
		}
		if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
			return nil, err // it may have been carried out
		}
	}
	return nil, err
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
