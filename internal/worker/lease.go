package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"signalbox/internal/wire"
)

// The causes by which a lease's work ends early.
var (
	errLost      = errors.New("the lease is no longer ours")
	errStop      = errors.New("the server said stop")
	errCancelled = errors.New("a cancel was requested")
	errBudget    = errors.New("the budget is used up")
	errTimeout   = errors.New("the time of the attempt is used up")
	errDrain     = errors.New("the worker is shutting down")
	errDone      = errors.New("the lease has ended")
)

// errHandover says that the server ended the lease as intended: nothing is left to report.
var errHandover = errors.New("handed over")

// releaseError hands the work back untouched: another lease will find what this one could not.
type releaseError struct{ reason string }

func (e *releaseError) Error() string { return "handed back: " + e.reason }

// lease is a right to work on a run that lasts only as long as the server keeps saying so. Two contexts hang on it:
// ctx ends when the lease is lost; work, below it, also ends when a signal asks for it, so that what is left can still
// be reported while ctx lives.
type lease struct {
	api  *api
	as   wire.Assignment
	slot int

	ctx       context.Context
	lose      context.CancelCauseFunc
	work      context.Context
	interrupt context.CancelCauseFunc
	heard     func() // called once, when a cancel is heard of; may be nil

	mu        sync.Mutex
	until     time.Time // with monotonic reading; trust ends here
	untilWall int64     // the same on the wall clock: a suspended machine stops the other one
	timer     *time.Timer
	commands  int

	facts *facts
}

func newLease(parent context.Context, a *api, as wire.Assignment, slot int) *lease {
	l := &lease{api: a, as: as, slot: slot}
	l.ctx, l.lose = context.WithCancelCause(parent)
	l.work, l.interrupt = context.WithCancelCause(l.ctx)
	return l
}

// margin is the part of the lease time that is never used: clocks drift and requests take time.
func margin(ttl time.Duration) time.Duration { return min(ttl/10, 3*time.Second) }

// trust extends the window in which the lease counts as ours. sent is when the request that was answered left: what
// the server granted, it granted after that.
func (l *lease) trust(sent time.Time, granted time.Duration) {
	until := sent.Add(granted - margin(granted))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.After(until) {
		return
	}
	l.until, l.untilWall = until, until.UnixNano()
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(until), func() {
			if !l.alive() {
				l.lose(errLost)
			}
		})
		return
	}
	l.timer.Reset(time.Until(until))
}

// alive says whether the lease may still be relied on, now. It is asked before every effect outside.
func (l *lease) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return l.ctx.Err() == nil && now.Before(l.until) && now.UnixNano() < l.untilWall
}

// check is alive as an error; a lease that is not alive is lost from here on.
func (l *lease) check() error {
	if l.work.Err() != nil {
		return context.Cause(l.work)
	}
	if !l.alive() {
		l.lose(errLost)
		return errLost
	}
	return nil
}

// close ends both contexts and the timer.
func (l *lease) close() {
	l.mu.Lock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.lose(errDone)
}

// cancel stops the work because somebody asked for it, and lets that be said at once rather than at the next tick.
func (l *lease) cancel() {
	if l.work.Err() != nil {
		return
	}
	l.interrupt(errCancelled)
	if l.heard != nil {
		l.heard()
	}
}

// stopping reports whether the work was told to cancel.
func (l *lease) stopping() bool { return errors.Is(context.Cause(l.work), errCancelled) }

// signal carries what a heartbeat's answer said about this lease.
func (l *lease) signal(s wire.LeaseSignal, sent time.Time, ttl time.Duration) {
	switch s.Signal {
	case wire.SignalLost:
		l.lose(errLost)
		return
	case wire.SignalCancelRequested:
		l.cancel()
	case wire.SignalStopBudget:
		l.interrupt(errBudget)
	case wire.SignalStopTimeout:
		l.interrupt(errTimeout)
	case wire.SignalDrain:
		l.interrupt(errDrain)
	case wire.SignalAlive:
	}
	granted := time.Duration(s.ExpiresInMs) * time.Millisecond
	if granted <= 0 {
		// A lease that the server no longer extends (a cancel past its grace) runs out by itself.
		return
	}
	l.trust(sent, min(granted, ttl))
}

// command posts one command and repeats it under the same key until it is answered. It is posted on the lease's own
// context: the last words after a signal are still said.
func (l *lease) command(c wire.RunCommand) (wire.CommandAck, error) {
	c.LeaseId, c.FencingToken = l.as.LeaseId, l.as.FencingToken
	if !l.alive() {
		l.lose(errLost)
		return wire.CommandAck{}, errLost
	}
	l.mu.Lock()
	l.commands++
	key := l.as.LeaseId + "." + strconv.Itoa(l.commands) + "." + string(c.Command)
	l.mu.Unlock()
	var ack wire.CommandAck
	err := l.api.until(l.ctx, string(c.Command), requestTime, func(ctx context.Context) (*http.Response, error) {
		return l.api.client.PostRunCommand(ctx, l.as.RunId, &wire.PostRunCommandParams{IdempotencyKey: key}, c)
	}, &ack)
	p, refused := errors.AsType[*problemError](err)
	if refused && p.problem.State == wire.RunStateCANCELLING && p.status == http.StatusConflict && p.problem.Code == "run_cancelling" {
		// The cancel came before the heartbeat that would have told. The lease is still ours: what was kept and that the
		// work has stopped is still to be said.
		l.cancel()
		return ack, fmt.Errorf("%w: %w", errCancelled, err)
	}
	if refused && (p.problem.Stop || p.status == http.StatusGone) {
		l.lose(errStop)
		return ack, fmt.Errorf("%w: %w", errStop, err)
	}
	if err != nil {
		return ack, err
	}
	if ack.CancelRequested {
		l.cancel()
	}
	return ack, nil
}

// step posts a command that the work goes on after: errHandover when the server ended the lease with it.
func (l *lease) step(c wire.RunCommand) error {
	if err := l.check(); err != nil {
		return err
	}
	ack, err := l.command(c)
	if err != nil {
		return err
	}
	return l.after(ack)
}

// after says whether work goes on after an answer. A cancel is not a hand-over: that the work stopped is still to be
// said.
func (l *lease) after(ack wire.CommandAck) error {
	if !ack.Continue && !ack.CancelRequested {
		return errHandover
	}
	return l.check()
}

// artifact is what an upload came to.
type artifact struct {
	wire.Artifact
	Digest string
}

type uploadOptions struct {
	base, tree, patchDigest string
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// upload stores bytes. ctx is the lease's own or, for late evidence, a longer one.
func (l *lease) upload(ctx context.Context, kind wire.ArtifactKind, name string, content []byte, o uploadOptions) (artifact, error) {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	params := &wire.UploadRunArtifactParams{
		Kind: kind, Name: name, Sha256: digest, LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken,
		BaseCommit: optional(o.base), ResultTree: optional(o.tree), PatchDigest: optional(o.patchDigest),
	}
	var out wire.Artifact
	err := l.api.until(ctx, "upload "+string(kind), 5*time.Minute, func(ctx context.Context) (*http.Response, error) {
		return l.api.client.UploadRunArtifactWithBody(ctx, l.as.RunId, params, "application/octet-stream", body(content))
	}, &out)
	if err != nil {
		return artifact{}, err
	}
	if out.Sha256 != digest {
		return artifact{}, fmt.Errorf("upload %s: the server stored other bytes (%s) than were sent (%s)", kind, out.Sha256, digest)
	}
	return artifact{out, digest}, nil
}

// fetch reads an artifact and checks its digest where one is known.
func (l *lease) fetch(id, digest string, limit int64) ([]byte, error) {
	content, err := l.api.content(l.work, id, limit)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	if digest != "" && hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("read artifact %s: the bytes are not those of its digest", id)
	}
	return content, nil
}
