package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
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
	}
	if !f.Mode.Valid() || !has(r.Admission.Modes, f.Mode) {
		deny(CodeMode, "Policy %s does not admit completion mode %s.", r.Version, quote(string(f.Mode)))
	} else if f.Mode.HasPatch() && matchAny(r.Admission.AnalysisOnly, f.Repository) {
		deny(CodeAnalysisOnly, "Policy %s allows only analysis of repository %s, and this task would change files.", r.Version, quote(f.Repository))
	}
	if !has(f.RequesterRoles, RoleRequester) {
		deny(CodeRole, "The person who asked does not hold the role requester.")
	}
	if d.Verdict == Deny {
		return d
	}
	if inc := r.Admission.Incident; inc.On {
		d.Verdict, d.Code, d.RetryAfter = Defer, CodeIncident, inc.RetryAfter
		d.Reasons = append(d.Reasons, "Incident mode is on, so no new work begins."+spaced(inc.Message))
		return d
	}
	if f.CapacityWords != "" {
		d.Verdict, d.Code, d.RetryAfter = Defer, CodeCapacity, Duration(30*time.Second)
		d.Reasons = append(d.Reasons, f.CapacityWords)
		return d
	}
	d.Limits, d.Route = r.Limits, r.Routing.Route(f)
	d.Reasons = append(d.Reasons, fmt.Sprintf("Policy %s admits a task of risk %s on repository %s.", r.Version, f.Risk, quote(f.Repository)))
	return d
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
	for _, g := range globs {
		if ok, err := doublestar.Match(g, name); err == nil && ok {
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
