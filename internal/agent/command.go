package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/internal/sandbox"
)

// Command is the adapter for any program or codemod. The program is started in
// the checkout with SIGNALBOX_PHASE set to "plan" or "execute" and these
// variables naming its inputs:
//
//	SIGNALBOX_WORKSPACE  the workspace: repo, home and input lie below it
//	SIGNALBOX_REPO       the checkout, also the working directory
//	SIGNALBOX_INPUT      directory with goal.md, contract.json and, where there
//	                     is one, feedback.json and plan.json
//
// Inputs lie outside the checkout, so that they are never part of a change.
// Standard output and standard error are log. Structured output goes to file
// descriptor 3 only, one JSON object a line, see the decoder; all of it is
// optional. Unknown types are ignored, lines that are no JSON are warnings.
type Command struct {
	// Profile is the configured name of the agent.
	Profile string
	// ProgramVersion is what the configuration says the program is.
	ProgramVersion string
	// Argv is the program and its arguments.
	Argv []string
}

var _ Adapter = (*Command)(nil)

// Name is "command:" and the profile.
func (c *Command) Name() string { return "command:" + c.Profile }

// Version is the configured version of the program.
func (c *Command) Version() string { return c.ProgramVersion }

// errQuiet, errIdle: causes by which the adapter's own timers end a run.
type timerError struct{ reason Reason }

func (e *timerError) Error() string { return string(e.reason) }

// Run implements Adapter.
func (c *Command) Run(ctx context.Context, box sandbox.Box, job Job, sink func(Event)) (Outcome, error) {
	if len(c.Argv) == 0 {
		return Outcome{}, errors.New("run agent: no command configured")
	}
	if err := writeInputs(box, job); err != nil {
		return Outcome{}, fmt.Errorf("run agent: %w", err)
	}
	env := map[string]string{}
	for k, v := range job.Env {
		env[k] = v
	}
	env["SIGNALBOX_PHASE"] = string(job.Phase)
	env["SIGNALBOX_REPO"] = sandbox.RepoDir
	env["SIGNALBOX_INPUT"] = sandbox.InputDir

	runCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	life := newLife(job.Timers, func(r Reason) { cancel(&timerError{r}) })
	defer life.stop()

	dec := newDecoder(sink)
	lines := &lineSplitter{limit: MaxProtocolLine, line: dec.line}
	log := &logWriter{w: job.Log, life: life, tail: tail{max: 16 << 10}}
	res, err := box.Run(runCtx, sandbox.Command{
		Argv: c.Argv, Dir: sandbox.RepoDir, Env: env,
		Stdout: log, Stderr: log,
		Report:  &reportWriter{life: life, next: lines},
		Timeout: job.Timers.Wall, Grace: job.Timers.Grace,
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("run agent: %w", err)
	}
	lines.flush()
	out := dec.finish()
	out.Result, out.StderrTail = res, clean(log.tail.String(), 17<<10)
	out.Reason = reasonFor(res, context.Cause(runCtx), ctx.Err() != nil)
	if out.Reason == Completed && dec.declared != "" {
		out.Reason = dec.declared
	}
	out.End = endSentence(out.Reason, res)
	sink(Finished{Reason: out.Reason, SessionRef: dec.session, Usage: out.Usage, Summary: cmp.Or(out.Summary, out.End)})
	return out, nil
}

func reasonFor(res sandbox.Result, cause error, callerEnded bool) Reason {
	te, byTimer := errors.AsType[*timerError](cause)
	switch {
	case res.OOMKilled && !res.OK():
		return OutOfMemory
	case res.TimedOut:
		return TimedOut
	case res.Cancelled && byTimer && !callerEnded:
		return te.reason
	case res.Cancelled:
		return Cancelled
	case res.OK():
		return Completed
	default:
		return Crashed
	}
}

func endSentence(r Reason, res sandbox.Result) string {
	switch r {
	case Completed:
		return "The agent ended normally."
	case Crashed:
		switch {
		case res.Signal != "":
			return fmt.Sprintf("The agent was ended by signal %q.", res.Signal)
		case res.Detail != "":
			return "The agent did not start: " + clean(res.Detail, 500) + "."
		default:
			return fmt.Sprintf("The agent ended with exit code %d.", res.ExitCode)
		}
	case NoStart:
		return "The agent gave no sign of life within the time allowed for its first output."
	case Idle:
		return "The agent fell silent for longer than allowed."
	case TimedOut:
		return "The agent used up its time."
	case OutOfMemory:
		return "The agent was ended because the sandbox ran out of memory."
	case Cancelled:
		return "The agent was stopped on request."
	default:
		return fmt.Sprintf("The agent ended: %s.", r)
	}
}

// life watches for signs of life.
type life struct {
	mu    sync.Mutex
	timer *time.Timer
	idle  time.Duration
	stage Reason
}

func newLife(t Timers, end func(Reason)) *life {
	l := &life{idle: t.Idle, stage: NoStart}
	first := t.FirstOutput
	if first <= 0 {
		first, l.stage = t.Idle, Idle
	}
	if first > 0 {
		l.timer = time.AfterFunc(first, func() {
			l.mu.Lock()
			stage := l.stage
			l.mu.Unlock()
			end(stage)
		})
	}
	return l
}

func (l *life) sign() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stage = Idle
	if l.timer == nil {
		return
	}
	// A timer that already fired has ended the run; it must not fire twice.
	if !l.timer.Stop() {
		return
	}
	if l.idle > 0 {
		l.timer.Reset(l.idle)
	}
}

func (l *life) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}
