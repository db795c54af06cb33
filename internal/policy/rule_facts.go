package policy

import "cel.dev/cel-go/cel"

// RuleFact is one name that the condition of a rule may use.
type RuleFact struct {
	Name string
	// Type is string, int, bool, double or list(string).
	Type string
	// Result says that it is about a result: a rule that names it is asked from the judge on and not before.
	Result bool
	// About is one sentence for people.
	About string

	of func(Facts) any
}

// Of is the fact's value for one piece of work.
func (x RuleFact) Of(f Facts) any { return x.of(f) }

const (
	ofString = "string"
	ofInt    = "int"
	ofBool   = "bool"
	ofDouble = "double"
	ofList   = "list(string)"
)

// RuleFacts lists every name that a rule may use; docs/policy.md has a row for each.
func RuleFacts() []RuleFact {
	return []RuleFact{
		{"repository", ofString, false, "the repository's registered name", func(f Facts) any { return f.Repository }},
		{"requester", ofString, false, "the id of the person who asked", func(f Facts) any { return f.Requester }},
		{"requester_roles", ofList, false, "the roles of that person today", func(f Facts) any { return texts(f.RequesterRoles) }},
		{"risk", ofString, false, "LOW, MEDIUM, HIGH or CRITICAL, as the task says", func(f Facts) any { return string(f.Risk) }},
		{"mode", ofString, false, "the task's completion mode", func(f Facts) any { return string(f.Mode) }},
		{"agent_profile", ofString, false, "the agent profile that the task names", func(f Facts) any { return f.AgentProfile }},
		{"priority", ofInt, false, "from -5 to 5", func(f Facts) any { return int64(f.Priority) }},
		{"requires", ofList, false, "capabilities that repository and task ask of a worker", func(f Facts) any { return f.Requires }},
		{"plan_gate_asked", ofBool, false, "the task asks that a person approves the plan", func(f Facts) any { return f.PlanGateAsked }},
		{"auto_pr_asked", ofBool, false, "the task asks for a pull request without a person", func(f Facts) any { return f.AutoPRAsked }},
		{"attestation_asked", ofBool, false, "the task asks for an attestation", func(f Facts) any { return f.AttestationAsked }},
		{"result", ofString, true, "patch, report or no_change", func(f Facts) any { return string(f.Result) }},
		{"paths", ofList, true, "the paths that the patch touches, old and new names", func(f Facts) any { return f.Paths }},
		{"changed_files", ofInt, true, "how many files the patch touches", func(f Facts) any { return int64(f.ChangedFiles) }},
		{"added_lines", ofInt, true, "lines that the patch adds", func(f Facts) any { return int64(f.AddedLines) }},
		{"removed_lines", ofInt, true, "lines that the patch removes", func(f Facts) any { return int64(f.RemovedLines) }},
		{"protected_paths", ofList, true, "those of the paths that `paths.protected` matches", func(f Facts) any { return f.ProtectedHits }},
		{"verdict", ofString, true, "the judge's verdict: pass, fix or fail", func(f Facts) any { return string(f.Verdict) }},
		{"confidence", ofDouble, true, "the judge's confidence, from 0 to 1", func(f Facts) any { return f.Confidence }},
	}
}

// Asked is what the rules are asked with about this work, for the log: whoever reads it later can ask the same rules again.
// Nil where there are none.
func (r Rules) Asked(f Facts) *Facts {
	if len(r.Rules) == 0 {
		return r.Fired.Asked
	}
	return &Facts{Repository: f.Repository, Requester: f.Requester, RequesterRoles: f.RequesterRoles, Risk: f.Risk, Mode: f.Mode,
		AgentProfile: f.AgentProfile, Priority: f.Priority, Requires: f.Requires,
		PlanGateAsked: f.PlanGateAsked, AutoPRAsked: f.AutoPRAsked, AttestationAsked: f.AttestationAsked,
		Result: f.Result, Paths: f.Paths, ChangedFiles: f.ChangedFiles, AddedLines: f.AddedLines, RemovedLines: f.RemovedLines,
		ProtectedHits: f.ProtectedHits, Verdict: f.Verdict, Confidence: f.Confidence}
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// ruleFacts are the facts under the names that rules use.
func ruleFacts(f Facts) map[string]any {
	all := RuleFacts()
	out := make(map[string]any, len(all))
	for _, x := range all {
		out[x.Name] = x.of(f)
	}
	return out
}

func (x RuleFact) celType() *cel.Type {
	switch x.Type {
	case ofInt:
		return cel.IntType
	case ofBool:
		return cel.BoolType
	case ofDouble:
		return cel.DoubleType
	case ofList:
		return cel.ListType(cel.StringType)
	default:
		return cel.StringType
	}
}
