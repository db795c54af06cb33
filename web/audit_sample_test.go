package web_test

import (
	"net/url"
	"time"

	"github.com/a-h/templ"

	"signalbox/web"
)

func auditShell() web.Shell {
	s := shell()
	s.User.Roles = []string{"viewer", "admin"}
	return s
}

func sampleAuditRows() []web.AuditRow {
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		zurich = time.UTC
	}
	row := func(n int64, at time.Duration, who, action, kind, object, result, reason string) web.AuditRow {
		return web.AuditRow{Number: n, At: ago(at), Zone: zurich, Who: who, WhoID: "user_01jdx3h2w3f8r6n4p0s5d9g7ky", WhoKind: "human", Channel: "page", Addr: "192.0.2.7", Request: "req_7f1",
			Action: action, ObjectType: kind, ObjectID: object, Result: result, Reason: reason, Detail: `{"digest": "` + digest + `"}`, Hash: digest[7:]}
	}
	rows := []web.AuditRow{
		row(41, time.Minute, "Ana Approver", "gate.request_changes", "gate", gateID, "changes_requested", "Say why <b>this</b> is closed twice. "+longReason()),
		row(40, time.Hour, "Adam Admin", "run.force_stop", "run", runID, "recorded", "The worker's machine is gone."),
		row(39, 26*time.Hour, "", "queue.pause", "queue", "java", "refused", ""),
	}
	rows[2].Channel, rows[2].Zone = "api", nil
	return rows
}

func longReason() (s string) {
	for range 40 {
		s += "and again "
	}
	return s
}

// auditPages are the pages of the audit log.
func auditPages() map[string]templ.Component {
	options := []web.Option{{Value: "gate.request_changes", Label: "gate: request changes"}, {Value: "run.force_stop", Label: "run: force stop"}}
	plain := web.AuditFilter{Zone: "UTC", Actions: options, Results: []web.Option{{Value: "recorded", Label: "recorded"}}, Query: url.Values{}}
	set := plain
	set.Action, set.Who, set.Zone, set.Since, set.Set = "gate.*", "Ana", "Europe/Zurich", "2026-11-29T14:00:00", true
	set.Query = url.Values{"who": {"Ana"}, "action": {"gate.*"}, "since": {"2026-11-29T14:00"}, "zone": {"Europe/Zurich"}}
	row := sampleAuditRows()[0]
	return map[string]templ.Component{
		"audit":          web.AuditPage(web.AuditPageData{Shell: auditShell(), Filter: plain, Rows: sampleAuditRows(), Pager: web.Pager{Shown: 3, Older: "/audit?before=39", Tally: web.Tally{Matching: 41, All: 41, Most: 1000}}}),
		"audit_filtered": web.AuditPage(web.AuditPageData{Shell: auditShell(), Filter: set, Rows: sampleAuditRows()[:1], Pager: web.Pager{Shown: 1, Tally: web.Tally{Matching: 1, All: 41, Most: 1000, Filtered: true}}}),
		"audit_none":     web.AuditPage(web.AuditPageData{Shell: auditShell(), Filter: set, Pager: web.Pager{Tally: web.Tally{All: 41, Most: 1000, Filtered: true}}}),
		"audit_empty":    web.AuditPage(web.AuditPageData{Shell: auditShell(), Filter: plain, Pager: web.Pager{Tally: web.Tally{Most: 1000}}}),
		"audit_row":      web.AuditRowPage(web.AuditRowPageData{Shell: auditShell(), Row: row, Fits: true}),
		"audit_row_bad":  web.AuditRowPage(web.AuditRowPageData{Shell: auditShell(), Row: row}),
	}
}
