// Package policy owns what is allowed: typed, versioned rules and the pure
// functions that turn rules and facts into decisions with reasons in words.
// It refuses to do I/O, to look at a clock, and to believe anything that the
// caller did not establish itself: facts arrive as values.
package policy

import (
	"maps"
	"slices"
	"time"
)

// Rules is one version of a policy. Default needs no document at all; Parse
// reads one, in which every field that is not named keeps its default.
type Rules struct {
	// Schema is the format of the document; 1 is the only one so far.
	Schema int `yaml:"schema" json:"schema"`
	// Version names these rules; every decision carries it.
	Version     string           `yaml:"version" json:"version"`
	Admission   AdmissionRules   `yaml:"admission" json:"admission"`
	Limits      Limits           `yaml:"limits" json:"limits"`
	Retry       RetryRules       `yaml:"retry" json:"retry"`
	Gates       GateRules        `yaml:"gates" json:"gates"`
	Judge       JudgeRules       `yaml:"judge" json:"judge"`
	AutoPR      AutoPRRules      `yaml:"auto_pr" json:"auto_pr"`
	Paths       PathRules        `yaml:"paths" json:"paths"`
	Execution   ExecutionRules   `yaml:"execution" json:"execution"`
	Attestation AttestationRules `yaml:"attestation" json:"attestation"`
	Approval    ApprovalRules    `yaml:"approval" json:"approval"`
	Budget      BudgetRules      `yaml:"budget" json:"budget"`
	// Prices estimate the cost of calls of which the agent named none. They hold as of the day, not as of admission.
	Prices      Prices           `yaml:"prices" json:"prices,omitempty"`
	RunTimeout  RunTimeoutRules  `yaml:"run_timeout" json:"run_timeout"`
	Routing     RoutingRules     `yaml:"routing" json:"routing"`
	Concurrency ConcurrencyRules `yaml:"concurrency" json:"concurrency"`
	// Installation is read from the default tenant's policy only.
	Installation InstallationRules `yaml:"installation" json:"installation"`
	// Rules tighten all of this for work that matches them.
	Rules   []Rule      `yaml:"rules" json:"rules,omitempty"`
	Changes ChangeRules `yaml:"changes" json:"changes"`
	// Tests are examples that a document must decide as they say before it is put in force.
	Tests []Example `yaml:"tests" json:"tests,omitempty"`

	// Fired is what they made of one piece of work; only Under fills it in.
	Fired Fired `yaml:"-" json:"-"`
	// HeldTo is the version of the run's admission where that is the stricter one in something; only Within fills it in.
	HeldTo string `yaml:"-" json:"-"`
}

// AdmissionRules say which work may begin.
type AdmissionRules struct {
	// Repositories are globs over registered names; "**" is all of them.
	Repositories []string `yaml:"repositories" json:"repositories"`
	// AnalysisOnly are globs of repositories in which nothing may change:
	// only mode analysis_report_created is admitted.
	AnalysisOnly []string `yaml:"analysis_only" json:"analysis_only"`
	// Risks are the risk classes that are admitted.
	Risks []Risk `yaml:"risks" json:"risks"`
	// Modes are the completion modes that are admitted.
	Modes    []Mode        `yaml:"modes" json:"modes"`
	Incident IncidentRules `yaml:"incident" json:"incident"`
	// Quota and Reviewers put work off, they never refuse it.
	Quota     QuotaRules    `yaml:"quota" json:"quota"`
	Reviewers ReviewerRules `yaml:"reviewers" json:"reviewers"`
	Rates     RateRules     `yaml:"rates" json:"rates"`
}

// QuotaRules bound how much of the tenant's work is admitted at a time. 0: no bound.
type QuotaRules struct {
	// MaxQueued counts runs that wait for a worker, MaxActive these and those that a worker has or that are at a gate.
	MaxQueued int `yaml:"max_queued" json:"max_queued"`
	MaxActive int `yaml:"max_active" json:"max_active"`
}

// ReviewerRules keep agents from making more than people can look at. 0: no bound.
type ReviewerRules struct {
	// OpenGates and OpenPulls are of the whole tenant, the others of each requester.
	OpenGates      int `yaml:"open_gates" json:"open_gates"`
	OpenPulls      int `yaml:"open_pulls" json:"open_pulls"`
	OpenGatesOfOne int `yaml:"open_gates_of_one" json:"open_gates_of_one"`
	OpenPullsOfOne int `yaml:"open_pulls_of_one" json:"open_pulls_of_one"`
}

// RateRules keep agents from using up what others share. They put new work off while what is under way has reached a
// bound; what was admitted goes on. 0, or a provider that is not listed: no bound.
type RateRules struct {
	// ProviderTokens are tokens a minute, in and out, that the tenant uses of each model provider.
	ProviderTokens map[string]int64 `yaml:"provider_tokens" json:"provider_tokens,omitempty"`
	// ForgePulls are pull requests an hour that the tenant opens on one forge, each a handful of calls of its API.
	ForgePulls int `yaml:"forge_pulls" json:"forge_pulls,omitempty"`
	// RepositoryPulls are open pull requests of one repository, each of which keeps its CI busy.
	RepositoryPulls int `yaml:"repository_pulls" json:"repository_pulls,omitempty"`
	// ArtifactBytes are bytes a minute that the tenant's workers store.
	ArtifactBytes int64 `yaml:"artifact_bytes" json:"artifact_bytes,omitempty"`
	// WritesWaiting are transitions that wait in this server for the database.
	WritesWaiting int `yaml:"writes_waiting" json:"writes_waiting,omitempty"`
}

// Any reports whether there is a bound at all.
func (r RateRules) Any() bool {
	return len(r.ProviderTokens) > 0 || r.ForgePulls > 0 || r.RepositoryPulls > 0 || r.ArtifactBytes > 0 || r.WritesWaiting > 0
}

// IncidentRules stop new work without refusing it.
type IncidentRules struct {
	On      bool   `yaml:"on" json:"on"`
	Message string `yaml:"message" json:"message"`
	// RetryAfter is when deferred work asks again.
	RetryAfter Duration `yaml:"retry_after" json:"retry_after"`
}

// Limits are snapshotted on a run at admission and hold for its whole life.
// A count of 0 means none is allowed; there is no way to say "unlimited".
type Limits struct {
	MaxAttempts  int `yaml:"max_attempts" json:"max_attempts"`
	MaxRuns      int `yaml:"max_runs" json:"max_runs"`
	RepairRounds int `yaml:"repair_rounds" json:"repair_rounds"`   // for each attempt
	Redeliveries int `yaml:"redeliveries" json:"redeliveries"`     // for each phase
	MaxBaseMoves int `yaml:"max_base_moves" json:"max_base_moves"` // one more asks a person
	// MaxCrashes is how many workers may be lost with a run, or take it and not start, before it is
	// quarantined; such attempts use up none of MaxAttempts. 0 in limits that were stored before this
	// budget was one of its own: there they count as attempts.
	MaxCrashes int `yaml:"max_crashes" json:"max_crashes,omitempty"`
	// MaxRateLimits is how often the model's provider may ask to slow down; likewise.
	MaxRateLimits int `yaml:"max_rate_limits" json:"max_rate_limits,omitempty"`

	StartTimeout       Duration `yaml:"start_timeout" json:"start_timeout"`
	CommandTimeout     Duration `yaml:"command_timeout" json:"command_timeout"`
	StepTimeout        Duration `yaml:"step_timeout" json:"step_timeout"`
	AttemptTimeout     Duration `yaml:"attempt_timeout" json:"attempt_timeout"`
	RunTimeout         Duration `yaml:"run_timeout" json:"run_timeout"` // active time only
	QueueTimeout       Duration `yaml:"queue_timeout" json:"queue_timeout"`
	ApprovalTimeout    Duration `yaml:"approval_timeout" json:"approval_timeout"`
	AttestationTimeout Duration `yaml:"attestation_timeout" json:"attestation_timeout"`
	MaxDefer           Duration `yaml:"max_defer" json:"max_defer"`
	MaxPark            Duration `yaml:"max_park" json:"max_park"`
	MergeWait          Duration `yaml:"merge_wait" json:"merge_wait"`
	TaskIdle           Duration `yaml:"task_idle" json:"task_idle"`
	CancelGrace        Duration `yaml:"cancel_grace" json:"cancel_grace"`
	StopGrace          Duration `yaml:"stop_grace" json:"stop_grace"` // budget and time-out stops
	LeaseTTL           Duration `yaml:"lease_ttl" json:"lease_ttl"`
	Heartbeat          Duration `yaml:"heartbeat" json:"heartbeat"`

	ChangedFiles    int      `yaml:"changed_files" json:"changed_files"`
	DiffLines       int      `yaml:"diff_lines" json:"diff_lines"`   // added plus removed
	PatchBytes      int64    `yaml:"patch_bytes" json:"patch_bytes"` // of the stored patch
	AgentIterations int      `yaml:"agent_iterations" json:"agent_iterations"`
	ToolCalls       int      `yaml:"tool_calls" json:"tool_calls"`
	ShellTime       Duration `yaml:"shell_time" json:"shell_time"`
	VerifierTime    Duration `yaml:"verifier_time" json:"verifier_time"`
	// SandboxTime is how long sandboxes may stand for the run, all attempts together, and ProviderCalls how many
	// calls its agents may make; 0 in limits that were stored before they were counted: not bounded.
	SandboxTime   Duration `yaml:"sandbox_time" json:"sandbox_time,omitempty"`
	ProviderCalls int64    `yaml:"provider_calls" json:"provider_calls,omitempty"`
	TokensIn      int64    `yaml:"tokens_in" json:"tokens_in"`
	TokensOut     int64    `yaml:"tokens_out" json:"tokens_out"`
	CostCents     int64    `yaml:"cost_cents" json:"cost_cents"` // hundredths of the installation's currency
}

// RetryRules say how long a failed attempt waits before the next.
type RetryRules struct {
	// Delays are used in order; the last one repeats.
	Delays []Duration `yaml:"delays" json:"delays"`
	// Jitter is the largest fraction of a delay that is added to it, 0 to 1.
	Jitter float64 `yaml:"jitter" json:"jitter"`
	// Cautious are risks whose work is not tried again by itself where the agent's own doing failed; faults of
	// machines and networks are.
	Cautious []Risk `yaml:"cautious" json:"cautious"`
}

// When says in which cases a gate is asked.
type When string

// Values of When.
const (
	// Never: no rule asks; a guard that did not pass still does.
	Never When = "never"
	// Always: a person decides, whatever the guards say.
	Always When = "always"
	// ByRisk: a person decides for the risks listed.
	ByRisk When = "by_risk"
)

// GateRule says when one kind of gate is asked and who decides it.
type GateRule struct {
	When   When   `yaml:"when" json:"when"`
	Risks  []Risk `yaml:"risks" json:"risks"` // with when: by_risk
	Quorum int    `yaml:"quorum" json:"quorum"`
	Role   Role   `yaml:"role" json:"role"`
}

// GateRules hold the gates and the separation of duties.
type GateRules struct {
	Plan      GateRule `yaml:"plan" json:"plan"`
	Patch     GateRule `yaml:"patch" json:"patch"`
	Report    GateRule `yaml:"report" json:"report"`
	Budget    GateRule `yaml:"budget" json:"budget"`
	Reconcile GateRule `yaml:"reconcile" json:"reconcile"`
	// LastInstructorMayNotApprove keeps the author of a change request from
	// approving the next revision. Unset: on from quorum 2 (D-16).
	LastInstructorMayNotApprove *bool `yaml:"last_instructor_may_not_approve" json:"last_instructor_may_not_approve,omitempty"`
	// AnyRejectBlocks turns a reject from the end of the gate into a recorded
	// fact that blocks approval while it stands (D-17).
	AnyRejectBlocks bool `yaml:"any_reject_blocks" json:"any_reject_blocks"`
	// ConfirmLogin are the risks at which whoever approves has proven within ConfirmAge who they are (A24); none asks nobody.
	ConfirmLogin []Risk `yaml:"confirm_login" json:"confirm_login,omitempty"`
}

// JudgeRules set the threshold of the judge's confidence.
type JudgeRules struct {
	MinConfidence float64 `yaml:"min_confidence" json:"min_confidence"` // 0 to 1
}

// AutoPRRules say whether a pull request may be opened without a person. The
// task must ask for it too, and HIGH and CRITICAL risk never can.
type AutoPRRules struct {
	Allowed bool `yaml:"allowed" json:"allowed"`
}

// Generated says what may happen to generated files.
type Generated string

// Values of Generated.
const (
	GeneratedAllow   Generated = "allow"
	GeneratedForbid  Generated = "forbid"  // no change of a generated file
	GeneratedRequire Generated = "require" // a change of the sources must bring them along
)

// PathRules classify paths. Globs are doublestar globs relative to the root
// of the repository and are matched without regard to case.
type PathRules struct {
	// Forbidden paths may never change; no person can override it.
	Forbidden []string `yaml:"forbidden" json:"forbidden"`
	// Protected paths raise the risk to ProtectedRisk, so that a person looks.
	Protected     []string  `yaml:"protected" json:"protected"`
	ProtectedRisk Risk      `yaml:"protected_risk" json:"protected_risk"`
	Generated     []string  `yaml:"generated" json:"generated"`
	GeneratedRule Generated `yaml:"generated_rule" json:"generated_rule"`
	// GeneratedSources are the globs whose change brings generated files
	// along, for generated_rule: require.
	GeneratedSources []string `yaml:"generated_sources" json:"generated_sources"`
	// Symlinks and Binaries say whether a patch may contain them at all.
	// Submodules never.
	Symlinks bool `yaml:"symlinks" json:"symlinks"`
	Binaries bool `yaml:"binaries" json:"binaries"`
}

// ExecutionRules say where work may run.
type ExecutionRules struct {
	MinIsolation Isolation `yaml:"min_isolation" json:"min_isolation"`
	// SameWorkerMayVerify lets the worker identity that made a patch verify
	// it. On one machine there is no other; the page says so.
	SameWorkerMayVerify bool `yaml:"same_worker_may_verify" json:"same_worker_may_verify"`
}

// AttestationRules ask for a signed statement of somebody else.
type AttestationRules struct {
	Required bool `yaml:"required" json:"required"`
	// OnExpiry is escalate or fail.
	OnExpiry Outcome `yaml:"on_expiry" json:"on_expiry"`
}

// ApprovalRules say what happens to a gate that nobody decided.
type ApprovalRules struct {
	// OnExpiry is escalate, cancel or fail.
	OnExpiry Outcome `yaml:"on_expiry" json:"on_expiry"`
}

// BudgetRules say what happens when a limit on spending is reached.
type BudgetRules struct {
	// OnExceeded is gate or fail.
	OnExceeded Outcome `yaml:"on_exceeded" json:"on_exceeded"`
	// DailyCents is what the tenant may spend on models in one day, reported and estimated cost together, before new
	// work waits for the next; 0: no bound. Hundredths of the installation's currency.
	DailyCents int64 `yaml:"daily_cents" json:"daily_cents"`
	// TimeZone says when a day ends, such as Asia/Jakarta; empty: UTC.
	TimeZone string `yaml:"time_zone" json:"time_zone"`
}

// RunTimeoutRules say how a run ends whose active time is spent.
type RunTimeoutRules struct {
	// Outcome is expire or fail.
	Outcome Outcome `yaml:"outcome" json:"outcome"`
}

// For returns the rule for one kind of gate. Budget and reconcile gates are
// always asked when the run comes to them.
func (g GateRules) For(kind GateKind) GateRule {
	switch kind {
	case GatePlan:
		return g.Plan
	case GatePatch:
		return g.Patch
	case GateReport:
		return g.Report
	case GateBudget:
		return g.Budget
	default:
		return g.Reconcile
	}
}

// Delay returns how long to wait before try number n (1 is the first retry).
// dice is a random number from 0 to 1 that the caller drew: this package has
// no randomness. R-FAIL-3.
func (r RetryRules) Delay(n int, dice float64) time.Duration {
	if len(r.Delays) == 0 {
		return 0
	}
	base := r.Delays[min(max(n, 1), len(r.Delays))-1].Std()
	return base + time.Duration(float64(base)*r.Jitter*min(max(dice, 0), 1))
}

// Clone returns a copy that shares nothing with r.
func (r Rules) Clone() Rules {
	a := &r.Admission
	a.Repositories, a.AnalysisOnly = slices.Clone(a.Repositories), slices.Clone(a.AnalysisOnly)
	a.Risks, a.Modes = slices.Clone(a.Risks), slices.Clone(a.Modes)
	a.Rates.ProviderTokens = maps.Clone(a.Rates.ProviderTokens)
	r.Retry.Delays, r.Retry.Cautious = slices.Clone(r.Retry.Delays), slices.Clone(r.Retry.Cautious)
	for _, g := range []*GateRule{&r.Gates.Plan, &r.Gates.Patch, &r.Gates.Report, &r.Gates.Budget, &r.Gates.Reconcile} {
		g.Risks = slices.Clone(g.Risks)
	}
	r.Gates.ConfirmLogin = slices.Clone(r.Gates.ConfirmLogin)
	if b := r.Gates.LastInstructorMayNotApprove; b != nil {
		r.Gates.LastInstructorMayNotApprove = new(*b)
	}
	r.Routing, r.Concurrency, r.Installation = r.Routing.clone(), r.Concurrency.clone(), r.Installation.clone()
	r.Prices = r.Prices.clone()
	r.Rules = slices.Clone(r.Rules)
	r.Tests = slices.Clone(r.Tests)
	p := &r.Paths
	p.Forbidden, p.Protected = slices.Clone(p.Forbidden), slices.Clone(p.Protected)
	p.Generated, p.GeneratedSources = slices.Clone(p.Generated), slices.Clone(p.GeneratedSources)
	return r
}
