package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/internal/glob"
)

// AdmissionVerdict is the answer to "may this work begin?".
type AdmissionVerdict string

// Verdicts of admission.
const (
	Admit AdmissionVerdict = "ADMIT"
	Deny  AdmissionVerdict = "DENY"
	Defer AdmissionVerdict = "DEFER"
)

// Codes of admission and of claims, stable words for machines.
const (
	CodeAdmitted      = "ADMITTED"
	CodeRepository    = "REPOSITORY_NOT_ALLOWED"
	CodeAnalysisOnly  = "REPOSITORY_ANALYSIS_ONLY"
	CodeRisk          = "RISK_NOT_ALLOWED"
	CodeMode          = "MODE_NOT_ALLOWED"
	CodeRole          = "REQUESTER_NOT_ALLOWED"
	CodeIncident      = "INCIDENT_MODE"
	CodeCapacity      = "NO_CAPACITY"
	CodeDailyBudget   = "TENANT_DAILY_MODEL_BUDGET_EXCEEDED"
	CodeQueueQuota    = "TENANT_QUEUE_FULL"
	CodeActiveQuota   = "TENANT_ACTIVE_FULL"
	CodeReviewers     = "REVIEWERS_BUSY"
	CodeProviderOff   = "PROVIDER_PARKED"
	CodeProviderRate  = "PROVIDER_TOKENS"
	CodeForgeRate     = "FORGE_QUOTA"
	CodeRepositoryCI  = "REPOSITORY_CI_BUSY"
	CodeArtifactRate  = "ARTIFACT_BANDWIDTH"
	CodeWrites        = "DATABASE_BUSY"
	CodeIsolation     = "ISOLATION_TOO_WEAK"
	CodeSameWorker    = "SAME_WORKER"
	CodeClaimAccepted = "CLAIM_ACCEPTED"
)

// AdmissionDecision is what Admission answers. Limits and Route are those
// to snapshot on the run when the verdict is ADMIT.
type AdmissionDecision struct {
	Verdict       AdmissionVerdict `json:"verdict"`
	Code          string           `json:"code"`
	Reasons       []string         `json:"reasons"`
	RetryAfter    Duration         `json:"retry_after,omitempty"`
	Limits        Limits           `json:"limits"`
	Route         Route            `json:"route"`
	PolicyVersion string           `json:"policy_version"`
}

// Admission decides whether work may begin: at submission, at admission, and
// again (with the policy of the day) at a claim and before an outside effect.
// A refusal names every reason, not only the first. R-ADM-1, R-ADM-4.
func Admission(r Rules, f Facts) AdmissionDecision {
	r = r.Under(f)
	// Lists of risks are no thresholds: where a rule raised the risk, what holds for the risk of before holds, too.
	asked := f
	f.Risk = r.risk(f.Risk)
	d := AdmissionDecision{Verdict: Admit, Code: CodeAdmitted, Reasons: []string{}, PolicyVersion: r.Version}
	deny := func(code, format string, args ...any) {
		if d.Verdict != Deny {
			d.Verdict, d.Code = Deny, code
		}
		d.Reasons = append(d.Reasons, fmt.Sprintf(format, args...))
	}
	if !matchAny(r.Admission.Repositories, f.Repository) {
		deny(CodeRepository, "Policy %s does not allow work on repository %s.", r.Version, quote(f.Repository))
	}
	if !f.Risk.Valid() || !has(r.Admission.Risks, f.Risk) {
		deny(CodeRisk, "Policy %s does not admit tasks of risk %s.", r.Version, quote(string(f.Risk)))
	} else if !has(r.Admission.Risks, asked.Risk) {
		deny(CodeRisk, "Policy %s does not admit tasks of risk %s, and that a rule raises it to %s changes nothing.", r.Version, quote(string(asked.Risk)), f.Risk)
	}
	if !f.Mode.Valid() || !has(r.Admission.Modes, f.Mode) {
		deny(CodeMode, "Policy %s does not admit completion mode %s.", r.Version, quote(string(f.Mode)))
	} else if f.Mode.HasPatch() && matchAny(r.Admission.AnalysisOnly, f.Repository) {
		deny(CodeAnalysisOnly, "Policy %s allows only analysis of repository %s, and this task would change files.", r.Version, quote(f.Repository))
	}
	if !has(f.RequesterRoles, RoleRequester) {
		deny(CodeRole, "The person who asked does not hold the role requester.")
	}
	for _, words := range r.Fired.Denied {
		deny(CodeRule, "%s", words)
	}
	if d.Verdict == Deny {
		return d
	}
	if inc := r.Admission.Incident; inc.On {
		d.Verdict, d.Code, d.RetryAfter = Defer, CodeIncident, inc.RetryAfter
		d.Reasons = append(d.Reasons, "Incident mode is on, so no new work begins."+spaced(inc.Message))
		return d
	}
	if code, words, after := r.putOff(f); code != "" {
		d.Verdict, d.Code, d.RetryAfter = Defer, code, after
		d.Reasons = append(d.Reasons, words)
		return d
	}
	d.Limits, d.Route = r.Limits, r.Routing.Route(f)
	d.Route.Requires = slices.Concat(d.Route.Requires, r.Fired.Requires)
	if asked.Risk != f.Risk {
		d.Route.Requires = slices.Concat(d.Route.Requires, r.Routing.Route(asked).Requires)
	}
	slices.Sort(d.Route.Requires)
	d.Route.Requires = slices.Compact(d.Route.Requires)
	d.Route.Isolation, d.Route.OtherWorker = r.Execution.MinIsolation, !r.Execution.SameWorkerMayVerify
	d.Reasons = append(d.Reasons, fmt.Sprintf("Policy %s admits a task of risk %s on repository %s.", r.Version, f.Risk, quote(f.Repository)))
	d.Reasons = append(d.Reasons, r.Fired.Words...)
	if f.NoLiveWorker {
		d.Reasons = append(d.Reasons, "No worker is there at this moment; the run waits for one.")
	}
	return d
}

// lookAgain is when work that waits for room is looked at again; room comes at any time.
const lookAgain = Duration(30 * time.Second)

// putOff says why allowed work does not begin yet, in words with the numbers, and when to ask again.
func (r Rules) putOff(f Facts) (code, words string, after Duration) {
	if most := r.Budget.DailyCents; most > 0 && f.SpentToday >= most*10_000 {
		words := fmt.Sprintf("The tenant spent %s of %s today; policy %s begins new work tomorrow, in %s.",
			f.Currency.Of(f.SpentToday), f.Currency.OfCents(most), r.Version, f.DayLeft.Std().Round(time.Minute))
		if f.NoSuchZone {
			words += fmt.Sprintf(" The day is that of UTC, because there is no time zone %q; a new version of the policy can name another.", r.Budget.TimeZone)
		}
		return CodeDailyBudget, words, max(f.DayLeft, Duration(time.Second))
	}
	if f.ProviderOff > 0 {
		provider := r.Routing.Route(f).Provider
		return CodeProviderOff, fmt.Sprintf("The model provider %s asked to slow down; it is tried again in %s.", provider, f.ProviderOff.Std().Round(time.Second)), max(f.ProviderOff, Duration(time.Second))
	}
	for _, c := range slices.Concat(r.counts(f), r.rates(f)) {
		if c.most > 0 && c.have >= c.most {
			return c.code, fmt.Sprintf("%d %s; policy %s allows %d before new work begins.", c.have, c.what, r.Version, c.most), lookAgain
		}
	}
	if f.CapacityWords != "" {
		return CodeCapacity, f.CapacityWords, lookAgain
	}
	return "", "", 0
}

// count is something that puts work off while there is as much of it as policy allows.
type count struct {
	code       string
	have, most int64
	what       string
}

func (r Rules) counts(f Facts) []count {
	q, v := r.Admission.Quota, r.Admission.Reviewers
	return []count{
		{CodeQueueQuota, int64(f.Queued), int64(q.MaxQueued), "runs of the tenant wait for a worker"},
		{CodeActiveQuota, int64(f.Active), int64(q.MaxActive), "runs of the tenant are under way"},
		{CodeReviewers, int64(f.OpenGates), int64(v.OpenGates), "decisions of the tenant wait for a person"},
		{CodeReviewers, int64(f.OwnGates), int64(v.OpenGatesOfOne), "decisions about this requester's work wait for a person"},
		{CodeReviewers, int64(f.OpenPulls), int64(v.OpenPulls), "pull requests of the tenant are open"},
		{CodeReviewers, int64(f.OwnPulls), int64(v.OpenPullsOfOne), "pull requests of this requester are open"},
	}
}

// Bound is something of a whole tenant that puts new work off while there is as much of it as policy allows.
type Bound struct {
	Words string
	// Path is where the policy says it.
	Path       string
	Have, Most int64 // Most 0: no bound
}

// Bounds are those of a tenant's counts, in the order in which they put work off.
func Bounds(r Rules, f Facts) []Bound {
	q, v := r.Admission.Quota, r.Admission.Reviewers
	return []Bound{
		{"Runs that wait for a worker", "admission.quota.max_queued", int64(f.Queued), int64(q.MaxQueued)},
		{"Runs that are under way", "admission.quota.max_active", int64(f.Active), int64(q.MaxActive)},
		{"Decisions that wait for a person", "admission.reviewers.open_gates", int64(f.OpenGates), int64(v.OpenGates)},
		{"Pull requests that are open", "admission.reviewers.open_pulls", int64(f.OpenPulls), int64(v.OpenPulls)},
	}
}

// rates are what agents share with others (R-Q-11).
func (r Rules) rates(f Facts) []count {
	x := r.Admission.Rates
	if !x.Any() {
		return nil
	}
	provider := r.Routing.Route(f).Provider
	return []count{
		{CodeProviderRate, f.ProviderTokens, x.ProviderTokens[provider], "tokens of provider " + provider + " were used in the last minute"},
		{CodeForgeRate, int64(f.ForgePulls), int64(x.ForgePulls), "pull requests were opened on this forge in the last hour"},
		{CodeRepositoryCI, int64(f.RepositoryPulls), int64(x.RepositoryPulls), "pull requests of this repository are open, each with its CI"},
		{CodeArtifactRate, f.ArtifactBytes, x.ArtifactBytes, "bytes of artifacts were stored in the last minute"},
		{CodeWrites, int64(f.WritesWaiting), int64(x.WritesWaiting), "transitions wait for the database"},
	}
}

// ClaimDecision says whether one worker may take one queue item.
type ClaimDecision struct {
	Allowed       bool     `json:"allowed"`
	Code          string   `json:"code"`
	Reasons       []string `json:"reasons"`
	PolicyVersion string   `json:"policy_version"`
}

// Claim decides whether the worker described by f.Isolation and f.SameWorker
// may take an item of f.Phase. A refusal leaves the item for another worker;
// it says nothing about the run. The publisher runs no code of the change, so
// its isolation is not asked. R-ATT-1.
func Claim(r Rules, f Facts) ClaimDecision {
	d := ClaimDecision{Allowed: true, Code: CodeClaimAccepted, Reasons: []string{}, PolicyVersion: r.Version}
	if f.Phase != "publish" && f.Isolation.Rank() < r.Execution.MinIsolation.Rank() {
		d.Allowed, d.Code = false, CodeIsolation
		d.Reasons = append(d.Reasons, fmt.Sprintf(
			"Policy %s asks for isolation %s or stronger; this worker offers %s.", r.Version, r.Execution.MinIsolation, quote(string(f.Isolation))))
	}
	if f.Phase == "verify" && f.SameWorker {
		if !r.Execution.SameWorkerMayVerify {
			d.Allowed, d.Code = false, CodeSameWorker
			d.Reasons = append(d.Reasons, fmt.Sprintf(
				"Policy %s asks that another worker verifies than the one that made the patch.", r.Version))
		} else {
			d.Reasons = append(d.Reasons, fmt.Sprintf(
				"Same worker: the one that made the patch verifies it, in a fresh checkout and sandbox; policy %s allows that.", r.Version))
		}
	}
	return d
}

func matchAny(globs []string, name string) bool {
	if name == "" {
		return false
	}
	return slices.ContainsFunc(globs, func(g string) bool { return glob.Match(g, name) })
}

// anyFrom reports whether a list names a risk from one to another. Something that raises the risk of work takes no gate away by it.
func anyFrom(list []Risk, from, to Risk) bool {
	for _, r := range list {
		if r.Rank() >= from.Rank() && r.Rank() <= to.Rank() {
			return true
		}
	}
	return false
}

func has[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// quote shows untrusted text on one line, without control characters.
func quote(s string) string {
	if s == "" {
		return "(none)"
	}
	return fmt.Sprintf("%q", s)
}

func spaced(s string) string {
	if s = strings.TrimSpace(s); s == "" {
		return ""
	}
	return " " + s
}
