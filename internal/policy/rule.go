package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Rule tightens the policy for work that matches its condition. It cannot loosen anything: there is no effect that
// could, and a rule whose condition cannot be evaluated counts as matched.
type Rule struct {
	// Name is how reasons and pages call it.
	Name string `yaml:"name" json:"name"`
	// When is a CEL expression over the facts of RuleFacts that yields true or false.
	When string `yaml:"when" json:"when"`
	// Why is a sentence for people, shown with every decision that the rule had a part in.
	Why  string  `yaml:"why" json:"why,omitempty"`
	Then Tighten `yaml:"then" json:"then"`

	program *program
}

// Tighten is what a rule asks beyond the rest of the policy.
type Tighten struct {
	// Deny refuses the work: before its run begins, at every claim, after the judge and before anything goes out.
	Deny bool `yaml:"deny" json:"deny,omitempty"`
	// Risk is the least risk that the work counts with.
	Risk Risk `yaml:"risk" json:"risk,omitempty"`
	// Gates are kinds of gates at which a person is asked whatever else holds; Approvals and Role are for them.
	Gates []GateKind `yaml:"gates" json:"gates,omitempty"`
	// Approvals is the least number of approvals, 0 where only the gate is asked for.
	Approvals int `yaml:"approvals" json:"approvals,omitempty"`
	// Role is the role that decides; admin is the stricter one.
	Role Role `yaml:"role" json:"role,omitempty"`
	// Attestation asks that somebody else attests the result.
	Attestation bool `yaml:"attestation" json:"attestation,omitempty"`
	// Requires are capabilities that a worker must offer beyond those of task, repository and queue.
	Requires []string `yaml:"requires" json:"requires,omitempty"`
}

// Fired is what the rules made of one piece of work. The zero value is that of a policy without rules.
type Fired struct {
	// Words say each rule that matched and what it asks.
	Words []string
	// Denied are those of them that refuse the work, Risen those that raise its risk to Floor.
	Denied, Risen []string
	Floor         Risk
	// Requires are capabilities that a worker must offer beyond what else is asked.
	Requires []string
	// Asked is what the rules were asked with; nil where there are none.
	Asked *Facts
}

// CodeRule says that one of the policy's own rules refused the work.
const CodeRule = "DENIED_BY_RULE"

// Under returns the rules as they hold for exactly this work: every rule that matches the facts has had its effect, and
// no rule is left to be evaluated. Rules that name a fact about the result wait for one (Facts.Result).
func (r Rules) Under(f Facts) Rules {
	if len(r.Rules) == 0 {
		return r
	}
	facts := ruleFacts(f)
	all := r.Rules
	r.Fired = Fired{Asked: r.Asked(f)}
	r.Rules = nil
	for _, rule := range all {
		matched, words := rule.matches(facts, f.Result != "")
		if matched {
			r.tighten(rule, words)
		}
	}
	return r
}

// NeedsResult reports whether a rule asks for what is known of a stored patch only.
func (r Rules) NeedsResult() bool {
	return slices.ContainsFunc(r.Rules, func(x Rule) bool { return x.program == nil || x.program.result })
}

// tighten gives a rule that matched its effect. Whatever it does to r, r asks at least what it asked before.
func (r *Rules) tighten(rule Rule, words string) {
	t := rule.Then
	r.Fired.Words = append(r.Fired.Words, words)
	if t.Deny {
		r.Fired.Denied = append(r.Fired.Denied, words)
	}
	if t.Risk != "" {
		r.Fired.Risen = append(r.Fired.Risen, words)
		if r.Fired.Floor == "" || t.Risk.Rank() > r.Fired.Floor.Rank() {
			r.Fired.Floor = t.Risk
		}
	}
	for _, kind := range t.Gates {
		g := r.Gates.at(kind)
		g.When, g.Quorum = Always, max(g.Quorum, t.Approvals)
		g.Role = stricterRole(g.Role, t.Role)
	}
	r.Attestation.Required = r.Attestation.Required || t.Attestation
	r.Fired.Requires = append(r.Fired.Requires, t.Requires...)
}

// stricterRole is admin where one of the two is, so that a rule cannot give a decision back to more people.
func stricterRole(a, b Role) Role {
	if b == RoleAdmin {
		return b
	}
	return a
}

func (g *GateRules) at(kind GateKind) *GateRule {
	switch kind {
	case GatePlan:
		return &g.Plan
	case GatePatch:
		return &g.Patch
	case GateReport:
		return &g.Report
	case GateBudget:
		return &g.Budget
	default:
		return &g.Reconcile
	}
}

// risk is the risk that work counts with before anything of its result is known.
func (r Rules) risk(of Risk) Risk {
	if floor := r.Fired.Floor; floor != "" && floor.Rank() > of.Rank() {
		return floor
	}
	return of
}

// words says in a sentence that the rule matched; failure is why it could not be evaluated, or empty.
func (r Rule) words(failure string) string {
	said := fmt.Sprintf("Rule %s applies.", quote(r.Name))
	if failure != "" {
		said = fmt.Sprintf("Rule %s could not be evaluated (%s), so it counts as matched.", quote(r.Name), failure)
	}
	return said + spaced(r.Why) + spaced(r.Then.words())
}

// words names the effects.
func (t Tighten) words() string {
	var asks []string
	if t.Deny {
		asks = append(asks, "the work is refused")
	}
	if t.Risk != "" {
		asks = append(asks, "the risk counts as at least "+string(t.Risk))
	}
	for _, kind := range t.Gates {
		ask := fmt.Sprintf("a person decides about the %s", kind)
		if t.Approvals > 1 {
			ask = fmt.Sprintf("%d people approve the %s", t.Approvals, kind)
		}
		if t.Role != "" {
			ask += " with the role " + string(t.Role)
		}
		asks = append(asks, ask)
	}
	if t.Attestation {
		asks = append(asks, "somebody else attests the result")
	}
	if len(t.Requires) > 0 {
		asks = append(asks, "the worker offers "+strings.Join(t.Requires, ", "))
	}
	return "It asks: " + strings.Join(asks, "; ") + "."
}
