package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/wire"
)

// Every link on every page leads somewhere, for each role, with runs in several states (rule 27 of the pages), and no
// page holds anything that the content policy would refuse.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester := w.signedIn(t, rita)
	k := w.worker(t, "one")
	requester.submit(t, "A first <script>alert(1)</script> one.", "title", "<b>hostile</b> title")
	gate, _ := w.waiting(t, k)
	approver := w.signedIn(t, ana)
	form := approver.gateForm(t, gate)
	form.Set("verdict", "approve")
	approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	k.claim(t, "publish").publish(t)
	requester.submit(t, "A second one.")
	w.waiting(t, k)
	requester.submit(t, "A third one.")
	k.claim(t, "execute").plan(t)
	for who, b := range map[string]*browser{"requester": requester, "approver": approver, "admin": w.signedIn(t, adam), "viewer": w.signedIn(t, vera)} {
		t.Run(who, func(t *testing.T) {
			seen := map[string]bool{}
			todo := []string{"/inbox", "/tasks", "/tasks/new", "/runs", "/repositories", "/workers", "/tokens", "/docs/api"}
			for len(todo) > 0 {
				path := todo[0]
				todo = todo[1:]
				if seen[path] {
					continue
				}
				seen[path] = true
				a := b.get(t, path)
				forbidden := who == "viewer" || who == "approver"
				if a.StatusCode >= 400 && !(forbidden && a.StatusCode == http.StatusForbidden) {
					t.Errorf("%s: %d", path, a.StatusCode)
					continue
				}
				if a.StatusCode >= 300 && a.StatusCode < 400 || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
					continue
				}
				page := a.page(t)
				inspect(t, path, page)
				page.Find("a[href]").Each(func(_ int, s *goquery.Selection) {
					href, _ := s.Attr("href")
					u, err := url.Parse(href)
					if err != nil {
						t.Errorf("%s links to %q", path, href)
						return
					}
					if u.Host != "" && "http://"+u.Host != w.url || u.Scheme == "mailto" {
						return
					}
					u.Fragment, u.Scheme, u.Host = "", "", ""
					if u.Path != "" && !strings.HasPrefix(u.Path, "/login") && !strings.HasPrefix(u.Path, "/static/") {
						todo = append(todo, u.String())
					}
				})
			}
			if len(seen) < 20 {
				t.Errorf("only %d pages were seen", len(seen))
			}
		})
	}
}

// inspect looks for what the content policy refuses, for forms that could not be sent, and for markup from outside.
func inspect(t testing.TB, path string, page *goquery.Document) {
	t.Helper()
	if n := page.Find("[style], style, script:not([src]), [onclick], [onload], [onerror], [hx-on]").Length(); n > 0 {
		t.Errorf("%s: %d places that the content policy refuses", path, n)
	}
	if page.Find("h1").Length() != 1 || strings.TrimSpace(page.Find("title").Text()) == "" {
		t.Errorf("%s: %d headings of the first level, title %q", path, page.Find("h1").Length(), page.Find("title").Text())
	}
	page.Find("form[method=post]").Each(func(_ int, f *goquery.Selection) {
		action, _ := f.Attr("action")
		if action == "/logout" || action == "/preferences" || action == "/cli-login" {
			return
		}
		// Each export is one of its own, and in the audit.
		if action == "/audit/export" {
			return
		}
		// To keep or discard a draft, to tick a file, to put a gate off or pass it on, to name or forget a view, or to put a hint away, twice is to do it once.
		if strings.Contains(action, "/notes") || strings.Contains(action, "/viewed") || strings.HasSuffix(action, "/turn") || action == "/inbox/turns" || action == "/views" || action == "/views/delete" || action == "/hints/dismiss" {
			return
		}
		if key, _ := f.Find("input[name=idempotency_key]").Attr("value"); len(key) < 8 && f.AttrOr("data-discards", "") == "" {
			t.Errorf("%s: the form to %s has no idempotency key", path, action)
		}
	})
	if page.Find("b").FilterFunction(func(_ int, s *goquery.Selection) bool { return s.Text() == "hostile" }).Length() > 0 {
		t.Errorf("%s: a title became markup", path)
	}
}

// A page that does not exist, a session that ended under a form, an unknown method.
func TestFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	if a := b.get(t, "/nothing").want(t, http.StatusNotFound); a.page(t).Find("nav").Length() == 0 {
		t.Error("the page of a failure has no navigation")
	}
	b.get(t, "/runs/run_nonsense").want(t, http.StatusNotFound)
	b.get(t, "/runs?before=nonsense").want(t, http.StatusUnprocessableEntity)
	a := w.browser().post(t, "/tasks", url.Values{"goal": {"text that must not be lost"}}).want(t, http.StatusUnauthorized)
	if !strings.Contains(a.body, "Nothing was done") || a.page(t).Find("a[href^='/login']").Length() == 0 {
		t.Error("a post without a session does not say that nothing was done")
	}
	b.post(t, "/tasks", url.Values{}).want(t, http.StatusUnprocessableEntity)
	refused := b.post(t, "/tasks", url.Values{"idempotency_key": {"0123456789"}, "goal": {"kept text"}, "mode": {"pr_created"}}).want(t, http.StatusUnprocessableEntity)
	if !strings.Contains(refused.body, "kept text") || refused.page(t).Find("[aria-invalid=true]").Length() == 0 {
		t.Error("a refused form lost its text or does not mark the field")
	}
	w.browser().get(t, "/readyz").want(t, http.StatusOK)
}

// htmx gets fragments: the session banner, or a notice beside the page, never a page inside a page.
// Field reports: experimenter#17393, htmx#494.
func TestFragments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.browser().post(t, "/gates/gate_01m8m1aqhhfh1vgchmwcf2qjxb/decisions", url.Values{}, "HX-Request", "true", "HX-Current-URL", w.url+"/gates/gate_01m8m1aqhhfh1vgchmwcf2qjxb").want(t, http.StatusUnauthorized)
	if a.Header.Get("HX-Retarget") != "#session-banner" || strings.Contains(a.body, "<html") || !strings.Contains(a.body, "return_to=%2Fgates%2Fgate_01m8m1aqhhfh1vgchmwcf2qjxb") {
		t.Errorf("without a session: %v\n%s", a.Header, a.body)
	}
	a = w.signedIn(t, ana).post(t, "/gates/gate_01m8m1aqhhfh1vgchmwcf2qjxb/decisions", url.Values{"idempotency_key": {"0123456789"}, "revision": {"1"}, "verdict": {"approve"}}, "HX-Request", "true").want(t, http.StatusNotFound)
	if a.Header.Get("HX-Retarget") != "#toasts" || strings.Contains(a.body, "<html") {
		t.Errorf("no such gate: %v\n%s", a.Header, a.body)
	}
}

// What people do is in the audit, in the transaction of the action, with where it came from.
func TestAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, admin := w.signedIn(t, rita), w.cli(t, adam)
	b.submit(t, "Replace one word.")
	gate, run := w.waiting(t, w.worker(t, "one"))
	approver := w.signedIn(t, ana)
	form := approver.gateForm(t, gate)
	form.Set("verdict", "request_changes")
	form.Set("text", "Again.")
	approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	w.cli(t, rita).call(t, "POST", "/runs/"+run+"/cancel", wire.Reason{Reason: "enough"}).want(t, http.StatusOK)
	secret := into[wire.MintedToken](t, admin.call(t, "POST", "/worker-credentials", wire.WorkerCredentialCreate{Name: "k", Phases: []wire.Phase{"verify"}}, "Idempotency-Key", "one-credential").want(t, http.StatusCreated))
	again := into[wire.MintedToken](t, admin.call(t, "POST", "/worker-credentials", wire.WorkerCredentialCreate{Name: "k", Phases: []wire.Phase{"verify"}}, "Idempotency-Key", "one-credential").want(t, http.StatusCreated))
	if again.Id != secret.Id || again.Secret != "" || secret.Secret == "" {
		t.Errorf("a repeated request: %+v after %+v", again, secret)
	}
	admin.call(t, "DELETE", "/worker-credentials/"+secret.Id, nil).want(t, http.StatusNoContent)
	b.post(t, "/logout", nil).want(t, http.StatusSeeOther)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	rows := got(conn.Query(t.Context(), "SELECT action, actor_name, channel, object_id, request_id <> '', remote_addr FROM audit_log ORDER BY id"))(t)
	var lines []string
	for rows.Next() {
		var action, name, channel, object, addr string
		var request bool
		must(t, rows.Scan(&action, &name, &channel, &object, &request, &addr))
		if object == "" || !request || addr != "127.0.0.1" {
			t.Errorf("%s by %s: object %q, request id %t, from %q", action, name, object, request, addr)
		}
		lines = append(lines, action+" "+name+" "+channel)
	}
	must(t, rows.Err())
	want := []string{
		"session.start Rita Requester page", "task.submit Rita Requester page", "session.start Ana Approver page", "gate.request_changes Ana Approver page",
		"run.cancel Rita Requester api", "worker_credential.create Adam Admin api", "worker_credential.revoke Adam Admin api", "session.end Rita Requester page",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}
