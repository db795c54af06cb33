package policy

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"signalbox/internal/capability"
	"signalbox/internal/glob"
)

// Bounds of rules. Costs are CEL's own units, about one for each comparison or element that is looked at.
const (
	maxRules     = 200
	maxCondition = 2000 // bytes
	// maxRuleCost is the most that a condition may cost: what it can cost for work of the sizes below is checked when the
	// policy is read, and what it does cost, whatever the size of the work, while it is evaluated.
	maxRuleCost = 50_000
	// maxRulesCost bounds the sum of what the conditions of one policy can cost.
	maxRulesCost = 500_000
	mostItems    = 200 // elements of a list
	mostText     = 200 // bytes of a text
)

// program is a compiled condition. It may be evaluated by many at the same time.
type program struct {
	eval cel.Program
	// result says that the condition names a fact about a result.
	result bool
}

// matches evaluates the condition. A rule that names a result before there is one does not match; a condition that
// fails, or was never compiled, does.
func (r Rule) matches(facts map[string]any, result bool) (bool, string) {
	if r.program == nil {
		return true, r.words("it was not compiled")
	}
	if r.program.result && !result {
		return false, ""
	}
	out, _, err := r.program.eval.Eval(facts)
	if err != nil {
		return true, r.words(clipped(err.Error()))
	}
	if yes, ok := out.Value().(bool); !ok || yes {
		return true, r.words("")
	}
	return false, ""
}

func clipped(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if len(s) > 200 {
		s = s[:200]
	}
	return s
}

// rules checks every rule and compiles its condition into it.
func (c *checker) rules(rules []Rule) {
	if len(rules) == 0 {
		return
	}
	c.ok(len(rules) <= maxRules, "rules", fmt.Sprintf("must hold at most %d rules", maxRules))
	env, err := ruleEnv()
	if err != nil {
		c.ok(false, "rules", "the expression language cannot be set up: "+err.Error())
		return
	}
	names := map[string]bool{}
	for i := range rules {
		path := fmt.Sprintf("rules.%d", i)
		name := rules[i].Name
		c.ok(versionShape().MatchString(name), path+".name", "must name the rule in 1 to 64 letters, digits, dots, dashes or underscores")
		c.ok(!names[name], path+".name", fmt.Sprintf("%q is the name of an earlier rule, too", name))
		names[name] = true
		c.ok(len(rules[i].Why) <= 500, path+".why", "must be at most 500 bytes")
		c.condition(env, path+".when", &rules[i])
		c.effect(path+".then", rules[i])
	}
	c.ok(c.cost <= maxRulesCost, "rules", fmt.Sprintf("may cost %d units together, and %d are allowed", c.cost, maxRulesCost))
}

func (c *checker) effect(path string, r Rule) {
	t := r.Then
	c.ok(t.Deny || t.Risk != "" || len(t.Gates) > 0 || t.Attestation || len(t.Requires) > 0, path,
		"asks for nothing: name deny, risk, gates, attestation or requires")
	if t.Risk != "" {
		c.ok(t.Risk.Valid(), path+".risk", riskWords(t.Risk))
	}
	for _, k := range t.Gates {
		c.oneOf(path+".gates", string(k), texts(GateKinds())...)
	}
	c.ok(t.Approvals >= 0 && t.Approvals <= 10, path+".approvals", "must be from 1 to 10")
	c.ok(t.Approvals == 0 && t.Role == "" || len(t.Gates) > 0, path+".gates", "must say at which gates the approvals are asked")
	if t.Role != "" {
		c.oneOf(path+".role", string(t.Role), string(RoleApprover), string(RoleAdmin))
	}
	for _, q := range t.Requires {
		_, err := capability.ParseRequirement(q)
		c.ok(err == nil, path+".requires", fmt.Sprintf("%q is not a capability such as \"jdk >= 21\"", q))
	}
	if r.program != nil && r.program.result {
		c.ok(!has(t.Gates, GatePlan), path+".gates", "the plan is decided before there is a result, and the condition names one")
		c.ok(len(t.Requires) == 0, path+".requires", "a worker is chosen before there is a result, and the condition names one")
	}
}

// condition compiles one expression, with the line of each mistake in the document.
func (c *checker) condition(env *cel.Env, path string, r *Rule) {
	if n := len(r.When); n == 0 || n > maxCondition {
		c.ok(false, path, fmt.Sprintf("must be an expression of 1 to %d bytes", maxCondition))
		return
	}
	tree, issues := env.Compile(r.When)
	if issues.Err() != nil {
		for _, e := range issues.Errors() {
			p := Problem{Line: c.line(path), Path: path, Words: fmt.Sprintf("column %d of the expression: %s", e.Location.Column()+1, clipped(e.Message))}
			if e.Location.Line() > 1 {
				p.Words = fmt.Sprintf("line %d, %s", e.Location.Line(), p.Words)
			}
			c.problems = append(c.problems, p)
		}
		return
	}
	if !tree.OutputType().IsExactType(cel.BoolType) {
		c.ok(false, path, fmt.Sprintf("yields %s; a condition is true or false", tree.OutputType()))
		return
	}
	about, err := env.EstimateCost(tree, sizes{})
	if c.cost += about.Max; err != nil || about.Max > maxRuleCost {
		c.ok(false, path, fmt.Sprintf("may cost %d units, and %d are allowed: look at fewer lists inside of each other", about.Max, maxRuleCost))
		return
	}
	eval, err := env.Program(tree, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxRuleCost), cel.CostTracking(runtimeCost{}))
	if err != nil {
		c.ok(false, path, clipped(err.Error()))
		return
	}
	r.program = &program{eval: eval}
	for _, x := range tree.NativeRep().ReferenceMap() {
		for _, f := range RuleFacts() {
			r.program.result = r.program.result || f.Result && f.Name == x.Name
		}
	}
}

// ruleEnv knows the facts, CEL's standard functions, none of which looks at anything outside, and path.glob(pattern).
func ruleEnv() (*cel.Env, error) {
	opts := []cel.EnvOption{
		cel.Function("glob", cel.MemberOverload("string_glob", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType, cel.BinaryBinding(matchGlob))),
	}
	for _, f := range RuleFacts() {
		opts = append(opts, cel.Variable(f.Name, f.celType()))
	}
	return cel.NewEnv(opts...)
}

func matchGlob(path, pattern ref.Val) ref.Val {
	g := string(pattern.(types.String))
	if !glob.Valid(g) {
		return types.NewErr("%.100q is not a glob, or one that would take too long to match", g)
	}
	return types.Bool(glob.Match(g, string(path.(types.String))))
}

// sizes are the sizes of work for which a condition's cost is estimated.
type sizes struct{}

func (sizes) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	most := uint64(mostText)
	if t := n.Type(); t != nil && t.Kind() == types.ListKind {
		most = mostItems
	}
	return &cost.SizeEstimate{Min: 0, Max: most}
}

func (sizes) EstimateCallCost(function, _ string, _ *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	if function == "glob" {
		return cost.NewCallEstimate(cost.Estimate{Min: 1, Max: mostText / 4}, nil)
	}
	return nil
}

type runtimeCost struct{}

func (runtimeCost) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if function != "glob" || len(args) != 2 {
		return nil
	}
	n := uint64(1)
	for _, a := range args {
		if s, ok := a.(types.String); ok {
			n += uint64(len(s)) / 8
		}
	}
	return &n
}
