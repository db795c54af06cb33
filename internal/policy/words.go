package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Risk is how much harm a change could do, as the task's contract says and as
// protected paths raise it.
type Risk string

// Risks, in rising order.
const (
	RiskLow      Risk = "LOW"
	RiskMedium   Risk = "MEDIUM"
	RiskHigh     Risk = "HIGH"
	RiskCritical Risk = "CRITICAL"
)

// Risks lists every risk in rising order.
func Risks() []Risk { return []Risk{RiskLow, RiskMedium, RiskHigh, RiskCritical} }

// Rank orders risks: LOW is 0. An unknown risk ranks as CRITICAL, so that a
// word we cannot read never loosens anything.
func (r Risk) Rank() int {
	switch r {
	case RiskLow:
		return 0
	case RiskMedium:
		return 1
	case RiskHigh:
		return 2
	default:
		return 3
	}
}

// Valid reports whether r is one of Risks.
func (r Risk) Valid() bool { return r == RiskCritical || r.Rank() < 3 }

// Mode is a task's completion mode: what must exist for it to be complete.
type Mode string

// Completion modes.
const (
	ModePRCreated  Mode = "pr_created"
	ModePRMerged   Mode = "pr_merged"
	ModePatchReady Mode = "patch_ready_for_review"
	ModeReport     Mode = "analysis_report_created"
	ModeBatch      Mode = "migration_batch_completed"
)

// Modes lists the completion modes that a task may have. A campaign's mode,
// migration_batch_completed, is not among them.
func Modes() []Mode { return []Mode{ModePRCreated, ModePRMerged, ModePatchReady, ModeReport} }

// Valid reports whether m is one of Modes.
func (m Mode) Valid() bool {
	return m == ModePRCreated || m == ModePRMerged || m == ModePatchReady || m == ModeReport
}

// OpensPR reports whether the mode ends in a pull request.
func (m Mode) OpensPR() bool { return m == ModePRCreated || m == ModePRMerged }

// HasPatch reports whether the mode asks for a change of files.
func (m Mode) HasPatch() bool { return m != ModeReport }

// Role is a right of a person within a tenant. Roles are a set: none implies
// another (D-16).
type Role string

// Roles. Breakglass alone may bypass a gate.
const (
	RoleViewer     Role = "viewer"
	RoleRequester  Role = "requester"
	RoleApprover   Role = "approver"
	RoleAdmin      Role = "admin"
	RoleBreakglass Role = "breakglass"
)

// Roles lists every role.
func Roles() []Role {
	return []Role{RoleViewer, RoleRequester, RoleApprover, RoleAdmin, RoleBreakglass}
}

// Isolation is the tier of sandbox that a lease runs in.
type Isolation string

// Isolation tiers, weakest first. Process is a process group with limits and
// nothing more: it is unsafe and shown as such.
const (
	IsolationProcess   Isolation = "process"
	IsolationBwrap     Isolation = "bwrap"
	IsolationContainer Isolation = "container"
)

// Rank orders tiers; an unknown tier is the weakest.
func (i Isolation) Rank() int {
	switch i {
	case IsolationBwrap:
		return 1
	case IsolationContainer:
		return 2
	default:
		return 0
	}
}

// GateKind is what a gate asks a person about.
type GateKind string

// Gate kinds.
const (
	GatePlan      GateKind = "plan"
	GatePatch     GateKind = "patch"
	GateReport    GateKind = "report"
	GateBudget    GateKind = "budget"
	GateReconcile GateKind = "reconcile"
)

// GateKinds lists every kind.
func GateKinds() []GateKind {
	return []GateKind{GatePlan, GatePatch, GateReport, GateBudget, GateReconcile}
}

// Duration is a length of time that is written "30s", "2h" or "30d" in policy
// documents and in JSON. A day is 24 hours.
type Duration time.Duration

// Std returns the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes what ParseDuration reads.
func (d Duration) String() string {
	t := time.Duration(d)
	if day := 24 * time.Hour; t >= day && t%day == 0 {
		return strconv.FormatInt(int64(t/day), 10) + "d"
	}
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ParseDuration reads "30s", "1h30m" or a whole number of days such as "30d".
func ParseDuration(s string) (Duration, error) {
	if n, ok := strings.CutSuffix(s, "d"); ok {
		days, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number of days", s)
		}
		return Duration(time.Duration(days) * 24 * time.Hour), nil
	}
	t, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf(`%q is not a duration such as "30s", "2h" or "30d"`, s)
	}
	return Duration(t), nil
}

// MarshalText writes the duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration, for JSON.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// UnmarshalYAML reads a duration and keeps the line of a wrong one.
func (d *Duration) UnmarshalYAML(n ast.Node) error {
	s, ok := n.(*ast.StringNode)
	if !ok {
		return &lineError{line: lineOf(n), words: fmt.Sprintf(`%s is not a duration such as "30s", "2h" or "30d"`, n.String())}
	}
	v, err := ParseDuration(s.Value)
	if err != nil {
		return &lineError{line: lineOf(n), words: err.Error()}
	}
	*d = v
	return nil
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 0
	}
	return n.GetToken().Position.Line
}

type lineError struct {
	line  int
	words string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.words) }
