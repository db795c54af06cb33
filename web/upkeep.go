package web

import (
	"time"

	"signalbox/internal/money"
	"signalbox/web/ui"
)

// BudgetsPageData says what was used of what policy bounds.
type BudgetsPageData struct {
	Shell
	Version string
	Zone    string
	Ends    time.Time // of today
	// Spent, Estimated (a part of Spent) and UnknownCalls are today's; Daily is what a day may cost, 0 for no bound.
	Spent, Estimated, Daily money.Amount
	UnknownCalls            int64
	Bounds                  []BoundRow
	RunLimits               []LimitRow
	// GatesOfOne and PullsOfOne bound each person; 0: no bound.
	GatesOfOne, PullsOfOne int
	People, Repositories   []UsedRow
	Shown                  int
}

// spentToday goes on after the amount: of how much, and how well it is known.
func spentToday(d BudgetsPageData) string {
	words := " of " + d.Daily.String()
	if d.Daily.Micros == 0 {
		words = " without a bound (the policy names none under budget.daily_cents)"
	}
	if d.Estimated.Micros > 0 {
		words += ", " + d.Estimated.String() + " of it estimated"
	}
	if d.UnknownCalls > 0 {
		words += "; what " + ui.Count(int(d.UnknownCalls), "call", "calls") + " cost is not known"
	}
	return words + "."
}

// BoundRow is something that puts new work off at Most; 0: no bound.
type BoundRow struct {
	Words, Path string
	Have, Most  int64
}

// LimitRow is a limit that every new run starts with.
type LimitRow struct{ Words, Path, Value string }

// UsedRow is one person or repository.
type UsedRow struct {
	Name         string
	Spent        money.Amount
	Gates, Pulls int
}

// RetentionPageData says what is kept, for how long, and what is deleted next.
type RetentionPageData struct {
	Shell
	Rows []RetentionRow
}

// RetentionRow is one kind of thing that is stored.
type RetentionRow struct {
	What, Stored, Kept, Due, Source string
}

// FindingRow is one thing that a preflight looked at: ok, problem or unchecked.
type FindingRow struct{ Name, State, Words string }

// word says what a finding is about.
func (f FindingRow) word() string {
	switch f.Name {
	case "reachable":
		return "Reachable"
	case "push":
		return "Can push"
	case "owners":
		return "Owners"
	case "toolchain":
		return "Toolchain"
	case "worker":
		return "From a worker"
	}
	return f.Name
}

// answer is the finding in a word.
func (f FindingRow) answer() string {
	switch f.State {
	case "ok":
		return "yes"
	case "problem":
		return "no"
	}
	return "not checked"
}
