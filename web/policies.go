package web

import (
	"fmt"
	"strconv"
	"time"

	"signalbox/internal/policy"
)

// PoliciesURL lists the versions of the policy.
const (
	PoliciesURL       = "/policies"
	PolicyNewURL      = "/policies/new"
	PolicyCheckURL    = "/policies/check"
	PolicySimulateURL = "/policies/simulate"
)

// PolicyURL is the page of one version, or a part of it: confirm and withdraw take POSTs.
func PolicyURL(version string, rest ...string) string {
	return sub("/policies/versions", version, rest...)
}

// PolicyDiffURL compares two versions.
func PolicyDiffURL(from, to string) string {
	return "/policies/diff?from=" + query(from) + "&to=" + query(to)
}

// PolicyRow is one version of the policy.
type PolicyRow struct {
	Version, By, ConfirmedBy, Reason string
	At                               time.Time
	InForce                          bool
	// Before is the version that it took the place of.
	Before string
}

// PoliciesPageData lists versions, and the change that waits for a second administrator.
type PoliciesPageData struct {
	Shell
	Rows      []PolicyRow
	InForce   string
	MayChange bool
	Waits     *PolicyWaits
}

// PolicyWaits is a proposed change.
type PolicyWaits struct {
	Row     PolicyRow
	BasedOn string
	// Own says that the reader proposed it, and so may only withdraw it.
	Own                     bool
	MayDecide               bool
	ConfirmKey, WithdrawKey string
	Lines                   []policy.Line
}

// PolicyPageData is one version, or the difference of two.
type PolicyPageData struct {
	Shell
	Title    string
	Row      *PolicyRow
	From, To string
	Document string
	Lines    []policy.Line
	Versions []string
}

// PolicyEditorData is the form for a new version, with what is wrong in it or what it would have done.
type PolicyEditorData struct {
	Shell
	Document, Reason string
	InForce          string
	SecondAdmin      bool
	IdempotencyKey   string
	Checked          *PolicyCheck
	Simulated        *PolicySimulation
	Errors           map[string]string
}

// PolicyCheck is what validation found.
type PolicyCheck struct {
	Version  string
	Rules    int
	Problems []policy.Problem
}

// PolicySimulation is what a draft would have done to past runs.
type PolicySimulation struct {
	Against, Draft string
	Runs, Changed  int
	Since          time.Time
	Kinds          []PolicyKind
	List           []PolicySimulated
}

// PolicyKind counts runs that a draft decides differently in one way.
type PolicyKind struct {
	Count int
	Words string
}

// PolicySimulated is one of these runs.
type PolicySimulated struct {
	Run, Title, Repository, State string
	At                            time.Time
	Words                         []string
}

// sentence sums a simulation up.
func (s PolicySimulation) sentence() string {
	switch {
	case s.Runs == 0:
		return "There is no past run to try it on."
	case s.Changed == 0:
		return fmt.Sprintf("Nothing would have been decided differently about the last %s.", lastRuns(s.Runs))
	}
	return fmt.Sprintf("%d of the last %s would have been decided differently.", s.Changed, lastRuns(s.Runs))
}

func lastRuns(runs int) string {
	if runs == 1 {
		return "run"
	}
	return strconv.Itoa(runs) + " runs"
}

// hunk is a stretch of changed lines with what stands around it.
type hunk []policy.Line

// hunks leaves out what is more than three lines away from any change.
func hunks(lines []policy.Line) []hunk {
	near := make([]bool, len(lines))
	for i, l := range lines {
		if l.Op == ' ' {
			continue
		}
		for j := max(i-3, 0); j <= min(i+3, len(lines)-1); j++ {
			near[j] = true
		}
	}
	var out []hunk
	for i, l := range lines {
		switch {
		case !near[i]:
		case i == 0 || !near[i-1]:
			out = append(out, hunk{l})
		default:
			out[len(out)-1] = append(out[len(out)-1], l)
		}
	}
	return out
}

func policyLineNumber(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
