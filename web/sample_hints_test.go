package web_test

import (
	"testing"

	"github.com/a-h/templ"

	"signalbox/web"
)

// hintPages are pages as a newcomer sees them.
func hintPages(t *testing.T) map[string]templ.Component {
	t.Helper()
	const server = "https://signalbox.example.org"
	admin, asker := askingShell(), askingShell()
	admin.MyTurn, asker.MyTurn, admin.User.Roles = 0, 0, []string{"admin"}
	gate := sampleGatePage(t)
	gate.Hints = []web.Hint{{Name: "gate", Server: server}}
	worker := web.Hint{Name: "worker", Server: server}
	return map[string]templ.Component{
		"inbox_first_admin": web.InboxPage(web.InboxPageData{Shell: admin, Hints: []web.Hint{{Name: "repository", Server: server}, worker}}),
		"inbox_first_task":  web.InboxPage(web.InboxPageData{Shell: asker, Hints: []web.Hint{{Name: "task", Server: server}}}),
		"workers_first":     web.WorkersPage(web.WorkersPageData{Shell: admin, Hints: []web.Hint{worker}}),
		"gate_first":        web.GatePage(gate),
	}
}
