package web

import (
	"fmt"
	"strconv"

	"signalbox/web/ui"
)

// BulkCancelPageData asks before several runs are cancelled, and afterwards says what became of each.
type BulkCancelPageData struct {
	Shell
	Runs           []BulkRun // what is cancelled; the form carries exactly these
	Skipped        []BulkRun // what cannot be, each with its reason
	Queued         int
	Running        int
	Waiting        int
	More           bool // more matched than one request takes
	Most           int  // how many it takes
	MustGiveReason bool
	TypeCount      bool // so many that the number has to be typed
	Reason         string
	Error          string // 422
	IdempotencyKey string
	Done           bool // the result: Runs are cancelled or being cancelled
}

// BulkRun is one run of a bulk action.
type BulkRun struct {
	RunRow
	Why string // why it is left out, or what became of it
}

// shownFirst is how many names a confirmation spells out.
const shownFirst = 10

func (d BulkCancelPageData) first() []BulkRun { return d.Runs[:min(len(d.Runs), shownFirst)] }

func (d BulkCancelPageData) rest() []BulkRun { return d.Runs[len(d.first()):] }

// split says what the runs are doing now.
func (d BulkCancelPageData) split() string {
	return fmt.Sprintf("%d queued, %d running, %d waiting for a person.", d.Queued, d.Running, d.Waiting)
}

func (d BulkCancelPageData) button() string { return "Cancel " + ui.Count(len(d.Runs), "run", "runs") }

// bulkTitle is the heading: the question, or the result.
func (d BulkCancelPageData) bulkTitle() string {
	n := ui.Count(len(d.Runs), "run", "runs")
	switch {
	case d.Done && len(d.Runs) == 0:
		return "No run was cancelled"
	case d.Done:
		return "Cancellation recorded for " + n
	case len(d.Runs) == 0:
		return "No run to cancel"
	default:
		return "Cancel " + n + "?"
	}
}

func (d BulkCancelPageData) skippedTitle() string {
	words := ui.Count(len(d.Skipped), "run", "runs")
	if d.Done {
		return words + " skipped"
	}
	return words + " cannot be cancelled and " + map[bool]string{true: "is", false: "are"}[len(d.Skipped) == 1] + " left out"
}

func (d BulkCancelPageData) count() string { return strconv.Itoa(len(d.Runs)) }

// Cancellable reports whether a run in this state can still be cancelled; a finished, published or cancelling one cannot.
func (r RunRow) Cancellable() bool {
	return !terminal(r.State) && r.State != "PR_CREATED" && r.State != "CANCELLING"
}

func anyCancellable(rows []RunRow) bool {
	for _, r := range rows {
		if r.Cancellable() {
			return true
		}
	}
	return false
}
