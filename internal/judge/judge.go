// Package judge owns the deterministic judge: from the contract, the facts of
// a patch and the verification it makes a verdict with confidence and reasons
// in words. It refuses to run anything, to read files, and to judge without
// evidence. Whether its verdict is enough is the policy's decision.
package judge

import (
	"fmt"
	"math"
	"strings"

	"signalbox/internal/patch"
	"signalbox/internal/policy"
)

// Contract is what the task allows and asks.
type Contract struct {
	Mode      policy.Mode
	Scope     []string // globs; none: the whole repository
	Forbidden []string // globs, beside the policy's
}

// Verification is the summary of a verification report for exactly this
// result. For a report or no change it may be nil.
type Verification struct {
	Passed bool
	Checks int // commands that ran
	// Failed names the checks that failed; BaselineFailed those that fail on
	// the base commit too, so that they say nothing about the change.
	Failed, BaselineFailed []string
}

// Input is everything the judge looks at.
type Input struct {
	Contract     Contract
	Rules        policy.Rules
	Result       policy.Result
	Patch        patch.Facts
	Scan         patch.ScanResult
	Hidden       []patch.HiddenText
	Verification *Verification
	// ReportBytes is the size of the analysis report, or of the explanation
	// why nothing changes.
	ReportBytes int64
	// PlannedFiles are those that the plan names; none: not compared.
	PlannedFiles []string
}

// Report is the judge's answer. R-JUDGE-1.
type Report struct {
	Verdict    policy.Verdict `json:"verdict"`
	Confidence float64        `json:"confidence"` // 0 to 1, two decimals
	Reasons    []Reason       `json:"reasons"`

	Fulfilled  bool `json:"fulfilled"`  // a result of the sort that was asked for
	InBounds   bool `json:"in_bounds"`  // no overreach
	Sufficient bool `json:"sufficient"` // the evidence suffices
	Judge      Name `json:"judge,omitempty"`
}

// Name says which judge made a report.
type Name string

// Deterministic is this package's name in reports.
const Deterministic Name = "deterministic-1"

// Words returns the reasons that matter for the verdict, in words.
func (r Report) Words() []string {
	out := []string{}
	for _, x := range r.Reasons {
		if x.Severity != Note {
			out = append(out, x.Words)
		}
	}
	return out
}

// Screening joins the policy's path rules with a contract.
func Screening(p policy.PathRules, c Contract) patch.Screening {
	return patch.Screening{
		Scope:     c.Scope,
		Forbidden: append(append([]string{}, p.Forbidden...), c.Forbidden...),
		Protected: p.Protected, Generated: p.Generated, GeneratedRule: string(p.GeneratedRule),
		GeneratedSources: p.GeneratedSources, Symlinks: p.Symlinks, Binaries: p.Binaries,
	}
}

// Judge gives the verdict. It is a pure function: the same input gives the
// same report, on the worker and, to check it, on the server.
func Judge(in Input) Report {
	j := &bench{in: in, confidence: 0.95, fulfilled: true, inBounds: true, sufficient: true}
	switch in.Result {
	case policy.ResultReport:
		j.report()
	case policy.ResultNoChange:
		j.noChange()
	default:
		j.patch()
	}
	return j.verdict()
}

type bench struct {
	in                              Input
	reasons                         []Reason
	confidence                      float64
	fulfilled, inBounds, sufficient bool
}

func (j *bench) say(s Severity, code, format string, args ...any) {
	j.reasons = append(j.reasons, Reason{Code: code, Words: fmt.Sprintf(format, args...), Severity: s})
}

// doubt lowers confidence and says why.
func (j *bench) doubt(by float64, code, format string, args ...any) {
	j.confidence -= by
	j.say(Concern, code, format, args...)
}

func (j *bench) report() {
	switch {
	case !j.in.Patch.Empty():
		j.fulfilled = false
		j.say(Fail, CodeUnexpectedDiff, "The task asks for a report, but files were changed.")
	case j.in.ReportBytes == 0:
		j.fulfilled, j.sufficient = false, false
		j.say(Fix, CodeEmptyReport, "The report is empty.")
	default:
		j.confidence = 0.8
		j.say(Note, "REPORT", "The report has %d bytes and no file was changed. Its content was not judged: only its form was.", j.in.ReportBytes)
	}
}

func (j *bench) noChange() {
	switch {
	case !j.in.Patch.Empty():
		j.fulfilled = false
		j.say(Fail, CodeUnexpectedDiff, "The agent says that nothing has to change, but files were changed.")
	case j.in.ReportBytes == 0:
		j.sufficient = false
		j.confidence = 0.5
		j.say(Concern, CodeNoExplanation, "The agent says that nothing has to change and does not say why.")
	default:
		j.confidence = 0.75
		j.say(Note, "NO_CHANGE", "The agent explains why nothing has to change; no file was changed.")
	}
}

func (j *bench) patch() {
	if j.in.Contract.Mode == policy.ModeReport {
		j.fulfilled = false
		j.say(Fail, CodeUnexpectedDiff, "The task asks for a report, but files were changed.")
		return
	}
	if j.in.Patch.Empty() {
		j.fulfilled = false
		j.say(Fix, CodeEmptyPatch, "The patch is empty.")
		return
	}
	j.verification()
	j.bounds()
	j.secrets()
	j.size()
	j.tests()
}

func (j *bench) verification() {
	v := j.in.Verification
	switch {
	case v == nil:
		j.sufficient = false
		j.say(Fail, CodeNotVerified, "There is no verification report for this patch, so it cannot be judged.")
	case !v.Passed:
		j.fulfilled, j.sufficient = false, false
		j.say(Fix, CodeNotVerified, "Verification did not pass: %s.", some(v.Failed))
	case v.Checks <= 0:
		j.sufficient = false
		j.doubt(0.45, CodeNoChecks, "Nothing was checked: the task names no verification command.")
	default:
		if len(v.BaselineFailed) > 0 {
			j.doubt(0.2, CodeBaseline, "These checks fail without the change too, so they say nothing about it: %s.", some(v.BaselineFailed))
		}
		if v.Checks-len(v.BaselineFailed) == 1 {
			j.say(Note, CodeFewChecks, "Only one check speaks for the change.")
		}
		if v.Checks-len(v.BaselineFailed) <= 0 {
			j.sufficient = false
			j.doubt(0.3, CodeNoChecks, "No check is left that speaks for the change.")
		}
	}
}

func (j *bench) bounds() {
	h := patch.Screen(j.in.Patch, Screening(j.in.Rules.Paths, j.in.Contract))
	over := func(list []string, code, what string) {
		if len(list) > 0 {
			j.inBounds = false
			j.say(Fix, code, "%s: %s.", what, some(list))
		}
	}
	over(h.Forbidden, CodeForbidden, "The patch touches what must not change")
	over(h.OutOfScope, CodeOutOfScope, "The patch leaves the scope of the task")
	over(h.GeneratedViolations, CodeGenerated, "The policy for generated files is broken")
	if len(h.Protected) > 0 {
		j.doubt(0.1, CodeProtected, "The patch touches protected files, at which a person has to look: %s.", some(h.Protected))
	}
	if len(j.in.Hidden) > 0 {
		places := make([]string, len(j.in.Hidden))
		for i, x := range j.in.Hidden {
			places[i] = x.String()
		}
		j.doubt(0.3, CodeHiddenText, "Added lines hold invisible or reordering characters: %s.", some(places))
	}
	if out := j.unplanned(); len(out) > 0 {
		j.doubt(0.15, CodeOutOfPlan, "These files are changed but not in the plan: %s.", some(out))
	}
	var sensitive, modes []string
	for _, f := range j.in.Patch.Files {
		if f.Is(patch.ClassAuth) || f.Is(patch.ClassMigration) {
			sensitive = append(sensitive, f.Path())
		}
		if f.ModeChanged || f.Status == patch.Added && f.NewMode == "100755" {
			modes = append(modes, f.Path())
		}
	}
	if len(sensitive) > 0 {
		j.doubt(0.1, CodeSensitive, "The patch touches authentication or database migrations: %s.", some(sensitive))
	}
	if len(modes) > 0 {
		j.doubt(0.05, CodeModeChange, "The patch changes file modes: %s.", some(modes))
	}
}

func (j *bench) unplanned() []string {
	if len(j.in.PlannedFiles) == 0 {
		return nil
	}
	var out []string
	for _, f := range j.in.Patch.Files {
		for _, p := range f.Paths() {
			if !patch.InScope(j.in.PlannedFiles, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

func (j *bench) secrets() {
	s := j.in.Scan
	switch {
	case len(s.Findings) > 0:
		places := make([]string, len(s.Findings))
		for i, f := range s.Findings {
			places[i] = f.String()
		}
		j.inBounds = false
		j.say(Fix, CodeSecret, "The patch adds what looks like a secret: %s.", some(places))
	case s.State != patch.ScanClean:
		j.sufficient = false
		j.say(Fail, CodeNotScanned, "The patch was not scanned for secrets, which does not count as clean.")
	}
}

func (j *bench) size() {
	p, l := j.in.Patch, j.in.Rules.Limits
	over := func(got, limit int64, code, what string) {
		if got > limit {
			j.inBounds = false
			j.say(Fix, code, "The patch has %d %s; at most %d are allowed.", got, what, limit)
		}
	}
	over(int64(len(p.Files)), int64(l.ChangedFiles), CodeTooManyFiles, "changed files")
	over(int64(p.Lines()), int64(l.DiffLines), CodeTooManyLines, "changed lines")
	over(p.Bytes, l.PatchBytes, CodeTooManyBytes, "bytes")
	if 2*len(p.Files) > l.ChangedFiles || 2*p.Lines() > l.DiffLines {
		j.doubt(0.1, CodeLarge, "The change is large: %s.", p.Summary())
	}
}

func (j *bench) tests() {
	var deleted []string
	shrunk, touched, code := 0, false, false
	for _, f := range j.in.Patch.Files {
		if !f.Is(patch.ClassTest) {
			code = code || !f.Is(patch.ClassGenerated) && !isProse(f.Path())
			continue
		}
		touched = true
		shrunk += f.Removed - f.Added
		if f.Status == patch.Deleted {
			deleted = append(deleted, f.Path())
		}
	}
	switch {
	case len(deleted) > 0:
		j.doubt(0.3, CodeTestsDeleted, "Tests were deleted: %s.", some(deleted))
	case shrunk > 10:
		j.doubt(0.15, CodeTestsShrunk, "Tests became %d lines shorter.", shrunk)
	case code && !touched:
		j.say(Note, CodeNoTests, "No test was added or changed.")
	}
}

func isProse(path string) bool {
	low := strings.ToLower(path)
	return strings.HasSuffix(low, ".md") || strings.HasSuffix(low, ".txt") || strings.HasSuffix(low, ".rst") || strings.HasSuffix(low, ".adoc")
}

func (j *bench) verdict() Report {
	v := policy.VerdictPass
	for _, r := range j.reasons {
		switch {
		case r.Severity == Fail:
			v = policy.VerdictFail
		case r.Severity == Fix && v == policy.VerdictPass:
			v = policy.VerdictFix
		}
	}
	c := math.Round(min(max(j.confidence, 0), 1)*100) / 100
	if v != policy.VerdictPass {
		// Confidence is about the verdict: a rule that was broken is certain.
		c = 1
	}
	if j.reasons == nil {
		j.reasons = []Reason{}
	}
	return Report{
		Verdict: v, Confidence: c, Reasons: j.reasons, Judge: Deterministic,
		Fulfilled: j.fulfilled, InBounds: j.inBounds, Sufficient: j.sufficient,
	}
}
