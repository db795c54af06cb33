package ui

// Tone is the colour family of a status. Colour is never alone: every tone is shown with an icon and a word.
type Tone string

// The tones, named after what they mean, not after a hue.
const (
	ToneQueued    Tone = "queued"    // waiting for a machine
	ToneRunning   Tone = "running"   // a machine works
	ToneWaiting   Tone = "waiting"   // a person is expected to act
	ToneDone      Tone = "done"      // ended well
	ToneFailed    Tone = "failed"    // ended badly
	ToneCancelled Tone = "cancelled" // ended on request
	ToneExpired   Tone = "expired"   // ended by the clock
	ToneDenied    Tone = "denied"    // stopped by policy
	ToneNeutral   Tone = "neutral"   // a fact without a judgement
)

// Status is what Badge shows: a word, its tone and the icon whose shape differs per tone.
type Status struct {
	Word string
	Tone Tone
	Icon Icon
}

// toneIcon gives every tone its own silhouette, so that it is told apart without colour.
func toneIcon(t Tone) Icon {
	switch t {
	case ToneQueued:
		return IconQueued
	case ToneRunning:
		return IconRunning
	case ToneWaiting:
		return IconWaiting
	case ToneDone:
		return IconDone
	case ToneFailed:
		return IconFailed
	case ToneCancelled:
		return IconCancelled
	case ToneExpired:
		return IconExpired
	case ToneDenied:
		return IconDenied
	default:
		return IconNote
	}
}

// Of makes a status with the icon of its tone.
func Of(word string, tone Tone) Status { return Status{Word: word, Tone: tone, Icon: toneIcon(tone)} }

// RunStatus names a run's state. An unknown state is shown by its own name, so that a newer server never lies.
func RunStatus(state string) Status {
	switch state {
	case "CREATED":
		return Of("Waiting for admission", ToneQueued)
	case "QUEUED":
		return Of("Queued", ToneQueued)
	case "LEASED":
		return Of("Worker assigned", ToneRunning)
	case "PREPARING":
		return Of("Preparing sandbox", ToneRunning)
	case "CONTEXT_BUILDING":
		return Of("Reading repository", ToneRunning)
	case "PLANNING":
		return Of("Planning", ToneRunning)
	case "EXECUTING":
		return Of("Agent working", ToneRunning)
	case "PATCH_READY":
		return Of("Patch stored", ToneRunning)
	case "VERIFYING":
		return Of("Verifying", ToneRunning)
	case "JUDGING":
		return Of("Judging", ToneRunning)
	case "WAITING_FOR_APPROVAL":
		return Of("Waiting for approval", ToneWaiting)
	case "PR_CREATING":
		return Of("Opening pull request", ToneRunning)
	case "PR_CREATED":
		return Of("Pull request open", ToneDone)
	case "AWAITING_VERIFICATION":
		return Of("Waiting for attestation", ToneWaiting)
	case "CANCELLING":
		return Of("Cancelling", ToneCancelled)
	case "SUCCEEDED":
		return Of("Succeeded", ToneDone)
	case "FAILED":
		return Of("Failed", ToneFailed)
	case "CANCELLED":
		return Of("Cancelled", ToneCancelled)
	case "EXPIRED":
		return Of("Expired", ToneExpired)
	default:
		return Of(state, ToneNeutral)
	}
}

// TaskStatus names a task's state.
func TaskStatus(state string) Status {
	switch state {
	case "DRAFT":
		return Of("Draft", ToneNeutral)
	case "SUBMITTED":
		return Of("Submitted", ToneQueued)
	case "VALIDATING":
		return Of("Being checked", ToneQueued)
	case "READY":
		return Of("Ready", ToneQueued)
	case "REJECTED":
		return Of("Refused by policy", ToneDenied)
	case "RUNNING":
		return Of("Running", ToneRunning)
	case "WAITING_FOR_APPROVAL":
		return Of("Waiting for approval", ToneWaiting)
	case "COMPLETED":
		return Of("Completed", ToneDone)
	case "FAILED":
		return Of("Failed", ToneFailed)
	case "CANCELLED":
		return Of("Cancelled", ToneCancelled)
	default:
		return Of(state, ToneNeutral)
	}
}

// GateStatus names a gate's state.
func GateStatus(state string) Status {
	switch state {
	case "preparing":
		return Of("Being prepared", ToneRunning)
	case "open":
		return Of("Open", ToneWaiting)
	case "satisfied":
		return Of("Approved", ToneDone)
	case "changes_requested":
		return Of("Changes requested", ToneRunning)
	case "rejected":
		return Of("Rejected", ToneFailed)
	case "superseded":
		return Of("Superseded", ToneNeutral)
	case "expired":
		return Of("Expired", ToneExpired)
	case "cancelled":
		return Of("Closed by cancel", ToneCancelled)
	case "bypassed":
		return Of("Bypassed", ToneDenied)
	default:
		return Of(state, ToneNeutral)
	}
}

// StepStatus names a step's state.
func StepStatus(state string) Status {
	switch state {
	case "PENDING":
		return Of("Not started", ToneQueued)
	case "RUNNING":
		return Of("Running", ToneRunning)
	case "SUCCEEDED":
		return Of("Passed", ToneDone)
	case "FAILED":
		return Of("Failed", ToneFailed)
	case "TIMED_OUT":
		return Of("Timed out", ToneExpired)
	case "CANCELLED":
		return Of("Stopped", ToneCancelled)
	default:
		return Of(state, ToneNeutral)
	}
}

// AttemptStatus names an attempt's state.
func AttemptStatus(state string) Status {
	switch state {
	case "STARTED":
		return Of("In progress", ToneRunning)
	case "SUCCEEDED":
		return Of("Succeeded", ToneDone)
	case "FAILED":
		return Of("Failed", ToneFailed)
	case "ABORTED":
		return Of("Stopped", ToneCancelled)
	default:
		return Of(state, ToneNeutral)
	}
}

// WorkerStatus names a worker's state; "stale" and "lost" are computed from the heartbeat's age by the reader.
func WorkerStatus(state string) Status {
	switch state {
	case "STARTING":
		return Of("Starting", ToneQueued)
	case "READY":
		return Of("Ready", ToneDone)
	case "DRAINING":
		return Of("Draining", ToneWaiting)
	case "STOPPED":
		return Of("Stopped cleanly", ToneCancelled)
	case "STALE":
		return Of("No heartbeat", ToneExpired)
	case "DEAD":
		return Of("Lost", ToneFailed)
	default:
		return Of(state, ToneNeutral)
	}
}

// PullStatus names a pull request's state.
func PullStatus(state string) Status {
	switch state {
	case "OPEN", "UPDATED", "REVIEW_REQUESTED":
		return Of("Open", ToneRunning)
	case "CHANGES_REQUESTED":
		return Of("Changes requested", ToneWaiting)
	case "APPROVED":
		return Of("Approved", ToneDone)
	case "MERGED":
		return Of("Merged", ToneDone)
	case "CLOSED":
		return Of("Closed", ToneCancelled)
	default:
		return Of(state, ToneNeutral)
	}
}

// RiskStatus names a risk level.
func RiskStatus(level string) Status {
	switch level {
	case "LOW":
		return Status{Word: "Low risk", Tone: ToneDone, Icon: IconRiskLow}
	case "MEDIUM":
		return Status{Word: "Medium risk", Tone: ToneWaiting, Icon: IconRiskMedium}
	case "HIGH":
		return Status{Word: "High risk", Tone: ToneFailed, Icon: IconRiskHigh}
	case "CRITICAL":
		return Status{Word: "Critical risk", Tone: ToneDenied, Icon: IconRiskCritical}
	case "":
		return Status{Word: "Risk not rated", Tone: ToneNeutral, Icon: IconNote}
	default:
		return Status{Word: level, Tone: ToneNeutral, Icon: IconNote}
	}
}
