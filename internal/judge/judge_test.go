package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/judge"
	"signalbox/internal/patch"
	"signalbox/internal/policy"
)

func change(path string, added, removed int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "diff --git a/%s b/%s\nindex 1111111..2222222 100644\n--- a/%s\n+++ b/%s\n@@ -1,%d +1,%d @@\n", path, path, path, path, removed, added)
	b.WriteString(strings.Repeat("-x\n", removed) + strings.Repeat("+y\n", added))
	return b.String()
}

func deletion(path string) string {
	return fmt.Sprintf("diff --git a/%s b/%s\ndeleted file mode 100644\nindex 1111111..0000000\n--- a/%s\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", path, path, path)
}

func facts(t interface{ Fatal(...any) }, raw string) patch.Facts {
	p, err := patch.Parse([]byte(raw), 0)
	if err != nil {
		t.Fatal(err)
	}
	return p.Facts()
}

func good(t interface{ Fatal(...any) }) judge.Input {
	return judge.Input{
		Contract: judge.Contract{Mode: policy.ModePRCreated}, Rules: policy.Default(), Result: policy.ResultPatch,
		Patch: facts(t, change("src/a.go", 3, 1)+change("src/a_test.go", 4, 0+1)),
		Scan:  patch.ScanResult{State: patch.ScanClean}, Verification: &judge.Verification{Passed: true, Checks: 3},
	}
}

// R-JUDGE-1: verdict, confidence, and each of the three questions answered.
func TestJudge(t *testing.T) {
	t.Parallel()
	min := policy.Default().Judge.MinConfidence
	for _, tc := range []struct {
		name    string
		change  func(*judge.Input)
		verdict policy.Verdict
		code    string
		sure    bool // confidence reaches the default threshold
		check   func(judge.Report) bool
	}{
		{"good", func(*judge.Input) {}, policy.VerdictPass, "", true, func(r judge.Report) bool { return r.Fulfilled && r.InBounds && r.Sufficient }},
		{"empty patch", func(in *judge.Input) { in.Patch = patch.Facts{} }, policy.VerdictFix, judge.CodeEmptyPatch, true, func(r judge.Report) bool { return !r.Fulfilled }},
		{"no verification", func(in *judge.Input) { in.Verification = nil }, policy.VerdictFail, judge.CodeNotVerified, true, func(r judge.Report) bool { return !r.Sufficient }},
		{"failed verification", func(in *judge.Input) {
			in.Verification = &judge.Verification{Checks: 2, Failed: []string{"go test"}}
		}, policy.VerdictFix, judge.CodeNotVerified, true, func(r judge.Report) bool { return !r.Fulfilled }},
		{"nothing checked", func(in *judge.Input) { in.Verification.Checks = 0 }, policy.VerdictPass, judge.CodeNoChecks, false, func(r judge.Report) bool { return !r.Sufficient }},
		{"baseline fails", func(in *judge.Input) { in.Verification.BaselineFailed = []string{"lint"} }, policy.VerdictPass, judge.CodeBaseline, true, nil},
		{"all baseline fails", func(in *judge.Input) { in.Verification.BaselineFailed = []string{"a", "b", "c"} }, policy.VerdictPass, judge.CodeNoChecks, false, func(r judge.Report) bool { return !r.Sufficient }},
		{"forbidden by policy", func(in *judge.Input) { in.Rules.Paths.Forbidden = []string{"src/**"} }, policy.VerdictFix, judge.CodeForbidden, true, func(r judge.Report) bool { return !r.InBounds }},
		{"forbidden by contract", func(in *judge.Input) { in.Contract.Forbidden = []string{"*_test.go"} }, policy.VerdictFix, judge.CodeForbidden, true, func(r judge.Report) bool { return !r.InBounds }},
		{"out of scope", func(in *judge.Input) { in.Contract.Scope = []string{"docs"} }, policy.VerdictFix, judge.CodeOutOfScope, true, func(r judge.Report) bool { return !r.InBounds }},
		{"in scope", func(in *judge.Input) { in.Contract.Scope = []string{"src"} }, policy.VerdictPass, "", true, nil},
		{"protected", func(in *judge.Input) { in.Patch = facts(t, change(".github/workflows/ci.yml", 1, 1)) }, policy.VerdictPass, judge.CodeProtected, true, nil},
		{"generated", func(in *judge.Input) {
			in.Rules.Paths.GeneratedRule, in.Patch = policy.GeneratedForbid, facts(t, change("a.pb.go", 1, 1))
		}, policy.VerdictFix, judge.CodeGenerated, true, nil},
		{"secret", func(in *judge.Input) {
			in.Scan = patch.ScanResult{State: patch.ScanFindings, Findings: []patch.Finding{{Rule: "r", File: "a", Line: 3}}}
		}, policy.VerdictFix, judge.CodeSecret, true, nil},
		{"not scanned", func(in *judge.Input) { in.Scan = patch.ScanResult{State: patch.ScanNotScanned} }, policy.VerdictFail, judge.CodeNotScanned, true, nil},
		{"scan missing", func(in *judge.Input) { in.Scan = patch.ScanResult{} }, policy.VerdictFail, judge.CodeNotScanned, true, nil},
		{"hidden text", func(in *judge.Input) { in.Hidden = []patch.HiddenText{{File: "a", Line: 1, What: "U+202E"}} }, policy.VerdictPass, judge.CodeHiddenText, false, nil},
		{"too many files", func(in *judge.Input) { in.Rules.Limits.ChangedFiles = 1 }, policy.VerdictFix, judge.CodeTooManyFiles, true, nil},
		{"too many lines", func(in *judge.Input) { in.Rules.Limits.DiffLines = 8 }, policy.VerdictFix, judge.CodeTooManyLines, true, nil},
		{"lines at the limit", func(in *judge.Input) { in.Rules.Limits.DiffLines = 9 }, policy.VerdictPass, judge.CodeLarge, true, nil},
		{"too many bytes", func(in *judge.Input) { in.Rules.Limits.PatchBytes = 10 }, policy.VerdictFix, judge.CodeTooManyBytes, true, nil},
		{"tests deleted", func(in *judge.Input) { in.Patch = facts(t, change("a.go", 1, 1)+deletion("a_test.go")) }, policy.VerdictPass, judge.CodeTestsDeleted, false, nil},
		{"tests shrunk", func(in *judge.Input) { in.Patch = facts(t, change("a.go", 1, 1)+change("a_test.go", 1, 30)) }, policy.VerdictPass, judge.CodeTestsShrunk, true, nil},
		{"no tests", func(in *judge.Input) { in.Patch = facts(t, change("a.go", 1, 1)) }, policy.VerdictPass, judge.CodeNoTests, true, nil},
		{"out of plan", func(in *judge.Input) { in.PlannedFiles = []string{"src/a.go"} }, policy.VerdictPass, judge.CodeOutOfPlan, true, nil},
		{"migration", func(in *judge.Input) { in.Patch = facts(t, change("db/migrations/2.sql", 1, 1)) }, policy.VerdictPass, judge.CodeSensitive, true, nil},
		{"patch where a report was asked", func(in *judge.Input) { in.Contract.Mode = policy.ModeReport }, policy.VerdictFail, judge.CodeUnexpectedDiff, true, nil},
		{"report", func(in *judge.Input) {
			*in = judge.Input{Rules: in.Rules, Contract: judge.Contract{Mode: policy.ModeReport}, Result: policy.ResultReport, ReportBytes: 10}
		}, policy.VerdictPass, "", true, nil},
		{"empty report", func(in *judge.Input) { *in = judge.Input{Rules: in.Rules, Result: policy.ResultReport} }, policy.VerdictFix, judge.CodeEmptyReport, true, nil},
		{"report with a diff", func(in *judge.Input) { in.Result, in.ReportBytes = policy.ResultReport, 10 }, policy.VerdictFail, judge.CodeUnexpectedDiff, true, nil},
		{"no change explained", func(in *judge.Input) {
			*in = judge.Input{Rules: in.Rules, Result: policy.ResultNoChange, ReportBytes: 10}
		}, policy.VerdictPass, "", true, nil},
		{"no change unexplained", func(in *judge.Input) { *in = judge.Input{Rules: in.Rules, Result: policy.ResultNoChange} }, policy.VerdictPass, judge.CodeNoExplanation, false, nil},
		{"no change with a diff", func(in *judge.Input) { in.Result = policy.ResultNoChange }, policy.VerdictFail, judge.CodeUnexpectedDiff, true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in := good(t)
			tc.change(&in)
			r := judge.Judge(in)
			if r.Verdict != tc.verdict || (r.Confidence >= min) != tc.sure {
				t.Errorf("%s with %.2f: %+v", r.Verdict, r.Confidence, r.Reasons)
			}
			found := tc.code == ""
			for _, x := range r.Reasons {
				found = found || x.Code == tc.code
				if x.Words == "" || x.Severity == "" {
					t.Errorf("a reason without words: %+v", x)
				}
			}
			if !found || (tc.check != nil && !tc.check(r)) {
				t.Errorf("want %s in %+v", tc.code, r)
			}
			if tc.verdict != policy.VerdictPass && len(r.Words()) == 0 {
				t.Error("a refusal without a word")
			}
		})
	}
}

// Judge and policy agree: what the policy's hard guards refuse, the judge
// never passes.
func TestJudgeNeverPassesWhatPolicyRefuses(t *testing.T) {
	t.Parallel()
	paths := []string{"src/a.go", "src/a_test.go", ".github/workflows/x.yml", "secret/k", "a.pb.go", "docs/x.md"}
	rapid.Check(t, func(t *rapid.T) {
		in := good(t)
		var raw strings.Builder
		for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom(paths), 0, 4, rapid.ID).Draw(t, "files") {
			raw.WriteString(change(p, rapid.IntRange(1, 9).Draw(t, "added"), 1))
		}
		in.Patch = facts(t, raw.String())
		in.Rules.Paths.Forbidden = rapid.SliceOf(rapid.SampledFrom([]string{"secret", "docs/**"})).Draw(t, "forbidden")
		in.Rules.Paths.GeneratedRule = rapid.SampledFrom([]policy.Generated{"allow", "forbid"}).Draw(t, "generated")
		in.Contract.Scope = rapid.SliceOf(rapid.SampledFrom([]string{"src", "**/*.go"})).Draw(t, "scope")
		in.Scan.State = rapid.SampledFrom([]patch.ScanState{"clean", "not_scanned", ""}).Draw(t, "scan")
		in.Verification.Passed = rapid.Bool().Draw(t, "verified")
		r := judge.Judge(in)
		h := patch.Screen(in.Patch, judge.Screening(in.Rules.Paths, in.Contract))
		bad := in.Patch.Empty() || !in.Verification.Passed || in.Scan.State != patch.ScanClean ||
			len(h.Forbidden)+len(h.GeneratedViolations)+len(h.OutOfScope) > 0
		if (r.Verdict == policy.VerdictPass) == bad {
			t.Fatalf("%s over %+v %+v", r.Verdict, h, r.Reasons)
		}
		if r.Confidence < 0 || r.Confidence > 1 || (r.Verdict == policy.VerdictPass && !(r.Fulfilled && r.InBounds)) {
			t.Fatalf("%+v", r)
		}
		if diff := cmp.Diff(r, judge.Judge(in)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestWordsAreSafe(t *testing.T) {
	t.Parallel()
	in := good(t)
	in.Verification.Passed = false
	in.Verification.Failed = []string{"evil\x1b[31m\nline\u202e" + strings.Repeat("é", 500), "b", "c", "d", "e", "f", "g"}
	r := judge.Judge(in)
	words := strings.Join(r.Words(), " ")
	if strings.ContainsAny(words, "\x1b\n\u202e") || len(words) > 2000 || !strings.Contains(words, "and 2 more") {
		t.Errorf("%q", words)
	}
}
