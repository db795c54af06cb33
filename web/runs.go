package web

import "time"

// RunsPageData is the list of runs.
type RunsPageData struct {
	Shell
	Query        string
	FiltersSet   bool
	States       []Option
	Repositories []Option
	Rows         []RunRow
	Pager        Pager
	AnyAtAll     bool
}

// RunRow is one run of a list.
type RunRow struct {
	ID         string
	TaskID     string
	Title      string
	Repository string
	State      string
	GateKind   string // when it waits for approval
	Leased     bool   // a worker holds it now
	Attempt    int
	MaxAttempt int
	Worker     string
	Created    time.Time
	Since      time.Time // in this state since
	Ended      time.Time // zero while active
	Reason     string    // failure sentence, when there is one
}

// CancelPageData is the confirmation: what is lost and what stays.
type CancelPageData struct {
	Shell
	Run            RunRow
	Stays          []string // e.g. "The plan and the logs written so far."
	Goes           []string
	External       []string // what exists outside already, e.g. a branch; empty: "Nothing was pushed."
	MustGiveReason bool
	Reason         string
	Error          string // 422
	Refused        string // terminal or PR_CREATED: why it cannot be cancelled; the form is absent
	FollowUp       *Link
	IdempotencyKey string
}
