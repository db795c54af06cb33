package web_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/a-h/templ"

	"signalbox/internal/money"
	"signalbox/internal/policy"
	"signalbox/web"
)

// pages is every page in the states that matter, by the name of its golden file.
func pages(t *testing.T) map[string]templ.Component {
	t.Helper()
	guest := web.Shell{Now: now, DevMode: true}
	all := map[string]templ.Component{
		"login": web.LoginPage(web.LoginPageData{
			Shell: guest, Happened: "Your session ended at 14:02 UTC.", ReturnTo: "/gates/" + gateID,
			Providers: []web.LoginProvider{{ID: "dev", Name: "the sample provider"}},
			DevPeople: []web.DevPerson{{Name: "Rita", Roles: "requester"}, {Name: "Ana, Ben", Roles: "approver"}, {Name: "Cleo", Roles: "admin"}},
		}),
		"login_failed": web.LoginPage(web.LoginPageData{Shell: web.Shell{Now: now}, Failed: "The provider's answer had expired. Start again.", RequestID: "JXQ4HV2L7AYB", Providers: []web.LoginProvider{{ID: "acme", Name: "Acme"}}}),
		"signed_out":   web.SignedOutPage(web.SignedOutPageData{Shell: web.Shell{Now: now}, Provider: "https://login.acme.example/end?id_token_hint=x"}),
		"error_401": web.ErrorPage(web.ErrorPageData{
			Shell: guest, Status: 401, Sentence: "Nothing was done: your login has ended. Your text is below, not sent.", RequestID: "req_7f1",
			Unsent: []web.Unsent{{Name: "text", Label: "Your text", Text: "Say </textarea> why."}}, Back: &web.Link{Text: "Sign in", Href: "/login?why=ended"},
		}),
		"error_403": web.ErrorPage(web.ErrorPageData{Shell: shell(), Status: 403, Missing: "approver on acme/payments", GrantedBy: "an administrator", RequestID: "req_7f2"}),
		"error_no_role": web.ErrorPage(web.ErrorPageData{Shell: shell(), Status: 403, Missing: "viewer", GrantedBy: "an administrator of your identity provider", RequestID: "req_7f2",
			NoRole: "You are signed in, and none of your groups gives a role here. Ask to be put into one that does, then sign out and in again."}),
		"bypass": web.BypassPage(bypassPage(nil)),
		"bypass_refused": web.BypassPage(bypassPage(func(d *web.BypassPageData) {
			d.Refused, d.Errors = "Nothing was bypassed: name the ticket.", map[string]string{"ticket": "Nothing was bypassed: name the ticket."}
		})),
		"bypass_confirm": web.BypassPage(bypassPage(func(d *web.BypassPageData) { d.ConfirmURL = "/login/confirm?return_to=x" })),
		"bypass_not":     web.BypassPage(bypassPage(func(d *web.BypassPageData) { d.WhyNot = "This asks for the role breakglass." })),
		"bypass_review": web.BypassPage(bypassPage(func(d *web.BypassPageData) {
			b := sampleBypass()
			b.MayReview, d.Done = true, &b
		})),
		"run_bypassed": web.RunPage(bypassedRun()),
		"inbox_bypass": web.InboxPage(web.InboxPageData{Shell: withTurns(1), Bypasses: []web.BypassView{sampleBypass()}}),
		"become_admin": web.BecomeAdminPage(web.BecomeAdminPageData{Shell: shell(), Expires: now.Add(9 * time.Minute), IdempotencyKey: "K1"}),
		"error_404":    web.ErrorPage(web.ErrorPageData{Shell: shell(), Status: 404, RequestID: "req_7f3"}),
		"error_409": web.ErrorPage(web.ErrorPageData{
			Shell: shell(), Status: 409, RequestID: "req_7f4", Sentence: "Nothing was changed by you: Ben Approver cancelled this run 4 s earlier.", Back: &web.Link{Text: "Back to the page", Href: web.RunURL(runID)},
		}),
		"error_410":   web.ErrorPage(web.ErrorPageData{Shell: shell(), Status: 410, RequestID: "req_7f5"}),
		"error_500":   web.ErrorPage(web.ErrorPageData{Shell: guest, Status: 500, RequestID: "req_7f6", RetryURL: "/runs"}),
		"sessions":    web.SessionsPage(sampleSessions()),
		"inbox":       web.InboxPage(sampleInbox()),
		"inbox_group": web.InboxPage(groupedInbox()),
		"inbox_empty": web.InboxPage(web.InboxPageData{Shell: withTurns(0), Recent: []web.InboxDecided{
			{GateID: "gate_4", Kind: "patch", State: "satisfied", Title: "Drop support for Go 1.24", Repository: repo, By: "Ben Approver", At: ago(12 * time.Minute)}}}),
		"inbox_result": web.BulkTurnsPage(bulkTurnsAnswer()),
		"tasks":        web.TasksPage(sampleTasks()),
		"tasks_empty":  web.TasksPage(web.TasksPageData{Shell: askingShell()}),
		"task_new": web.NewTaskPage(web.NewTaskPageData{
			Shell: shell(), Repositories: []web.Option{{Value: "repo_1", Label: repo}, {Value: "repo_2", Label: "acme/tools"}}, Modes: web.CompletionModes("pr_created"), Risks: web.LeastRisks("HIGH"),
			IdempotencyKey: "K2", Preview: samplePreview(policy.RiskHigh), Draft: web.Draft{Key: "task:new", Person: "user_1"},
		}),
		"task_new_invalid": web.NewTaskPage(web.NewTaskPageData{
			Shell: shell(), Repositories: []web.Option{{Value: "repo_1", Label: repo, Selected: true}}, Modes: web.CompletionModes("pr_created"), Risks: web.LeastRisks("HIGH"), BaseRef: "nowhere", PlanGate: true,
			IdempotencyKey: "K2", Preview: refusedPreview(), Draft: web.Draft{Key: "task:new", Person: "user_1"}, Errors: map[string]string{"goal": "Say what should change.", "base_ref": "There is no branch, tag or commit of this name."},
		}),
		"task_new_from":  web.NewTaskPage(startedFrom()),
		"task":           web.TaskPage(sampleTask()),
		"runs":           web.RunsPage(sampleRuns()),
		"runs_filtered":  web.RunsPage(filteredRuns()),
		"cancel_bulk":    web.BulkCancelPage(bulkQuestion()),
		"cancel_result":  web.BulkCancelPage(bulkAnswer()),
		"run_waiting":    web.RunPage(sampleRunPage()),
		"run_folded":     web.RunPage(foldedRun(web.LevelSummary, 9)),
		"run_raw":        web.RunPage(foldedRun(web.LevelRaw, 0)),
		"run_failed":     web.RunPage(failedRun()),
		"run_cancelling": web.RunPage(cancellingRun()),
		"run_succeeded":  web.RunPage(succeededRun()),
		"run_queued":     web.RunPage(queuedRun()),
		"stop":           web.StopPage(web.StopPageData{Shell: shell(), Run: sampleRows()[1], Ladder: *cancellingRun().Panel.Run.Ladder, MustGiveReason: true, IdempotencyKey: "K4"}),
		"cancel": web.CancelPage(web.CancelPageData{
			Shell: shell(), Run: publishingRow(), MustGiveReason: true, IdempotencyKey: "K3",
			Stays: []string{"The plan and the patch.", "All logs."},
			Goes:  []string{"The sandbox and its workspace.", "2 min 10 s of work in attempt 1."},
			Stage: "Opening pull request, attempt 1 of 3", Spent: []string{"2 min 10 s of work", "cost " + money.USD.Of(410_000).String() + " reported"}, External: []string{"Pull request #7 and its branch agent/x/y"},
			Pull: &web.PullRef{Number: 7, Title: goal, State: "OPEN", Href: web.PullURL("7"), Branch: "agent/x/y"},
		}),
		"cancel_refused": web.CancelPage(web.CancelPageData{
			Shell: shell(), Run: sampleRows()[4], Refused: "The run finished 25 h ago. Its pull request is open.",
			FollowUp: &web.Link{Text: "Look at the pull request", Href: web.PullURL("7")},
		}),
		"step":           web.LogPage(sampleLog()),
		"log_live":       web.LogPage(sampleLiveLog()),
		"log_hits":       web.LogPage(sampleFound()),
		"log_empty":      web.LogPage(sampleEmptyLog()),
		"logs":           web.LogsPage(sampleLogs()),
		"logs_empty":     web.LogsPage(web.LogsPageData{Shell: shell(), RunID: runID, Title: goal, Live: true}),
		"gate_patch":     web.GatePage(sampleGatePage(t)),
		"gate_split":     web.GatePage(sampleSplitGate(t)),
		"gate_filtered":  web.GatePage(filteredGate(t)),
		"gate_file":      web.GateFilePage(sampleGateFile(t)),
		"gate_lines":     web.GateFilePage(linesGate(t)),
		"gate_quick":     web.QuickPage(web.QuickPageData{Shell: shell(), Quick: sampleQuick(t)}),
		"gate_quick_no":  web.QuickPage(web.QuickPageData{Shell: shell(), Quick: refusedQuick(t)}),
		"gate_plan":      web.GatePage(decidedPlan()),
		"gate_plan_mine": web.GatePage(samplePlanGate()),
		"gate_stale":     web.GatePage(staleGate(t)),
		"gate_budget":    web.GatePage(budgetGate()),
		"gate_reconcile": web.GatePage(reconcileGate()),
		"gate_expired":   web.GatePage(expiredGate()),
		"pull": web.PullPage(web.PullPageData{
			Shell: shell(), ID: "7", Number: 7, Title: goal, Body: "Closes the body on every return path.\n\nVerified: go vet, go test.", State: "OPEN", Repository: repo,
			Branch: "agent/task_01jdx3h2/run_01jdx3h4", Base: "main", Head: "0d9b6c1f2a3e4d5c", Author: "Signalbox", Created: ago(3 * time.Minute), RunID: runID, TaskID: taskID,
			Checks: []web.CheckView{{Name: "go test ./...", Passed: true, Text: "41 passed"}}, Diff: untickedDiff(t), MayMerge: true, IdempotencyKey: "K4",
		}),
		"pull_lines":         web.PullPage(linesPull(t)),
		"repositories":       web.RepositoriesPage(sampleRepositories()),
		"repositories_empty": web.RepositoriesPage(web.RepositoriesPageData{Shell: shell(), WhyNot: "Registering needs the role admin."}),
		"workers":            web.WorkersPage(sampleWorkers()),
		"workers_empty":      web.WorkersPage(web.WorkersPageData{Shell: shell(), QueueDepth: 2, OldestQueued: ago(42 * time.Second)}),
		"tokens":             web.TokensPage(sampleTokens()),
		"admin":              web.AdminPage(sampleAdmin()),
		"people":             web.PeoplePage(samplePeople()),
		"people_empty":       web.PeoplePage(web.PeoplePageData{Shell: shell(), Query: "zz"}),
		"person":             web.PersonPage(samplePerson()),
		"providers":          web.ProvidersPage(sampleProviders()),
		"providers_empty":    web.ProvidersPage(web.ProvidersPageData{Shell: shell(), Tenant: "default"}),
		"all_tokens":         web.AllTokensPage(sampleAllTokens()),
		"all_tokens_empty":   web.AllTokensPage(web.AllTokensPageData{Shell: shell()}),
		"credentials":        web.CredentialsPage(sampleCredentials()),
		"credentials_empty":  web.CredentialsPage(web.CredentialsPageData{Shell: shell(), IdempotencyKey: "K"}),
		"api":                web.APIReferencePage(sampleAPI()),
		"states":             web.StatesPage(web.StatesPageData{Shell: shell()}),
		"keys":               web.KeysPage(web.KeysPageData{Shell: shell()}),
		"gallery":            web.GalleryPage(web.GalleryPageData{Shell: shell()}),
	}
	maps.Copy(all, hintPages(t))
	maps.Copy(all, auditPages())
	maps.Copy(all, policyPages())
	maps.Copy(all, upkeepPages())
	return all
}

func groupedInbox() web.InboxPageData {
	d := sampleInbox()
	d.Group, d.MyTurn, d.MoreOthers = "repository", 212, true
	return d
}

func askingShell() web.Shell {
	s := shell()
	s.User.Roles = []string{"viewer", "requester"}
	return s
}

func withTurns(n int) web.Shell { s := shell(); s.MyTurn = n; return s }

func sampleTasks() web.TasksPageData {
	return web.TasksPageData{
		Shell: shell(), States: []web.Option{{Value: "RUNNING", Label: "Running"}}, Repositories: []web.Option{{Value: repo, Label: repo}},
		Rows: []web.TaskRow{
			{ID: taskID, Title: goal, Repository: repo, State: "WAITING_FOR_APPROVAL", Since: ago(7 * time.Minute), Requester: "Rita Requester", LastRunID: runID, RunState: "WAITING_FOR_APPROVAL", Runs: 1, Created: ago(31 * time.Minute)},
			{ID: "task_2", Title: "Replace the deprecated YAML library in every command", Repository: "acme/tools", State: "RUNNING", Since: ago(4 * time.Minute), Requester: "Rita Requester", LastRunID: "run_2", RunState: "EXECUTING", Runs: 2, Created: ago(4 * time.Minute)},
			{ID: "task_3", Title: "Rewrite history", Repository: repo, State: "REJECTED", Since: ago(4 * time.Hour), Requester: "Rita Requester", Created: ago(4 * time.Hour)},
		},
		Pager: web.Pager{Older: "/tasks?before=x", Shown: 3, Tally: web.Tally{Matching: 1001, All: 1001, Most: 1000}},
	}
}

func sampleRuns() web.RunsPageData {
	return web.RunsPageData{
		Shell: askingShell(), Rows: sampleRows(), Views: web.SavedViews{List: "runs", Mine: []web.SavedView{{Name: "Payments, failed", Href: "/runs?repository=repo_1&state=FAILED"}}},
		Filter: web.RunFilter{States: []web.Option{{Value: "QUEUED", Label: "Queued"}}},
		Pager:  web.Pager{Older: "/runs?before=x", Shown: 6, Tally: web.Tally{Matching: 412, All: 412, Most: 1000}},
	}
}

func bulkQuestion() web.BulkCancelPageData {
	d := web.BulkCancelPageData{Shell: shell(), Queued: 26, Running: 17, Waiting: 17, More: true, Most: 60, MustGiveReason: true, TypeCount: true, IdempotencyKey: "K9"}
	rows := sampleRows()
	for n := range 60 {
		row := web.BulkRun{RunRow: rows[n%3]}
		row.ID = fmt.Sprintf("run_%d", n)
		d.Runs = append(d.Runs, row)
	}
	d.Skipped = []web.BulkRun{{RunRow: rows[4], Why: "It had already ended: succeeded."}}
	return d
}

func bulkTurnsAnswer() web.BulkTurnsPageData {
	return web.BulkTurnsPageData{
		Shell: shell(), More: true, Most: 200, Done: []web.BulkTurn{{GateID: gateID, Title: goal, Why: web.TurnDone("snooze")}, {GateID: "gate_2", Title: "Sort the imports", Why: web.TurnDone("claim")}},
		Failed: []web.BulkTurn{{GateID: "gate_9", Why: "There is no such gate."}, {GateID: "gate_5", Title: "Rename the health endpoint", Why: "Nothing was changed: nobody is asked here any more, the gate is satisfied."}},
	}
}

func bulkAnswer() web.BulkCancelPageData {
	rows := sampleRows()
	rows[1].State = "CANCELLING"
	return web.BulkCancelPageData{
		Shell: shell(), Done: true, Most: 200,
		Runs:    []web.BulkRun{{RunRow: rows[1], Why: "Its worker is told to stop."}, {RunRow: rows[5], Why: "It ended."}},
		Skipped: []web.BulkRun{{RunRow: rows[4], Why: "It had already ended: succeeded."}, {RunRow: web.RunRow{ID: runID}, Why: "There is no such run here."}},
	}
}

func filteredRuns() web.RunsPageData {
	return web.RunsPageData{
		Shell: shell(), Views: web.SavedViews{List: "runs", Query: "q=nothing", Mine: []web.SavedView{{Name: "Nothing", Href: "/runs?q=nothing", Here: true}}}, Filter: web.RunFilter{Query: "nothing", Set: true}, Pager: web.Pager{Tally: web.Tally{All: 412, Most: 1000, Filtered: true}},
	}
}

// tells gives a page the events of its run, and what is counted from them.
func tells(d *web.RunPageData, events ...web.TimelineEvent) {
	d.Timeline.Events, d.LastSeq = events, int64(len(events))
	d.Panel.Run.StateSeconds, d.Panel.Run.Stretches = web.StateTimes(events, now), web.Stretches(events, now)
}

func publishingRow() web.RunRow {
	row := sampleRows()[1]
	row.State = "PR_CREATING"
	return row
}

func failedRun() web.RunPageData {
	d := sampleRunPage()
	d.Live, d.Gates, d.Effects = false, nil, nil
	d.Facts.Verdict, d.Facts.Confidence = "", ""
	r := &d.Panel.Run
	r.State, r.EndedFrom, r.Gate, r.MyTurn, r.MaxAttempts = "FAILED", "VERIFYING", nil, false, 2
	r.Since, r.Ended = ago(4*time.Minute), ago(4*time.Minute)
	tells(&d, append(sampleEvents()[:18],
		event(18, 4*time.Minute, "attempt_failed", "verifier", "harbour-1", "VERIFYING", "FAILED", 2, object{"code": "VERIFIER_FAILED", "summary": "retry_test.go:41: undefined: countingBody"}))...)
	r.Category, r.ReasonCode, r.Reason = "VERIFICATION_FAILED", "VERIFIER_FAILED", "go test ./... failed again after the repair: retry_test.go:41: undefined: countingBody"
	r.NextAction = &web.Link{Text: "Start a new task from this", Href: web.TaskFromURL(taskID)}
	return d
}

func cancellingRun() web.RunPageData {
	d := sampleRunPage()
	r := &d.Panel.Run
	r.State, r.EndedFrom, r.Gate, r.Leased, r.Worker = "CANCELLING", "EXECUTING", nil, true, "harbour-2"
	d.Gates, d.Effects, d.Facts.Verdict, d.Facts.Confidence = nil, nil, "", ""
	tells(&d, append(sampleEvents()[:15], event(15, 4*time.Second, "cancel_requested", "human", "Rita Requester", "EXECUTING", "CANCELLING", 2, object{"reason": "Wrong repository."}))...)
	r.CancelBy, r.CancelAt, r.CancelAcked, r.HeartbeatAt = "Rita Requester", ago(4*time.Second), true, ago(2*time.Second)
	r.Ladder = &web.Ladder{By: "Rita Requester", Reason: "Wrong repository.", Asked: ago(4 * time.Second), Told: ago(2 * time.Second), Latest: now.Add(36 * time.Second), MayForce: true}
	return d
}

func succeededRun() web.RunPageData {
	d := sampleRunPage()
	d.Live = false
	r := &d.Panel.Run
	r.State, r.EndedFrom, r.Gate, r.MyTurn, r.Ended = "SUCCEEDED", "PR_CREATED", nil, false, ago(time.Minute)
	r.Pull = &web.PullRef{Number: 7, Title: goal, State: "OPEN", Href: web.PullURL("7"), Branch: "agent/x/y"}
	d.Gates[0].State, d.Gates[0].Have, d.Effects = "satisfied", 1, nil
	tells(&d, append(sampleEvents(),
		event(20, 3*time.Minute, "approved", "human", "Ana Approver", "WAITING_FOR_APPROVAL", "PR_CREATING", 2, nil),
		event(21, 2*time.Minute, "lease_acquired", "worker", "harbour-1", "PR_CREATING", "PR_CREATING", 2, object{"lease": object{"phase": "publish"}}),
		event(22, time.Minute, "pr_created", "git_integration", "", "PR_CREATING", "PR_CREATED", 2, object{"pr": object{"number": 7.0, "branch": "agent/x/y"}}),
		event(23, time.Minute, "completion_condition_met", "control_plane", "", "PR_CREATED", "SUCCEEDED", 2, nil))...)
	return d
}

func queuedRun() web.RunPageData {
	d := sampleRunPage()
	d.Steps, d.Attempts, d.Gates, d.Artifacts, d.Effects, d.Facts = nil, nil, nil, nil, nil, web.RunFacts{Requester: "Rita Requester", Base: "main", PolicyVersion: "3"}
	d.Timeline.Events = []web.TimelineEvent{
		event(1, 21*time.Second, "run_created", "control_plane", "", "", "CREATED", 0, nil),
		event(2, 20*time.Second, "run_enqueued", "scheduler", "", "CREATED", "QUEUED", 0, object{"policy_version": "3"}),
	}
	d.Timeline.Created = ago(21 * time.Second)
	d.Panel.Run = web.RunView{ID: runID, TaskID: taskID, Title: goal, Repository: repo, Mode: "pr_created", State: "QUEUED", Since: ago(20 * time.Second), Created: ago(21 * time.Second), MaxAttempts: 3, PatchGate: true}
	d.CancelNow, d.IdempotencyKey = true, "K5"
	return d
}

func staleGate(t *testing.T) web.GatePageData {
	d := sampleGatePage(t)
	d.Panel.Text = "Looks right to me, thank you."
	d.Panel.Outcome = &web.Outcome{Kind: web.OutcomeStale, Text: "The patch went from revision 1 to revision 2, 3 files, +16 −3.", Links: []web.Link{{Text: "Review revision 2", Href: web.GateURL(gateID)}}}
	return d
}

func budgetGate() web.GatePageData {
	p := sampleGatePanel()
	p.Kind, p.Files, p.Digest, p.Unshown = "budget", 0, digest, nil
	p.WhyStopped = "The run used up its active time of 60 min before it was done."
	p.Budget = &web.BudgetView{What: "active time", Spent: "60 min", Limit: "60 min", Raised: "90 min"}
	p.Outcome = &web.Outcome{Kind: web.OutcomeInvalid, Text: "Say why the run ends; the reason is kept with it."}
	run, facts := sampleRunPage(), sampleFacts()
	return web.GatePageData{Shell: shell(), Panel: p,
		Work: web.GateWork{Stretches: run.Panel.Run.Stretches, Steps: run.Steps, Attempts: run.Attempts, Models: facts.Models, MoreModels: facts.MoreModels}}
}

func reconcileGate() web.GatePageData {
	p := sampleGatePanel()
	p.Kind, p.Unshown = "reconcile", nil
	p.Ambiguous = []string{"push branch agent/task_01jdx3h2/run_01jdx3h4", "open the pull request"}
	p.WhyStopped = "The worker was lost after it had sent the push, and the forge does not say whether it arrived."
	return web.GatePageData{Shell: shell(), Panel: p, Evidence: sampleEvidence(), Work: web.GateWork{Effects: []web.EffectView{
		{Kind: "open_pull_request", Identity: "open_pull_request:repo_1:agent/x/y:main", State: "intended", Parameters: map[string]string{"head": "agent/x/y", "base": "main"}, Intended: ago(9 * time.Minute)},
		{Kind: "push_branch", Identity: "push_branch:repo_1:agent/x/y:9f1c2b7", State: "ambiguous", Outcome: "ambiguous", Error: "the connection was reset", Parameters: map[string]string{"branch": "agent/x/y"}, Intended: ago(10 * time.Minute), Dispatched: ago(10 * time.Minute)},
	}}}
}

func expiredGate() web.GatePageData {
	p := sampleGatePanel()
	p.State, p.MayReopen, p.OpenedAt, p.ExpiresAt, p.MayDecide = "expired", true, ago(73*time.Hour), ago(time.Hour), false
	return web.GatePageData{Shell: shell(), Panel: p, Evidence: sampleEvidence()}
}

func sampleRepositories() web.RepositoriesPageData {
	return web.RepositoriesPageData{
		Shell: shell(), MayAdd: true, Forges: []web.Option{{Value: "local", Label: "local"}}, IdempotencyKey: "K5",
		Rows: []web.RepositoryRow{
			{ID: "repo_1", Name: repo, Forge: "local", Remote: "file:///srv/forge/acme/payments.git", DefaultBranch: "main", Verify: []string{"go vet ./...", "go test ./..."}, Tasks: 4, LastRunID: runID, LastRunState: "WAITING_FOR_APPROVAL", LastRunAt: ago(7 * time.Minute),
				Checked: ago(2 * time.Hour), CheckKey: "K6", Findings: []web.FindingRow{{Name: "reachable", State: "ok", Words: "Branch main stands at 0d9b6c1f2a3e."}, {Name: "push", State: "problem", Words: "A branch of ours could not be made; the server may not write to the repository's folder."}, {Name: "worker", State: "unchecked", Words: "Whether a worker reaches the forge's folder shows at its first run."}}},
			{ID: "repo_2", Name: "acme/tools", Forge: "local", Remote: "file:///srv/forge/acme/tools.git", DefaultBranch: "trunk", CheckKey: "K7"},
			{ID: "repo_3", Name: "acme/site", Forge: "local", Remote: "file:///srv/forge/acme/site.git", DefaultBranch: "main", Checked: ago(time.Minute), Findings: []web.FindingRow{{Name: "reachable", State: "ok", Words: "Branch main stands at 0d9b6c1f2a3e."}}},
		},
	}
}

func sampleWorkers() web.WorkersPageData {
	return web.WorkersPageData{
		Shell: shell(), QueueDepth: 2, OldestQueued: ago(42 * time.Second), MayAct: true, IdempotencyKey: "K8",
		Queues: []web.QueueRow{
			{Name: "default", Depth: 1, Oldest: ago(42 * time.Second), Running: 1, Workers: 1, Came: 0.4, Went: 2, Delayed: 1, PauseKey: "K9"},
			{Name: "java", Depth: 1, Oldest: ago(30 * time.Second), Paused: true, PausedBy: "Ana Approver", PausedAt: ago(9 * time.Minute), PauseReason: "The registry is down.", Own: true, PauseKey: "KA"},
		},
		Rows: []web.WorkerRow{
			{ID: "wrk_01jdx3h4k8e5q9v2m7c6b1a0zt", Name: "harbour-1", State: "READY", HeartbeatAt: ago(3 * time.Second), StaleAfter: 30 * time.Second, Version: "0.1.0", Isolation: "bwrap", Roles: []string{"execute", "verify", "publish"}, Queues: []string{"default"}, Busy: 1, Slots: 2, Runs: []web.WorkerRun{{ID: runID, Title: "Replace the YAML library", Phase: "execute"}}, MayDrain: true, DrainKey: "KB"},
			{ID: "wrk_01jdx3h4k8e5q9v2m7c6b1a0zu", Name: "harbour-2", State: "STALE", HeartbeatAt: ago(48 * time.Second), StaleAfter: 30 * time.Second, Version: "0.0.9", VersionSkew: true, Isolation: "process", Unsafe: true, Roles: []string{"execute"}, Slots: 2, LastError: "sandbox self-test failed"},
			{ID: "wrk_01jdx3h4k8e5q9v2m7c6b1a0zv", Name: "harbour-3", State: "STOPPED", HeartbeatAt: ago(time.Hour), StaleAfter: 30 * time.Second, Version: "0.1.0", Isolation: "bwrap", Roles: []string{"execute"}, Slots: 2},
		},
		Providers: []web.ProviderRow{
			{Name: "stoic", Since: ago(4 * time.Minute), Until: now.Add(9 * time.Minute), Failures: 2, RunID: runID, Title: "Replace the YAML library", By: "Rita Requester", Reason: "429 Too Many Requests", ResumeKey: "KD"},
			{Name: "terse", Since: ago(time.Hour), Until: ago(time.Minute), Failures: 1, Due: true},
		},
		Waiting: []web.WaitingRow{{RunID: runID, Title: "Add a health check", Queue: "java", Phase: "execute", Since: ago(42 * time.Second), Reason: "No live worker offers jdk >= 21."}},
		Stuck:   []web.StuckRow{{RunID: runID, Title: "Remove dead flags", Worker: "harbour-2", Expired: ago(18 * time.Second), Heartbeat: ago(48 * time.Second), Key: "KC"}},
		Advice: web.AdviceView{Words: "2 runs fit at once, bound by sandbox slots.", Binds: "sandbox slots",
			Bounds: []web.BoundView{{Name: "sandbox slots", Runs: 2, Known: true, Words: "1 live worker, 2 slots."}, {Name: "budget", Words: "No daily budget is set."}}},
	}
}

func sampleTokens() web.TokensPageData {
	return web.TokensPageData{
		Shell: shell(), Days: 90, MaxDays: 365, IdempotencyKey: "K6",
		Scopes:  []web.Option{{Value: "tasks:read", Label: "Read tasks and runs"}, {Value: "tasks:write", Label: "Submit tasks"}},
		Created: &web.CreatedToken{Name: "nightly", Secret: "sbt_EXAMPLEexampleEXAMPLEexample", Expires: now.Add(90 * 24 * time.Hour)},
		Rows: []web.TokenRow{
			{ID: "tok_1", Name: "nightly", Owner: "Ana Approver", Prefix: "sbt_EXAM", Scopes: []string{"tasks:read", "tasks:write"}, Created: ago(time.Second), Expires: now.Add(90 * 24 * time.Hour), RevokeKey: "K7"},
			{ID: "tok_2", Name: "old", Owner: "Ana Approver", Prefix: "sbt_OLD1", Scopes: []string{"tasks:read"}, Created: ago(500 * time.Hour), LastUsed: ago(90 * time.Hour), Expires: now.Add(time.Hour), Revoked: ago(80 * time.Hour)},
		},
	}
}

func sampleAPI() web.APIReferencePageData {
	return web.APIReferencePageData{
		Shell: web.Shell{Now: now}, Title: "Signalbox API", Version: "1", SpecURL: "/api/openapi.yaml", Intro: "Everything a script needs. No endpoint takes a state.",
		Groups: []web.APIGroup{{Name: "Tasks", Text: "What should change.", Operations: []web.APIOperation{
			{ID: "listTasks", Method: "GET", Path: "/api/v1/tasks", Summary: "List tasks", Auth: "tasks:read", Parameters: []web.APIField{{Name: "limit", In: "query", Type: "integer", Text: "At most 100."}}, Responses: []web.APIResponse{{Status: "200", Text: "A page of tasks.", Schema: "TaskList"}}},
			{ID: "createTask", Method: "POST", Path: "/api/v1/tasks", Summary: "Submit a task", Auth: "tasks:write", Body: "NewTask", Responses: []web.APIResponse{{Status: "201", Text: "The task.", Schema: "Task"}, {Status: "422", Text: "A problem answer.", Schema: "Problem"}}},
		}}},
		Schemas: []web.APISchema{{Name: "NewTask", Text: "What is submitted.", Fields: []web.APIField{{Name: "goal", Type: "string", Required: true, Text: "What must be true afterwards."}}}},
	}
}

func sampleSessions() web.SessionsPageData {
	return web.SessionsPageData{Shell: shell(), OthersKey: "key-1", Rows: []web.SessionRow{
		{ID: "sess_1", Name: "Firefox on Linux", Current: true, Since: ago(40 * time.Minute), Seen: ago(3 * time.Second), Ends: ago(-2 * time.Hour), Key: "key-2"},
		{ID: "sess_2", Name: "ana's laptop", CommandLine: true, Since: ago(3 * time.Hour), Seen: ago(20 * time.Minute), Ends: ago(-9 * time.Hour), Key: "key-3"},
		{ID: "sess_3", Name: "Chrome on Android", Since: ago(5 * time.Hour), Seen: ago(90 * time.Minute), Ends: ago(-30 * time.Minute), Key: "key-4"},
	}, People: []web.SignedInRow{
		{ID: "user_1", Name: "Ana Approver", Email: "ana@example.test", Logins: 3, Seen: ago(3 * time.Second), Self: true, Key: "key-5"},
		{ID: "user_2", Name: "Rita Requester", Logins: 1, Seen: ago(2 * time.Minute), Key: "key-6"},
	}}
}
