package run

import "slices"

//go:generate go test -run ^TestStatesPage$ . -update

// Transition is one row of the run's table: from any state of From, Event leads
// to one of To when one of By decides it.
type Transition struct {
	From  []State
	Event Kind
	// To lists the possible targets. Unchanged stands for "the state it was in".
	To    []State
	By    []ActorKind
	Notes string
}

// Unchanged marks a target that equals the source.
const Unchanged State = "(unchanged)"

// NoState is the source of run_created.
const NoState State = ""

// Transitions is the run's normative table: Reduce consults it, the exhaustive
// test walks it and the docs print it. Every pair that is not here is refused.
func Transitions() []Transition {
	evp := slices.Concat(executeStates, verifyStates, publishStates)
	reclaim := []State{ContextBuilding, Planning, Executing, PatchReady, Verifying, Judging, PRCreating}
	budget := []State{ContextBuilding, Planning, Executing, Verifying, Judging}
	notCancelling := slices.DeleteFunc(ActiveStates(), func(s State) bool { return s == Cancelling })
	vp := slices.Concat(verifyStates, publishStates)
	cancellers := []ActorKind{Human, Policy, ControlPlane}
	return []Transition{
		{[]State{NoState}, KindCreated, []State{Created}, []ActorKind{ControlPlane}, "the task is READY"},
		{[]State{Created}, KindDeferred, []State{Unchanged}, []ActorKind{Scheduler}, "reason and retry_after; after max_defer a timeout follows"},
		{[]State{Created}, KindEnqueued, []State{Queued}, []ActorKind{Scheduler}, "admission ADMIT; limits and policy version are snapshotted"},
		{slices.Concat([]State{Created, Queued}, evp), KindPolicyDenied, []State{Failed}, []ActorKind{Policy}, "at admission, at a claim or before an external effect"},
		{[]State{Queued}, KindLeaseAcquired, []State{Leased}, []ActorKind{Worker}, "a new attempt begins"},
		{reclaim, KindLeaseAcquired, []State{Unchanged}, []ActorKind{Worker}, "only without a lease; the same attempt goes on"},
		{[]State{Leased}, KindWorkerStarted, []State{Preparing}, []ActorKind{Worker}, ""},
		{[]State{Preparing}, KindSandboxReady, []State{ContextBuilding}, []ActorKind{Worker}, ""},
		{[]State{ContextBuilding}, KindContextReady, []State{Planning}, []ActorKind{Worker}, "repository map, instruction files and first context are stored"},
		{[]State{Planning}, KindPlanCreated, []State{Executing}, []ActorKind{AgentRuntime}, "plan stored; no gate asked, or its digest was approved before"},
		{[]State{Planning}, KindPlanApprovalRequired, []State{WaitingForApproval}, []ActorKind{Policy}, "gate plan"},
		{[]State{Executing}, KindPatchCreated, []State{PatchReady}, []ActorKind{AgentRuntime}, "patch stored, not empty, parsed and scanned by the server"},
		{[]State{Executing}, KindReportCreated, []State{Judging}, []ActorKind{AgentRuntime}, "only mode analysis_report_created, without a diff"},
		{[]State{Executing}, KindNoChangeReported, []State{Judging}, []ActorKind{AgentRuntime}, "without a diff"},
		{[]State{PatchReady}, KindVerificationStarted, []State{Verifying}, []ActorKind{Verifier}, "the command set was fixed before"},
		{[]State{Verifying}, KindVerificationPassed, []State{Judging}, []ActorKind{Verifier}, "report for exactly this patch digest; the lease is kept"},
		{[]State{Verifying}, KindVerificationFailed, []State{Executing}, []ActorKind{Verifier, ControlPlane}, "repair rounds left; structured feedback"},
		{[]State{Judging}, KindJudgeRequiresFix, []State{Executing}, []ActorKind{Judge, ControlPlane}, "repair rounds left"},
		{[]State{Verifying, Judging}, KindAttemptExhausted, []State{Queued}, []ActorKind{ControlPlane}, "rounds spent or the same failure again, attempts left; clean checkout, feedback carried"},
		{[]State{Judging}, KindHumanApprovalRequired, []State{WaitingForApproval}, []ActorKind{Policy}, "gate patch, or report for what has no patch"},
		{[]State{Judging}, KindApprovalCarried, []State{PRCreating}, []ActorKind{Policy}, "after base_moved with an unchanged patch id"},
		{[]State{Judging}, KindAutoPRAllowed, []State{PRCreating}, []ActorKind{Policy}, "every guard passed; risk neither HIGH nor CRITICAL"},
		{[]State{Judging}, KindCompletionConditionMet, []State{Succeeded}, []ActorKind{ControlPlane}, "judge passed; nothing to publish, no gate, no attestation"},
		{[]State{Judging, PRCreated}, KindAttestationRequired, []State{AwaitingVerification}, []ActorKind{Policy}, "in JUDGING only for what has no pull request"},
		{[]State{WaitingForApproval}, KindApproved, approvedTargets(), []ActorKind{Human}, "by gate: plan EXECUTING, patch PR_CREATING or the end, budget the stored state, reconcile PR_CREATING or PR_CREATED"},
		{[]State{WaitingForApproval}, KindChangesRequested, []State{Planning, Executing}, []ActorKind{Human}, "instruction required; refused for budget and reconcile"},
		{[]State{WaitingForApproval}, KindRejected, []State{Failed}, []ActorKind{Human}, "category by gate"},
		{[]State{WaitingForApproval}, KindApprovalExpired, []State{Unchanged, Cancelled, Failed}, []ActorKind{Scheduler}, "by approval.on_expiry; after max_park CANCELLED"},
		{[]State{WaitingForApproval}, KindApprovalReopened, []State{Unchanged, Planning, PatchReady}, []ActorKind{Human}, "only an expired gate; a moved base plans or verifies again"},
		{[]State{WaitingForApproval}, KindGateBypassed, approvedTargets(), []ActorKind{Human}, "break-glass"},
		{[]State{Executing, PRCreating}, KindApprovalWithdrawn, []State{WaitingForApproval}, []ActorKind{Human}, "only while nobody claimed the item since the gate"},
		{[]State{PRCreating}, KindPRCreated, []State{PRCreated}, []ActorKind{GitIntegration}, "url, sha and branch read back from the forge"},
		{[]State{PRCreating}, KindBaseMoved, []State{PatchReady, WaitingForApproval}, []ActorKind{GitIntegration}, "overlapping files; past the limit a person decides"},
		{[]State{PRCreating}, KindBranchTouched, []State{Failed}, []ActorKind{GitIntegration}, "a person committed to the branch: hands off"},
		{[]State{PRCreating}, KindReconciliationRequired, []State{WaitingForApproval}, []ActorKind{GitIntegration, Scheduler}, "an effect is ambiguous and cannot be looked up"},
		{[]State{PRCreated}, KindCompletionConditionMet, []State{Succeeded}, []ActorKind{ControlPlane}, "in the transaction of pr_created"},
		{[]State{AwaitingVerification}, KindAttestationAccepted, []State{Succeeded}, []ActorKind{Attestor}, "only this is shown as VERIFIED"},
		{[]State{AwaitingVerification}, KindAttestationRefused, []State{Failed}, []ActorKind{Attestor}, ""},
		{[]State{AwaitingVerification}, KindAttestationExpired, []State{Unchanged, Failed, Expired}, []ActorKind{Scheduler}, "by attestation.on_expiry; after max_park EXPIRED"},
		{executeStates, KindAttemptFailed, []State{Queued, Failed}, []ActorKind{Worker, Scheduler}, "backoff; FAILED when attempts are spent"},
		{executeStates, KindWorkerLost, []State{Queued, Failed}, []ActorKind{Scheduler}, "the lease expired by the database's clock; otherwise as attempt_failed"},
		{executeStates, KindLeaseReleased, []State{Queued}, []ActorKind{Worker, Scheduler}, "counted in no budget; at once, and after a wait where it was given back before without getting further"},
		{vp, KindAttemptFailed, []State{Unchanged, Failed}, []ActorKind{Worker, Scheduler}, "the item comes back; FAILED when redeliveries are spent"},
		{vp, KindWorkerLost, []State{Unchanged, Failed}, []ActorKind{Scheduler}, "as attempt_failed; in PR_CREATING with an unresolved operation reconciliation_required instead"},
		{vp, KindLeaseReleased, []State{Unchanged}, []ActorKind{Worker, Scheduler}, "the item comes back at once, or after the same wait"},
		{[]State{Leased, Preparing, ContextBuilding}, KindNonRetryableFailure, []State{Failed}, []ActorKind{Worker}, "category, reason code, summary, evidence"},
		{[]State{Planning, Executing}, KindNonRetryableFailure, []State{Failed}, []ActorKind{AgentRuntime}, "as above"},
		{[]State{PatchReady}, KindNonRetryableFailure, []State{Failed}, []ActorKind{Verifier}, "as above"},
		{[]State{Verifying}, KindNonRetryableFailure, []State{Failed}, []ActorKind{Verifier, ControlPlane}, "as above; also when no attempt is left"},
		{[]State{Judging}, KindNonRetryableFailure, []State{Failed}, []ActorKind{Judge, ControlPlane}, "as above; also when no attempt is left"},
		{publishStates, KindNonRetryableFailure, []State{Failed}, []ActorKind{GitIntegration}, "as above"},
		{budget, KindBudgetExceeded, []State{WaitingForApproval, Failed}, []ActorKind{ControlPlane}, "by budget.on_exceeded"},
		{slices.Concat([]State{Created, Queued}, evp), KindTimeout, []State{Expired}, []ActorKind{Scheduler}, "max_defer or the queue time-out; only without a lease"},
		{notCancelling, KindRunTimeout, []State{Expired, Failed}, []ActorKind{Scheduler}, "active time, not waiting time"},
		{[]State{Created, Queued, WaitingForApproval, AwaitingVerification}, KindCancelRequested, []State{Cancelled}, cancellers, "at once; item, gate or request goes"},
		{evp, KindCancelRequested, []State{Cancelling, Cancelled}, cancellers, "with a lease CANCELLING and the signal, without one CANCELLED"},
		{[]State{PRCreated}, KindCancelRequested, []State{Unchanged}, cancellers, "always refused: the pull request exists; closing it is offered"},
		{[]State{Cancelling}, KindCancelRequested, []State{Unchanged}, cancellers, "recorded; the first request goes on"},
		{[]State{Cancelling}, KindCancelConfirmed, []State{Cancelled}, []ActorKind{Worker, Scheduler, Human}, "the only way out of CANCELLING; a person who forces it does not wait for the worker"},
	}
}

func approvedTargets() []State {
	return []State{Executing, PRCreating, PRCreated, AwaitingVerification, Succeeded,
		ContextBuilding, Planning, Verifying, Judging}
}

// Kinds lists every event kind once, in table order.
func Kinds() []Kind {
	var ks []Kind
	for _, t := range Transitions() {
		if !slices.Contains(ks, t.Event) {
			ks = append(ks, t.Event)
		}
	}
	return ks
}

// HandsOver lists the events that end the lease, RELEASED with reason "handover"
// when its holder caused them.
func HandsOver(k Kind) bool {
	switch k {
	case KindPlanApprovalRequired, KindPatchCreated, KindReportCreated, KindNoChangeReported,
		KindVerificationFailed, KindJudgeRequiresFix, KindAttemptExhausted, KindHumanApprovalRequired,
		KindAutoPRAllowed, KindApprovalCarried, KindAttestationRequired, KindBudgetExceeded,
		KindReconciliationRequired, KindBaseMoved, KindPRCreated, KindCompletionConditionMet:
		return true
	}
	return false
}

// GetsFurther lists the events after which a run that is given back was not given back before: those that end the work
// of a lease with what it was for.
func GetsFurther() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return !HandsOver(k) })
}

// LeaseRule says what an event asks of the run's lease.
type LeaseRule string

// Lease rules. While a lease is active only its holder posts progress, and
// without one nobody does.
const (
	// LeaseHolder: only the holder of the active lease.
	LeaseHolder LeaseRule = "holder"
	// LeaseOverruled: somebody else ends or overrules the active lease; where
	// there is none there is nothing to end.
	LeaseOverruled LeaseRule = "overruled"
	// LeaseAny: with a lease or without.
	LeaseAny LeaseRule = "any"
	// LeaseNone: only while no lease is active.
	LeaseNone LeaseRule = "none"
)

// LeaseRuleOf returns the rule for an event of that actor in that state.
func LeaseRuleOf(s State, k Kind, by ActorKind) LeaseRule {
	switch k {
	case KindCancelRequested, KindRunTimeout, KindPolicyDenied, KindBudgetExceeded:
		return LeaseAny
	case KindWorkerLost:
		return LeaseOverruled
	case KindAttemptFailed, KindLeaseReleased, KindCancelConfirmed:
		if by == Scheduler || by == Human {
			return LeaseOverruled
		}
		return LeaseHolder
	case KindReconciliationRequired:
		if by == Scheduler {
			return LeaseAny
		}
		return LeaseHolder
	case KindLeaseAcquired, KindTimeout, KindApprovalWithdrawn:
		return LeaseNone
	}
	if s.NeedsWork() && s != Queued {
		return LeaseHolder
	}
	return LeaseNone
}
