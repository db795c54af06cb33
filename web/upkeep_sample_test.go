package web_test

import (
	"time"

	"github.com/a-h/templ"

	"signalbox/internal/money"
	"signalbox/web"
)

// upkeepPages are the pages about budgets and retention.
func upkeepPages() map[string]templ.Component {
	limits := []web.LimitRow{{Words: "Cost", Path: "limits.cost_cents", Value: "no bound"}, {Words: "Sandboxes", Path: "limits.sandbox_time", Value: "4 h"}}
	return map[string]templ.Component{
		"budgets": web.BudgetsPage(web.BudgetsPageData{
			Shell: adminShell(), Version: "policy-7", Zone: "Europe/Zurich", Ends: now.Add(9 * time.Hour), Spent: money.USD.Of(5_000_000), Estimated: money.USD.Of(900_000), UnknownCalls: 3, Daily: money.USD.Of(20_000_000),
			Bounds:    []web.BoundRow{{Words: "Runs that are under way", Path: "admission.quota.max_active", Have: 12, Most: 12}, {Words: "Pull requests that are open", Path: "admission.reviewers.open_pulls", Have: 3}},
			RunLimits: limits, GatesOfOne: 5, Shown: 1,
			People:       []web.UsedRow{{Name: "Rita Requester", Spent: money.USD.Of(4_000_000), Gates: 2, Pulls: 1}, {Name: "Ana Approver", Spent: money.USD.Of(1_000_000)}},
			Repositories: []web.UsedRow{{Name: repo, Spent: money.USD.Of(5_000_000), Gates: 2, Pulls: 1}},
		}),
		"budgets_unused": web.BudgetsPage(web.BudgetsPageData{Shell: adminShell(), Version: "default", Zone: "UTC", Ends: now.Add(9 * time.Hour), Spent: money.USD.Of(0), RunLimits: limits}),
		"retention": web.RetentionPage(web.RetentionPageData{Shell: adminShell(), Rows: []web.RetentionRow{
			{What: "Audit log", Stored: "41 rows", Kept: "without end", Due: "nothing", Source: "the schema: no role of the server may delete a row"},
			{What: "Answers to requests, for repeats", Stored: "812", Kept: "7 days", Due: "3", Source: "this version of the program"},
		}}),
	}
}

func sampleBypass() web.BypassView {
	return web.BypassView{GateID: gateID, Kind: "patch", By: "Ana Approver", Reason: "Production is down, and nobody else answers. " + longReason()[:60], Ticket: "INC-4412", Title: goal, Repository: repo, RunID: runID,
		At: ago(time.Hour), Due: now.Add(23 * time.Hour)}
}

func bypassPage(change func(*web.BypassPageData)) web.BypassPageData {
	d := web.BypassPageData{Shell: shell(), GateID: gateID, Kind: "patch", Title: goal, Repository: repo, RunID: runID, Digest: digest, Revision: 2, Open: true, MinReason: 20, IdempotencyKey: "K1",
		Typed: map[string]string{"reason": "Kept <b>words</b>."}}
	if change != nil {
		change(&d)
	}
	return d
}

func bypassedRun() web.RunPageData {
	d := succeededRun()
	overdue, reviewed := sampleBypass(), sampleBypass()
	overdue.Due = ago(time.Hour)
	reviewed.Reviewed, reviewed.Reviewer, reviewed.Note = ago(time.Minute), "Ben Approver", "The rollback was right."
	d.Bypasses = []web.BypassView{overdue, reviewed}
	return d
}
