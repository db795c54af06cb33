package policy

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"

	"signalbox/internal/fault"
	"signalbox/internal/glob"
)

// maxDocument is the largest policy document, in bytes.
const maxDocument = 256 << 10

// Problem is one thing that is wrong in a policy document.
type Problem struct {
	Line  int    `json:"line"` // 1-based; 0 where no line can be named
	Path  string `json:"path"` // "limits.lease_ttl"; empty where unknown
	Words string `json:"words"`
}

// String shows the problem as "line 3: limits.lease_ttl: …".
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Words)
	return b.String()
}

// ParseError lists every problem that was found. Its fault kind is Invalid.
type ParseError struct{ Problems []Problem }

// Error joins the problems, one a line.
func (e *ParseError) Error() string {
	words := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		words[i] = p.String()
	}
	return "policy: " + strings.Join(words, "\n")
}

// Parse reads a policy document strictly: an unknown or doubled field, a
// wrong type, an anchor, a second document or a value out of range is an
// error with its line. What a document does not name keeps its default. The
// error is a fault.Invalid that wraps a *ParseError. It is for documents that
// are stored already; a new one goes through Accept.
func Parse(doc []byte) (Rules, error) { return read(doc, nil) }

// Accept reads a document that is to be put in force: as Parse does, and it
// refuses also a whole number that is not written as one, which older versions
// took for 1 where 1.5 was meant and which stays so where it is stored, and
// what only the server's surroundings can tell. zone reports whether there is a time zone of
// the name.
func Accept(doc []byte, zone func(name string) bool) (Rules, error) { return read(doc, zone) }

func read(doc []byte, zone func(string) bool) (Rules, error) {
	if len(doc) > maxDocument {
		return Rules{}, fault.Newf(fault.TooLarge, "The policy was not stored: it is larger than %d KiB.", maxDocument>>10)
	}
	r, problems := parse(doc, zone)
	if len(problems) > 0 {
		return Rules{}, refused(problems)
	}
	return r, nil
}

func parse(doc []byte, zone func(string) bool) (r Rules, problems []Problem) {
	// The YAML library has panicked on hostile input before; a policy
	// document is input.
	defer func() {
		if p := recover(); p != nil {
			problems = []Problem{{Words: "the document is not readable YAML"}}
		}
	}()
	body, problems := plain(doc)
	if len(problems) > 0 {
		return r, problems
	}
	c := checker{line: func(path string) int { return find(body, path) }}
	if zone != nil {
		if c.whole(body, reflect.TypeFor[Rules](), ""); len(c.problems) > 0 {
			return r, c.problems
		}
	}
	r = Default()
	r.Version = ""
	dec := yaml.NewDecoder(bytes.NewReader(doc), yaml.Strict())
	if err := dec.Decode(&r); err != nil {
		return r, []Problem{syntaxProblem(err)}
	}
	c.problems = validate(r, c.line, zone != nil)
	if len(c.problems) == 0 && zone != nil && r.Budget.TimeZone != "" {
		c.ok(zone(r.Budget.TimeZone), "budget.time_zone", fmt.Sprintf("there is no time zone %q; name one such as Europe/Berlin, or leave the field out for UTC", r.Budget.TimeZone))
	}
	if len(c.problems) == 0 && zone != nil && len(r.Tests) > 0 {
		// As the document will be read once it is stored: with its rules compiled.
		c.examples(r)
	}
	return r, c.problems
}

// ChangesOf reads of a document that may not be readable as a whole how the policy may change.
func ChangesOf(doc []byte) ChangeRules {
	var said struct {
		Changes ChangeRules `yaml:"changes"`
	}
	if len(doc) > maxDocument || tooDeep(lexer.Tokenize(string(doc))) > 0 || yaml.Unmarshal(doc, &said) != nil {
		return ChangeRules{}
	}
	return said.Changes
}

func refused(problems []Problem) error {
	words := make([]string, 0, len(problems))
	for _, p := range problems {
		words = append(words, p.String())
	}
	return fault.Wrap(fault.Invalid, &ParseError{Problems: problems},
		"The policy was not stored. "+strings.Join(words, "; ")+".").WithField("document").WithCode("bad_policy")
}

// PlainYAML reads one document of fields and lists, nested no deeper than a policy may be, that means no more than it says: no anchors,
// aliases, merges or tags. The error is a *ParseError.
func PlainYAML(doc []byte) (body ast.Node, err error) {
	defer func() {
		if recover() != nil {
			body, err = nil, &ParseError{[]Problem{{Words: "the document is not readable YAML"}}}
		}
	}()
	body, problems := plain(doc)
	if len(problems) > 0 {
		return nil, &ParseError{problems}
	}
	return body, nil
}

func plain(doc []byte) (ast.Node, []Problem) {
	tokens := lexer.Tokenize(string(doc))
	if line := tooDeep(tokens); line > 0 {
		return nil, []Problem{depthProblem(line)}
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, []Problem{syntaxProblem(err)}
	}
	docs := slices.DeleteFunc(slices.Clone(file.Docs), func(d *ast.DocumentNode) bool { return d.Body == nil })
	if len(docs) != 1 {
		return nil, []Problem{{Line: 1, Words: "the file must hold exactly one YAML document"}}
	}
	body := docs[0].Body
	if body.Type() != ast.MappingType {
		return nil, []Problem{{Line: lineOf(body), Words: "it is a list of fields such as \"version: team-1\""}}
	}
	visitor := &plainVisitor{}
	ast.Walk(visitor, body)
	return body, visitor.problems
}

// plainVisitor refuses YAML that means more than it says: anchors, aliases
// and merges (which also make bombs), and tags.
type plainVisitor struct{ problems []Problem }

func (v *plainVisitor) Visit(n ast.Node) ast.Visitor {
	switch n.Type() {
	case ast.AnchorType, ast.AliasType, ast.MergeKeyType:
		v.problems = append(v.problems, Problem{Line: lineOf(n), Words: "anchors, aliases and merges are not allowed here"})
		return nil
	case ast.TagType:
		v.problems = append(v.problems, Problem{Line: lineOf(n), Words: "tags are not allowed here"})
		return nil
	case ast.NullType:
		v.problems = append(v.problems, Problem{Line: lineOf(n), Words: "a field has no value: give one or leave the field out"})
		return nil
	default:
		return v
	}
}

func syntaxProblem(err error) Problem {
	if le, ok := errors.AsType[*lineError](err); ok {
		return Problem{Line: le.line, Words: le.words}
	}
	p := Problem{Words: "the document is not readable YAML"}
	if ye, ok := errors.AsType[yaml.Error](err); ok {
		p.Words = ye.GetMessage()
		if tk := ye.GetToken(); tk != nil && tk.Position != nil {
			p.Line = tk.Position.Line
		}
	}
	return p
}

// find returns the line of a dotted path, or of its nearest parent that is
// written in the document.
func find(n ast.Node, path string) int {
	line := lineOf(n)
	for path != "" {
		if list, ok := n.(*ast.SequenceNode); ok {
			first, rest, _ := strings.Cut(path, ".")
			at, err := strconv.Atoi(first)
			if err != nil || at < 0 || at >= len(list.Values) {
				return line
			}
			n, path = list.Values[at], rest
			line = lineOf(n)
			continue
		}
		m, ok := n.(*ast.MappingNode)
		if !ok {
			return line
		}
		// A name may hold dots of its own: the longest that fits is meant.
		at, length := -1, -1
		for i, v := range m.Values {
			key := keyOf(v)
			if len(key) > length && (path == key || strings.HasPrefix(path, key+".")) {
				at, length = i, len(key)
			}
		}
		if at < 0 {
			return line
		}
		line, n = lineOf(m.Values[at].Key), m.Values[at].Value
		path = strings.TrimPrefix(path[length:], ".")
	}
	return line
}

// keyOf is a field's name without the quotes that it may be written in.
func keyOf(v *ast.MappingValueNode) string {
	if tk := v.Key.GetToken(); tk != nil {
		return tk.Value
	}
	return v.Key.String()
}

// Validate reports what is wrong with rules that were built in code.
func (r Rules) Validate() error {
	if problems := validate(r, func(string) int { return 0 }, false); len(problems) > 0 {
		return refused(problems)
	}
	return nil
}

// validate checks every value's range. Its order is that of the document.
func validate(r Rules, line func(string) int, accept bool) []Problem {
	c := checker{line: line, accept: accept}
	c.ok(r.Schema == 1, "schema", "must be 1")
	c.ok(versionShape().MatchString(r.Version), "version", "must name this version in 1 to 64 letters, digits, dots, dashes or underscores")
	c.globs("admission.repositories", r.Admission.Repositories)
	c.globs("admission.analysis_only", r.Admission.AnalysisOnly)
	c.risks("admission.risks", r.Admission.Risks)
	for _, m := range r.Admission.Modes {
		c.ok(m.Valid(), "admission.modes", fmt.Sprintf("%q is not a completion mode", m))
	}
	c.ok(len(r.Admission.Incident.Message) <= 500, "admission.incident.message", "must be at most 500 bytes")
	c.within("admission.incident.retry_after", r.Admission.Incident.RetryAfter, "1s", "1d")
	c.limits(r.Limits)
	c.ok(len(r.Retry.Delays) > 0 && len(r.Retry.Delays) <= 20, "retry.delays", "must hold 1 to 20 durations")
	for _, d := range r.Retry.Delays {
		c.within("retry.delays", d, "0s", "1d")
	}
	c.fraction("retry.jitter", r.Retry.Jitter)
	c.risks("retry.cautious", r.Retry.Cautious)
	c.risks("gates.confirm_login", r.Gates.ConfirmLogin)
	for _, k := range GateKinds() {
		c.gate("gates."+string(k), k, r.Gates.For(k))
	}
	c.fraction("judge.min_confidence", r.Judge.MinConfidence)
	c.globs("paths.forbidden", r.Paths.Forbidden)
	c.globs("paths.protected", r.Paths.Protected)
	c.ok(r.Paths.ProtectedRisk.Valid(), "paths.protected_risk", riskWords(r.Paths.ProtectedRisk))
	c.globs("paths.generated", r.Paths.Generated)
	c.globs("paths.generated_sources", r.Paths.GeneratedSources)
	c.oneOf("paths.generated_rule", string(r.Paths.GeneratedRule), string(GeneratedAllow), string(GeneratedForbid), string(GeneratedRequire))
	c.ok(r.Paths.GeneratedRule != GeneratedRequire || len(r.Paths.GeneratedSources) > 0,
		"paths.generated_rule", "require needs generated_sources: which changes must bring generated files along")
	c.oneOf("execution.min_isolation", string(r.Execution.MinIsolation), string(IsolationProcess), string(IsolationBwrap), string(IsolationContainer))
	c.oneOf("attestation.on_expiry", string(r.Attestation.OnExpiry), string(OnEscalate), string(OnFail))
	c.oneOf("approval.on_expiry", string(r.Approval.OnExpiry), string(OnEscalate), string(OnCancel), string(OnFail))
	c.oneOf("budget.on_exceeded", string(r.Budget.OnExceeded), string(OnGate), string(OnFail))
	c.admissionCounts(r)
	c.prices(r.Prices)
	c.oneOf("run_timeout.outcome", string(r.RunTimeout.Outcome), string(OnExpire), string(OnFail))
	c.routing(r.Routing)
	c.concurrency("concurrency", r.Concurrency)
	c.installation(r.Installation)
	c.rules(r.Rules)
	return c.problems
}

func versionShape() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) }

type checker struct {
	line     func(string) int
	problems []Problem
	// accept is set for a document that is to be put in force: what is stored already stays readable.
	accept bool
	// cost is what the conditions of the rules can cost together.
	cost uint64
}

func (c *checker) ok(good bool, path, words string) {
	if !good {
		c.problems = append(c.problems, Problem{Line: c.line(path), Path: path, Words: words})
	}
}

func (c *checker) oneOf(path, got string, want ...string) {
	c.ok(slices.Contains(want, got), path, fmt.Sprintf("%q is not one of %s", got, strings.Join(want, ", ")))
}

func (c *checker) fraction(path string, v float64) {
	c.ok(!math.IsNaN(v) && v >= 0 && v <= 1, path, "must be a number from 0 to 1")
}

func (c *checker) globs(path string, globs []string) {
	c.ok(len(globs) <= 1000, path, "must hold at most 1000 globs")
	for _, g := range globs {
		c.ok(glob.Valid(g) || !c.accept && doublestar.ValidatePattern(g), path, fmt.Sprintf("%.100q is not a glob, or one that would take too long to match", g))
		c.ok(!strings.HasPrefix(g, "/"), path, fmt.Sprintf("%q must not begin with a slash: paths are relative to the repository", g))
	}
}

func (c *checker) risks(path string, risks []Risk) {
	for _, r := range risks {
		c.ok(r.Valid(), path, riskWords(r))
	}
}

func riskWords(r Risk) string {
	return fmt.Sprintf("%q is not one of LOW, MEDIUM, HIGH, CRITICAL", r)
}

func (c *checker) within(path string, d Duration, lo, hi string) {
	a, errA := ParseDuration(lo)
	b, errB := ParseDuration(hi)
	c.ok(errA == nil && errB == nil && d >= a && d <= b, path, fmt.Sprintf("%s is outside %s to %s", d, lo, hi))
}

func (c *checker) gate(path string, k GateKind, g GateRule) {
	c.oneOf(path+".when", string(g.When), string(Never), string(Always), string(ByRisk))
	c.ok(g.When == Always || (k != GateBudget && k != GateReconcile), path+".when", "this gate is always asked")
	c.ok(g.When != ByRisk || len(g.Risks) > 0, path+".risks", "when: by_risk needs at least one risk")
	c.risks(path+".risks", g.Risks)
	c.ok(g.Quorum >= 1 && g.Quorum <= 10, path+".quorum", "must be from 1 to 10")
	c.oneOf(path+".role", string(g.Role), string(RoleApprover), string(RoleAdmin))
}
