package web_test

import (
	"time"

	"signalbox/internal/money"
	"signalbox/internal/policy"
	"signalbox/web"
)

// samplePreview is what would become of a task of the risk under the rules that need no document.
func samplePreview(risk policy.Risk) web.TaskPreviewData {
	f := policy.Facts{Repository: repo, Requester: "user_rita", RequesterRoles: []policy.Role{policy.RoleRequester}, Risk: risk, Mode: policy.ModePRCreated}
	r := policy.Default()
	return web.TaskPreviewData{
		Now: now, Foreseen: policy.Foresee(r, f), Chosen: true, Limits: r.Limits, Currency: money.USD,
		Approvers: map[policy.GateKind][]string{policy.GatePlan: {"Ana Approver", "Ben Approver"}, policy.GatePatch: {"Ana Approver", "Ben Approver"}},
		Barred:    "Nothing was approved: you asked for this change, so another person must approve it.",
		Wait:      web.PreviewWait{Queue: "default", Ahead: 3, Oldest: ago(4 * time.Minute), Went: 0.5, Why: "Every worker that can take it is busy (2 workers). It is number 4 in line for acme."},
		Last: web.PreviewRuns{Costs: []int64{20_000, 41_000, 90_000, 110_000, 400_000, 1_200_000}, Unpriced: 1,
			Worked: []time.Duration{40 * time.Second, time.Minute, 2 * time.Minute, 150 * time.Second, 3 * time.Minute, 5 * time.Minute, 9 * time.Minute}},
	}
}

// refusedPreview is one that policy refuses, and for which nobody could decide.
func refusedPreview() web.TaskPreviewData {
	d := samplePreview(policy.RiskHigh)
	r := policy.Default()
	r.Admission.Repositories = []string{"acme/tools"}
	d.Foreseen = policy.Foresee(r, policy.Facts{Repository: repo, RequesterRoles: []policy.Role{policy.RoleRequester}, Risk: policy.RiskHigh, Mode: policy.ModePRCreated})
	d.Approvers = nil
	return d
}

// startedFrom is the form as it is filled from an earlier task, where policy puts new work off and little is known.
func startedFrom() web.NewTaskPageData {
	d := web.NewTaskPageData{
		Shell: askingShell(), Repositories: []web.Option{{Value: "repo_1", Label: repo, Selected: true}}, Modes: web.CompletionModes("pr_created"), Risks: web.LeastRisks("LOW"),
		Title: goal, Goal: goal + ".", Scope: "internal/**", AutoPR: true, IdempotencyKey: "K2", Previewed: true,
		StartedFrom: &web.Link{Text: goal, Href: web.TaskURL(taskID)}, NotCopied: []string{"checks of its own", "the attestation"},
	}
	r := policy.Default()
	r.Admission.Incident.On, r.Admission.Incident.Message, r.Admission.Incident.RetryAfter = true, "Storage is down.", policy.Duration(time.Minute)
	r.AutoPR.Allowed = true
	d.Preview = samplePreview(policy.RiskLow)
	d.Preview.Foreseen = policy.Foresee(r, policy.Facts{Repository: repo, Requester: "user_rita", RequesterRoles: []policy.Role{policy.RoleRequester}, Risk: policy.RiskLow,
		Mode: policy.ModePRCreated, AutoPRAsked: true})
	d.Preview.Wait, d.Preview.Last = web.PreviewWait{Queue: "default", Why: "No live worker takes the phase execute."}, web.PreviewRuns{Costs: []int64{0, 0}}
	return d
}
