package judge

import (
	"fmt"
	"strings"
)

// Severity says what a reason does to the verdict.
type Severity string

// Severities.
const (
	Note    Severity = "note"    // worth reading
	Concern Severity = "concern" // lowers confidence
	Fix     Severity = "fix"     // the agent is asked to repair it
	Fail    Severity = "fail"    // no repair can help
)

// Reason is one thing the judge saw.
type Reason struct {
	Code     string   `json:"code"`
	Words    string   `json:"words"`
	Severity Severity `json:"severity"`
}

// Codes of reasons.
const (
	CodeEmptyPatch     = "EMPTY_PATCH"
	CodeEmptyReport    = "EMPTY_REPORT"
	CodeNoExplanation  = "NO_EXPLANATION"
	CodeUnexpectedDiff = "UNEXPECTED_DIFF"
	CodeNotVerified    = "VERIFIER_FAILED"
	CodeNoChecks       = "NO_CHECKS"
	CodeBaseline       = "BASELINE_FAILED"
	CodeFewChecks      = "FEW_CHECKS"
	CodeForbidden      = "FORBIDDEN_PATH"
	CodeProtected      = "PROTECTED_PATH"
	CodeOutOfScope     = "OUT_OF_SCOPE"
	CodeOutOfPlan      = "OUT_OF_PLAN"
	CodeGenerated      = "GENERATED_FILE_POLICY"
	CodeSecret         = "SECRET_FOUND"
	CodeNotScanned     = "PATCH_NOT_SCANNED"
	CodeHiddenText     = "HIDDEN_TEXT"
	CodeTooManyFiles   = "TOO_MANY_FILES"
	CodeTooManyLines   = "TOO_MANY_LINES"
	CodeTooManyBytes   = "TOO_MANY_BYTES"
	CodeLarge          = "LARGE_CHANGE"
	CodeTestsDeleted   = "TESTS_DELETED"
	CodeTestsShrunk    = "TESTS_SHRUNK"
	CodeNoTests        = "NO_TESTS_TOUCHED"
	CodeSensitive      = "SENSITIVE_FILES"
	CodeModeChange     = "MODE_CHANGED"
)

// some joins untrusted words for a sentence: quoted, at most five.
func some(words []string) string {
	if len(words) == 0 {
		return "no detail was reported"
	}
	var b strings.Builder
	for i, w := range words {
		if i == 5 {
			fmt.Fprintf(&b, " and %d more", len(words)-5)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		if len(w) > 200 {
			w = strings.ToValidUTF8(w[:200], "")
		}
		fmt.Fprintf(&b, "%q", w)
	}
	return b.String()
}
