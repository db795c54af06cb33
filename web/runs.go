package web

import "time"

// RunsPageData is the list of runs.
type RunsPageData struct {
	Shell
	Filter    RunFilter
	Views     SavedViews
	Rows      []RunRow
	Pager     Pager
	CancelAll string // address of the question about all that match; "" without filters
}

// tableColumns says which columns a table of runs has beside those that each has.
type tableColumns int

const (
	tablePlain  tableColumns = iota // on the page of its task
	tableTitled                     // with title and repository
	tablePick                       // and a box to select it
)

// RunFilter is what the GET form holds.
type RunFilter struct {
	Query        string
	View         string // a saved view, "" for none
	States       []Option
	Repositories []Option
	Set          bool // any filter is active
}

// runViews are the saved views as addresses; their names are those of the store.
func runViews(d RunsPageData) []Option {
	here := d.Filter.View
	all := []Option{{Label: "All"}, {Value: "waiting", Label: "Waiting on people"}, {Value: "running", Label: "Running"}, {Value: "failed", Label: "Failed today"}, {Value: "stuck", Label: "Stuck: no heartbeat"}}
	for i := range all {
		all[i].Selected = all[i].Value == here && !d.Views.saved()
		if all[i].Value = RunsURL + "?view=" + all[i].Value; i == 0 {
			all[i].Value = RunsURL
		}
	}
	return all
}

// runsEmpty says why a view or a filter shows nothing.
func runsEmpty(f RunFilter) string {
	switch {
	case f.Query == "" && f.View == "waiting":
		return "No run waits for a person."
	case f.Query == "" && f.View == "running":
		return "No worker works on a run."
	case f.Query == "" && f.View == "failed":
		return "No run failed since midnight UTC."
	case f.Query == "" && f.View == "stuck":
		return "No run is stuck: each worker that has one sends its heartbeat."
	default:
		return "No run matches these filters."
	}
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
	Since      time.Time     // in this state since
	Ended      time.Time     // zero while active
	Reason     string        // failure sentence, when there is one
	Active     time.Duration // from admission on, without waiting for people
	Usual      time.Duration // the middle of the repository's runs; zero: too few are known
	Cost       RunCost
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
	Error          string   // 422
	Refused        string   // terminal or PR_CREATED: why it cannot be cancelled; the form is absent
	Stage          string   // where the run is, e.g. "Executing, attempt 1 of 3"
	Spent          []string // time and cost so far, in words
	Pull           *PullRef // an open pull request that can be closed with it; nil: none
	ClosePull      bool     // the tick was set
	FollowUp       *Link
	IdempotencyKey string
}
