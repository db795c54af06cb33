// Package verify owns the independent check of a change: a command set that was
// fixed beforehand, run in a box over a fresh checkout with the patch applied,
// and the comparison with the same commands on the base. It refuses to take
// its commands from the repository, to call an empty set a pass, and to mistake
// a broken machine for a broken change.
package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"signalbox/internal/sandbox"
)

// Kind is what a command checks.
type Kind string

// The kinds, in the order in which a set is usually written.
const (
	Format  Kind = "format"
	Lint    Kind = "lint"
	Compile Kind = "compile"
	Test    Kind = "test"
	Static  Kind = "static"
	Domain  Kind = "domain"
)

// Command is one check of the set.
type Command struct {
	Name    string            `json:"name"`
	Kind    Kind              `json:"kind"`
	Argv    []string          `json:"argv"`
	Dir     string            `json:"dir,omitempty"` // relative to the checkout
	Env     map[string]string `json:"env,omitempty"`
	Timeout time.Duration     `json:"timeout_ns"` // 0 means DefaultTimeout
}

// DefaultTimeout is the wall clock of a command that names none.
const DefaultTimeout = 15 * time.Minute

// maxCommands bounds a set.
const maxCommands = 100

// SetError says what is wrong with a command set.
type SetError struct {
	Command string // name or index; empty when it is the set itself
	Reason  string
}

func (e *SetError) Error() string {
	if e.Command == "" {
		return "verification commands: " + e.Reason
	}
	return fmt.Sprintf("verification command %s: %s", e.Command, e.Reason)
}

// ValidateSet checks a set before it is fixed. Its errors are *SetError.
func ValidateSet(set []Command) error {
	if len(set) == 0 {
		return &SetError{Reason: "the set is empty, and nothing checked is not a pass"}
	}
	if len(set) > maxCommands {
		return &SetError{Reason: fmt.Sprintf("%d commands; the limit is %d", len(set), maxCommands)}
	}
	seen := map[string]bool{}
	for i, c := range set {
		name := c.Name
		if name == "" {
			return &SetError{Command: fmt.Sprintf("%d", i+1), Reason: "has no name"}
		}
		if seen[name] {
			return &SetError{Command: name, Reason: "is named twice"}
		}
		seen[name] = true
		if len(c.Argv) == 0 || c.Argv[0] == "" {
			return &SetError{Command: name, Reason: "has no program"}
		}
		switch c.Kind {
		case Format, Lint, Compile, Test, Static, Domain:
		default:
			return &SetError{Command: name, Reason: fmt.Sprintf("has the unknown kind %q", c.Kind)}
		}
		if c.Timeout < 0 {
			return &SetError{Command: name, Reason: "has a negative timeout"}
		}
		if c.Dir != "" && !localDir(c.Dir) {
			return &SetError{Command: name, Reason: "has a directory outside the checkout"}
		}
	}
	return nil
}

// Options of one verification.
type Options struct {
	// Box over the checkout with the patch applied.
	Box sandbox.Box
	// Baseline opens a box over a checkout of the base alone. It is called at
	// most once, and only when a command failed; nil means no comparison.
	Baseline func(ctx context.Context) (sandbox.Box, error)
	// Commands is the fixed set, in order.
	Commands []Command
	// BaseCommit and PatchDigest are recorded in the report.
	BaseCommit, PatchDigest string
	// PreexistingBlocks makes a command that fails on the base as well block.
	PreexistingBlocks bool
	// Output, when not nil, gives the writer for a command's full output as
	// it comes; baseline says that it is the run on the base.
	Output func(c Command, baseline bool) io.Writer
	// Progress, when not nil, is called before and after each command.
	Progress func(Progress)
	// Env is added to every command.
	Env map[string]string
}

// Progress is for the timeline.
type Progress struct {
	Command  Command
	Baseline bool
	// Done is nil before the command and its report after it.
	Done *CommandReport
}

// Run runs the set. It returns an error only when the set is unusable or the
// context ended; a broken machine is a report with verdict Error.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := ValidateSet(o.Commands); err != nil {
		return Report{}, err
	}
	r := Report{
		Schema: ReportSchema, BaseCommit: o.BaseCommit, PatchDigest: o.PatchDigest,
		Isolation: string(o.Box.Tier()), StartedAt: now(),
	}
	last := -1
	for i, c := range o.Commands {
		cr, err := one(ctx, o, o.Box, c, false)
		if err != nil {
			return r, err
		}
		r.Commands = append(r.Commands, cr)
		if cr.Class == ClassFailed || cr.Class == ClassTimedOut {
			last = i
		}
		if cr.Class == ClassError {
			// What comes after would be judged on a machine that is broken.
			for _, rest := range o.Commands[i+1:] {
				r.Commands = append(r.Commands, notRun(rest, c.Name))
			}
			last = -1
			break
		}
	}
	if last >= 0 && o.Baseline != nil {
		if err := r.compare(ctx, o, last); err != nil {
			return r, err
		}
	}
	r.conclude(o.PreexistingBlocks)
	r.EndedAt = now()
	return r, nil
}

// compare runs the set up to the last failure on the base: later commands may
// need what earlier ones made. Done only after a failure, because most changes
// pass and would pay twice for nothing.
func (r *Report) compare(ctx context.Context, o Options, last int) (err error) {
	box, err := o.Baseline(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("verify: %w", ctx.Err())
		}
		r.BaselineNote = "The base could not be checked for comparison: " + err.Error()
		return nil
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	for i, c := range o.Commands[:last+1] {
		cr, err := one(ctx, o, box, c, true)
		if err != nil {
			return err
		}
		r.Commands[i].Baseline = &Baseline{
			Class: cr.Class, ExitCode: cr.ExitCode, Signal: cr.Signal, DurationMS: cr.DurationMS, Detail: cr.Detail,
		}
		if cr.Class == ClassError {
			r.BaselineNote = "The comparison with the base stopped at " + c.Name + ": " + cr.Detail
			return nil
		}
	}
	return nil
}

// one runs a command and classifies how it ended.
func one(ctx context.Context, o Options, box sandbox.Box, c Command, baseline bool) (CommandReport, error) {
	if o.Progress != nil {
		o.Progress(Progress{Command: c, Baseline: baseline})
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	out := newCapture(nil)
	if o.Output != nil {
		out = newCapture(o.Output(c, baseline))
	}
	env := map[string]string{}
	for _, m := range []map[string]string{o.Env, c.Env} {
		for k, v := range m {
			env[k] = v
		}
	}
	cr := CommandReport{Name: c.Name, Kind: c.Kind, Argv: c.Argv, StartedAt: now()}
	res, err := box.Run(ctx, sandbox.Command{
		Argv: c.Argv, Dir: inRepo(c.Dir), Env: env, Stdout: out, Stderr: out, Timeout: timeout,
	})
	cr.EndedAt = now()
	cr.DurationMS = res.Duration.Milliseconds()
	cr.ExitCode, cr.Signal, cr.Detail = res.ExitCode, res.Signal, res.Detail
	cr.MaxRSS, cr.Leftovers = res.MaxRSS, res.Leftovers
	cr.Output = out.output(res.OutputBytes, res.OutputDropped)
	if ctx.Err() != nil {
		return cr, fmt.Errorf("verify: %w", context.Cause(ctx))
	}
	cr.classify(res, err, timeout)
	if o.Progress != nil {
		o.Progress(Progress{Command: c, Baseline: baseline, Done: &cr})
	}
	return cr, nil
}
