package run

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/policy"
)

// Run is everything the reducer owns about one run. It is rebuilt by replaying
// the run's log and compared with the stored row.
type Run struct {
	ID            uuid.UUID `json:"id"`
	Tenant        uuid.UUID `json:"tenant"`
	Task          uuid.UUID `json:"task"`
	Repository    uuid.UUID `json:"repository"`
	Mode          Mode      `json:"mode"`
	Risk          string    `json:"risk"`
	State         State     `json:"state"`
	Version       int64     `json:"version"`
	PolicyVersion string    `json:"policy_version,omitempty"`
	Limits        Limits    `json:"limits"`
	// Route is where the run waits and what its workers must offer.
	Route policy.Route `json:"route,omitzero"`

	// AttemptNo counts attempts from 1; 0 before the first lease. It never falls.
	AttemptNo int       `json:"attempt_no"`
	Attempt   uuid.UUID `json:"attempt"`
	// Released counts attempts that ended by release, which use up no budget.
	Released int `json:"released"`
	// Crashed counts attempts that ended because their worker was lost or never started, RateLimited those that the
	// model's provider turned away. They have budgets of their own and use up no attempts.
	Crashed     int `json:"crashed,omitempty"`
	RateLimited int `json:"rate_limited,omitempty"`
	// Repairs counts the repair rounds of the current attempt.
	Repairs int `json:"repairs"`
	// VerifyRedeliveries and PublishRedeliveries count lost or failed leases of
	// those phases since the phase was entered.
	VerifyRedeliveries  int `json:"verify_redeliveries"`
	PublishRedeliveries int `json:"publish_redeliveries"`
	BaseMoves           int `json:"base_moves"`

	// Token is the fencing token of the newest lease. It never falls.
	Token int64  `json:"token"`
	Lease *Lease `json:"lease,omitempty"`
	// Queued is the phase of the run's queue item, READY or delayed; "" without one.
	Queued Phase `json:"queued,omitempty"`

	Gate *Gate `json:"gate,omitempty"`
	// Dispatched is the satisfied gate whose item nobody has claimed yet: while it
	// is set the approval can be withdrawn.
	Dispatched *Gate `json:"dispatched,omitempty"`

	Context       string  `json:"context,omitempty"`
	Plan          string  `json:"plan,omitempty"`
	ApprovedPlan  string  `json:"approved_plan,omitempty"`
	PlanRevision  int     `json:"plan_revision"`
	Outcome       Outcome `json:"outcome,omitempty"`
	Patch         *Patch  `json:"patch,omitempty"`
	PatchRevision int     `json:"patch_revision"`
	// Report is the digest of the analysis report, or of the no-change record.
	Report string `json:"report,omitempty"`
	// Verification is the digest of the report for the current patch.
	Verification string `json:"verification,omitempty"`
	// ApprovedPatchID is the stable patch id that people approved, kept over a
	// base move so that an unchanged patch need not be approved again.
	ApprovedPatchID string `json:"approved_patch_id,omitempty"`
	// Verdict is the final word on the result; SUCCEEDED cannot be without one.
	Verdict string `json:"verdict,omitempty"`
	// Attested says that an attestor accepted the result; shown as VERIFIED.
	Attested bool `json:"attested"`

	PR      *PullRequest `json:"pr,omitempty"`
	Failure *Failure     `json:"failure,omitempty"`
	Cancel  *Cancel      `json:"cancel,omitempty"`
	// Reason is why an EXPIRED run ended.
	Reason Code `json:"reason,omitempty"`

	CreatedAt  time.Time  `json:"created_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// Limits are snapshotted at admission with the policy version (R-FAIL-8) and
// hold for the run's life; a budget approval may raise them.
type Limits struct {
	policy.Limits
	// Delays and Jitter are the retry rules of the same policy version.
	Delays []time.Duration `json:"delays"`
	Jitter float64         `json:"jitter"`
	// RunTimeoutFails says that a run that took too long is FAILED; otherwise it
	// is EXPIRED.
	RunTimeoutFails bool `json:"run_timeout_fails,omitempty"`
}

// LimitsOf snapshots a policy's limits and retry rules.
func LimitsOf(l policy.Limits, rules policy.Rules) Limits {
	r := rules.Retry
	out := Limits{Limits: l, Jitter: r.Jitter, RunTimeoutFails: rules.RunTimeout.Outcome == policy.OnFail}
	for _, d := range r.Delays {
		out.Delays = append(out.Delays, d.Std())
	}
	return out
}

// Lease is a worker's right to the run's current phase.
type Lease struct {
	ID     uuid.UUID `json:"id"`
	Token  int64     `json:"token"`
	Phase  Phase     `json:"phase"`
	Worker string    `json:"worker"`
	Boot   string    `json:"boot"`
}

// LeaseRef is how a worker proves that it holds the lease.
type LeaseRef struct {
	ID    uuid.UUID `json:"id"`
	Token int64     `json:"token"`
}

// Gate is the run's view of the request that a person decides.
type Gate struct {
	ID       uuid.UUID `json:"id"`
	Kind     GateKind  `json:"kind"`
	Revision int       `json:"revision"`
	// Digest binds a decision to what was shown (D-15).
	Digest string `json:"digest"`
	// ResumeTo is the state a budget gate returns to.
	ResumeTo State `json:"resume_to,omitempty"`
	Expired  bool  `json:"expired"`
}

// Patch is the stored patch that the run stands on.
type Patch struct {
	Artifact string `json:"artifact"`
	// Digest is the SHA-256 of the exact bytes, PatchID the digest of the change
	// without line numbers and base.
	Digest   string `json:"digest"`
	PatchID  string `json:"patch_id"`
	Revision int    `json:"revision"`
	Base     string `json:"base"`
	Tree     string `json:"tree"`
	Files    int    `json:"files"`
	Added    int    `json:"added"`
	Removed  int    `json:"removed"`
}

// PullRequest is what the forge read back.
type PullRequest struct {
	URL    string `json:"url"`
	SHA    string `json:"sha"`
	Branch string `json:"branch"`
	Number int64  `json:"number"`
}

// Cancel keeps the two facts of cancelling apart: requested, and confirmed by
// the state CANCELLED.
type Cancel struct {
	By     Actor     `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	// Forced says that the worker did not confirm and the grace ended.
	Forced bool `json:"forced"`
}

// AttemptsUsed counts the attempts that use up the budget, the running one
// included: all but those that a drain released, that a worker took down with it, or that a provider turned away.
func (r Run) AttemptsUsed() int { return r.AttemptNo - r.Released - r.Crashed - r.RateLimited }

// AttemptsLeft reports whether another attempt may start after the current one.
func (r Run) AttemptsLeft() bool { return r.AttemptsUsed() < r.Limits.MaxAttempts }

// RepairsLeft reports whether the current attempt may be repaired once more.
func (r Run) RepairsLeft() bool { return r.Repairs < r.Limits.RepairRounds }

// oversized says in words by how much the stored patch is larger than the run's limits allow, or "".
func (r Run) oversized() string {
	p, l := r.Patch, r.Limits
	switch {
	case p == nil:
		return ""
	case l.ChangedFiles > 0 && p.Files > l.ChangedFiles:
		return fmt.Sprintf("The patch changes %d files; the limit is %d.", p.Files, l.ChangedFiles)
	case l.DiffLines > 0 && p.Added+p.Removed > l.DiffLines:
		return fmt.Sprintf("The patch changes %d lines; the limit is %d.", p.Added+p.Removed, l.DiffLines)
	}
	return ""
}

// Holds reports whether ref names the run's active lease.
func (r Run) Holds(ref *LeaseRef) bool {
	return r.Lease != nil && ref != nil && r.Lease.ID == ref.ID && r.Lease.Token == ref.Token
}

// EndCode is the reason code that a terminal run ended with: the failure's, the
// clock's, or that somebody cancelled it. Empty for SUCCEEDED and active runs.
func (r Run) EndCode() Code {
	switch {
	case r.State == Failed && r.Failure != nil:
		return r.Failure.Code
	case r.State == Cancelled && r.Cancel != nil && r.Cancel.By.Kind == Scheduler:
		return CodeApprovalExpired
	case r.State == Cancelled:
		return CodeCancelledByUser
	case r.State == Expired:
		return r.Reason
	}
	return ""
}
