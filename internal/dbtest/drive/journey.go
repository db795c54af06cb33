package drive

import (
	"context"
	"fmt"

	"signalbox/db"
	"signalbox/internal/run"
)

// At is a run that was driven to a state, with the lease that holds it where one does.
type At struct {
	Ref   db.Ref
	Task  db.TaskAck
	Lease *Lease
}

// To drives a fresh run to a state by the shortest way; every state but PR_CREATED, in which no run ever rests, can be
// reached. Where the state may be held by a worker or wait for one, it is held.
func (w *World) To(ctx context.Context, s run.State) (At, error) {
	c := Ordinary()
	c.Attestation = s == run.AwaitingVerification
	task, err := w.Task(ctx, c)
	if err != nil {
		return At{}, err
	}
	if task.Run == nil {
		return At{}, fmt.Errorf("task is %s and has no run: %v", task.State, task.Reasons)
	}
	at := At{Ref: db.Ref{Tenant: w.Tenant, Run: *task.Run}, Task: task}
	err = w.drive(ctx, &at, s)
	if err == nil {
		err = w.Is(ctx, at.Ref, s)
	}
	return at, err
}

// Carry drives a run that waits in the queue to a state, as To does with one of its own.
func (w *World) Carry(ctx context.Context, ref db.Ref, s run.State) error {
	if err := w.drive(ctx, &At{Ref: ref}, s); err != nil {
		return err
	}
	return w.Is(ctx, ref, s)
}

// Is holds that the run is in the state.
func (w *World) Is(ctx context.Context, ref db.Ref, s run.State) error {
	info, err := w.Store.RunInfo(ctx, ref.Tenant, ref.Run)
	if err == nil && info.State != s {
		err = fmt.Errorf("run is %s instead of %s", info.State, s)
	}
	return err
}

// stage is one step of the straight way: the state it ends in, and what it does.
type stage struct {
	to run.State
	do func(context.Context, *At) error
}

func (w *World) drive(ctx context.Context, at *At, s run.State) error {
	switch s {
	case run.Created, run.PRCreated:
		return fmt.Errorf("no run rests in %s", s)
	case run.Cancelled:
		_, err := w.Cancel(ctx, at.Ref)
		return err
	case run.Expired:
		_, err := w.Post(ctx, at.Ref, run.Scheduler, run.RunTimeoutEvent{})
		return err
	case run.Failed:
		_, err := w.Post(ctx, at.Ref, run.Scheduler, run.RunTimeoutEvent{Fail: true})
		return err
	case run.Cancelling:
		if err := w.drive(ctx, at, run.Executing); err != nil {
			return err
		}
		_, err := w.Cancel(ctx, at.Ref)
		return err
	case run.Queued:
		return nil
	}
	for _, st := range w.way() {
		if err := st.do(ctx, at); err != nil {
			return fmt.Errorf("on the way to %s: %w", st.to, err)
		}
		if st.to == s {
			return nil
		}
	}
	return fmt.Errorf("no way to %s", s)
}

func (w *World) way() []stage {
	claim := func(n int) func(context.Context, *At) error {
		return func(ctx context.Context, at *At) (err error) {
			at.Lease, err = w.ClaimRun(ctx, w.Workers[n], at.Ref)
			return err
		}
	}
	post := func(c run.Command) func(context.Context, *At) error {
		return func(ctx context.Context, at *At) error { return at.Lease.All(ctx, c) }
	}
	ack := func(do func(context.Context, *Lease) (db.Ack, error)) func(context.Context, *At) error {
		return func(ctx context.Context, at *At) error {
			_, err := do(ctx, at.Lease)
			return err
		}
	}
	return []stage{
		{run.Leased, claim(0)},
		{run.Preparing, post(run.Start{})},
		{run.ContextBuilding, post(run.SandboxIsReady{Tier: "bwrap", Base: Base})},
		{run.Planning, func(ctx context.Context, at *At) error {
			a, err := at.Lease.Put(ctx, "context", w.Key("context"))
			if err != nil {
				return err
			}
			return at.Lease.All(ctx, run.ContextIsReady{Artifact: a})
		}},
		{run.Executing, ack(func(ctx context.Context, l *Lease) (db.Ack, error) { return l.Plan(ctx, w.Key("plan")) })},
		{"", ack(func(ctx context.Context, l *Lease) (db.Ack, error) {
			return l.HandIn(ctx, Diff("main.go", w.Key("line")))
		})},
		{run.PatchReady, claim(1)},
		{run.Verifying, func(ctx context.Context, at *At) error {
			_, digest, err := w.Store.CommandSet(ctx, at.Ref)
			if err != nil {
				return err
			}
			return at.Lease.All(ctx, run.VerifyStarted{Commands: []string{"true"}, Digest: digest})
		}},
		{run.Judging, ack(func(ctx context.Context, l *Lease) (db.Ack, error) {
			return l.Report(ctx, db.VerificationRecord{Passed: true, Summary: "1 check passed."})
		})},
		{run.WaitingForApproval, func(ctx context.Context, at *At) error {
			_, err := at.Lease.Judge(ctx, run.VerdictPass, 0.95)
			at.Lease = nil
			return err
		}},
		{"", func(ctx context.Context, at *At) error { return w.Approve(ctx, at.Ref) }},
		{run.PRCreating, claim(0)},
		{run.AwaitingVerification, func(ctx context.Context, at *At) error {
			_, err := at.Lease.Publish(ctx)
			at.Lease = nil
			if err != nil {
				return err
			}
			return nil
		}},
		{run.Succeeded, func(context.Context, *At) error { return nil }},
	}
}
