package policy_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/fault"
	"signalbox/internal/policy"
)

// ruled is the rules of good with a document's rules.
func ruled(t testing.TB, rules string) (policy.Rules, policy.Facts) {
	t.Helper()
	r, err := policy.Accept([]byte("version: p-9\nauto_pr: {allowed: true}\n"+rules), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	_, f := good()
	return r, f
}

// R-ADM-1 R-ADM-4: each effect of a rule, at the decision that it is about, with the rule's name and reason in the words.
func TestRulesTighten(t *testing.T) {
	t.Parallel()
	const why = "\n    why: Because of the auditors.\n"
	t.Run("deny at admission", func(t *testing.T) {
		t.Parallel()
		r, f := ruled(t, "rules:\n  - name: no-shop\n    when: repository.startsWith(\"acme/\")"+why+"    then: {deny: true}\n")
		d := policy.Admission(r, f)
		if d.Verdict != policy.Deny || d.Code != policy.CodeRule || !strings.Contains(d.Reasons[0], `"no-shop"`) || !strings.Contains(d.Reasons[0], "auditors") {
			t.Errorf("%+v", d)
		}
		f.Repository = "other/shop"
		if d := policy.Admission(r, f); d.Verdict != policy.Admit {
			t.Errorf("the rule does not match, and the answer is %+v", d)
		}
	})
	t.Run("risk asks about the plan", func(t *testing.T) {
		t.Parallel()
		r, f := ruled(t, "rules:\n  - name: shop-is-risky\n    when: repository == \"acme/shop\""+why+"    then: {risk: HIGH}\n")
		if d := policy.Plan(r, f); !d.Gate || !strings.Contains(strings.Join(d.Reasons, " "), "shop-is-risky") {
			t.Errorf("%+v", d)
		}
		if d := policy.Judged(r, f); d.Outcome != policy.OutcomeGate || d.EffectiveRisk != policy.RiskHigh {
			t.Errorf("%+v", d)
		}
	})
	t.Run("approvals and role by path", func(t *testing.T) {
		t.Parallel()
		r, f := ruled(t, "rules:\n  - name: migrations\n    when: paths.exists(p, p.glob(\"db/**\"))"+why+"    then: {gates: [patch], approvals: 2, role: admin}\n")
		if d := policy.Judged(r, f); d.Outcome != policy.OutcomeAutoPR {
			t.Fatalf("no path matches: %+v", d)
		}
		f.Paths = []string{"README.md", "db/x.sql"}
		d := policy.Judged(r, f)
		if d.Outcome != policy.OutcomeGate || d.Gate.Quorum != 2 || d.Gate.Role != policy.RoleAdmin {
			t.Errorf("%+v", d)
		}
		f.Gate = policy.GateFacts{Kind: policy.GatePatch, Decisions: []policy.Decided{{User: "a", Verdict: policy.Approve}}}
		if c := policy.Count(r, f); c.Needed != 2 || c.Satisfied {
			t.Errorf("%+v", c)
		}
		if ok, _ := policy.MayDecide(r, f, policy.Actor{User: "b", LivePerson: true, Roles: []policy.Role{policy.RoleApprover}}, policy.Approve); ok {
			t.Error("an approver decided where the rule asks for an admin")
		}
	})
	t.Run("deny after the judge", func(t *testing.T) {
		t.Parallel()
		r, f := ruled(t, "rules:\n  - name: small-only\n    when: changed_files > 3"+why+"    then: {deny: true}\n")
		if d := policy.Admission(r, policy.Facts{Repository: "a", Risk: policy.RiskLow, Mode: policy.ModePRCreated, RequesterRoles: f.RequesterRoles}); d.Verdict != policy.Admit {
			t.Errorf("a rule about the result was asked before there was one: %+v", d)
		}
		f.ChangedFiles = 4
		if d := policy.Judged(r, f); d.Outcome != policy.OutcomeFail || d.Code != policy.CodeRule {
			t.Errorf("%+v", d)
		}
	})
	t.Run("attestation and capabilities", func(t *testing.T) {
		t.Parallel()
		r, f := ruled(t, "rules:\n  - name: both\n    when: agent_profile == \"\""+why+"    then: {attestation: true, requires: [\"jdk >= 21\"]}\n")
		if ask, _ := policy.Attest(r, f); !ask {
			t.Error("no attestation")
		}
		if d := policy.Admission(r, f); !slices.Contains(d.Route.Requires, "jdk >= 21") {
			t.Errorf("%+v", d.Route)
		}
	})
}

// A condition that fails while it is evaluated counts as matched and says so; it never loosens.
func TestRuleThatFailsTightens(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]string{
		"index": `requires[3] == "x"`, "division": `1 / priority == 2`,
		// It is within the estimate for work of usual size, and is stopped for a patch that is far larger.
		"cost": `paths.exists(p, p.glob("a/*/b") || p.contains("zzz"))`,
	} {
		r, f := ruled(t, "rules:\n  - name: odd\n    when: '"+when+"'\n    then: {gates: [patch]}\n")
		for range 60_000 {
			f.Paths = append(f.Paths, "some/rather/long/path/of/a/file.go")
		}
		d := policy.Judged(r, f)
		if words := strings.Join(d.Reasons, " "); d.Outcome != policy.OutcomeGate || !strings.Contains(words, "could not be evaluated") {
			t.Errorf("%s: %s %s", name, d.Outcome, words)
		}
	}
	// Rules that nobody compiled are not rules that nobody matches.
	r, f := good()
	r.Rules = []policy.Rule{{Name: "raw", When: "false", Then: policy.Tighten{Deny: true}}}
	if d := policy.Admission(r, f); d.Verdict != policy.Deny {
		t.Errorf("%+v", d)
	}
}

// Mistakes in rules are named with their line.
func TestRuleMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rules, words string }{
		{"  - name: a\n    when: repo == 'x'\n    then: {deny: true}\n", "line 4: rules.0.when: column 1 of the expression: undeclared reference to 'repo'"},
		{"  - name: a\n    when: priority\n    then: {deny: true}\n", "line 4: rules.0.when: yields int"},
		{"  - name: a\n    when: risk ==\n    then: {deny: true}\n", "line 4: rules.0.when: "},
		{"  - name: a\n    when: 'true'\n    then: {}\n", "line 5: rules.0.then: asks for nothing"},
		{"  - name: a\n    when: 'true'\n    then: {deny: true}\n  - name: a\n    when: 'true'\n    then: {deny: true}\n", "line 6: rules.1.name: \"a\" is the name"},
		{"  - name: a\n    when: 'true'\n    then: {approvals: 2}\n", "rules.0.then.gates"},
		{"  - name: a\n    when: changed_files > 1\n    then: {gates: [plan]}\n", "the plan is decided before"},
		{"  - name: a\n    when: changed_files > 1\n    then: {requires: [jdk]}\n", "a worker is chosen before"},
		{"  - name: a\n    when: 'true'\n    then: {risk: SOME}\n", "line 5: rules.0.then.risk"},
		{"  - name: a\n    when: paths.exists(a, paths.exists(b, paths.exists(c, a + b == c)))\n    then: {deny: true}\n", "line 4: rules.0.when: may cost"},
		{"  - name: a\n    when: 'true'\n    then: {allow: true}\n", "line 5: unknown field"},
	} {
		_, err := policy.Accept([]byte("version: x\nrules:\n"+tc.rules), func(string) bool { return true })
		if err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%s\ngot  %v\nwant %s", tc.rules, err, tc.words)
		}
	}
}

// Whatever rules a policy has, work that they match or not is never asked less than without them.
func TestRulesNeverLoosen(t *testing.T) {
	t.Parallel()
	rank := map[policy.JudgedOutcome]int{policy.OutcomeAutoPR: 0, policy.OutcomeComplete: 0, policy.OutcomeCarried: 1, policy.OutcomeAttest: 1, policy.OutcomeGate: 2,
		policy.OutcomeBudget: 3, policy.OutcomeFix: 3, policy.OutcomeExhausted: 3, policy.OutcomeFail: 4}
	rapid.Check(t, func(t *rapid.T) {
		plain, f := anyRules(t), anyFacts(t)
		// Lists of risks may have holes.
		risks := rapid.SliceOfDistinct(rapid.SampledFrom(policy.Risks()), func(r policy.Risk) policy.Risk { return r })
		plain.Admission.Risks = risks.Draw(t, "admitted")
		for _, g := range []*policy.GateRule{&plain.Gates.Plan, &plain.Gates.Patch, &plain.Gates.Report} {
			g.Risks = risks.Draw(t, "risks")
		}
		with := plain.Clone()
		for i := range rapid.IntRange(0, 3).Draw(t, "rules") {
			gates := rapid.SliceOf(rapid.SampledFrom(policy.GateKinds())).Draw(t, "gates")
			with.Rules = append(with.Rules, policy.Rule{Name: fmt.Sprint("r", i), When: rapid.SampledFrom([]string{"true", "false", "repository == ''", "changed_files > 0"}).Draw(t, "when"),
				Then: policy.Tighten{Deny: rapid.Bool().Draw(t, "deny"), Risk: rapid.SampledFrom(append(policy.Risks(), "")).Draw(t, "risk"), Gates: gates,
					Approvals: rapid.IntRange(0, 3).Draw(t, "approvals"), Role: rapid.SampledFrom([]policy.Role{"", policy.RoleApprover, policy.RoleAdmin}).Draw(t, "role"),
					Attestation: rapid.Bool().Draw(t, "attestation")}})
		}
		_ = with.Validate() // compiles; what it refuses counts as matched
		a, b := policy.Judged(plain, f), policy.Judged(with, f)
		if rank[b.Outcome] < rank[a.Outcome] || b.EffectiveRisk.Rank() < a.EffectiveRisk.Rank() || a.Gate.Gate && b.Gate.Gate && b.Gate.Quorum < a.Gate.Quorum {
			t.Fatalf("without rules %s of risk %s, with %+v %s of risk %s", a.Outcome, a.EffectiveRisk, with.Rules, b.Outcome, b.EffectiveRisk)
		}
		for _, kind := range policy.GateKinds() {
			if x, y := plain.Gates.For(kind), with.Under(f).Gates.For(kind); y.Quorum < x.Quorum || x.When == policy.Always && y.When != policy.Always || x.Role == policy.RoleAdmin && y.Role != x.Role {
				t.Fatalf("the %s gate asks %+v with rules, %+v without", kind, y, x)
			}
		}
		if policy.Plan(plain, f).Gate && !policy.Plan(with, f).Gate {
			t.Fatal("a rule took the plan's gate away")
		}
		if policy.Admission(plain, f).Verdict == policy.Deny && policy.Admission(with, f).Verdict != policy.Deny {
			t.Fatal("a rule admitted what the policy refuses")
		}
		for _, q := range policy.Admission(plain, f).Route.Requires {
			if d := policy.Admission(with, f); d.Verdict == policy.Admit && !slices.Contains(d.Route.Requires, q) {
				t.Fatalf("a rule took the requirement %s away", q)
			}
		}
	})
}

// docs/policy.md has a row for every fact that a rule may use, with its type, and none besides.
func TestRuleFactsAreDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "<!-- facts -->\n")
	got, _, ok := strings.Cut(rest, "<!-- /facts -->")
	want := "| fact | type | known | what it is |\n| --- | --- | --- | --- |\n"
	for _, f := range policy.RuleFacts() {
		known := "always"
		if f.Result {
			known = "from the judge on"
		}
		want += fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.Name, f.Type, known, f.About)
	}
	if !ok || got != want {
		t.Errorf("the table of facts in docs/policy.md is to be\n%s", want)
	}
	effects := reflect.TypeFor[policy.Tighten]()
	for i := range effects.NumField() {
		if name := effects.Field(i).Tag.Get("yaml"); !strings.Contains(string(raw), "| `"+name+"` |") {
			t.Errorf("docs/policy.md does not explain the effect %s", name)
		}
	}
}

// processorTime reports what a decision takes of a processor: on a machine that others use, the wall clock says little.
func processorTime(b *testing.B) func() {
	spent := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := spent()
	return func() { b.ReportMetric(float64(spent()-before)/float64(b.N), "cpu-ns/op") }
}

// The goal: a decision below 50 µs under the default policy.
func BenchmarkDecideDefault(b *testing.B) {
	_, f := good()
	r := policy.Default()
	defer processorTime(b)()
	for b.Loop() {
		policy.Judged(r, f)
	}
}

// The goal: a decision below 500 µs with a hundred rules.
func BenchmarkDecideHundredRules(b *testing.B) {
	var doc strings.Builder
	doc.WriteString("rules:\n")
	for i := range 100 {
		looks := ""
		if i%3 == 0 { // all of them together would cost more than a policy may
			looks = " || paths.exists(p, p.glob(\"db/**\"))"
		}
		fmt.Fprintf(&doc, "  - name: rule-%d\n    when: repository == \"acme/%d\" && (risk in [\"HIGH\", \"CRITICAL\"]%s) || priority > 4 && changed_files > %d\n    then: {gates: [patch], approvals: 2}\n", i, i, looks, i)
	}
	r, f := ruled(b, doc.String())
	f.Paths, f.ChangedFiles = []string{"README.md", "internal/a.go", "internal/b.go"}, 3
	defer processorTime(b)()
	for b.Loop() {
		policy.Judged(r, f)
	}
}

// S12: what is kept for the log answers every rule as all facts do, so that the same rules can be asked again.
func TestWhatRulesAreAskedWithIsKept(t *testing.T) {
	t.Parallel()
	r, f := ruled(t, "rules:\n  - name: big\n    when: changed_files > 3\n    then: {gates: [patch], approvals: 2}\n")
	fill(reflect.ValueOf(&f).Elem())
	kept := r.Asked(f)
	if under := r.Under(f); kept == nil || !reflect.DeepEqual(under.Fired.Asked, kept) || !reflect.DeepEqual(under.Asked(policy.Facts{}), kept) {
		t.Fatalf("it keeps %+v", kept)
	}
	for _, x := range policy.RuleFacts() {
		if x.Of(f) == nil || reflect.ValueOf(x.Of(f)).IsZero() || !reflect.DeepEqual(x.Of(*kept), x.Of(f)) {
			t.Errorf("%s: %v is kept of %v", x.Name, x.Of(*kept), x.Of(f))
		}
	}
	if none, f := ruled(t, ""); none.Asked(f) != nil || none.Under(f).Asked(f) != nil {
		t.Error("without rules there is nothing to keep")
	}
}

// fill gives every field a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(0.5)
	default:
		v.SetInt(7)
	}
}
