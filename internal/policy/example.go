package policy

import (
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/glob"
)

// Example is a piece of work with what the policy must decide about it. A document whose examples come out differently is not put
// in force.
type Example struct {
	Name   string       `yaml:"name" json:"name"`
	Facts  ExampleFacts `yaml:"facts" json:"facts"`
	Expect Expected     `yaml:"expect" json:"expect"`
}

// ExampleFacts describe the work. What is not said is as harmless as it can be: risk LOW, mode pr_created, asked by a requester, a
// result that was verified, is clean, and which the judge passed with certainty.
type ExampleFacts struct {
	Repository       string   `yaml:"repository" json:"repository,omitempty"`
	Risk             Risk     `yaml:"risk" json:"risk,omitempty"`
	Mode             Mode     `yaml:"mode" json:"mode,omitempty"`
	RequesterRoles   []Role   `yaml:"requester_roles" json:"requester_roles,omitempty"`
	AgentProfile     string   `yaml:"agent_profile" json:"agent_profile,omitempty"`
	Priority         int      `yaml:"priority" json:"priority,omitempty"`
	Requires         []string `yaml:"requires" json:"requires,omitempty"`
	PlanGateAsked    bool     `yaml:"plan_gate_asked" json:"plan_gate_asked,omitempty"`
	AutoPRAsked      bool     `yaml:"auto_pr_asked" json:"auto_pr_asked,omitempty"`
	AttestationAsked bool     `yaml:"attestation_asked" json:"attestation_asked,omitempty"`
	// Paths are those that the patch touches; ChangedFiles is how many where it is not said.
	Paths        []string `yaml:"paths" json:"paths,omitempty"`
	ChangedFiles int      `yaml:"changed_files" json:"changed_files,omitempty"`
	AddedLines   int      `yaml:"added_lines" json:"added_lines,omitempty"`
	RemovedLines int      `yaml:"removed_lines" json:"removed_lines,omitempty"`
	Verdict      Verdict  `yaml:"verdict" json:"verdict,omitempty"`
	Confidence   *float64 `yaml:"confidence" json:"confidence,omitempty"`
}

// Expected is what must come out. What is not named is not compared.
type Expected struct {
	// Admission is admit, deny or defer.
	Admission string `yaml:"admission" json:"admission,omitempty"`
	// PlanApprovals and Approvals are how many people must approve the plan and the result; 0 is nobody.
	PlanApprovals *int `yaml:"plan_approvals" json:"plan_approvals,omitempty"`
	Approvals     *int `yaml:"approvals" json:"approvals,omitempty"`
	// Role decides about the result; Risk is what the result's is counted as.
	Role        Role  `yaml:"role" json:"role,omitempty"`
	Risk        Risk  `yaml:"risk" json:"risk,omitempty"`
	Attestation *bool `yaml:"attestation" json:"attestation,omitempty"`
	// Reason stands in one of the reasons.
	Reason string `yaml:"reason" json:"reason,omitempty"`
}

// maxExamples bounds the examples of one document.
const maxExamples = 200

// facts are those of an example under its rules.
func (e Example) facts(r Rules) Facts {
	x := e.Facts
	f := Facts{Repository: x.Repository, Risk: x.Risk, Mode: x.Mode, RequesterRoles: x.RequesterRoles, Requester: "requester", AgentProfile: x.AgentProfile, Priority: x.Priority,
		Requires: x.Requires, PlanGateAsked: x.PlanGateAsked, AutoPRAsked: x.AutoPRAsked, AttestationAsked: x.AttestationAsked, Paths: x.Paths, ChangedFiles: x.ChangedFiles,
		AddedLines: x.AddedLines, RemovedLines: x.RemovedLines, Verdict: x.Verdict, Confidence: 1, VerificationPassed: true, SecretScan: ScanClean, BudgetLeft: true}
	if f.Risk == "" {
		f.Risk = RiskLow
	}
	if f.Mode == "" {
		f.Mode = ModePRCreated
	}
	if f.RequesterRoles == nil {
		f.RequesterRoles = []Role{RoleRequester}
	}
	if f.Verdict == "" {
		f.Verdict = VerdictPass
	}
	if x.Confidence != nil {
		f.Confidence = *x.Confidence
	}
	f.ChangedFiles = max(f.ChangedFiles, len(f.Paths))
	f.Result = ResultPatch
	if !f.Mode.HasPatch() {
		f.Result = ResultReport
	}
	f.ProtectedHits, f.ForbiddenHits = hits(r.Paths.Protected, f.Paths), hits(r.Paths.Forbidden, f.Paths)
	return f
}

// hits are the paths that a glob matches, without regard to case.
func hits(globs, paths []string) []string {
	var out []string
	for _, p := range paths {
		if slices.ContainsFunc(globs, func(g string) bool {
			return glob.Match(strings.ToLower(g), strings.ToLower(p))
		}) {
			out = append(out, p)
		}
	}
	return out
}

// Differs says in words what comes out otherwise than the example expects; empty where nothing does.
func (e Example) Differs(r Rules) []string {
	f := e.facts(r)
	admission, plan, judged := Admission(r, f), Plan(r, f), Judged(r, f)
	attest, _ := Attest(r, f)
	reasons := slices.Concat(admission.Reasons, plan.Reasons, judged.Reasons, judged.Gate.Reasons)
	var out []string
	differ := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	x := e.Expect
	if x.Admission != "" && !strings.EqualFold(string(x.Admission), string(admission.Verdict)) {
		differ("admission is %s and not %s: %s", strings.ToLower(string(admission.Verdict)), x.Admission, strings.Join(admission.Reasons, " "))
	}
	if x.PlanApprovals != nil && *x.PlanApprovals != plan.Quorum {
		differ("the plan needs %d approvals and not %d", plan.Quorum, *x.PlanApprovals)
	}
	if x.Approvals != nil && *x.Approvals != judged.Gate.Quorum {
		differ("the result needs %d approvals and not %d (%s)", judged.Gate.Quorum, *x.Approvals, judged.Outcome)
	}
	if x.Role != "" && x.Role != judged.Gate.Role {
		differ("the role %s decides about the result and not %s", orNobody(judged.Gate.Role), x.Role)
	}
	if x.Risk != "" && x.Risk != judged.EffectiveRisk {
		differ("the result counts as risk %s and not %s", judged.EffectiveRisk, x.Risk)
	}
	if x.Attestation != nil && *x.Attestation != attest {
		differ("an attestation is asked: %t, and not %t", attest, *x.Attestation)
	}
	if x.Reason != "" && !slices.ContainsFunc(reasons, func(w string) bool { return strings.Contains(w, x.Reason) }) {
		differ("no reason says %q; they are: %s", x.Reason, strings.Join(reasons, " "))
	}
	return out
}

func orNobody(r Role) string {
	if r == "" {
		return "of nobody"
	}
	return string(r)
}

// examples tries every example and reports what comes out otherwise, at the line of what it expects.
func (c *checker) examples(r Rules) {
	c.ok(len(r.Tests) <= maxExamples, "tests", fmt.Sprintf("there are %d examples; at most %d", len(r.Tests), maxExamples))
	if len(c.problems) > 0 {
		return
	}
	names := map[string]bool{}
	for i, e := range r.Tests {
		path := fmt.Sprintf("tests.%d", i)
		c.ok(e.Name != "" && !names[e.Name], path+".name", "every example has a name of its own")
		names[e.Name] = true
		x := e.Expect
		c.ok(x != Expected{}, path+".expect", "say what must come out")
		c.ok(slices.Contains([]string{"", "admit", "deny", "defer"}, x.Admission), path+".expect.admission", fmt.Sprintf("%q is none of admit, deny, defer", x.Admission))
		c.ok(e.Facts.Risk == "" || e.Facts.Risk.Valid(), path+".facts.risk", fmt.Sprintf("%q is no risk", e.Facts.Risk))
		c.ok(e.Facts.Mode == "" || e.Facts.Mode.Valid(), path+".facts.mode", fmt.Sprintf("%q is no completion mode", e.Facts.Mode))
	}
	if len(c.problems) > 0 {
		return
	}
	for i, e := range r.Tests {
		if words := e.Differs(r); len(words) > 0 {
			c.ok(false, fmt.Sprintf("tests.%d.expect", i), fmt.Sprintf("example %q comes out differently: %s", e.Name, strings.Join(words, "; ")))
		}
	}
}
