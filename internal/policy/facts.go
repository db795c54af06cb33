package policy

import "signalbox/internal/money"

// Facts are what the server established itself about one task, run and
// result. Every zero value is the cautious one: no verification, no clean
// scan, no budget, no switch. They are stored with the decision (R-FAIL-8).
type Facts struct {
	Repository     string `json:"repository,omitempty"`
	Requester      string `json:"requester,omitempty"` // user id
	RequesterRoles []Role `json:"requester_roles,omitempty"`
	Risk           Risk   `json:"risk,omitempty"`
	Mode           Mode   `json:"mode,omitempty"`

	// What the task's contract asks for.
	PlanGateAsked    bool `json:"plan_gate_asked,omitempty"`
	AutoPRAsked      bool `json:"auto_pr_asked,omitempty"`
	AttestationAsked bool `json:"attestation_asked,omitempty"`

	// What the task asks of queue and worker.
	AgentProfile string   `json:"agent_profile,omitempty"`
	Priority     int      `json:"priority,omitempty"` // -5 to 5
	Requires     []string `json:"requires,omitempty"` // capabilities, of repository and contract

	// What an installation knows at admission.
	CapacityWords string `json:"capacity_words,omitempty"` // why there is no room now; empty: there is

	// What an installation counted at admission, for the tenant and, with Own, for the requester alone.
	Queued     int   `json:"queued,omitempty"`
	Active     int   `json:"active,omitempty"`
	OpenGates  int   `json:"open_gates,omitempty"`
	OwnGates   int   `json:"own_gates,omitempty"`
	OpenPulls  int   `json:"open_pulls,omitempty"`
	OwnPulls   int   `json:"own_pulls,omitempty"`
	SpentToday int64 `json:"spent_today,omitempty"` // millionths of the currency
	// Currency is what the installation counts in; empty in records of a time before it was named.
	Currency     money.Currency `json:"currency,omitempty"`
	DayLeft      Duration       `json:"day_left,omitempty"`     // until the tenant's day is over
	NoSuchZone   bool           `json:"no_such_zone,omitempty"` // the policy's time zone is not known, so the day is that of UTC
	ProviderOff  Duration       `json:"provider_off,omitempty"`
	NoLiveWorker bool           `json:"no_live_worker,omitempty"`

	// What an installation measured at admission, where policy bounds a rate.
	ProviderTokens  int64 `json:"provider_tokens,omitempty"`  // of the route's provider, in the last minute
	ForgePulls      int   `json:"forge_pulls,omitempty"`      // opened on the repository's forge in the last hour
	RepositoryPulls int   `json:"repository_pulls,omitempty"` // open in the repository
	ArtifactBytes   int64 `json:"artifact_bytes,omitempty"`   // stored in the last minute
	WritesWaiting   int   `json:"writes_waiting,omitempty"`   // transitions that wait for the database

	// The claim.
	Phase      string    `json:"phase,omitempty"` // execute, verify, publish
	Isolation  Isolation `json:"isolation,omitempty"`
	SameWorker bool      `json:"same_worker,omitempty"` // the claimer made the patch

	// The plan.
	PlanDigest         string `json:"plan_digest,omitempty"`
	ApprovedPlanDigest string `json:"approved_plan_digest,omitempty"`

	// The result that JUDGING is about.
	Result              Result     `json:"result,omitempty"`
	VerificationPassed  bool       `json:"verification_passed,omitempty"`
	Verdict             Verdict    `json:"verdict,omitempty"`
	Confidence          float64    `json:"confidence,omitempty"` // 0 to 1
	JudgeReasons        []string   `json:"judge_reasons,omitempty"`
	SecretScan          SecretScan `json:"secret_scan,omitempty"`
	SecretFindings      []string   `json:"secret_findings,omitempty"` // rule, file and line; never the secret
	ForbiddenHits       []string   `json:"forbidden_hits,omitempty"`
	ProtectedHits       []string   `json:"protected_hits,omitempty"`
	GeneratedViolations []string   `json:"generated_violations,omitempty"`
	HiddenText          []string   `json:"hidden_text,omitempty"` // invisible or reordering characters
	// What the patch touches; the names of every file, old and new.
	Paths        []string `json:"paths,omitempty"`
	ChangedFiles int      `json:"changed_files,omitempty"`
	AddedLines   int      `json:"added_lines,omitempty"`
	RemovedLines int      `json:"removed_lines,omitempty"`

	BudgetLeft       bool   `json:"budget_left,omitempty"`
	BudgetWords      string `json:"budget_words,omitempty"`
	RepairRoundsLeft int    `json:"repair_rounds_left,omitempty"`
	AttemptsLeft     int    `json:"attempts_left,omitempty"`
	SameFailureAgain bool   `json:"same_failure_again,omitempty"`

	// CarriedApprovals counts the people whose approval of an equal patch
	// (patch id, plan and contract unchanged) on an older base still stands
	// and who may still decide today.
	CarriedApprovals int `json:"carried_approvals,omitempty"`

	// The gate that a person decides about.
	Gate GateFacts `json:"gate,omitzero"`
}

// Result is what an attempt produced.
type Result string

// Results. The zero value is treated as a patch, the strictest.
const (
	ResultPatch    Result = "patch"
	ResultReport   Result = "report"
	ResultNoChange Result = "no_change"
)

// Verdict is what the judge said.
type Verdict string

// Verdicts. Anything else counts as fail.
const (
	VerdictPass Verdict = "pass"
	VerdictFix  Verdict = "fix"
	VerdictFail Verdict = "fail"
)

// SecretScan is the state of the server's own scan of the stored patch.
type SecretScan string

// States of a scan. The zero value is NotScanned, which is never a pass.
const (
	NotScanned   SecretScan = ""
	ScanClean    SecretScan = "clean"
	ScanFindings SecretScan = "findings"
	ScanSkipped  SecretScan = "not_scanned" // too large or unreadable
)

// GateFacts describe one gate revision.
type GateFacts struct {
	Kind GateKind `json:"kind,omitempty"`
	// Contributors are the user ids of the requester, of pushers and of the
	// humans behind tokens that had a part in the change.
	Contributors []string `json:"contributors,omitempty"`
	// LastInstructor wrote the change request that led to this revision.
	LastInstructor string `json:"last_instructor,omitempty"`
	// Decisions on this revision, oldest first.
	Decisions []Decided `json:"decisions,omitempty"`
	Expired   bool      `json:"expired,omitempty"`
}

// Decided is one person's decision on a gate revision.
type Decided struct {
	User    string      `json:"user"`
	Verdict GateVerdict `json:"verdict"`
}

// GateVerdict is what a person says at a gate.
type GateVerdict string

// Verdicts of people.
const (
	Approve        GateVerdict = "approve"
	RequestChanges GateVerdict = "request_changes"
	Reject         GateVerdict = "reject"
)

// Actor is who wants to decide.
type Actor struct {
	User  string
	Roles []Role
	// LivePerson is true for a browser session or a person's own command
	// line login; never for an API or worker token (D-17).
	LivePerson bool
}
