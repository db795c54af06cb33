package db

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/run"
)

// toRun rebuilds the reducer's run from its row.
func toRun(w sqlc.Run) (run.Run, error) {
	r := run.Run{
		ID: w.ID, Tenant: w.TenantID, Task: w.TaskID, Repository: w.RepositoryID,
		Mode: run.Mode(w.Mode), Risk: w.Risk, State: run.State(w.State), Version: w.Version,
		PolicyVersion: w.PolicyVersion, AttemptNo: int(w.AttemptNo), Released: int(w.Released),
		Crashed: int(w.Crashed), RateLimited: int(w.RateLimited),
		Repairs: int(w.Repairs), VerifyRedeliveries: int(w.VerifyRedeliveries),
		PublishRedeliveries: int(w.PublishRedeliveries), BaseMoves: int(w.BaseMoves), Token: w.FencingToken,
		Queued: run.Phase(value(w.Queued)), Context: w.ContextDigest, Plan: w.PlanDigest,
		ApprovedPlan: w.ApprovedPlanDigest, PlanRevision: int(w.PlanRevision), Outcome: run.Outcome(w.Outcome),
		PatchRevision: int(w.PatchRevision), Report: w.ReportDigest, Verification: w.VerificationDigest,
		ApprovedPatchID: w.ApprovedPatchID, Verdict: w.Verdict, Attested: w.Attested,
		Reason: run.Code(w.ReasonCode), CreatedAt: w.CreatedAt.UTC(),
	}
	r.Attempt = value(w.AttemptID)
	if w.FinishedAt != nil {
		r.FinishedAt = new(w.FinishedAt.UTC())
	}
	if w.LeaseID != nil {
		r.Lease = &run.Lease{ID: *w.LeaseID, Token: w.FencingToken, Phase: run.Phase(value(w.LeasePhase)),
			Worker: value(w.LeaseWorker), Boot: value(w.LeaseBoot)}
	}
	if w.GateID != nil {
		r.Gate = &run.Gate{ID: *w.GateID, Kind: run.GateKind(value(w.GateKind)), Revision: int(value(w.GateRevision)),
			Digest: value(w.GateDigest), ResumeTo: run.State(value(w.GateResumeTo)), Expired: value(w.GateExpired)}
	}
	if w.PrUrl != nil {
		r.PR = &run.PullRequest{URL: *w.PrUrl, SHA: value(w.PrSha), Branch: value(w.PrBranch), Number: value(w.PrNumber)}
	}
	if w.FailureCategory != nil {
		r.Failure = &run.Failure{Category: run.Category(*w.FailureCategory), Code: run.Code(value(w.FailureCode)),
			Retryable: value(w.FailureRetryable), Summary: value(w.FailureSummary), Evidence: value(w.FailureEvidence)}
	}
	if w.CancelAt != nil {
		r.Cancel = &run.Cancel{Reason: value(w.CancelReason), At: w.CancelAt.UTC(), Forced: value(w.CancelForced)}
		if err := decode(w.CancelBy, &r.Cancel.By, "cancel_by"); err != nil {
			return run.Run{}, err
		}
	}
	limits, err := knownLimits.parse(w.Limits)
	if err != nil {
		return run.Run{}, err
	}
	r.Limits = limits
	return r, errors.Join(decode(w.Route, &r.Route, "route"), decode(w.Patch, &r.Patch, "patch"), decode(w.Dispatched, &r.Dispatched, "dispatched"))
}

// limitsCache keeps limits by their stored text. Runs that were admitted under one policy share it, and it is most of a run's row:
// reading it anew for each transition is what reading a run costs. Limits are never changed in place.
type limitsCache struct {
	mu     sync.RWMutex
	parsed map[string]run.Limits
}

// Texts that a cache keeps at most, of which each has about a kilobyte.
const limitsKept = 256

var knownLimits limitsCache

func (c *limitsCache) parse(raw json.RawMessage) (run.Limits, error) {
	c.mu.RLock()
	l, ok := c.parsed[string(raw)]
	c.mu.RUnlock()
	if ok {
		return l, nil
	}
	if err := decode(raw, &l, "limits"); err != nil {
		return run.Limits{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil || len(c.parsed) >= limitsKept {
		c.parsed = map[string]run.Limits{}
	}
	c.parsed[string(raw)] = l
	return l, nil
}

// ownRun writes the reducer's run over the columns that the reducer owns and
// leaves the facts of w, and the limits, as they are.
func ownRun(w sqlc.Run, r run.Run) (sqlc.Run, error) {
	w.ID, w.TenantID, w.TaskID, w.RepositoryID = r.ID, r.Tenant, r.Task, r.Repository
	w.Mode, w.Risk, w.State, w.Version = string(r.Mode), r.Risk, string(r.State), r.Version
	w.PolicyVersion, w.AttemptNo, w.Released, w.Repairs = r.PolicyVersion, int32(r.AttemptNo), int32(r.Released), int32(r.Repairs)
	w.Crashed, w.RateLimited = int32(r.Crashed), int32(r.RateLimited)
	w.VerifyRedeliveries, w.PublishRedeliveries = int32(r.VerifyRedeliveries), int32(r.PublishRedeliveries)
	w.BaseMoves, w.FencingToken = int32(r.BaseMoves), r.Token
	w.AttemptID = pointer(r.Attempt)
	w.Queued = pointer(string(r.Queued))
	w.ContextDigest, w.PlanDigest, w.ApprovedPlanDigest, w.PlanRevision = r.Context, r.Plan, r.ApprovedPlan, int32(r.PlanRevision)
	w.Outcome, w.PatchRevision, w.ReportDigest = string(r.Outcome), int32(r.PatchRevision), r.Report
	w.VerificationDigest, w.ApprovedPatchID, w.Verdict, w.Attested = r.Verification, r.ApprovedPatchID, r.Verdict, r.Attested
	w.ReasonCode, w.CreatedAt, w.FinishedAt = string(r.Reason), r.CreatedAt, r.FinishedAt
	w.LeaseID, w.LeasePhase, w.LeaseWorker, w.LeaseBoot = nil, nil, nil, nil
	if l := r.Lease; l != nil {
		w.LeaseID, w.LeasePhase, w.LeaseWorker, w.LeaseBoot = &l.ID, new(string(l.Phase)), &l.Worker, &l.Boot
	}
	w.GateID, w.GateKind, w.GateRevision, w.GateDigest, w.GateResumeTo, w.GateExpired = nil, nil, nil, nil, nil, nil
	if g := r.Gate; g != nil {
		w.GateID, w.GateKind, w.GateRevision, w.GateDigest = &g.ID, new(string(g.Kind)), new(int32(g.Revision)), &g.Digest
		w.GateResumeTo, w.GateExpired = pointer(string(g.ResumeTo)), &g.Expired
	}
	w.PrUrl, w.PrSha, w.PrBranch, w.PrNumber = nil, nil, nil, nil
	if p := r.PR; p != nil {
		w.PrUrl, w.PrSha, w.PrBranch, w.PrNumber = &p.URL, &p.SHA, &p.Branch, &p.Number
	}
	w.FailureCategory, w.FailureCode, w.FailureRetryable, w.FailureSummary, w.FailureEvidence = nil, nil, nil, nil, nil
	if f := r.Failure; f != nil {
		w.FailureCategory, w.FailureCode, w.FailureRetryable = new(string(f.Category)), new(string(f.Code)), &f.Retryable
		w.FailureSummary, w.FailureEvidence = &f.Summary, pointer(f.Evidence)
	}
	var err error
	w.CancelBy, w.CancelReason, w.CancelAt, w.CancelForced = nil, nil, nil, nil
	if c := r.Cancel; c != nil {
		w.CancelReason, w.CancelAt, w.CancelForced = &c.Reason, &c.At, &c.Forced
		if w.CancelBy, err = encode(c.By); err != nil {
			return w, err
		}
	}
	if w.Route, err = encode(r.Route); err != nil {
		return w, err
	}
	if w.Patch, err = encodeOptional(r.Patch); err != nil {
		return w, err
	}
	w.Dispatched, err = encodeOptional(r.Dispatched)
	return w, err
}

// factsAfter moves the facts that follow from an event: since when the state
// holds, active time so far, and what the event measured.
func factsAfter(w sqlc.Run, before run.State, ev run.Event, after run.Run) sqlc.Run {
	w.UpdatedAt = ev.At
	if after.State != before {
		// A run that waits for its first worker has not begun; the queue's own time-out watches over it.
		if counts(before) && (before != run.Queued || w.AttemptNo > 0) {
			w.ActiveMs += max(ev.At.Sub(w.StateSince), 0).Milliseconds()
		}
		w.StateSince = ev.At
	}
	if after.Lease == nil {
		w.StopSignal, w.StopSignalAt = "", nil
	}
	switch p := ev.Payload.(type) {
	case run.SandboxReadyEvent:
		w.Isolation, w.BaseCommit = p.Tier, p.Base
	case run.PatchCreatedEvent:
		w.BaseCommit = p.Patch.Base
	case run.BaseMovedEvent:
		w.BaseCommit = p.NewBase
	}
	return w
}

// counts reports whether time in the state is active time, which the run's
// time-out counts: not that of people and of the queue before admission.
func counts(s run.State) bool {
	return s != run.WaitingForApproval && s != run.AwaitingVerification && s != run.Created && !s.Terminal()
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// pointer is nil for the zero value.
func pointer[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func encode(v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}

func encodeOptional[T any](p *T) (json.RawMessage, error) {
	if p == nil {
		return nil, nil
	}
	return encode(p)
}

func decode(raw json.RawMessage, to any, column string) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("decode column %s: %w", column, err)
	}
	return nil
}

// micro cuts a time to what Postgres keeps, so that a stored instant equals the
// hashed one.
func micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
