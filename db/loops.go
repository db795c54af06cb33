package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// ExpiredLease is a lease that the database's clock has ended, or that a stop
// asked for and whose grace is over.
type ExpiredLease struct {
	Ref        Ref
	Lease      run.LeaseRef
	Phase      run.Phase
	State      run.State
	Cancelling bool
	// Stop is the signal that was not obeyed: budget or timeout.
	Stop string
}

// ExpiredLeases lists leases past their time, after the given run.
func (s *Store) ExpiredLeases(ctx context.Context, after uuid.UUID, limit int) ([]ExpiredLease, error) {
	rows, err := s.q.ExpiredLeases(ctx, s.pool, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list expired leases: %w", err)
	}
	out := make([]ExpiredLease, 0, len(rows))
	for _, r := range rows {
		out = append(out, ExpiredLease{Ref{r.TenantID, r.RunID}, run.LeaseRef{ID: r.LeaseID, Token: r.FencingToken}, run.Phase(r.Phase),
			run.State(r.State), r.Cancelling, ""})
	}
	return out, nil
}

// DisobedientLeases lists leases whose worker was told to stop and did not within
// the grace: the cancel grace for a cancel, stop for a budget or time-out.
func (s *Store) DisobedientLeases(ctx context.Context, after uuid.UUID, limit int, stop time.Duration) ([]ExpiredLease, error) {
	rows, err := s.q.RevokableLeases(ctx, s.pool, s.timing.CancelGrace.Seconds(), stop.Seconds(), after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list disobedient leases: %w", err)
	}
	out := make([]ExpiredLease, 0, len(rows))
	for _, r := range rows {
		out = append(out, ExpiredLease{Ref{r.TenantID, r.RunID}, run.LeaseRef{ID: r.LeaseID, Token: r.FencingToken}, run.Phase(r.Phase),
			run.State(r.State), r.Cancelling, r.StopSignal})
	}
	return out, nil
}

// Reap ends an expired or disobedient lease with the event that fits: a run that
// is being cancelled is cancelled by force, one whose publisher left an effect in
// doubt goes to a person, any other worker is lost. Losing the race to a late
// report is a Conflict.
func (s *Store) Reap(ctx context.Context, l ExpiredLease) (run.Kind, error) {
	return s.reap(ctx, l, nil)
}

func (s *Store) reap(ctx context.Context, l ExpiredLease, of *Finding) (run.Kind, error) {
	row, err := s.q.LoadRun(ctx, s.pool, l.Ref.Tenant, l.Ref.Run)
	if err != nil {
		return "", translate(err, "run")
	}
	r, err := toRun(row.Run)
	if err != nil {
		return "", err
	}
	if !r.Holds(&l.Lease) {
		return "", refused(&run.StaleLeaseError{State: r.State, Token: l.Lease.Token}, r)
	}
	f, err := s.reapFacts(ctx, l, r, row)
	if err != nil {
		return "", err
	}
	p, err := reaped(l, r, f)
	if err != nil {
		return "", refused(err, r)
	}
	by := run.Actor{Kind: run.ActorFor(r.State, p.Kind(), run.Scheduler), ID: "reaper"}
	in := Intent{Key: fmt.Sprintf("reap-%s-%d", p.Kind(), l.Lease.Token), By: by, Payload: p}
	if of != nil {
		in.repair = &repair{*of, func(Ack) string { return "the lease was ended by " + string(p.Kind()) }}
	}
	_, err = s.Apply(ctx, l.Ref, in)
	return p.Kind(), err
}

// reapFacts is what the end of a lease is decided on: operations in doubt, what
// the run used up, and the gate that might be asked.
func (s *Store) reapFacts(ctx context.Context, l ExpiredLease, r run.Run, row sqlc.LoadRunRow) (run.Facts, error) {
	f := run.Facts{Minted: run.Minted{Gate: typeid.New(), Now: micro(row.Now), Draw: s.draw()}}
	known, err := s.factsOf(ctx, s.pool, r, &f)
	if err != nil {
		return f, err
	}
	f.Unresolved = known.Unresolved
	kind := run.GateReconcile
	if l.Stop == "budget" {
		kind = run.GateBudget
	}
	f.Digest = s.revision(r, kind, row.Run.BaseCommit, l.Lease.ID.String())
	s.spentFacts(r, row.Run, row.Now, known, &f)
	return f, nil
}

// reaped says what the end of the lease means. A worker that did not obey a stop
// for the budget is treated as if it had, where the run can wait for a person.
func reaped(l ExpiredLease, r run.Run, f run.Facts) (run.Payload, error) {
	switch {
	case r.State == run.Cancelling || l.Stop == "":
		return run.DecideLost(r, f)
	case l.Stop == "budget" && run.Legal(r.State, run.KindBudgetExceeded):
		return run.Decide(r, run.Stopped{Why: run.StopBudget, Summary: "The run reached its budget and its worker did not stop in time."}, f)
	}
	return run.AttemptFailedEvent{Code: run.CodeAttemptTimeout, Summary: "The worker was told to stop and did not in time.", Spent: f.Spent, Jitter: f.Minted.Draw}, nil
}

// Deliver moves delayed items that are due into the queue.
func (s *Store) Deliver(ctx context.Context, limit int) (int, error) {
	rows, err := s.q.DueDelayed(ctx, s.pool, s.timing.Aging.Seconds(), int32(limit))
	if err != nil {
		return 0, fmt.Errorf("deliver delayed items: %w", err)
	}
	for _, r := range rows {
		s.ring(Change{Tenant: r.TenantID, Run: r.RunID, Ready: run.Phase(r.Phase)})
	}
	return len(rows), nil
}

// DueAdmissions lists runs that admission had put off until now: of each tenant at most share, those that are due the longest,
// and every tenant's first before anybody's second. Runs to skip and tenants that are full are left out.
func (s *Store) DueAdmissions(ctx context.Context, skip, full []uuid.UUID, share, limit int) ([]Ref, error) {
	rows, err := s.q.DueAdmissions(ctx, s.pool, append([]uuid.UUID{}, skip...), int32(share), append([]uuid.UUID{}, full...), int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list due admissions: %w", err)
	}
	out := make([]Ref, 0, len(rows))
	for _, r := range rows {
		out = append(out, Ref{r.TenantID, r.RunID})
	}
	return out, nil
}

// DueGate is a gate whose time is over.
type DueGate struct {
	Ref      Ref
	Gate     uuid.UUID
	Revision int
	// Version is the run's: who asks again meanwhile is not answered by the clock of the old request.
	Version int64
	Parked  bool
}

// Patience is how long each tenant waits by its own rules, one list beside the other.
type Patience struct {
	tenants           []uuid.UUID
	park, idle, merge []float64 // seconds
}

// Patience reads the rules of all tenants. A tenant whose rules cannot be read is left out and named by the error beside
// the others' answer: it keeps none of them waiting.
func (s *Store) Patience(ctx context.Context) (Patience, error) {
	var p Patience
	rows, err := s.q.PoliciesInForce(ctx, s.pool)
	if err != nil {
		return p, fmt.Errorf("load the policies in force: %w", err)
	}
	var unreadable []error
	for _, r := range rows {
		rules := policy.Default()
		if r.Document != "" {
			if rules, err = s.rules.parse(r.Document); err != nil {
				unreadable = append(unreadable, fmt.Errorf("tenant %s: %w", r.TenantID, err))
				continue
			}
		}
		l := rules.Limits
		p.tenants = append(p.tenants, r.TenantID)
		p.park, p.idle, p.merge = append(p.park, l.MaxPark.Std().Seconds()), append(p.idle, l.TaskIdle.Std().Seconds()), append(p.merge, l.MergeWait.Std().Seconds())
	}
	return p, errors.Join(unreadable...)
}

// DueGates lists gates past their expiry, and expired ones past the parking time of their tenant.
func (s *Store) DueGates(ctx context.Context, after uuid.UUID, limit int) ([]DueGate, error) {
	// A tenant whose rules cannot be read is told of when one of its gates expires; the others' are due meanwhile.
	p, err := s.Patience(ctx)
	if err != nil && p.tenants == nil {
		return nil, err
	}
	rows, err := s.q.DueGates(ctx, s.pool, p.park, p.tenants, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list due gates: %w", err)
	}
	out := make([]DueGate, 0, len(rows))
	for _, r := range rows {
		out = append(out, DueGate{Ref{r.TenantID, r.RunID}, r.ID, int(r.Revision), r.Version, r.State == string(run.GateExpired)})
	}
	return out, nil
}

// ExpireGate posts what the policy says about a gate that nobody decided, once
// for each revision.
func (s *Store) ExpireGate(ctx context.Context, d DueGate) error {
	rules, err := s.Rules(ctx, d.Ref.Tenant)
	if err != nil {
		return err
	}
	_, err = s.Apply(ctx, d.Ref, Intent{Key: fmt.Sprintf("expire-%s-%d-%t", d.Gate, d.Revision, d.Parked), By: run.Actor{Kind: run.Scheduler, ID: "gate clock"},
		Seen: d.Version, Payload: run.ApprovalExpiredEvent{Gate: d.Gate, Outcome: run.ExpiryOutcome(rules.Approval.OnExpiry), Parked: d.Parked}})
	return err
}

// DueAttestations lists runs whose attestation did not come in time.
func (s *Store) DueAttestations(ctx context.Context, after uuid.UUID, limit int) ([]Ref, error) {
	rows, err := s.q.DueAttestations(ctx, s.pool, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list due attestations: %w", err)
	}
	out := make([]Ref, 0, len(rows))
	for _, r := range rows {
		out = append(out, Ref{r.TenantID, r.RunID})
	}
	return out, nil
}

// ExpireAttestation posts what the policy says about an attestation that did not
// come. Escalation moves its expiry on, so that it is said once per period; one
// whose time is not over is a Conflict.
func (s *Store) ExpireAttestation(ctx context.Context, ref Ref) error {
	rules, err := s.Rules(ctx, ref.Tenant)
	if err != nil {
		return err
	}
	row, err := s.q.LoadRun(ctx, s.pool, ref.Tenant, ref.Run)
	if err != nil {
		return translate(err, "run")
	}
	until, err := s.q.RequestedAttestation(ctx, s.pool, ref.Tenant, ref.Run)
	if err != nil {
		return translate(err, "attestation")
	}
	if until.After(row.Now) {
		return fault.New(fault.Conflict, "Nothing was changed: the attestation may still come.").WithCode("not_due")
	}
	outcome := run.ExpiryOutcome(rules.Attestation.OnExpiry)
	if row.Now.Sub(row.Run.StateSince) > rules.Limits.MaxPark.Std() {
		outcome = run.ExpiryExpire
	}
	// The key is the period's, so that any number of replicas say it once.
	_, err = s.Apply(ctx, ref, Intent{Key: fmt.Sprintf("attestation-%s-%d", outcome, until.UnixMicro()), By: run.Actor{Kind: run.Scheduler, ID: "attestation clock"},
		Seen: row.Run.Version, Payload: run.AttestationExpiredEvent{Outcome: outcome}})
	if outcome != run.ExpiryEscalate || (err != nil && !Lost(err)) {
		return err
	}
	// Also where it was said before: whoever said it may have died before this.
	return errors.Join(err, wrap("put off the attestation's expiry", s.q.PutOffAttestation(ctx, s.pool, rules.Limits.AttestationTimeout.Std().Seconds(), ref.Run, until)))
}

// OldItem is a READY item with the time that its run may wait.
type OldItem struct {
	Ref Ref
	// Version is the run's: one that was taken and came back has waited anew.
	Version int64
	Waited  time.Duration
	Timeout time.Duration
	// Broken is set where the run's limits cannot be read; the other items can.
	Broken error
}

// OldItems lists READY items that waited longer than their run allows, or whose run's limit the database cannot read.
func (s *Store) OldItems(ctx context.Context, after uuid.UUID, limit int) ([]OldItem, error) {
	rows, err := s.q.OldItems(ctx, s.pool, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list old items: %w", err)
	}
	out := make([]OldItem, 0, len(rows))
	for _, r := range rows {
		l, err := knownLimits.parse(r.Limits)
		out = append(out, OldItem{Ref{r.TenantID, r.RunID}, r.Version, r.Now.Sub(r.VisibleAt), l.QueueTimeout.Std(), err})
	}
	return out, nil
}

// ActiveRun is a run under a lease with what the clocks need.
type ActiveRun struct {
	Ref       Ref
	Version   int64
	Lease     run.LeaseRef
	State     run.State
	Limits    run.Limits
	Active    time.Duration // of the run, waiting for people not counted
	OfAttempt time.Duration // likewise, since the attempt began
	OfLease   time.Duration
	Stop      string
	StopFor   time.Duration
	Broken    error // the limits cannot be read
}

// ActiveRuns lists runs under a lease, after the given run.
func (s *Store) ActiveRuns(ctx context.Context, after uuid.UUID, limit int) ([]ActiveRun, error) {
	rows, err := s.q.ActiveRuns(ctx, s.pool, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list active runs: %w", err)
	}
	out := make([]ActiveRun, 0, len(rows))
	for _, r := range rows {
		a := ActiveRun{Ref: Ref{r.TenantID, r.ID}, Version: r.Version, Lease: run.LeaseRef{ID: r.LeaseID, Token: r.FencingToken}, State: run.State(r.State),
			OfLease: r.Now.Sub(r.AcquiredAt), Stop: r.StopSignal,
			Active: time.Duration(r.ActiveMs)*time.Millisecond + r.Now.Sub(r.StateSince)}
		a.OfAttempt = a.Active - time.Duration(r.AttemptActiveMs)*time.Millisecond
		if r.StopSignalAt != nil {
			a.StopFor = r.Now.Sub(*r.StopSignalAt)
		}
		a.Limits, a.Broken = knownLimits.parse(r.Limits)
		out = append(out, a)
	}
	return out, nil
}

// SignalStop asks the worker that holds the lease to stop for a budget or a time-out; the signal goes with the next
// heartbeat. Repeating it changes nothing, and neither does it once another worker holds the run.
func (s *Store) SignalStop(ctx context.Context, ref Ref, lease uuid.UUID, why string) error {
	_, err := s.q.SignalRun(ctx, s.pool, why, ref.Tenant, ref.Run, lease)
	return wrap("signal a stop", err)
}

// TaskRef names a task within its tenant.
type TaskRef struct{ Tenant, Task uuid.UUID }

// TasksToRun lists tasks for which the control plane makes the next run itself, after the given task.
func (s *Store) TasksToRun(ctx context.Context, after uuid.UUID, limit int) ([]TaskRef, error) {
	rows, err := s.q.TasksToRun(ctx, s.pool, after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list tasks to run: %w", err)
	}
	out := make([]TaskRef, 0, len(rows))
	for _, r := range rows {
		out = append(out, TaskRef{r.TenantID, r.ID})
	}
	return out, nil
}

// BuryBoots marks workers dead that were silent for so long while somebody could have heard them, and returns their boots.
func (s *Store) BuryBoots(ctx context.Context, silent time.Duration) ([]uuid.UUID, error) {
	dead, err := s.q.BuryBoots(ctx, s.pool, silent.Seconds())
	return dead, wrap("bury silent workers", err)
}

// Lost reports that err only says that somebody else was faster.
func Lost(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	return ok && (f.Kind == fault.Conflict || f.Kind == fault.NotFound || f.Kind == fault.Gone)
}
