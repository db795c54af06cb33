package db_test

import (
	"context"
	"slices"

	"pgregory.net/rapid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// start is the first step of an attempt.
func (m *machine) start(t *rapid.T) {
	r := one(t, "leased run", slices.DeleteFunc(m.working(), func(r *modelRun) bool { return r.state != run.Leased }))
	_, err := m.held(r).Do(m.ctx, run.Start{})
	m.ok(t, err)
	r.state = run.Preparing
}

// complete does the whole of the phase that is left.
func (m *machine) complete(t *rapid.T) {
	r := one(t, "run", m.working())
	l := m.held(r)
	m.gone(r)
	m.did["completed "+string(r.lease.phase)]++
	m.ok(t, m.works(m.ctx, r, l))
	m.completed(r)
}

func (m *machine) works(ctx context.Context, r *modelRun, l *drive.Lease) error {
	key := m.worlds[r.tenant].Key
	switch l.Lease.Phase {
	case run.PhaseExecute:
		if r.state == run.Leased {
			if err := l.All(ctx, run.Start{}); err != nil {
				return err
			}
		}
		if err := l.All(ctx, run.SandboxIsReady{Tier: "bwrap", Base: drive.Base}); err != nil {
			return err
		}
		a, err := l.Put(ctx, "context", key("context"))
		if err != nil {
			return err
		}
		if err := l.All(ctx, run.ContextIsReady{Artifact: a}); err != nil {
			return err
		}
		if _, err := l.Plan(ctx, key("plan")); err != nil {
			return err
		}
		_, err = l.HandIn(ctx, drive.Diff("main.go", key("line")))
		return err
	case run.PhaseVerify:
		if _, err := l.Verify(ctx, db.VerificationRecord{Passed: true, Summary: "1 check passed."}); err != nil {
			return err
		}
		_, err := l.Judge(ctx, run.VerdictPass, 0.95)
		return err
	}
	_, err := l.Publish(ctx)
	return err
}

// fail ends an attempt with what may go away, or with what never will.
func (m *machine) fail(t *rapid.T) {
	r := one(t, "held run", m.which(func(r *modelRun) bool { return r.lease != nil && !m.over(r.lease) }))
	final := rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "for good")
	code := run.CodeDiskFull
	if final {
		code = run.CodeGitAuthFailed
	}
	l := m.held(r)
	m.gone(r)
	_, err := l.Do(m.ctx, run.AttemptHasFailed{Code: code, Summary: "It failed."})
	m.ok(t, err)
	if final && r.state != run.Cancelling {
		m.end(r, run.Failed)
		return
	}
	m.failed(r, false)
}

func (m *machine) release(t *rapid.T) {
	r := one(t, "held run", m.which(func(r *modelRun) bool { return r.lease != nil && !m.over(r.lease) }))
	l := m.held(r)
	m.gone(r)
	_, err := l.Do(m.ctx, run.Release{Reason: "drain"})
	m.ok(t, err)
	m.released(r)
}
