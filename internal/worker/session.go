package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/git"
	"signalbox/internal/trail"
	"signalbox/internal/wire"
)

// session is the work on one lease.
type session struct {
	w   *Worker
	l   *lease
	as  wire.Assignment
	dir string // on the host, ours

	repo  *git.Repo
	base  string
	boxes []*place
	calls int
	// starts counts the agent's starts under this lease.
	starts int
	log    *os.File // the whole output of the phase, bounded
	logTo  io.Writer
	red    *redactor
}

// serve works on one assignment to its end. ctx is the worker's: once it has ended nothing new is begun.
func (w *Worker) serve(ctx, base context.Context, as wire.Assignment, slot int) {
	base = trail.With(trail.Begin(base, w.cfg.Tracer), trail.Chain{Task: as.TaskId, Run: as.RunId, AttemptNo: as.AttemptNo, Lease: as.LeaseId, Token: as.FencingToken,
		Worker: w.workerID(), Boot: w.bootID(), Sandbox: sandboxID(as)})
	base, span := trail.Start(base, "phase "+string(as.Phase), trail.Internal)
	var failed error
	defer func() { span.End(failed) }()
	log := w.log.With("phase", string(as.Phase))
	l := newLease(base, w.api, as, slot)
	l.heard = w.beatNow
	defer l.close()
	if !w.confirm(l) {
		log.WarnContext(base, "lease lost before work began")
		return
	}
	w.mu.Lock()
	w.leases[as.LeaseId] = l
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.leases, as.LeaseId)
		w.mu.Unlock()
	}()
	if ctx.Err() != nil {
		_, err := l.command(wire.RunCommand{Command: wire.CmdRelease, Release: &wire.Release{Reason: "The worker is shutting down."}})
		log.InfoContext(base, "lease handed back", "error", err)
		return
	}
	l.facts = newFacts(l, 250*time.Millisecond)
	s := &session{w: w, l: l, as: as}
	started := time.Now()
	err := s.run()
	if !errors.Is(err, errHandover) {
		failed = err
	}
	s.end(err)
	l.facts.close()
	s.cleanUp()
	log.InfoContext(base, "lease ended", "took", time.Since(started).Round(time.Millisecond), "end", ended(err))
}

// sandboxID names the sandbox: there is one for each lease whose phase runs code of others.
func sandboxID(as wire.Assignment) string {
	if as.Phase == wire.Publish {
		return ""
	}
	return as.LeaseId
}

func ended(err error) string {
	if err == nil || errors.Is(err, errHandover) {
		return "handed over"
	}
	return err.Error()
}

// confirm sends the first heartbeat: only its answer starts the clock of trust, because a long poll may have waited
// for a large part of the lease time. Nothing is begun before it.
func (w *Worker) confirm(l *lease) bool {
	deadline := time.Now().Add(w.ttl)
	b := wire.Heartbeat{BootId: w.bootID(), State: wire.WorkerReady, Leases: []wire.HeldLease{{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, RunId: l.as.RunId}}}
	for l.ctx.Err() == nil && time.Now().Before(deadline) {
		err := w.beatFor(l.ctx, b, map[string]*lease{l.as.LeaseId: l})
		if l.alive() {
			return true
		}
		if p, ok := errors.AsType[*problemError](err); ok && p.final() {
			return false
		}
		if !pause(l.ctx, 100*time.Millisecond) {
			return false
		}
	}
	return false
}

// run does the phase's work; a panic is an error like others.
func (s *session) run() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = failWith(codeUnknown, fmt.Errorf("panic: %v\n%s", r, debug.Stack()), "The worker failed inside itself.")
		}
	}()
	s.w.cfg.Hook(PointAfterClaim)
	s.dir = filepath.Join(s.w.cfg.Dir, "work", fileName(s.as.LeaseId))
	if err := os.Mkdir(s.dir, 0o711); err != nil {
		return localFailure(fmt.Errorf("workspace: %w", err), "Making the workspace")
	}
	if err := s.openLog(); err != nil {
		return localFailure(err, "Making the log")
	}
	switch s.as.Phase {
	case wire.Execute:
		return s.execute()
	case wire.Verify:
		return s.verify()
	case wire.Publish:
		return s.publish()
	}
	return fail(codeUnknown, "This worker does not know the phase %q.", string(s.as.Phase))
}

// fileName keeps of an id what is harmless in a path.
func fileName(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, id)
}

// openLog makes the file that becomes the phase's log artifact.
func (s *session) openLog() error {
	f, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	s.log = f
	return nil
}

// output is where a program's output goes: without known secrets, bounded, live and into the log artifact.
func (s *session) output(stream, call string) io.Writer {
	limit := s.as.Limits.MaxOutputBytes
	if limit <= 0 {
		limit = 32 << 20
	}
	if s.logTo == nil {
		s.logTo = &bounded{next: s.log, left: limit}
	}
	red := newRedactor(io.MultiWriter(s.logTo, &bounded{next: s.l.facts.writer(stream, call), left: limit}), s.w.cfg.File.secrets())
	s.red = red
	return red
}

func (s *session) flushOutput() {
	if s.red != nil {
		s.red.flush()
		s.red = nil
	}
}

// note writes a line of ours into the log.
func (s *session) note(stream, format string, args ...any) {
	line := fmt.Sprintf(format, args...) + "\n"
	out := s.output(stream, "")
	_, _ = io.WriteString(out, line)
	s.flushOutput()
}

// act does one granular action and reports it as a step.
func (s *session) act(kind, name string, do func() (string, error)) error {
	if err := s.l.check(); err != nil {
		return err
	}
	s.calls++
	call := kind + "-" + strconv.Itoa(s.calls)
	s.l.facts.step(wire.StepReport{CallId: call, Kind: kind, Name: name, State: wire.StepRunning})
	started := time.Now()
	summary, err := do()
	r := wire.StepReport{CallId: call, Kind: kind, Name: name, State: wire.StepSucceeded, Summary: summary, DurationMs: time.Since(started).Milliseconds()}
	if err != nil {
		r.State = wire.StepFailed
		if s.l.work.Err() != nil {
			r.State = wire.StepCancelled
		}
		if f, ok := errors.AsType[*failure](err); ok {
			r.Summary = f.sentence
		}
	}
	s.l.facts.step(r)
	return err
}

// end says how the work ended, if anybody still wants to know.
func (s *session) end(err error) {
	if err == nil || errors.Is(err, errHandover) || s.l.ctx.Err() != nil {
		return
	}
	cause := context.Cause(s.l.work)
	switch {
	case errors.Is(cause, errCancelled):
		s.stopped(wire.StoppedCancel, "The work was stopped on request; output and changes so far were kept.")
	case errors.Is(cause, errBudget):
		s.stopped(wire.StoppedBudget, "The work was stopped because the budget is used up; output and changes so far were kept.")
	case errors.Is(cause, errDrain):
		s.stopped(wire.StoppedDrain, "The work was handed back because the worker is shutting down.")
	case errors.Is(cause, errTimeout):
		s.failed(&failure{code: codeAttemptTimeout, sentence: "The attempt used up its time.", err: err})
	default:
		if r, ok := errors.AsType[*releaseError](err); ok {
			s.release(r.reason)
			return
		}
		s.failed(asFailure(err))
	}
}

func (s *session) release(reason string) {
	s.l.facts.drain()
	if _, err := s.l.command(wire.RunCommand{Command: wire.CmdRelease, Release: &wire.Release{Reason: reason}}); err != nil {
		s.w.log.Warn("release not reported", "lease_id", s.as.LeaseId, "error", err)
	}
}

func (s *session) stopped(why wire.StoppedWhy, sentence string) {
	s.keepLog()
	s.l.facts.drain()
	if _, err := s.l.command(wire.RunCommand{Command: wire.CmdStopped, Stopped: &wire.Stopped{Why: why, Summary: sentence}}); err != nil {
		s.w.log.Warn("stop not reported", "lease_id", s.as.LeaseId, "error", err)
	}
}

// evidence is the stored description of a failed attempt.
type evidence struct {
	Schema   string          `json:"schema"`
	Code     string          `json:"reason_code"`
	Sentence string          `json:"sentence"`
	Detail   string          `json:"detail,omitempty"`
	More     json.RawMessage `json:"more,omitempty"`
}

func (s *session) failed(f *failure) {
	s.keepLog()
	e := evidence{Schema: "signalbox.attempt_failure/v1", Code: f.code, Sentence: f.sentence, More: f.evidence}
	if f.err != nil {
		e.Detail = clip(f.err.Error(), 16<<10)
	}
	id := ""
	if raw, err := json.MarshalIndent(e, "", "  "); err == nil {
		if a, err := s.l.upload(s.l.ctx, wire.ArtifactKindAttemptFailure, "failure.json", raw, uploadOptions{}); err == nil {
			id = a.Id
		}
	}
	s.l.facts.drain()
	c := wire.RunCommand{Command: wire.CmdAttemptFailed, AttemptFailed: &wire.AttemptFailed{ReasonCode: f.code, Summary: clip(f.sentence, 4000), ArtifactId: id,
		RetryAfterSeconds: int((f.after + time.Second - 1) / time.Second)}}
	if _, err := s.l.command(c); err != nil {
		s.w.log.Warn("failure not reported", "lease_id", s.as.LeaseId, "code", f.code, "error", err)
	}
}

// keepLog stores the phase's output so far as an artifact. A log that cannot be stored fails nothing.
func (s *session) keepLog() {
	if s.log == nil {
		return
	}
	s.flushOutput()
	defer func() { s.log, s.logTo = nil, nil }()
	defer s.log.Close()
	content, err := os.ReadFile(s.log.Name())
	if err != nil || len(content) == 0 {
		return
	}
	name := fmt.Sprintf("%s-%d.log", s.as.Phase, s.as.AttemptNo)
	if _, err := s.l.upload(s.l.ctx, wire.ArtifactKindLog, name, content, uploadOptions{}); err != nil && s.l.ctx.Err() == nil {
		s.w.log.Warn("log not stored", "lease_id", s.as.LeaseId, "error", err)
	}
}

// cleanUp closes the boxes and removes the workspace. It runs whatever happened.
func (s *session) cleanUp() {
	for _, p := range s.boxes {
		p.close()
	}
	if s.log != nil {
		_ = s.log.Close()
	}
	if s.dir != "" {
		if err := s.w.box.Remove(s.dir); err != nil {
			s.w.log.Warn("workspace not removed", "lease_id", s.as.LeaseId, "error", err)
		}
	}
}
