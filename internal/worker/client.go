package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"signalbox/internal/egress"
	"signalbox/internal/trail"
	"signalbox/internal/wire"
)

// problemError is the server's "no", with its sentence.
type problemError struct {
	op      string
	status  int
	problem wire.Problem
}

func (e *problemError) Error() string {
	words := e.problem.Detail
	if words == "" {
		words = e.problem.Title
	}
	return fmt.Sprintf("%s: %d %s", e.op, e.status, words)
}

// final reports whether asking again with the same words is pointless.
func (e *problemError) final() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.status < 500
}

// api speaks the JSON API. One method is one operation; each asks until it is answered or its context ends.
type api struct {
	client *wire.Client
	// maxBody bounds an answer that is not an artifact.
	maxBody int64
}

func newAPI(server, credential string, doer *http.Client) (*api, error) {
	if doer == nil {
		var err error
		if doer, err = (egress.Origin{Purpose: "server", URL: server}).Client(); err != nil {
			return nil, err
		}
	}
	client, err := wire.NewClient(strings.TrimSuffix(server, "/")+"/api/v1", wire.WithHTTPClient(doer),
		wire.WithRequestEditorFn(func(ctx context.Context, r *http.Request) error {
			trail.Inject(ctx, r.Header)
			if credential != "" {
				r.Header.Set("Authorization", "Bearer "+credential)
			}
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	return &api{client: client, maxBody: 32 << 20}, nil
}

type sender func(ctx context.Context) (*http.Response, error)

// once sends one request and decodes a 2xx answer into out (nil: thrown away).
func (a *api) once(ctx context.Context, op string, send sender, out any) error {
	resp, err := send(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, a.maxBody+1))
	if err != nil {
		return fmt.Errorf("%s: read answer: %w", op, err)
	}
	if int64(len(body)) > a.maxBody {
		return fmt.Errorf("%s: the answer is larger than %d bytes", op, a.maxBody)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		p := &problemError{op: op, status: resp.StatusCode}
		if json.Unmarshal(body, &p.problem) != nil || p.problem.Title == "" {
			p.problem.Title = http.StatusText(resp.StatusCode)
		}
		return p
	}
	if out == nil {
		return nil
	}
	if raw, ok := out.(*rawBody); ok {
		*raw = body
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%s: decode answer: %w", op, err)
	}
	return nil
}

// until repeats a request, the same words each time, until it is answered for good or ctx ends. each bounds one try.
func (a *api) until(ctx context.Context, op string, each time.Duration, send sender, out any) error {
	pause := 100 * time.Millisecond
	for {
		try, cancel := context.WithTimeout(ctx, each)
		err := a.once(try, op, send, out)
		cancel()
		if err == nil {
			return nil
		}
		wait := pause/2 + rand.N(pause)
		if p, ok := errors.AsType[*problemError](err); ok {
			if p.final() {
				return err
			}
			wait = max(wait, time.Duration(min(p.problem.RetryAfter, 60))*time.Second)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", op, context.Cause(ctx))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s: %w", op, context.Cause(ctx))
		case <-timer.C:
		}
		pause = min(2*pause, 5*time.Second)
	}
}

const requestTime = 30 * time.Second

func (a *api) register(ctx context.Context, body wire.WorkerRegister) (wire.WorkerBoot, error) {
	var boot wire.WorkerBoot
	err := a.until(ctx, "register", requestTime, func(ctx context.Context) (*http.Response, error) { return a.client.RegisterWorker(ctx, body) }, &boot)
	return boot, err
}

func (a *api) deregister(ctx context.Context, boot string) error {
	return a.until(ctx, "deregister", requestTime, func(ctx context.Context) (*http.Response, error) {
		return a.client.DeregisterWorker(ctx, wire.BootRef{BootId: boot})
	}, nil)
}

// heartbeat asks once: the next tick is the repetition.
func (a *api) heartbeat(ctx context.Context, body wire.Heartbeat) (wire.HeartbeatAck, error) {
	var ack wire.HeartbeatAck
	err := a.once(ctx, "heartbeat", func(ctx context.Context) (*http.Response, error) { return a.client.Heartbeat(ctx, body) }, &ack)
	return ack, err
}

func (a *api) claim(ctx context.Context, body wire.Claim) (wire.ClaimAck, error) {
	var ack wire.ClaimAck
	each := time.Duration(body.WaitSeconds)*time.Second + requestTime
	err := a.until(ctx, "claim", each, func(ctx context.Context) (*http.Response, error) { return a.client.Claim(ctx, body) }, &ack)
	return ack, err
}

// content reads an artifact's bytes, at most limit of them.
func (a *api) content(ctx context.Context, id string, limit int64) ([]byte, error) {
	wide := *a
	wide.maxBody = limit
	var raw rawBody
	err := wide.until(ctx, "read artifact", 5*time.Minute, func(ctx context.Context) (*http.Response, error) {
		return wide.client.GetArtifactContent(ctx, id)
	}, &raw)
	return raw, err
}

// rawBody takes the bytes as they are: an artifact may be JSON or not.
type rawBody []byte

// body makes a fresh reader for each try of an upload.
func body(b []byte) io.Reader { return bytes.NewReader(b) }
