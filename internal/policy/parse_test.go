package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/fault"
	"signalbox/internal/policy"
)

// Rules have defaults, so that limits always exist.
func TestDefaultIsValid(t *testing.T) {
	t.Parallel()
	if err := policy.Default().Validate(); err != nil {
		t.Fatal(err)
	}
	d := policy.Default()
	if d.AutoPR.Allowed || d.Execution.MinIsolation != policy.IsolationBwrap || d.Paths.Symlinks {
		t.Error("defaults must be the cautious ones")
	}
	l := d.Limits
	if l.LeaseTTL.Std() != 30*time.Second || l.Heartbeat.Std() != 5*time.Second || l.CancelGrace.Std() != 10*time.Second {
		t.Errorf("D-14 times are %v %v %v", l.LeaseTTL, l.Heartbeat, l.CancelGrace)
	}
	if l.MaxAttempts != 3 || l.MaxRuns != 3 || l.RepairRounds != 2 || l.Redeliveries != 3 || l.MaxBaseMoves != 3 {
		t.Errorf("counts: %+v", l)
	}
}

func TestParseKeepsDefaults(t *testing.T) {
	t.Parallel()
	got, err := policy.Parse([]byte(`# one team's policy
version: team-7
limits:
  lease_ttl: 45s
  max_park: 60d
  cost_cents: 250
gates:
  patch: {when: always, quorum: 2}
auto_pr: {allowed: true}
paths:
  forbidden: ["secrets/**", "**/*.pem"]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Default()
	want.Version = "team-7"
	want.Limits.LeaseTTL = policy.Duration(45 * time.Second)
	want.Limits.MaxPark = policy.Duration(60 * 24 * time.Hour)
	want.Limits.CostCents = 250
	want.Gates.Patch.When, want.Gates.Patch.Quorum = policy.Always, 2
	want.AutoPR.Allowed = true
	want.Paths.Forbidden = []string{"secrets/**", "**/*.pem"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, doc string
		want      []string // each "line n: …" prefix or fragment
	}{
		{"unknown field", "version: a\nlimits:\n  max_atempts: 3\n", []string{"line 3:", "max_atempts"}},
		{"unknown top field", "version: a\n\nfoo: 1\n", []string{"line 3:", "foo"}},
		{"doubled field", "version: a\nversion: b\n", []string{"line 2:", "version"}},
		{"wrong type", "version: a\nlimits:\n  max_runs: many\n", []string{"line 3:"}},
		{"wrong duration", "version: a\nlimits:\n  lease_ttl: fast\n", []string{"line 3:", `"fast"`}},
		{"number as duration", "version: a\nlimits:\n  lease_ttl: 30\n", []string{"line 3:", "30"}},
		{"wrong enum", "version: a\nbudget:\n  on_exceeded: shrug\n", []string{"line 3:", "budget.on_exceeded", "shrug"}},
		{"wrong risk", "version: a\nadmission:\n  risks: [LOW, SEVERE]\n", []string{"line 3:", "SEVERE"}},
		{"bad glob", "version: a\npaths:\n  forbidden:\n    - \"a[\"\n", []string{"line 3:", "a["}},
		{"rooted glob", "version: a\npaths:\n  forbidden: [/etc]\n", []string{"line 3:", "slash"}},
		{"threshold", "version: a\njudge:\n  min_confidence: 1.5\n", []string{"line 3:", "judge.min_confidence"}},
		{"quorum", "version: a\ngates:\n  plan:\n    quorum: 0\n", []string{"line 4:", "gates.plan.quorum"}},
		{"heartbeat", "version: a\nlimits:\n  heartbeat: 20s\n", []string{"line 3:", "three heartbeats"}},
		{"two problems", "version: a\njudge:\n  min_confidence: -1\nrun_timeout:\n  outcome: maybe\n", []string{"line 3:", "line 5:"}},
		{"no version", "limits:\n  max_runs: 2\n", []string{"line 1:", "version"}},
		{"anchor", "version: &a x\nauto_pr: {allowed: true}\n", []string{"line 1:", "anchors"}},
		{"alias", "version: x\nadmission:\n  repositories: &r [a]\n  analysis_only: *r\n", []string{"line 3:", "line 4:"}},
		{"tag", "version: !!str x\n", []string{"line 1:", "tags"}},
		{"null", "version: x\nlimits:\n", []string{"no value"}},
		{"two documents", "version: x\n---\nversion: y\n", []string{"exactly one"}},
		{"empty", "", []string{"exactly one"}},
		{"comment only", "# nothing\n", []string{"exactly one"}},
		{"list", "- a\n", []string{"line 1:"}},
		{"broken", "version: [a\n", []string{"line"}},
		{"huge number", "version: a\nlimits:\n  max_runs: 99999999999999999999999\n", []string{"line 3:"}},
		{"gate off", "version: a\ngates:\n  budget:\n    when: never\n", []string{"line 4:", "always asked"}},
		{"require without sources", "version: a\npaths:\n  generated_rule: require\n", []string{"line 3:", "generated_sources"}},
		{"not a number", "version: a\nretry:\n  jitter: .nan\n", []string{"line 3:", "retry.jitter"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := policy.Parse([]byte(tc.doc))
			if err == nil {
				t.Fatal("was accepted")
			}
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("kind %v: %v", fault.KindOf(err), err)
			}
			pe, ok := errors.AsType[*policy.ParseError](err)
			if !ok || len(pe.Problems) == 0 {
				t.Fatalf("no ParseError in %v", err)
			}
			for _, w := range tc.want {
				if !strings.Contains(fault.Sentence(err), w) || !strings.Contains(pe.Error(), w) {
					t.Errorf("%q is missing in %q", w, fault.Sentence(err))
				}
			}
		})
	}
	if _, err := policy.Parse(make([]byte, 300<<10)); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("too large: %v", err)
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"30s", "2m", "1h30m", "24h", "30d", "250ms", "0s", "1m30s", "1h0m5s"} {
		d, err := policy.ParseDuration(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		back, err := policy.ParseDuration(d.String())
		if err != nil || back != d {
			t.Errorf("%s is written %s and read %v (%v)", s, d, back, err)
		}
	}
	for _, s := range []string{"", "d", "-1d", "1.5d", "99999d", "fast", "10"} {
		if d, err := policy.ParseDuration(s); err == nil {
			t.Errorf("%q was read as %v", s, d)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	t.Parallel()
	a := policy.Default()
	a.Gates.LastInstructorMayNotApprove = new(true)
	b := a.Clone()
	if diff := cmp.Diff(a, b); diff != "" {
		t.Fatal(diff)
	}
	b.Admission.Risks[0], b.Retry.Delays[0], b.Paths.Protected[0] = "X", 0, "x"
	b.Gates.Plan.Risks[0], *b.Gates.LastInstructorMayNotApprove = "X", false
	if a.Admission.Risks[0] == "X" || a.Retry.Delays[0] == 0 || a.Paths.Protected[0] == "x" ||
		a.Gates.Plan.Risks[0] == "X" || !*a.Gates.LastInstructorMayNotApprove {
		t.Error("a change of the copy reached the original")
	}
}

// FuzzParse: any bytes give rules that are valid, or an error; never a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte("version: a\nlimits:\n  lease_ttl: 45s\n"))
	f.Add([]byte("version: &a [*a]\n"))
	f.Add([]byte("{version: a, gates: {plan: {when: always}}}"))
	f.Add([]byte("version: a\npaths: {forbidden: ['**']}"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		r, err := policy.Parse(doc)
		if err == nil && r.Validate() != nil {
			t.Errorf("accepted invalid rules: %v", r.Validate())
		}
		if err != nil && fault.Sentence(err) == fault.Generic {
			t.Errorf("no sentence for %v", err)
		}
	})
}

// A whole number that is not written as one is refused with its line where a policy is put in force, wherever it stands; one that is
// stored already means what it always did.
func TestWholeNumbersAreWholeNumbers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ doc, want string }{
		{"version: a\nlimits:\n  max_attempts: 1.5\n", "line 3: limits.max_attempts: 1.5 is not a whole number"},
		{"version: a\nlimits: {max_runs: 2, repair_rounds: 2.0}\n", "line 2: limits.repair_rounds: 2.0"},
		{"version: a\nlimits:\n  tokens_in: 1e3\n", "line 3: limits.tokens_in: 1e3"},
		{"version: a\nlimits:\n  max_runs: \"5\"\n", "line 3: limits.max_runs: \"5\""},
		{"version: a\nlimits:\n  max_runs: 010\n", "line 3: limits.max_runs: 010"},
		{"version: a\nlimits:\n  max_runs: 0x3\n", "line 3: limits.max_runs: 0x3"},
		{"version: a\nlimits:\n  max_runs: .inf\n", "line 3: limits.max_runs: .inf"},
		{"version: a\nlimits:\n  max_runs: true\n", "line 3: limits.max_runs: true"},
		{"version: a\ngates:\n  plan:\n    quorum: 1.9\n", "line 4: gates.plan.quorum: 1.9"},
		{"version: a\nbudget:\n  daily_cents: 0.9\n", "line 3: budget.daily_cents: 0.9"},
		{"version: a\nconcurrency:\n  providers:\n    acme: 1.5\n  risks: {HIGH: 0.5}\n", "line 4: concurrency.providers.acme: 1.5 is not a whole number such as 3; line 5: concurrency.risks.HIGH: 0.5"},
		{"version: a\nprices:\n  acme:\n    \"m-1.5\": {in_micros: 2.5, out_micros: 1}\n", "line 4: prices.acme.m-1.5.in_micros: 2.5"},
		{"version: a\nadmission:\n  quota:\n    max_queued: 0.5\n", "line 4: admission.quota.max_queued: 0.5"},
	} {
		_, err := policy.Accept([]byte(tc.doc), func(string) bool { return true })
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Sentence(err), tc.want) {
			t.Errorf("%q: %v, want %q", tc.doc, err, tc.want)
		}
	}
	good := "version: a\nlimits:\n  max_attempts: 2\n  tokens_in: 1_000_000\njudge: {min_confidence: 0.5}\nretry: {jitter: 1}\n"
	if _, err := policy.Accept([]byte(good), func(string) bool { return true }); err != nil {
		t.Error(err)
	}
	stored, err := policy.Parse([]byte("version: a\nlimits:\n  max_attempts: 1.5\n"))
	if err != nil || stored.Limits.MaxAttempts != 1 {
		t.Errorf("a stored document means %d attempts (%v), want 1 as before", stored.Limits.MaxAttempts, err)
	}
}
